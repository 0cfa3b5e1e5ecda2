"""Tokenizers as functions from characters to token ids, one builder for each kind; byte-pair merging."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.targets.onnx.text.rows import (
    NOTHING,
    CharacterIds,
    CodePointTable,
    LowerCase,
    compact,
    flat,
    members,
    shifted,
    utf8_ids,
)
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.gpt2_files import token_bytes
from minigpt.tokenizers.splitting import WHITE_SPACE
from minigpt.tokenizers.unicode_tables import ranges
from minigpt.tokenizers.vocabulary import ESCAPE, SPACE, escaped
from minigpt.tokenizers.word import SPECIAL_TOKENS, WordTokenizer
from minigpt.tokenizers.word import WHITE_SPACE as WORD_SPACE

# Code points int32[B, N] → ids int32[B, T]; shorter texts are padded with NOTHING.
Encoder = Callable[[Any], Any]
# The rank of pairs that do not merge.
NO_RANK = np.iinfo(np.int32).max
# Places that `PairTable` tries for a row: one after the other at first; in all before the table grows.
_NEAR, _TRIES = 64, 4096
# The classes of characters in GPT-2's pattern; padding is white space.
_SPACE, _LETTER, _NUMBER, _SIGN = range(4)
_CONTRACTIONS = ("s", "t", "m", "d", "re", "ve", "ll")
# White space of the word tokenizer; \p{Z} is the last part.
_WORD_SPACES = [(0x09, 0x0D), (0x1C, 0x1F), (0x85, 0x85)]
_WORD_SPACES += [(c, c) for c in range(0x3001) if chr(c).isspace() and c > 0x85]
_WORD_SPACES += [(0x20, 0x20)]


def build_encoder(tokenizer: Tokenizer) -> Encoder:
    """Returns the tokenizer as a function of the result of `characters`.

    Args:
      tokenizer: one without an `encoder_problem`.
    """
    encode = BUILDERS[type(tokenizer)](tokenizer)
    if not tokenizer.lowercase:
        return encode
    lower_case = LowerCase()
    return lambda code_points: encode(lower_case.apply(code_points))


def encoder_problem(tokenizer: Tokenizer) -> str | None:
    """Returns why a tokenizer cannot be expressed in ONNX; None if it can."""
    if type(tokenizer) not in BUILDERS:
        return f"tokenizer.kind = {tokenizer.kind!r}: is not supported"
    if not isinstance(tokenizer, GPT2Tokenizer):
        return None
    if not _has_ordered_merges(tokenizer):
        return "tokenizer.kind = 'gpt2': the merges are not in the order in which they were learned"
    if tokenizer.splitting != "gpt2":
        return "the tokenizer splits text as Qwen3 does: is not supported"
    if token := _unsupported_token(tokenizer):
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
    table = PairTable(pairs, tokenizer.vocab_size)
    return lambda code_points: merge(characters.ids(code_points), table)


def _character(tokenizer: CharacterTokenizer) -> Encoder:
    first = tokenizer.byte_ids[-1] + 1
    known = {ord(character): i for i, character in enumerate(tokenizer.characters, first)}
    byte_ids = {byte: i for byte, i in enumerate(tokenizer.byte_table.tolist()) if i >= 0}
    return CharacterIds(known, byte_ids).ids


def _word(tokenizer: WordTokenizer) -> Encoder:
    """The characters of a word are merged from left to right: each result is the beginning of a word."""
    assert WORD_SPACE == r"[\t-\r\x1c-\x1f\x{85}\p{Z}]+"
    spaces = members(_WORD_SPACES)
    marks = members(ranges("P", "S"))
    words = [piece.decode() for piece in tokenizer.pieces[SPECIAL_TOKENS:]]
    letters = {c: i for i, c in enumerate(sorted({c for word in words for c in word}))}
    unknown_letter, no_word = len(letters), len(letters) + 1
    # Beginnings of words have higher numbers than letters.
    beginnings = {"": no_word}
    pairs = {}
    for word in words:
        for end in range(1, len(word) + 1):
            number = beginnings.setdefault(word[:end], no_word + len(beginnings))
            if end > 1:
                pairs[beginnings[word[: end - 1]], letters[word[end - 1]]] = (0, number)
    table = PairTable(pairs, no_word + len(beginnings))
    ids = np.full(len(beginnings), tokenizer.unknown_id, np.int32)
    for i, word in enumerate(words, SPECIAL_TOKENS):
        ids[beginnings[word] - no_word] = i
    first = CodePointTable({ord(c): i for c, i in beginnings.items() if len(c) == 1})
    later = CodePointTable({ord(c): i for c, i in letters.items()})

    def encode(code_points: Any) -> Any:
        is_mark = marks.look_up(code_points) == 1
        is_letter = ~is_mark & (spaces.look_up(code_points) != 1) & (code_points != NOTHING)
        starts = is_mark | (is_letter & ~_shifted_flags(is_letter, -1))
        letter = later.look_up(code_points)
        letter = tf.where(letter == NOTHING, unknown_letter, letter)
        symbols = tf.where(is_letter, letter, NOTHING)
        symbols = tf.where(starts, tf.maximum(first.look_up(code_points), no_word), symbols)
        merged = merge(compact(symbols), table)
        # A letter that is left is behind the beginning of no word.
        behind = shifted(merged, 1)
        is_whole = (behind == NOTHING) | (behind >= no_word)
        found = tf.gather(tf.constant(ids), tf.maximum(merged - no_word, 0))
        found = tf.where(is_whole, found, tokenizer.unknown_id)
        return compact(tf.where(merged >= no_word, found, NOTHING))

    return encode


def _gpt2(tokenizer: GPT2Tokenizer) -> Encoder:
    ids = {tokenizer.pieces[i]: i for i in tokenizer.encoder.values()}
    byte_ids = np.array([ids[bytes([byte])] for byte in range(256)], np.int32)
    pairs = {}
    for rank, merged in enumerate(tokenizer.merges):
        left, right = map(token_bytes, merged)
        pairs[ids[left], ids[right]] = (rank, ids[left + right])
    # Between two words is an id that does not merge.
    boundary = tokenizer.vocab_size
    table = PairTable(pairs, boundary + 1)
    classes = [members(ranges("L")), members(ranges("N")), members(WHITE_SPACE)]

    def encode(code_points: Any) -> Any:
        code_points, ends = _without_end_tokens(tokenizer, code_points)
        letter, number, space = (each.look_up(code_points) == 1 for each in classes)
        kinds = tf.where(letter, _LETTER, tf.where(number, _NUMBER, _SIGN))
        kinds = tf.where(space | (code_points == NOTHING), _SPACE, kinds)
        starts = tf.where(_word_starts(code_points, kinds), boundary, NOTHING)
        data = utf8_ids(code_points, byte_ids)
        symbols = compact(flat(tf.concat([starts[:, :, None], ends, data], axis=2)))
        found = merge(symbols, table)
        return compact(tf.where(found == boundary, NOTHING, found))

    return encode


def _has_ordered_merges(tokenizer: GPT2Tokenizer) -> bool:
    """Returns whether every merge is of tokens that earlier merges make, as in a learned vocabulary."""
    rank = {left + right: i for i, (left, right) in enumerate(tokenizer.merges)}
    return all(rank.get(part, -1) < i for i, pair in enumerate(tokenizer.merges) for part in pair)


def _unsupported_token(tokenizer: GPT2Tokenizer) -> str | None:
    """Returns the text of an added token that the graph cannot find; None if there is none.

    The graph finds the end token, if no two occurrences of its text can overlap.
    """
    for token in tokenizer.added:
        text = token.content
        overlaps = any(text.startswith(text[i:]) for i in range(1, len(text)))
        flags = token.single_word or token.lstrip or token.rstrip
        if token.id != tokenizer.end_id or flags or overlaps:
            return text
    return None


def _without_end_tokens(tokenizer: GPT2Tokenizer, code_points: Any) -> tuple[Any, Any]:
    """Returns the code points with padding in place of end tokens, and their ids, int32[B, N, A]."""
    columns = []
    for token in tokenizer.added:
        found = tf.fill(tf.shape(code_points), True)
        for place, character in enumerate(token.content):
            found &= shifted(code_points, place) == ord(character)
        columns.append(tf.where(found, token.id, NOTHING))
        for place in range(len(token.content)):
            code_points = tf.where(_shifted_flags(found, -place), NOTHING, code_points)
    ids = tf.stack(columns, axis=2) if columns else code_points[:, :, None][:, :, :0]
    return code_points, ids


def _word_starts(code_points: Any, kinds: Any) -> Any:
    r"""Returns bool[B, N], whether a word begins at each character.

    The published pattern, 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+, cuts
    a text where the class of the characters changes. A space belongs to the word behind it. Of several
    white spaces before a word, the last one is cut off. A contraction begins where a word would begin.
    """
    before, after = shifted(kinds, -1), shifted(kinds, 1, _SPACE)
    is_space = kinds == _SPACE
    ends_space = is_space & (after != _SPACE)
    joins_next = ends_space & (code_points == ord(" "))
    starts = tf.where(is_space, ends_space | (before != _SPACE), before != kinds)
    starts &= is_space | ~_shifted_flags(joins_next, -1)
    apostrophe = starts & (code_points == ord("'"))
    for letters in _CONTRACTIONS:
        found = apostrophe
        for place, letter in enumerate(letters, 1):
            found &= shifted(code_points, place) == ord(letter)
        starts &= ~_shifted_flags(found, -1)
        starts |= _shifted_flags(found, -1 - len(letters))
    return starts & (code_points != NOTHING)


def _shifted_flags(flags: Any, offset: int) -> Any:
    return shifted(tf.cast(flags, tf.int32), offset, 0) == 1


class PairTable:
    """The rank and the result of every merge.

    The pairs are in one array, at the offset of the left token plus the right token. Offsets are chosen so
    that no two pairs have one place (Tarjan and Yao 1979, "Storing a sparse table": row displacement).

    Args:
      merges: (left id, right id) → (rank, merged id).
      width: the number of possible ids.
    """

    def __init__(self, merges: Mapping[tuple[int, int], tuple[int, int]], width: int) -> None:
        rights: dict[int, list[int]] = defaultdict(list)
        for left, right in merges:
            rights[left].append(right)
        self._offsets = np.zeros(width, np.int32)
        used = np.zeros(2 * len(merges) + 2 * width, bool)
        draw, first_free = np.random.default_rng(0), 0
        for left, row in sorted(rights.items(), key=lambda item: (-len(item[1]), item[0])):
            columns = np.array(row)
            offset, tries = max(0, first_free - int(columns.min())), 0
            while used[offset + columns].any():
                tries += 1
                # If most places are taken, searching for the first free ones takes too long.
                offset = offset + 1 if tries < _NEAR else int(draw.integers(len(used) - width))
                if tries % _TRIES == 0 or offset + width > len(used):
                    used = np.concatenate([used, np.zeros(len(used), bool)])
            used[offset + columns] = True
            self._offsets[left] = offset
            while used[first_free]:
                first_free += 1
        size = int(self._offsets.max()) + width
        self._lefts = np.full(size, NOTHING, np.int32)
        self._ranks, self._results = np.zeros(size, np.int32), np.zeros(size, np.int32)
        for (left, right), (rank, result) in merges.items():
            place = self._offsets[left] + right
            self._lefts[place], self._ranks[place], self._results[place] = left, rank, result

    def look_up(self, lefts: Any, rights: Any) -> tuple[Any, Any]:
        """Returns ranks and results of pairs int32[B, N]; rank NO_RANK for those that do not merge."""
        exists = (lefts >= 0) & (rights >= 0)
        known = tf.maximum(lefts, 0)
        places = tf.gather(tf.constant(self._offsets), known) + tf.maximum(rights, 0)
        exists &= tf.equal(tf.gather(tf.constant(self._lefts), places), known)
        ranks = tf.where(exists, tf.gather(tf.constant(self._ranks), places), NO_RANK)
        return ranks, tf.gather(tf.constant(self._results), places)


def merge(ids: Any, table: PairTable) -> Any:
    """Merges neighbors in the order of their ranks, equal ones from left to right.

    Args:
      ids: int32[B, N], NOTHING at the ends of shorter rows.
      table: the merges. The result of one has only higher ranks than it with its neighbors.
    Returns:
      int32[B, M], M ≤ N.
    """

    def best(ids: Any) -> tuple[Any, Any]:
        after = shifted(ids, 1)
        ranks, results = table.look_up(ids, after)
        # A row without pairs has NO_RANK everywhere.
        lowest = tf.reduce_min(ranks, axis=1, keepdims=True)
        is_best = tf.equal(ranks, lowest) & (ranks < NO_RANK)
        # In "a a a", only the first pair is merged in this pass.
        is_first = tf.equal(tf.cumsum(tf.cast(is_best, tf.int32), axis=1), 1)
        return is_best & (is_first | tf.not_equal(ids, after)), results

    def merge_best(ids: Any, chosen: Any, results: Any) -> tuple[Any, Any, Any]:
        is_second = tf.pad(chosen[:, :-1], [[0, 0], [1, 0]])
        ids = compact(tf.where(is_second, NOTHING, tf.where(chosen, results, ids)))
        return ids, *best(ids)

    if_empty = tf.pad(ids, [[0, 0], [0, 1]], constant_values=NOTHING)
    any_width = tf.TensorShape([None, None])
    found, _, _ = tf.while_loop(
        lambda ids, chosen, results: tf.reduce_any(chosen),
        merge_best,
        (if_empty, *best(if_empty)),
        shape_invariants=(any_width,) * 3,
    )
    return compact(found)


BUILDERS: dict[type, Callable[[Any], Encoder]] = {
    BytePairTokenizer: _byte_pair,
    GPT2Tokenizer: _gpt2,
    WordTokenizer: _word,
    CharacterTokenizer: _character,
}
