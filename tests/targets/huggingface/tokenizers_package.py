"""Tokenizers for tests, built with the tokenizers package."""

import json
from collections.abc import Iterable
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from minigpt.targets.huggingface.folders import read_tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from tests.conftest import tiny_text
from tests.mixed_lines import code
from tests.targets.huggingface.folders import FIXTURES

# As in the tokenizer.json that Qwen publishes with Qwen3.
QWEN3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
END = "<|endoftext|>"
QWEN3_SPECIAL = (END, "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|vision_pad|>")
QWEN3_OTHERS = ("<tool_call>", "</tool_call>", "<think>", "</think>")


def qwen3_tokenizer(vocab_size: int = 500) -> tokenizers.Tokenizer:
    """Returns a tokenizer like the published one of Qwen3, with a small vocabulary learned here."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(QWEN3_PATTERN), "isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([tiny_text(200), *code(400, 1), "\n\n!!\n' é\u0301"] * 2, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False, use_regex=False)
    for special, contents in ((True, QWEN3_SPECIAL), (False, QWEN3_OTHERS)):
        add(tokenizer, contents, special=special, normalized=False)
    return tokenizer


def gpt2_tokenizer() -> tokenizers.Tokenizer:
    """Returns GPT-2's tokenizer with the vocabulary of the fixtures."""
    lines = (FIXTURES / "vocab.bpe").read_text("utf-8").splitlines()[1:]
    merges = [tuple(line.split(" ")) for line in lines if line]
    vocab = json.loads((FIXTURES / "encoder.json").read_bytes())
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    add(tokenizer, [END], special=True, normalized=False)
    return tokenizer


def add(tokenizer: tokenizers.Tokenizer, contents: Iterable[str], **flags) -> None:
    """Adds tokens."""
    tokenizer.add_tokens([tokenizers.AddedToken(content, **flags) for content in contents])


def imported(tokenizer: tokenizers.Tokenizer, folder: Path, end: str = END) -> GPT2Tokenizer:
    """Returns a tokenizer as `import_run` reads it from a folder."""
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    found = read_tokenizer(folder, tokenizer.get_vocab_size(), tokenizer.token_to_id(end))
    assert isinstance(found, GPT2Tokenizer)
    return found
