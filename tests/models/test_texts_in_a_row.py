"""Several texts in one row of a batch: the outputs are those of each text alone."""

import keras
import numpy as np
import pytest

from minigpt.models import GPT

SIZES = {"max_len": 16, "embed_dim": 16, "num_heads": 2, "ff_dim": 16, "num_layers": 2}


@pytest.mark.parametrize(
    "parts",
    [
        {"block": "pre_norm", "position": "learned"},
        {"block": "post_norm", "position": "sinusoidal"},
        {"block": "modern", "num_kv_heads": 1},
        {"block": "modern", "convolution": 3, "value_residual": True},
        {"block": "modern", "ngrams": [2, 3], "ngram_rows": 64},
    ],
    ids=["learned", "sinusoidal", "rotary", "convolution", "ngrams"],
)
def test_texts_in_one_row_do_not_see_each_other(parts):
    model = GPT(vocab_size=11, **SIZES, **parts)
    draw = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(draw.normal(size=weight.shape, scale=0.3))
    texts = [draw.integers(0, 11, (1, size)).astype("int32") for size in (5, 7, 4)]
    row = np.concatenate(texts, axis=1)
    starts = np.repeat([0, 5, 12], [5, 7, 4])[None].astype("int32")
    together = keras.ops.convert_to_numpy(model((row, starts)))
    alone = np.concatenate([model(text) for text in texts], axis=1)
    np.testing.assert_allclose(together, alone, atol=2e-6)
    # Without the starts, the second text sees the first one.
    assert np.abs(keras.ops.convert_to_numpy(model(row)) - alone)[:, 5:].max() > 1e-2
