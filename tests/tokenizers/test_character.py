"""The character tokenizer."""

from minigpt.tokenizers.character import CharacterTokenizer


def learned(*texts, vocab_size=50, lowercase=False):
    return CharacterTokenizer.learn(texts, vocab_size, lowercase)


def test_vocabulary_is_the_most_frequent_characters_then_code_point_order():
    tokenizer = learned("bcbaab", "\U0001f600 b", vocab_size=6)
    assert tokenizer.characters == ["b", "a", " ", "c"]
    first = tokenizer.vocab_size - 4
    assert tokenizer.encode("abc ").tolist() == [first + 1, first, first + 3, first + 2]


def test_ids_are_padding_end_bytes_characters():
    """256 bytes without the 13 that no text contains and the ASCII characters of the vocabulary."""
    tokenizer = learned("az", "ż")
    in_utf8 = set("".join(map(chr, range(0x800))).encode())
    in_utf8 |= {b for c in "\uffff\U00010000\U000fffff\U0010ffff" for b in c.encode()}
    in_utf8 |= set(range(0xE0, 0xF5))
    assert len(in_utf8) == 256 - 13
    expected = [bytes([b]) for b in sorted(in_utf8 - {ord("a"), ord("z")})]
    assert tokenizer.pieces == (b"", b"", *expected, b"a", b"z", "ż".encode())
    assert tokenizer.vocab_size == 2 + 256 - 13 + 1
    assert [tokenizer.piece(i) for i in (1, 2, 2 + 127)] == ["<end>", "\0", "<81>"]


def test_unseen_characters_are_bytes():
    tokenizer = learned("mn")
    for text in ("am\0n\U0010ffffo", "☃", "ż", "\x7f\x80", "\ufffd", "n\U0001f600m"):
        ids = tokenizer.encode(text).tolist()
        assert [tokenizer.pieces[i] for i in ids] == [bytes([b]) for b in text.encode()]
        assert tokenizer.decode(ids) == text
        assert tokenizer.count_unknown(text) == sum(c not in "mn" for c in text)


def test_only_bytes_of_the_text_are_drawn():
    tokenizer = learned("aaabbb東c", vocab_size=4)
    assert tokenizer.characters == ["a", "b"]
    trained = {tokenizer.byte_table[b] for b in "東c".encode()}
    assert set(tokenizer.never_sampled_ids) == {0, *tokenizer.byte_ids} - trained
    assert learned("aaabbb東c").never_sampled_ids == (0, *learned("aaabbb東c").byte_ids)
    assert all(i >= 0 for i in trained)


def test_lower_casing_comes_first():
    tokenizer = learned("ABÉ", lowercase=True)
    assert tokenizer.characters == ["a", "b", "é"]
    assert tokenizer.decode(tokenizer.encode("aBbAéÜ東")) == "abbaéü東"
    assert tokenizer.count_unknown("AÜ東") == 2
