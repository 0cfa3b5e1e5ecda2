"""Writes tests/fixtures/runs: small trained runs and exports, and what their version computed with them.

    git worktree add /tmp/earlier COMMIT
    PYTHONPATH=/tmp/earlier python scripts/make_run_fixtures.py NEW_FOLDER

The fixtures in the repository were written by commit fbd710fe. Tests use them in place of trainings, and
so show that newer versions still read them. They are written again when older runs need not be read any
more. tests/tiny.py has the texts and most settings. Paths in the runs lead to /written; `runs_folder` of
tests/conftest.py makes a copy whose paths lead to the copy.
"""

import hashlib
import itertools
import json
import os
import runpy
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

TINY = runpy.run_path(str(Path(__file__).resolve().parents[1] / "tests" / "tiny.py"))
MODEL = {"max_len": 16, "embed_dim": 4, "num_heads": 2, "num_layers": 1, "ff_dim": 8}
TRAINING = {
    "epochs": 2,
    "steps_per_epoch": 20,
    "batch_size": 4,
    "learning_rate": 1e-2,
    "deterministic": True,
    "device": "cpu",
    "keep_checkpoints": 1,
    "keep_snapshots": False,
}
CHARACTERS = {"kind": "character", "vocab_size": 48}
# What is large, and is asked for in one run at most.
LEFT_OUT = (
    *("*/saved_model", "*/lock", "lora/model.gguf"),
    *("chat/checkpoints/*-epoch-1", "pairs/checkpoints/*-epoch-1"),
    *("[!t]*/report.html", "[!t]*/snapshots"),
)


def settings(text: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    """Settings of the smallest runs: most of a .keras file is then not weights."""
    all_sections: dict[str, dict[str, Any]] = {
        "data": {"source": "files", "paths": [str(text)]},
        "tokenizer": CHARACTERS,
        "model": MODEL,
        "training": TRAINING,
        "sampling": {"prompts": ["Ana sat"], "max_new_tokens": 8},
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


def train_all(folder: Path) -> None:
    text, short, dialogues, pairs = (
        folder / name for name in ("tiny.txt", "short.txt", "tiny.jsonl", "backwards.tsv")
    )
    text.write_text(TINY["tiny_text"](), encoding="utf-8")
    short.write_text(TINY["tiny_text"](60), encoding="utf-8")
    dialogues.write_text("".join(json.dumps(row) + "\n" for row in TINY["tiny_dialogues"]()))
    rows = (f"{row}\t{TINY['backwards'](row)}\n" for row in TINY["letters"](4000, seed=0))
    pairs.write_text("".join(rows), encoding="utf-8")

    minigpt.train(TINY["tiny_settings"](text, sampling=TINY["SAMPLED"]), folder / "tiny")
    minigpt.train(TINY["dialogue_settings"](dialogues), folder / "chat")
    minigpt.train(TINY["pair_settings"](pairs), folder / "pairs")
    # Two heads share keys and values; dropout draws random numbers.
    shared = {"num_kv_heads": 1, "tie_embeddings": True, "dropout_rate": 0.1}
    interruptible = settings(short, model=shared, training={"steps_per_epoch": 30})
    minigpt.train(interruptible, folder / "character")
    train_interrupted(interruptible, folder / "interrupted")
    word = {"kind": "word", "vocab_size": 40, "lowercase": True}
    post_norm = {"block": "post_norm", "position": "sinusoidal", "tie_embeddings": False}
    by_time = {"optimizer": "sgd", "max_minutes": 60.0, "schedule": "linear"}
    minigpt.train(
        settings(short, tokenizer=word, model=post_norm, training=by_time), folder / "post_norm"
    )
    tuned = settings(short, training={"init_from": str(folder / "character"), "lora_rank": 2})
    tuned["tokenizer"] = tuned["model"] = {}
    minigpt.train(tuned, folder / "lora")

    exports = folder / "exports"
    exports.mkdir()
    minigpt.export_run(folder / "tiny", "huggingface", exports / "huggingface", certificate=True)
    minigpt.import_run(exports / "huggingface", folder / "imported")
    with tempfile.TemporaryDirectory() as temporary:
        # Matrices are stored in int8 from a width of 32.
        wide = Path(temporary) / "wide"
        minigpt.train(settings(short, tokenizer=word, model={"embed_dim": 32}), wide)
        minigpt.export_run(wide, "gguf", exports / "int8.gguf", weights="int8")


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
    train_all(folder)
    runs = sorted(path.parent for path in folder.glob("*/config.toml"))
    recorded = {path.name: answers(path) for path in runs if path.name != "interrupted"}
    portable = minigpt.load_portable(folder / "exports" / "int8.gguf")
    assert isinstance(portable, minigpt.PortableTextModel)
    recorded["exports/int8.gguf"] = {
        "text": portable.generate("Ana sat", max_new_tokens=12, temperature=0.0),
        "sampled": portable.generate("Ana sat", max_new_tokens=12, seed=1),
    }
    for path in itertools.chain.from_iterable(folder.glob(pattern) for pattern in LEFT_OUT):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    TINY["move_runs"](folder, str(folder), TINY["PLACEHOLDER"])
    content = json.dumps(recorded, ensure_ascii=False)
    (folder / "answers.json").write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
