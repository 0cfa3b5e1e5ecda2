"""The character tokenizer."""

from minigpt.tokenizers.character import CharacterTokenizer


def test_vocabulary_is_the_most_frequent_characters_then_code_point_order():
    tokenizer = CharacterTokenizer.learn(["bcbaab", "\U0001f600 b"], 7, lowercase=False)
    assert tokenizer.pieces == (b"", b"", b"", b"b", b"a", b" ", b"c")
    assert tokenizer.encode("abc \U0001f600").tolist() == [4, 3, 6, 5, 1]


def test_unseen_characters_are_unknown():
    tokenizer = CharacterTokenizer.learn(["mn"], 50, lowercase=False)
    assert tokenizer.vocab_size == 5
    assert tokenizer.encode("am\0n\U0010ffffo").tolist() == [1, 3, 1, 4, 1, 1]
    assert tokenizer.decode(tokenizer.encode("amzn")) == "mn"


def test_without_any_text_everything_is_unknown():
    tokenizer = CharacterTokenizer.learn([], 50, lowercase=False)
    assert tokenizer.vocab_size == 3
    assert tokenizer.encode("\0a").tolist() == [1, 1]


def test_lower_casing_comes_first():
    tokenizer = CharacterTokenizer.learn(["ABÉ"], 50, lowercase=True)
    assert tokenizer.vocab_size == 6
    assert tokenizer.decode(tokenizer.encode("aBbAé")) == "abbaé"
