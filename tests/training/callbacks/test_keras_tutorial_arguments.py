"""Wrong arguments of the Keras tutorial's call of `TextGenerator`, and its help."""

import pytest
from keras import layers

from minigpt import TextGenerator

VOCAB = ["", "[UNK]", "this", "movie", "is", "good", "bad", "."]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (
            (9,),
            {},
            r"TextGenerator\(max_tokens, start_tokens, index_to_word\): missing .*'start_tokens'",
        ),
        ((9, [2], VOCAB, 1, 1, 1), {}, "too many positional arguments"),
        (
            (9.5, [2], VOCAB),
            {},
            "first argument .* number of tokens.* or a tokenizer.*Received: 9.5",
        ),
        ((VOCAB,), {}, r"TextGenerator\(tokenizer, prompts\): missing"),
        ((-1, [2], VOCAB), {}, "max_tokens = -1: should be"),
        ((9, [2], VOCAB, -1), {}, "top_k = -1: should be"),
        ((9, [2], VOCAB), {"temprature": 1}, "temprature = 1: unknown setting; .*temperature"),
        ((9, [2, 8], VOCAB), {}, "`start_tokens` must have ids .* from 0 to 7. Received: 8"),
        ((9, 2.5, VOCAB), {}, "`start_tokens` must be a text, token ids,.*Received: 2.5"),
        ((9, "film", VOCAB[2:]), {}, r"`start_tokens`: 'film' is not in the vocabulary"),
        ((9, [2], "words"), {}, "`index_to_word` must be a list of words.*Received: 'words'"),
        ((9, [2], {"a": 1}), {}, "`index_to_word` .* dictionary with the entry 'a': 1"),
        ((9, [2], ["", "[UNK]"]), {}, "`index_to_word`: none of its 2 entries is a word"),
        ((9, [2], layers.TextVectorization()), {}, r"`index_to_word`: none .*adapt\(\)"),
        ((object(), [2]), {}, "`tokenizer` must be a list of words.*an object of type object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_arguments(args, kwargs, message):
    with pytest.raises(Exception, match=message) as refused:
        TextGenerator(*args, **kwargs)
    assert "\n" not in str(refused.value)
