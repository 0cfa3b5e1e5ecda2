"""Tokenizers as functions from characters to token ids, one builder for each kind."""

from collections.abc import Callable
from typing import Any

from minigpt.targets.onnx.text.gpt2 import build_gpt2, has_ordered_merges, unsupported_token
from minigpt.targets.onnx.text.letters import LowerCase
from minigpt.targets.onnx.text.merging import PairTable, merge
from minigpt.targets.onnx.text.rows import NOTHING, CharacterIds, compact
from minigpt.targets.onnx.text.words import build_word
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.vocabulary import ESCAPE, SPACE, escaped
from minigpt.tokenizers.word import WordTokenizer

# (code points int32[B, N], UTF-8 int32[B, N, 4]) → ids int32[B, T], shorter texts padded with NOTHING, and
# their lengths int32[B].
Encoder = Callable[[Any, Any], tuple[Any, Any]]


def build_encoder(tokenizer: Tokenizer) -> Encoder:
    """Returns the tokenizer as a function; its arguments are the results of `characters`.

    Args:
      tokenizer: one without an `encoder_problem`.
    """
    encode = BUILDERS[type(tokenizer)](tokenizer)
    if not tokenizer.lowercase:
        return encode
    lower_case = LowerCase()
    return lambda code_points, utf8: encode(*lower_case.apply(code_points))


def encoder_problem(tokenizer: Tokenizer) -> str | None:
    """Returns why a tokenizer cannot be expressed in ONNX; None if it can."""
    if type(tokenizer) not in BUILDERS:
        return f"tokenizer.kind = {tokenizer.kind!r}: is not supported"
    if isinstance(tokenizer, GPT2Tokenizer) and not has_ordered_merges(tokenizer):
        return "tokenizer.kind = 'gpt2': the merges are not in the order in which they were learned"
    if isinstance(tokenizer, GPT2Tokenizer) and tokenizer.splitting != "gpt2":
        return "the tokenizer splits text as Qwen3 does: is not supported"
    if isinstance(tokenizer, GPT2Tokenizer) and (token := unsupported_token(tokenizer)):
        return f"the tokenizer has added tokens, such as {token!r}: only the end token is supported"
    return None


def _byte_pair(tokenizer: BytePairTokenizer) -> Encoder:
    ids, merges = tokenizer.vocabulary_and_merges()
    byte_ids = {byte: ids[f"<0x{byte:02X}>"] for byte in range(256)}
    # What the text contains in place of a space is U+2581, which is escaped.
    known = {
        ord(" ") if piece == SPACE else ord(piece): i
        for piece, i in ids.items()
        if len(piece) == 1 and piece != ESCAPE
    }
    known_ids = known | {ord(SPACE): NOTHING, ord(ESCAPE): NOTHING}
    escape_id = ids.get(ESCAPE, byte_ids[ord(ESCAPE)])
    sequences = {
        ord(character): [
            escape_id,
            *(known.get(ord(c), byte_ids[ord(c)]) for c in escaped(character)[1:]),
        ]
        for character in (SPACE, ESCAPE)
    }
    pairs = {
        (ids[left], ids[right]): (rank, ids[left + right])
        for rank, (left, right) in enumerate(merges)
    }
    characters = CharacterIds(known_ids, byte_ids, sequences)
    if not pairs:
        return lambda code_points, utf8: compact(characters.ids(code_points, utf8))
    table = PairTable(pairs, tokenizer.vocab_size, tokenizer.vocab_size)
    return lambda code_points, utf8: compact(
        merge(compact(characters.ids(code_points, utf8))[0], table)
    )


def _character(tokenizer: CharacterTokenizer) -> Encoder:
    first = tokenizer.byte_ids[-1] + 1
    known = {ord(character): i for i, character in enumerate(tokenizer.characters, first)}
    byte_ids = {byte: i for byte, i in enumerate(tokenizer.byte_table.tolist()) if i >= 0}
    characters = CharacterIds(known, byte_ids)
    return lambda code_points, utf8: compact(characters.ids(code_points, utf8))


BUILDERS: dict[type, Callable[[Any], Encoder]] = {
    BytePairTokenizer: _byte_pair,
    GPT2Tokenizer: build_gpt2,
    WordTokenizer: build_word,
    CharacterTokenizer: _character,
}
