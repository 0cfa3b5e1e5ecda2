"""The kinds of tokenizers, and learning one."""

from collections.abc import Iterable

from minigpt.config import TokenizerConfig
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.given import SentencePieceTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.huggingface import HuggingFaceTokenizer
from minigpt.tokenizers.listed import ListedTokenizer
from minigpt.tokenizers.word import WordTokenizer

_LEARNED = WordTokenizer, CharacterTokenizer, BytePairTokenizer
_GIVEN = GPT2Tokenizer, SentencePieceTokenizer, HuggingFaceTokenizer, ListedTokenizer
KINDS: dict[str, type[Tokenizer]] = {kind.kind: kind for kind in (*_LEARNED, *_GIVEN)}


def learn_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Learns a vocabulary from text. The same texts give the same vocabulary.

    Args:
      texts: documents, read once and in order. May be empty.
      config: the kind and its settings. A short text gives fewer entries than `vocab_size`.
    Raises:
      UserError: this kind of tokenizer is not learned.
      ValueError: a text contains half of a surrogate pair.
    """
    return KINDS[config.kind].learn(texts, **config.model_dump(exclude={"kind"}))
