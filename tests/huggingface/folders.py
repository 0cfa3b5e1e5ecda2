"""Hugging Face folders for tests, written by transformers."""

import json
import shutil
from pathlib import Path

from safetensors.numpy import load_file

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "gpt2"
NAMES = ["narrow", "sharded", "untied"]
# Tolerance for equal logits, relative to the largest logit.
PARITY = 1e-4


def huggingface_folder(name: str, folder: Path, **changes) -> Path:
    """Returns a copy of a fixture with its tokenizer and with changed entries in config.json."""
    shutil.copytree(FIXTURES / name, folder)
    shutil.copy(FIXTURES / "encoder.json", folder / "vocab.json")
    shutil.copy(FIXTURES / "vocab.bpe", folder / "merges.txt")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def expected(name: str) -> dict:
    """Returns what transformers computed: ids, logits, and 50 greedy tokens after prompt.txt."""
    values = load_file(FIXTURES / name / "expected.safetensors")
    prompt = (FIXTURES / name / "prompt.txt").read_text(encoding="utf-8")
    return {**values, "prompt": prompt}


def difference(found, right) -> float:
    """Returns the largest difference relative to the largest logit."""
    return float(abs(found - right).max() / abs(right).max())
