"""Writes tests/fixtures/gpt2: outputs of Hugging Face's code, with which the tests compare minigpt.

    pip install -c constraints.txt -e '.[parity]'
    python scripts/make_parity_fixtures.py --vocabulary FOLDER --reviews aclImdb_v1.tar.gz

FOLDER contains the published `encoder.json` and `vocab.bpe`. The script does not use minigpt, so the
expected values are independent of it.
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
from transformers import GPT2Config, GPT2LMHeadModel

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.mixed_lines import code, scraps, twenty_thousand  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures" / "gpt2"
END = "<|endoftext|>"
VOCAB_SIZE = 400
PROMPT = "the naïve 東京 film's"
# Name → settings that differ from GPT2Config's defaults, and the maximum size of a weights file.
SIZES: dict[str, tuple[dict[str, Any], str]] = {
    "narrow": ({"n_embd": 8, "n_head": 2, "n_layer": 2}, "1GB"),
    "sharded": ({"n_embd": 12, "n_head": 3, "n_layer": 1, "n_inner": 20}, "12KB"),
    "untied": ({"n_embd": 8, "n_head": 4, "n_layer": 3, "tie_word_embeddings": False}, "1GB"),
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


def random_weights(model: GPT2LMHeadModel, seed: int) -> None:
    """Returns weights that all influence the output and all differ from their initial values."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=draw)
            gain = ".ln_" in name and name.endswith(".weight")
            if gain:
                weight.copy_(1 + 0.1 * noise)
            elif name.endswith((".bias", "wpe.weight")):
                weight.copy_(0.1 * noise)
            else:
                weight.copy_(0.7 * noise)


def make_model(name: str, tokenizer: Tokenizer) -> None:
    """Writes one folder with `save_pretrained`, and expected.safetensors with the outputs of the model."""
    changes, shard = SIZES[name]
    end = VOCAB_SIZE - 1
    config = GPT2Config(
        vocab_size=VOCAB_SIZE, n_positions=72, bos_token_id=end, eos_token_id=end, **changes
    )
    model = GPT2LMHeadModel(config).eval()
    prompt = tokenizer.encode(PROMPT).ids
    ids = torch.tensor([[end, 1, 50, 300], prompt[:4]])
    # The first seed for which the logits vary and a text of 50 tokens does not only repeat itself.
    for seed in itertools.count():
        random_weights(model, seed)
        with torch.no_grad():
            logits = model(ids).logits
            greedy = model.generate(torch.tensor([prompt]), max_new_tokens=50, do_sample=False)
        new = greedy[0, len(prompt) :]
        if logits.std() >= 1 and len(new) == 50 and len(set(new.tolist())) >= 10:
            break
    folder = FIXTURES / name
    model.save_pretrained(folder, max_shard_size=shard)
    expected = {
        "ids": ids.numpy().astype("int32"),
        "logits": logits.numpy(),
        "greedy": new.numpy().astype("int32"),
    }
    save_file(expected, folder / "expected.safetensors")
    (folder / "prompt.txt").write_text(PROMPT, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--reviews", type=Path, required=True)
    arguments = parser.parse_args()
    shutil.rmtree(FIXTURES, ignore_errors=True)
    FIXTURES.mkdir(parents=True)

    lines = code(50, 3) + scraps(150, 4)
    tokenizer = small_vocabulary(lines + scraps(2_000, 5))
    (FIXTURES / "lines.json").write_text(
        json.dumps([[line, tokenizer.encode(line).ids] for line in lines], ensure_ascii=False)
    )
    encoded = published(arguments.vocabulary).encode_batch(twenty_thousand(arguments.reviews))
    hashes = [
        hashlib.sha256(json.dumps([e.ids for e in encoded[i : i + 1000]]).encode()).hexdigest()
        for i in range(0, len(encoded), 1000)
    ]
    (FIXTURES / "twenty_thousand.json").write_text(json.dumps(hashes, indent=0) + "\n")
    for name in SIZES:
        make_model(name, tokenizer)
    size = sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file())
    print(f"Wrote {FIXTURES}: {size:,} bytes")


if __name__ == "__main__":
    main()
