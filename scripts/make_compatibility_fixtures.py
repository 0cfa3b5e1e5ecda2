"""Writes tests/fixtures/compatibility: runs and exports of an earlier version, and what it computed.

    PYTHONPATH=CHECKOUT_OF_THAT_VERSION python scripts/make_compatibility_fixtures.py FOLDER

The fixtures in the repository were written by commit 8854410, where `open_run_corpus` was in
`minigpt.runs.corpus`. They are never written again: the tests show that newer versions still read them.
"""

import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import keras

import minigpt
from minigpt.corpus.batches import training_batch
from minigpt.runs.run import open_run_corpus

NAMES, PLACES = ("Ana", "Béla", "Dirk"), ("hill", "roof", "boat")
# The files stay small: most of a .keras file is not weights.
MODEL = {"max_len": 16, "embed_dim": 4, "num_heads": 2, "num_layers": 1, "ff_dim": 8}
TRAINING = {
    "epochs": 2,
    "steps_per_epoch": 20,
    "batch_size": 4,
    "learning_rate": 1e-2,
    "deterministic": True,
    "device": "cpu",
    "keep_checkpoints": 1,
    "keep_epochs": False,
}
SAMPLING = {"prompts": ["Ana sat"], "max_new_tokens": 8}
CHARACTERS = {"kind": "character", "vocab_size": 48}
# Written anew by every export, large, or the same in two runs.
LEFT_OUT = (
    *("*/saved_model", "*/report.html", "*/lock", "*/epochs/epoch-0001.gguf", "lora/model.gguf"),
    *(f"{run}/{file}" for run in ("lora", "pairs") for file in ("steps.jsonl", "analysis.json")),
)


def sentences(count: int) -> str:
    draw = random.Random(0)
    return "".join(
        f"{draw.choice(NAMES)} sat on the {draw.choice(PLACES)} and ate {draw.randint(2, 9)} figs.\n"
        for _ in range(count)
    )


def pairs(count: int) -> str:
    draw = random.Random(0)
    sources = [" ".join(draw.choices("abcdefgh", k=4)) for _ in range(count)]
    return "".join(f"{source}\t{source[::-1]}\n" for source in dict.fromkeys(sources))


def settings(text: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    all_sections: dict[str, dict[str, Any]] = {
        "data": {"source": "files", "paths": [str(text)]},
        "tokenizer": CHARACTERS,
        "model": MODEL,
        "training": TRAINING,
        "sampling": SAMPLING,
    }
    return {name: all_sections[name] | sections.get(name, {}) for name in all_sections}


class CtrlC(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        if batch == 12:
            os.kill(os.getpid(), signal.SIGINT)


def train_interrupted(config: dict[str, Any], path: Path) -> None:
    """Trains until an interrupt within the first epoch."""
    # A shell ignores the signal in commands that it runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        minigpt.train(config, path, callbacks=[CtrlC()])
    except KeyboardInterrupt:
        return
    raise SystemExit("the training ended before it was interrupted")


def answers(path: Path) -> dict[str, Any]:
    """What the version that wrote a run computes with it."""
    run = minigpt.Run(path)
    model = minigpt.load(run)
    found: dict[str, Any] = {}
    if isinstance(model, minigpt.TranslationModel):
        found["translation"] = model.translate("a b c d")
        found["beams"] = model.translate("a b c d", beams=2)
    else:
        found["text"] = model.generate("Ana sat", max_new_tokens=12, temperature=0.0)
        found["sampled"] = model.generate("Ana sat", max_new_tokens=12, seed=1)
    if not run.corpus_file.exists():
        return found
    found["scores"] = vars(minigpt.evaluate_run(run))
    corpus = open_run_corpus(run)
    assert corpus
    found["ids"] = {
        name: hashlib.sha256(part.ids.astype("<u4").tobytes()).hexdigest()
        for name, part in (("train", corpus.train), ("val", corpus.val))
    }
    if run.config.data.source != "pairs":
        batch = training_batch(corpus.train.ids, 16, 4, seed=0, step=123)
        found["batch"] = [part.tolist() for part in batch]
    return found


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    text, pair_file = folder / "text.txt", folder / "pairs.tsv"
    text.write_text(sentences(60), encoding="utf-8")
    pair_file.write_text(pairs(80), encoding="utf-8")
    byte_pairs = {"kind": "byte_pair", "vocab_size": 270}
    word = {"kind": "word", "vocab_size": 40, "lowercase": True}
    # Two heads share keys and values; Muon, dropout: the parts that draw random numbers.
    shared = {"num_kv_heads": 1, "tie_embeddings": True}
    interruptible = settings(
        text, model=shared | {"dropout_rate": 0.1}, training={"steps_per_epoch": 30}
    )
    minigpt.train(interruptible, folder / "character")
    train_interrupted(interruptible, folder / "interrupted")
    with_epochs = {"keep_epochs": True, "optimizer": "adamw"}
    minigpt.train(
        settings(text, tokenizer=byte_pairs, model={"block": "pre_norm"}, training=with_epochs),
        folder / "pre_norm",
    )
    post_norm = {"block": "post_norm", "position": "sinusoidal", "tie_embeddings": False}
    by_time = {"optimizer": "sgd", "max_minutes": 60.0, "schedule": "linear"}
    minigpt.train(
        settings(text, tokenizer=word, model=post_norm, training=by_time), folder / "post_norm"
    )
    translating = settings(
        pair_file,
        data={"source": "pairs", "paths": [str(pair_file)], "val_pairs": 8, "length_buckets": 1},
        model={"kind": "encoder_decoder"},
    )
    translating["sampling"] = {"translations": 1}
    minigpt.train(translating, folder / "pairs")
    tuned = settings(text, training={"init_from": str(folder / "character"), "lora_rank": 2})
    tuned["tokenizer"] = tuned["model"] = {}
    minigpt.train(tuned, folder / "lora")

    exports = folder / "exports"
    exports.mkdir()
    minigpt.export_run(
        folder / "pre_norm", "huggingface", exports / "huggingface", certificate=True
    )
    minigpt.import_run(exports / "huggingface", folder / "imported")
    with tempfile.TemporaryDirectory() as temporary:
        # Matrices are stored in int8 from a width of 32.
        wide = Path(temporary) / "wide"
        minigpt.train(settings(text, tokenizer=word, model={"embed_dim": 32}), wide)
        minigpt.export_run(wide, "gguf", exports / "int8.gguf", weights="int8")

    runs = sorted(path.parent for path in folder.glob("*/config.toml"))
    recorded = {path.name: answers(path) for path in runs if path.name != "interrupted"}
    portable = minigpt.load_portable(exports / "int8.gguf")
    assert isinstance(portable, minigpt.PortableTextModel)
    recorded["exports/int8.gguf"] = {
        "text": portable.generate("Ana sat", max_new_tokens=12, temperature=0.0),
        "sampled": portable.generate("Ana sat", max_new_tokens=12, seed=1),
    }
    for path in itertools.chain.from_iterable(folder.glob(pattern) for pattern in LEFT_OUT):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    # The runs hold absolute paths: the tests replace this folder by the one of their copy.
    content = json.dumps({"folder": str(folder), "runs": recorded}, ensure_ascii=False)
    (folder / "answers.json").write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
