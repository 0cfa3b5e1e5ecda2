"""Writes tests/fixtures/gpt2 and tests/fixtures/qwen3: outputs of Hugging Face's code.

    pip install -c constraints.txt -e '.[parity]'
    python scripts/make_parity_fixtures.py gpt2 --vocabulary FOLDER --reviews aclImdb_v1.tar.gz
    python scripts/make_parity_fixtures.py qwen3

FOLDER contains the published `encoder.json` and `vocab.bpe`. The models of Qwen3's shape have the small
vocabulary that the first command writes. The tests compare minigpt with them.
The script does not use minigpt, so the expected values are independent of it.
"""

import argparse
import hashlib
import itertools
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.mixed_lines import code, scraps, twenty_thousand  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures" / "gpt2"
QWEN3_FIXTURES = ROOT / "tests" / "fixtures" / "qwen3"
END = "<|endoftext|>"
VOCAB_SIZE = 400
PROMPT = "the naïve 東京 film's"
# Name → settings that differ from GPT2Config's defaults, and the maximum size of a weights file.
SIZES: dict[str, tuple[dict[str, Any], str]] = {
    "narrow": ({"n_embd": 8, "n_head": 2, "n_layer": 2}, "1GB"),
    "sharded": ({"n_embd": 12, "n_head": 3, "n_layer": 1, "n_inner": 20}, "12KB"),
    "untied": ({"n_embd": 8, "n_head": 4, "n_layer": 3, "tie_word_embeddings": False}, "1GB"),
}

QWEN3_SIZES: dict[str, tuple[dict[str, Any], str]] = {
    "grouped": (
        {"hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6}
        | {"intermediate_size": 12, "num_hidden_layers": 2, "tie_word_embeddings": True},
        "1GB",
    ),
    "sharded": (
        {"hidden_size": 12, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 4}
        | {"intermediate_size": 20, "num_hidden_layers": 1, "rms_norm_eps": 1e-5}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0}},
        "24KB",
    ),
    "shared": (
        {"hidden_size": 8, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 8}
        | {"intermediate_size": 16, "num_hidden_layers": 3, "hidden_act": "gelu_new"},
        "1GB",
    ),
}


def byte_level(encoder: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    """Returns a byte-level BPE tokenizer of the tokenizers package, as in GPT-2."""
    tokenizer = Tokenizer(models.BPE(vocab=encoder, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def published(folder: Path) -> Tokenizer:
    lines = (folder / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:]
    merges = [(a, b) for a, b in (line.split(" ") for line in lines if line)]
    return byte_level(json.loads((folder / "encoder.json").read_bytes()), merges)


def small_vocabulary(lines: list[str]) -> Tokenizer:
    """Learns a vocabulary like the published one from `lines` and writes it to the fixtures."""
    tokenizer = byte_level({}, [])
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - 1,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    assert len(model["vocab"]) == VOCAB_SIZE - 1
    merges = [" ".join(pair) for pair in model["merges"]]
    encoder = model["vocab"] | {END: VOCAB_SIZE - 1}
    (FIXTURES / "encoder.json").write_text(json.dumps(encoder))
    (FIXTURES / "vocab.bpe").write_text("\n".join(["#version: 0.2", *merges, ""]))
    return byte_level(model["vocab"], [tuple(pair) for pair in model["merges"]])


def random_weights(model: PreTrainedModel, seed: int) -> None:
    """Returns weights that all influence the output and all differ from their initial values."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=draw)
            gain = ("norm" in name or ".ln_" in name) and name.endswith(".weight")
            if gain:
                weight.copy_(1 + 0.1 * noise)
            elif name.endswith((".bias", "wpe.weight")):
                weight.copy_(0.1 * noise)
            else:
                weight.copy_(0.7 * noise)


def gpt2(name: str) -> tuple[PreTrainedModel, Path, str]:
    """Returns a model, its folder and the maximum size of a weights file."""
    changes, shard = SIZES[name]
    end = VOCAB_SIZE - 1
    config = GPT2Config(
        vocab_size=VOCAB_SIZE, n_positions=72, bos_token_id=end, eos_token_id=end, **changes
    )
    return GPT2LMHeadModel(config).eval(), FIXTURES / name, shard


def qwen3(name: str) -> tuple[PreTrainedModel, Path, str]:
    """The same for a model of Qwen3's shape."""
    changes, shard = QWEN3_SIZES[name]
    end = VOCAB_SIZE - 1
    config = Qwen3Config(
        vocab_size=VOCAB_SIZE,
        max_position_embeddings=72,
        bos_token_id=end,
        eos_token_id=end,
        **changes,
    )
    return Qwen3ForCausalLM(config).eval(), QWEN3_FIXTURES / name, shard


def write_model(model: PreTrainedModel, folder: Path, shard: str, tokenizer: Tokenizer) -> None:
    """Writes one folder with `save_pretrained`, and expected.safetensors with the outputs of the model."""
    prompt = tokenizer.encode(PROMPT).ids
    ids = torch.tensor([[VOCAB_SIZE - 1, 1, 50, 300], prompt[:4]])
    # The first seed for which the logits vary and a text of 50 tokens does not only repeat itself.
    for seed in itertools.count():
        random_weights(model, seed)
        with torch.no_grad():
            logits = model(ids).logits
            greedy = model.generate(torch.tensor([prompt]), max_new_tokens=50, do_sample=False)
        new = greedy[0, len(prompt) :]
        if logits.std() >= 1 and len(new) == 50 and len(set(new.tolist())) >= 10:
            break
    model.save_pretrained(folder, max_shard_size=shard)
    expected = {
        "ids": ids.numpy().astype("int32"),
        "logits": logits.numpy(),
        "greedy": new.numpy().astype("int32"),
    }
    save_file(expected, folder / "expected.safetensors")
    (folder / "prompt.txt").write_text(PROMPT, encoding="utf-8")


def make_gpt2(vocabulary: Path, reviews: Path) -> None:
    shutil.rmtree(FIXTURES, ignore_errors=True)
    FIXTURES.mkdir(parents=True)
    lines = code(50, 3) + scraps(150, 4)
    tokenizer = small_vocabulary(lines + scraps(2_000, 5))
    (FIXTURES / "lines.json").write_text(
        json.dumps([[line, tokenizer.encode(line).ids] for line in lines], ensure_ascii=False)
    )
    encoded = published(vocabulary).encode_batch(twenty_thousand(reviews))
    hashes = [
        hashlib.sha256(json.dumps([e.ids for e in encoded[i : i + 1000]]).encode()).hexdigest()
        for i in range(0, len(encoded), 1000)
    ]
    (FIXTURES / "twenty_thousand.json").write_text(json.dumps(hashes, indent=0) + "\n")
    for name in SIZES:
        write_model(*gpt2(name), tokenizer)


def make_qwen3() -> None:
    shutil.rmtree(QWEN3_FIXTURES, ignore_errors=True)
    for name in QWEN3_SIZES:
        write_model(*qwen3(name), published(FIXTURES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("architecture", choices=["gpt2", "qwen3"])
    parser.add_argument("--vocabulary", type=Path)
    parser.add_argument("--reviews", type=Path)
    arguments = parser.parse_args()
    if arguments.architecture == "qwen3":
        folder = QWEN3_FIXTURES
        make_qwen3()
    elif arguments.vocabulary and arguments.reviews:
        folder = FIXTURES
        make_gpt2(arguments.vocabulary, arguments.reviews)
    else:
        parser.error("gpt2 needs --vocabulary and --reviews")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"Wrote {folder}: {size:,} bytes")


if __name__ == "__main__":
    main()
