"""Masks that earlier Keras layers compute: padding changes nothing; and inputs of a wrong shape."""

import warnings

import keras
import numpy as np
import pytest

from minigpt.layers import (
    ModernTransformerBlock,
    TransformerBlock,
)
from minigpt.models.layers.attention import CausalSelfAttention, SelfAttention
from tests.models.layers.test_attention import keras_attention, with_random_weights

PADDED = np.array([[3, 1, 4, 0, 0], [2, 7, 1, 8, 2], [5, 0, 0, 0, 0]])


def embedding() -> keras.layers.Embedding:
    return keras.layers.Embedding(9, 8, mask_zero=True, embeddings_initializer="normal")


@pytest.mark.parametrize("kind", [SelfAttention, CausalSelfAttention])
def test_attention_with_a_mask_equals_that_of_keras(kind):
    ours = kind(num_heads=2, head_dim=4)
    ours.build((None, None, 8))
    theirs = keras_attention(with_random_weights(ours), 8)
    for ids in (PADDED, PADDED[:, ::-1]):
        x, mask = embedding()(ids), ids != 0
        plain = np.asarray(x)
        expected = theirs(
            *(plain, plain),
            attention_mask=mask[:, None, :],
            use_causal_mask=kind is CausalSelfAttention,
        )
        for given in (ours(x), ours(plain, mask=mask)):
            np.testing.assert_allclose(
                np.asarray(given)[mask], np.asarray(expected)[mask], atol=1e-5
            )


@pytest.mark.parametrize(
    ("kind", "causal", "position"),
    [(TransformerBlock, False, "learned"), (ModernTransformerBlock, True, "rotary")],
)
def test_a_padded_text_gives_what_it_gives_alone(kind, causal, position, tmp_path):
    ids = keras.Input((None,), dtype="int32")
    block = kind(8, 2, 12, causal=causal, head_dim=4, position=position)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The pooling averages over the tokens that are not masked.
        pooled = keras.layers.GlobalAveragePooling1D()(block(embedding()(ids)))
        model = keras.Model(ids, pooled)
    model.save(tmp_path / "model.keras")
    for tested in (model, keras.models.load_model(tmp_path / "model.keras")):
        alone = [np.asarray(tested(row[row != 0][None]))[0] for row in PADDED]
        np.testing.assert_allclose(np.asarray(tested(PADDED)), alone, atol=1e-5)
        # Padding before the text.
        np.testing.assert_allclose(
            np.asarray(tested(PADDED[:, ::-1])),
            [np.asarray(tested(row[row != 0][None, ::-1]))[0] for row in PADDED],
            atol=1e-5,
        )


@pytest.mark.parametrize("causal", [True, False])
def test_a_text_of_padding_only_has_finite_outputs(causal):
    block = TransformerBlock(8, 2, 12, causal=causal)
    assert np.isfinite(np.asarray(block(embedding()(np.zeros((2, 3), "int32"))))).all()
