"""Byte-pair encoding against the rule of systems.md, S4."""

import itertools
from collections import Counter

from minigpt.tokenizers.byte_pair import BASE_SIZE, BytePairTokenizer


def naive_merges(words, limit):
    """Merges the most frequent pair, until there are `limit` merges or no pair repeats."""
    sequences, merges = [list(word) for word in words], []
    while len(merges) < limit:
        pairs = Counter(pair for s in sequences for pair in itertools.pairwise(s))
        ranked = pairs.most_common(2)
        if not ranked or ranked[0][1] < 2:
            break
        assert len(ranked) == 1 or ranked[0][1] > ranked[1][1], "the text should have no ties"
        (left, right), _ = ranked[0]
        merges.append(left + right)
        for s in sequences:
            for i in range(len(s) - 1, 0, -1):
                if s[i - 1 : i + 1] == [left, right]:
                    s[i - 1 : i + 1] = [left + right]
    return merges, sequences


# ab 17, abc 15, abcd 11, ef 6, ...: every count differs from every other.
WORDS = ["abcd"] * 11 + ["abc"] * 4 + ["ab"] * 2 + ["efg"] * 5 + ["ef"] * 3 + ["gh"] * 3
ONCE = ["xy", "zxw"]


def merges_of(tokenizer):
    return [piece.decode() for piece in tokenizer.pieces[BASE_SIZE:] if len(piece) > 1]


def test_stops_when_no_pair_repeats():
    words = WORDS + ONCE
    expected, sequences = naive_merges(words, 1000)
    tokenizer = BytePairTokenizer.learn(["\n".join(words)], 5000, False)
    assert merges_of(tokenizer) == expected
    assert tokenizer.vocab_size == BASE_SIZE + len(expected) + len({*"".join(words), " "})
    for word, symbols in zip(words, sequences, strict=True):
        assert [tokenizer.pieces[i].decode() for i in tokenizer.encode(word)] == symbols


def test_a_space_belongs_to_the_next_word_and_runs_of_spaces_are_pieces():
    tokenizer = BytePairTokenizer.learn(["    if    if    if\n" * 9], 5000, False)
    pieces = [tokenizer.pieces[i] for i in tokenizer.encode("if    if\n")]
    assert b"".join(pieces) == b"if    if\n"
    assert b"    " in tokenizer.pieces and pieces[-1] == b"\n"


TRAINED = BytePairTokenizer.learn(
    ["\x10 \x10a \u2581 \u2581b \x10b <0x41> é é the the " * 20], 400, False
)


def test_an_incomplete_escape_sequence_is_left_out():
    escape, a, b = (2 + byte for byte in b"\x10ab")
    assert TRAINED.decode([a, escape]) == "a"
    assert TRAINED.continuation([a, escape], [b]) == "\u2581"
    assert TRAINED.continuation([a, escape], [a, b]) == "\x10b"


def test_learning_skips_no_text():
    """Long lines, tabs and sentencepiece's reserved character, each next to a different pair."""
    text = "\u2585!?\u2585!?\u2585qj\u2585qj\tvk\tvk\0zx\0zx" + "n" * 9_000 + " mw" * 3
    tokenizer = BytePairTokenizer.learn([text], 5000, False)
    for pair in (b"!?", b"qj", b"vk", b"zx", b"nn", b" mw"):
        assert pair in tokenizer.pieces


def test_pairs_of_letters_of_two_scripts_are_merged_too():
    assert "aб".encode() in BytePairTokenizer.learn(["aб aб aб"], 300, False).pieces


def test_rare_characters_leave_capacity_for_merges():
    text = "".join(map(chr, range(0x4E00, 0x4F00))) + "abab " * 40
    tokenizer = BytePairTokenizer.learn([text], BASE_SIZE + 20, False)
    assert tokenizer.vocab_size <= BASE_SIZE + 20
    assert b"abab" in tokenizer.pieces
    assert tokenizer.decode(tokenizer.encode(text)) == text
    # A word that repeats counts as often, with capacity for three and for five characters.
    text = "qj " * 50 + "".join(f"ab{chr(0x4E00 + i)} " for i in range(10))
    for size in (BASE_SIZE + 6, BASE_SIZE + 10):
        assert BytePairTokenizer.learn([text], size, False).pieces[BASE_SIZE] == b"qj"


def test_letters_never_merge_with_what_follows_them():
    """Otherwise a prompt that ends with a word would differ from the training text."""
    text = 'She said, "Wait, 3 more!" and didn\'t go.\n'
    tokenizer = BytePairTokenizer.learn([text * 50], 400, False)
    pieces = [tokenizer.pieces[i].decode() for i in tokenizer.encode(text)]
    expected = ["She", " said", ",", ' "', "Wait", ",", " 3", " more", '!"', " and", " didn", "'t"]
    assert pieces == [*expected, " go", ".", "\n"]


def test_marks_stay_with_their_letters():
    text = "\u0939\u093f\u0928\u094d\u0926\u0940 " * 20
    tokenizer = BytePairTokenizer.learn([text], 400, False)
    assert text.rstrip(" ").split(" ")[0].encode() in tokenizer.pieces
