"""The word tokenizer against an independent definition in plain Python."""

import unicodedata
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt.tokenizers.word import WordTokenizer

TEXT = "It's 5$ -- the end of the end, isn't it? The END."


def words_of(text):
    marked = (f" {c} " if unicodedata.category(c)[0] in "PS" else c for c in text)
    return "".join(marked).split()


def test_vocabulary_is_the_most_frequent_words_in_a_fixed_order():
    tokenizer = WordTokenizer.learn([TEXT, "end"], 8, lowercase=True)
    # end 4, the 3; of the words that occur twice, the first by code points: ' - it
    counts = Counter([*words_of(TEXT.lower()), "end"])
    assert counts.most_common(2) == [("end", 4), ("the", 3)]
    assert tokenizer.pieces == (b"", b"", b"", b"end", b"the", b"'", b"-", b"it")


@settings(deadline=None, max_examples=60)
@given(
    st.text(
        st.characters(max_codepoint=0x2FFF, exclude_categories=["Cn", "Cs"])
        | st.sampled_from(" \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u2028\u3000\u200b\u180e")
    )
)
def test_splits_like_python(text):
    words = words_of(text)
    tokenizer = WordTokenizer(sorted({word.encode() for word in words}), lowercase=False)
    ids = tokenizer.encode(text)
    assert tokenizer.unknown_id not in ids
    assert tokenizer.decode(ids) == " ".join(words)


def test_unseen_words_are_unknown_and_add_no_space():
    tokenizer = WordTokenizer.learn(["this movie is good"], 20, lowercase=True)
    ids = tokenizer.encode("This horrible movie")
    assert ids.tolist() == [tokenizer.pieces.index(b"this"), 1, tokenizer.pieces.index(b"movie")]
    assert tokenizer.decode(ids) == "this movie"
    assert tokenizer.continuation(ids[:2], ids[2:]) == " movie"
