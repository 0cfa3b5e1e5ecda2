"""The tables of a tokenizer in a portable file (docs/portable-file.md), and those that llama.cpp reads."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import gguf
import numpy as np
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import AddedToken, GPT2Tokenizer, byte_alphabet
from minigpt.tokenizers.listed import ListedTokenizer
from minigpt.tokenizers.vocabulary import SPACE
from minigpt.tokenizers.word import WordTokenizer

END, PADDING = "<end>", "[PAD]"
# The flag of an added token that is found in a normalized text.
NORMALIZED = 8


def tokenizer_problem(tokenizer: Tokenizer) -> str | None:
    """Returns why a tokenizer cannot be written to a portable file; None if it can."""
    if type(tokenizer) not in BUILDERS:
        return f"tokenizer.kind = {tokenizer.kind!r}: has no form in a portable file"
    if isinstance(tokenizer, GPT2Tokenizer) and tokenizer.splitting != "gpt2":
        return "the tokenizer splits text as Qwen3 does: has no form in a portable file"
    if isinstance(tokenizer, ListedTokenizer) and tokenizer.separator and not tokenizer.are_words:
        return "tokenizer.kind = 'listed': a name has signs, which a portable file reads as names"
    return None


def tokenizer_tables(tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns the values of the keys `minigpt.tokenizer.*`, see docs/portable-file.md; None if missing."""
    ranks, byte_ids = BUILDERS[type(tokenizer)](tokenizer)
    # Role tokens are not pieces of text.
    ranks = np.pad(ranks, (0, tokenizer.vocab_size - len(ranks)), constant_values=-1)
    ranks[len(tokenizer.text_pieces) :] = -1
    listed_as = "word" if tokenizer.separator else "character"
    return {
        "kind": tokenizer.kind if tokenizer.kind != "listed" else listed_as,
        "lowercase": tokenizer.lowercase,
        "end_id": tokenizer.end_id,
        "start_id": tokenizer.own_start_id,
        "unknown_id": -1 if tokenizer.unknown_id is None else tokenizer.unknown_id,
        "undrawable_ids": np.array(tokenizer.never_sampled_ids, np.int32),
        "pieces": np.frombuffer(b"".join(tokenizer.pieces), np.uint8),
        "piece_ends": np.cumsum([len(piece) for piece in tokenizer.pieces], dtype=np.uint32),
        "ranks": ranks,
        "byte_ids": byte_ids,
        "chat": None if tokenizer.chat is None else json.dumps(asdict(tokenizer.chat)),
        **_added(tokenizer.added if isinstance(tokenizer, GPT2Tokenizer) else ()),
    }


# The ranks, int32[V], and the ids of the bytes, int32[256].
Built = tuple[np.ndarray, np.ndarray]


def _byte_pair(tokenizer: BytePairTokenizer) -> Built:
    pieces = ModelProto.FromString(tokenizer.model).pieces
    is_text = np.array([piece.type == piece.NORMAL for piece in pieces])
    scores = np.array([piece.score for piece in pieces])
    ranks = np.full(len(pieces), -1, np.int32)
    # sentencepiece merges the best score first. Pieces with the same score would get the same rank.
    ranks[is_text] = np.unique(-scores[is_text], return_inverse=True)[1]
    byte_ids = {
        tokenizer.pieces[i]: i for i, piece in enumerate(pieces) if piece.type == piece.BYTE
    }
    return ranks, _byte_ids(byte_ids)


def _character(tokenizer: CharacterTokenizer) -> Built:
    return _in_order(tokenizer, tokenizer.byte_ids[-1] + 1), tokenizer.byte_table


def _words(tokenizer: WordTokenizer) -> Built:
    return _in_order(tokenizer, tokenizer.end_id + 1), _byte_ids({})


def _listed(tokenizer: ListedTokenizer) -> Built:
    is_name = np.array([bool(piece) for piece in tokenizer.pieces])
    return np.where(is_name, _in_order(tokenizer, 0), np.int32(-1)), _byte_ids({})


def _gpt2(tokenizer: GPT2Tokenizer) -> Built:
    ranks = np.full(tokenizer.vocab_size, -1, np.int32)
    rank = {first + second: number for number, (first, second) in enumerate(tokenizer.merges)}
    for token, i in tokenizer.encoder.items():
        ranks[i] = rank.get(token, 0)  # Single bytes are not merged from others.
    return ranks, _byte_ids({tokenizer.pieces[i]: i for i in tokenizer.encoder.values()})


def _added(tokens: Sequence[AddedToken]) -> dict[str, np.ndarray]:
    texts = [token.content.encode() for token in tokens]
    return {
        "added": np.frombuffer(b"".join(texts), np.uint8),
        "added_ends": np.cumsum([len(text) for text in texts], dtype=np.uint32),
        "added_ids": np.array([token.id for token in tokens], np.int32),
        "added_flags": np.array([NORMALIZED * token.normalized for token in tokens], np.uint8),
    }


