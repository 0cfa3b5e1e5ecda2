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


def described_tokenizer() -> dict:
    """Returns the content of tokenizer.json for the vocabulary of the fixtures, split as GPT-2 does."""
    merges = (FIXTURES / "vocab.bpe").read_text("utf-8").splitlines()[1:]
    vocab = json.loads((FIXTURES / "encoder.json").read_bytes())
    return {
        "added_tokens": [{"id": 399, "content": "<|endoftext|>", "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab, "merges": [pair.split(" ") for pair in merges]},
    }


def huggingface_folder(name: str, folder: Path, **changes) -> Path:
    """Returns a copy of a fixture with its tokenizer and with changed entries in config.json."""
    shutil.copytree(fixture(name), folder)
    (folder / "tokenizer.json").write_text(json.dumps(described_tokenizer()))
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
