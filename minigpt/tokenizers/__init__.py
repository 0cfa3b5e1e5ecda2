"""Text to token ids and back: whole words, characters, or pieces of words, learned or GPT-2's own.

Every kind runs twice, in Python and inside a TensorFlow graph, with the same ids and the same text.
"""

from collections.abc import Iterable
from pathlib import Path

from minigpt.config import TokenizerConfig
from minigpt.errors import UserError
from minigpt.tokenizers.base import GraphTokenizer, Tokenizer, read_state, state_path
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.word import WordTokenizer

__all__ = ["GraphTokenizer", "Tokenizer", "learn_tokenizer", "load_tokenizer"]

KINDS: dict[str, type[Tokenizer]] = {
    tokenizer.kind: tokenizer
    for tokenizer in (WordTokenizer, CharacterTokenizer, BytePairTokenizer, GPT2Tokenizer)
}


def learn_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Learns a vocabulary of at most `config.vocab_size` entries; the same texts give the same one.

    Args:
      texts: documents, read once and in order; none at all is allowed.
      config: kind, wanted size and lower-casing. Little text gives fewer entries than wanted.
    Raises:
      ValueError: a text holds half of a surrogate pair.
    """
    return KINDS[config.kind].learn(texts, config.vocab_size, getattr(config, "lowercase", False))


def load_tokenizer(folder: Path) -> Tokenizer:
    """Opens what `Tokenizer.save` wrote, whatever its kind.

    Raises:
      UserError: a file is missing, damaged, or from a version this one does not know.
    """
    kind = read_state(folder)["kind"]
    if kind not in KINDS:
        raise UserError(
            f"{state_path(folder)}: kind = {kind!r}: should be one of {', '.join(KINDS)}"
        )
    return KINDS[kind].load(folder)