BUILDERS: dict[type, Callable[[Any], Built]] = {
    GPT2Tokenizer: _gpt2,
    BytePairTokenizer: _byte_pair,
    CharacterTokenizer: _character,
    WordTokenizer: _words,
    ListedTokenizer: _listed,
}


def _in_order(tokenizer: Tokenizer, first: int) -> np.ndarray:
    """Returns ranks of pieces that are not merged: 0, 1, ... from the id `first` on."""
    return np.maximum(np.arange(tokenizer.vocab_size, dtype=np.int32) - np.int32(first), -1)


def _byte_ids(ids: dict[bytes, int]) -> np.ndarray:
    return np.array([ids.get(bytes([byte]), -1) for byte in range(256)], np.int32)


class LlamaVocabulary(NamedTuple):
    """A vocabulary in the form of llama.cpp.

    Attributes:
      model: "gpt2" merges the bytes of words, "llama" the characters of the text.
      tokens, types: the text and the kind of each token.
      scores: for "llama", the priority of each token; merging takes the highest one first.
      merges: for "gpt2", pairs of tokens, the first one first.
    """

    model: str
    tokens: list[str]
    types: list[gguf.TokenType]
    scores: list[float] | None = None
    merges: list[str] | None = None

    def write(self, writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
        """Adds the keys to a file. Role tokens follow those of text."""
        chat, count = tokenizer.chat, len(tokenizer.text_pieces)
        roles = list(chat.added) if chat else []
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre("gpt-2" if self.model == "gpt2" else "default")
        writer.add_token_list(self.tokens[:count] + roles)
        writer.add_token_types(self.types[:count] + [gguf.TokenType.CONTROL] * len(roles))
        if chat:
            writer.add_chat_template(chat.template)
        if self.scores is not None:
            writer.add_token_scores(self.scores[:count] + [0.0] * len(roles))
            writer.add_unk_token_id(0)
            writer.add_add_space_prefix(False)
            writer.add_remove_extra_whitespaces(False)
        if self.merges is not None:
            writer.add_token_merges(self.merges)
        writer.add_bos_token_id(tokenizer.end_id)
        writer.add_eos_token_id(tokenizer.end_id)
        writer.add_add_bos_token(False)
        writer.add_add_eos_token(False)


def llama_vocabulary(tokenizer: Tokenizer) -> LlamaVocabulary | None:
    """Returns the vocabulary of a tokenizer; None if llama.cpp cannot encode every text as it does."""
    if tokenizer.lowercase:
        return None
    if isinstance(tokenizer, GPT2Tokenizer):
        # llama.cpp does not normalize text.
        return _llama_gpt2(tokenizer) if tokenizer.splitting == "gpt2" else None
    if isinstance(tokenizer, BytePairTokenizer):
        return _llama_byte_pair(tokenizer)
    # llama.cpp writes a space as the character SPACE, and ends a token at NUL.
    if isinstance(tokenizer, CharacterTokenizer) and not {SPACE, "\0"} & set(tokenizer.characters):
        return _llama_character(tokenizer)
    return None


def _llama_gpt2(tokenizer: GPT2Tokenizer) -> LlamaVocabulary:
    alphabet = {byte: character for character, byte in byte_alphabet().items()}
    tokens = ["".join(alphabet[byte] for byte in piece) for piece in tokenizer.pieces]
    types = [gguf.TokenType.NORMAL] * len(tokens)
    special = {i: name for name, i in tokenizer.special.items()}
    for i, token in enumerate(tokens):
        if not token:
            tokens[i] = special.get(i, f"[UNUSED{i}]")
            types[i] = gguf.TokenType.CONTROL if i in special else gguf.TokenType.UNUSED
    for added in tokenizer.added:
        tokens[added.id] = added.content
        # Control tokens are found in a text only if the program asks for special tokens.
        kinds = gguf.TokenType.USER_DEFINED, gguf.TokenType.CONTROL
        types[added.id] = kinds[added.special]
    merges = [" ".join(pair) for pair in tokenizer.merges]
    return LlamaVocabulary("gpt2", tokens, types, merges=merges)


def _llama_byte_pair(tokenizer: BytePairTokenizer) -> LlamaVocabulary:
    pieces = ModelProto.FromString(tokenizer.model).pieces
    # sentencepiece has the same numbers for the kinds of pieces.
    types = [gguf.TokenType(piece.type) for piece in pieces]
    tokens, scores = [piece.piece for piece in pieces], [piece.score for piece in pieces]
    return LlamaVocabulary("llama", tokens, types, scores)


def _llama_character(tokenizer: CharacterTokenizer) -> LlamaVocabulary:
    tokens = [PADDING, END]
    tokens += [f"<0x{tokenizer.pieces[i][0]:02X}>" for i in tokenizer.byte_ids]
    tokens += [character.replace(" ", SPACE) for character in tokenizer.characters]
    types = [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * len(tokenizer.byte_ids)
    types += [gguf.TokenType.NORMAL] * (len(tokens) - len(types))
    return LlamaVocabulary("llama", tokens, types, [0.0] * len(tokens))
