"""Wrong arguments of the Keras tutorial's call of `TextGenerator`."""

import pytest
from keras import layers

from minigpt import TextGenerator

VOCAB = ["", "[UNK]", "this", "movie", "is", "good", "bad", "."]


# What the line names.
@pytest.mark.parametrize(
    ("args", "kwargs", "named"),
    [
        ((9,), {}, "start_tokens"),
        ((VOCAB,), {}, "prompts"),
        ((9, [2], VOCAB, 1, 1, 1), {}, "positional"),
        ((9.5, [2], VOCAB), {}, "9.5"),
        ((-1, [2], VOCAB), {}, "tokens = -1"),
        ((9, [2], VOCAB), {"temprature": 1}, "temprature = 1"),
        ((9, [2, 8], VOCAB), {}, "start_tokens"),
        ((9, 2.5, VOCAB), {}, "start_tokens"),
        ((9, "film", VOCAB[2:]), {}, "start_tokens"),
        ((9, [2], {"a": 1}), {}, "index_to_word"),
        ((9, [2], layers.TextVectorization()), {}, "index_to_word"),
        ((object(), [2]), {}, "tokenizer"),
    ],
)
def test_wrong_arguments(args, kwargs, named):
    with pytest.raises(Exception, match=named) as refused:
        TextGenerator(*args, **kwargs)
    assert "\n" not in str(refused.value)
