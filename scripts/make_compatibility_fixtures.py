"""Writes tests/fixtures/compatibility: runs of an earlier version, and what it computed with them.

    PYTHONPATH=CHECKOUT_OF_THAT_VERSION python scripts/make_compatibility_fixtures.py FOLDER

The fixtures in the repository were written by the last version whose config.toml has no format number
(commit 8f64533). They are never written again: the tests show that newer versions still read them.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import minigpt

NAMES, PLACES = ("Ana", "Béla", "Dirk"), ("hill", "roof", "boat")
MODEL = {"max_len": 16, "embed_dim": 8, "num_heads": 2, "num_layers": 1}
TRAINING = {
    "epochs": 2,
    "steps_per_epoch": 40,
    "batch_size": 4,
    "learning_rate": 1e-2,
    "deterministic": True,
    "device": "cpu",
    "keep_checkpoints": 1,
}
SAMPLING = {"prompts": ["Ana sat"], "max_new_tokens": 8}
BYTE_PAIRS = {"kind": "byte_pair", "vocab_size": 270}
CHARACTERS = {"kind": "character", "vocab_size": 48}


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


def settings(text: Path, tokenizer: dict[str, Any], **sections: dict[str, Any]) -> dict[str, Any]:
    all_sections: dict[str, dict[str, Any]] = {
        "data": {"source": "files", "paths": [str(text)]},
        "tokenizer": tokenizer,
        "model": MODEL,
        "training": TRAINING,
        "sampling": SAMPLING,
    }
    return {name: all_sections[name] | sections.get(name, {}) for name in all_sections}


def train_interrupted(config: dict[str, Any], path: Path) -> None:
    """Trains until a checkpoint within the first epoch, then interrupts like Ctrl-C."""

    def interrupt() -> None:
        while not list((path / "checkpoints").glob("step-*")):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        minigpt.train(config, path)
    except KeyboardInterrupt:
        return
    raise SystemExit("the training ended before it was interrupted: set more steps")


def answers(path: Path) -> dict[str, Any]:
    """What the version that wrote a run computes with it."""
    model = minigpt.load(path)
    scores = minigpt.evaluate_run(minigpt.Run(path)) if (path / "corpus.json").exists() else None
    found: dict[str, Any] = {"scores": vars(scores) if scores else None}
    if isinstance(model, minigpt.TranslationModel):
        found["translation"] = model.translate("a b c d")
    else:
        found["text"] = model.generate("Ana sat", max_new_tokens=12, temperature=0.0)
    return found


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    text, pair_file = folder / "text.txt", folder / "pairs.tsv"
    text.write_text(sentences(60), encoding="utf-8")
    pair_file.write_text(pairs(80), encoding="utf-8")
    long = {"steps_per_epoch": 60, "checkpoint_every_steps": 20}
    interruptible = settings(text, CHARACTERS, training=long)

    minigpt.train(settings(text, BYTE_PAIRS), folder / "pre_norm")
    post_norm = {"norm": "post", "position": "sinusoidal", "tie_embeddings": False}
    minigpt.train(settings(text, BYTE_PAIRS, model=post_norm), folder / "post_norm")
    minigpt.train(interruptible, folder / "character")
    train_interrupted(interruptible, folder / "interrupted")
    translating = settings(
        pair_file,
        CHARACTERS,
        data={"source": "pairs", "paths": [str(pair_file)], "val_pairs": 8, "length_buckets": 1},
        model={"kind": "encoder_decoder", "norm": "post"},
    )
    translating["sampling"] = {"translations": 1}
    minigpt.train(translating, folder / "pairs")
    lora = {"init_from": str(folder / "pre_norm"), "lora_rank": 2}
    tuned = settings(text, {}, training=lora)
    tuned["tokenizer"] = tuned["model"] = {}
    minigpt.train(tuned, folder / "lora")
    with tempfile.TemporaryDirectory() as temporary:
        exported = Path(temporary) / "huggingface"
        minigpt.export_run(minigpt.Run(folder / "pre_norm"), "huggingface", exported)
        minigpt.import_run(exported, folder / "imported")

    runs = sorted(path.parent for path in folder.glob("*/config.toml"))
    recorded = {path.name: answers(path) for path in runs if path.name != "interrupted"}
    for path in runs:
        # Tens of kilobytes each, and rebuilt by every export.
        shutil.rmtree(path / "saved_model", ignore_errors=True)
    # The runs hold absolute paths: the tests replace this folder by the one of their copy.
    content = json.dumps({"folder": str(folder), "runs": recorded}, indent=2, ensure_ascii=False)
    (folder / "answers.json").write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
