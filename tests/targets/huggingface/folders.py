"""Hugging Face folders for tests, written by transformers."""

import json
import shutil
from pathlib import Path

from safetensors.numpy import load_file

from minigpt.targets.huggingface.folders import write_folder

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "gpt2"
NAMES = ["narrow", "sharded", "untied"]
QWEN3_NAMES = ["qwen3/grouped", "qwen3/sharded", "qwen3/shared"]
# Tolerance for equal logits, relative to the largest logit.
PARITY = 1e-4


def write_model(model, tokenizer, folder: Path) -> None:
    """Writes a new folder."""
    folder.mkdir()
    write_folder(model, tokenizer, folder)


def fixture(name: str) -> Path:
    """Returns the folder of a fixture: a GPT-2, or a Qwen3 with "qwen3/" before its name."""
    return (FIXTURES.parent if name in QWEN3_NAMES else FIXTURES) / name


def huggingface_folder(name: str, folder: Path, **changes) -> Path:
    """Returns a copy of a fixture with its tokenizer and with changed entries in config.json."""
    shutil.copytree(fixture(name), folder)
    shutil.copy(FIXTURES / "encoder.json", folder / "vocab.json")
    shutil.copy(FIXTURES / "vocab.bpe", folder / "merges.txt")
    if name in QWEN3_NAMES:
        settings = json.dumps({"tokenizer_class": "GPT2Tokenizer"})
        (folder / "tokenizer_config.json").write_text(settings)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def expected(name: str) -> dict:
    """Returns what transformers computed: ids, logits, and 50 greedy tokens after prompt.txt."""
    values = load_file(fixture(name) / "expected.safetensors")
    prompt = (fixture(name) / "prompt.txt").read_text(encoding="utf-8")
    return {**values, "prompt": prompt}


def difference(found, right) -> float:
    """Returns the largest difference relative to the largest logit."""
    return float(abs(found - right).max() / abs(right).max())
