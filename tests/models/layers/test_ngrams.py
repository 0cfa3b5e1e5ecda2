"""The convolution and the embeddings of n-grams, against loops over the tokens; value residuals."""

import numpy as np
import pytest

from minigpt.config import GPTConfig
from minigpt.models import GPT
from minigpt.models.layers.ngrams import CausalConvolution, NGramEmbedding
from minigpt.models.lora import enable_lora

draw = np.random.default_rng(0)


def test_a_convolution_adds_weighted_vectors_of_the_tokens_before():
    layer = CausalConvolution(3)
    layer.build((None, None, 5))
    kernel, x = draw.normal(size=(3, 5)), draw.normal(size=(2, 6, 5)).astype("float32")
    assert not layer.kernel.numpy().any()
    layer.kernel.assign(kernel)
    expected = [
        [row[t] + sum(kernel[k] * row[t - k] for k in range(3) if t >= k) for t in range(6)]
        for row in x
    ]
    np.testing.assert_allclose(layer(x)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("rows", "vocab_size"), [(16, 7), (2**15, 2**24 - 2)])
def test_the_row_of_an_ngram_depends_on_all_its_tokens_and_on_nothing_before(rows, vocab_size):
    """Python's integers do not overflow."""
    orders = [2, 3, 5]
    layer = NGramEmbedding(orders, rows, 4)
    layer.build((None, None))
    table = draw.normal(size=(3 * rows, 4)).astype("float32")
    layer.table.assign(table)
    ids = np.array([[0, vocab_size - 1, *draw.integers(0, vocab_size, 6)]] * 2, "int32")
    ids[1] = ids[1][::-1]
    multiplier = int(rows * 0.6180339887) | 1
    expected = np.zeros((2, 8, 4))
    for b, t in np.ndindex(2, 8):
        for place, order in enumerate(orders):
            if t + 1 >= order:
                hashed = 0
                for token in ids[b, t + 1 - order : t + 1].tolist():
                    hashed = (hashed * multiplier + token) % rows
                expected[b, t] += table[place * rows + hashed]
    np.testing.assert_allclose(layer(ids)[0], expected, rtol=1e-5, atol=1e-6)


def test_values_are_mixed_with_those_of_the_first_block():
    model = GPT(GPTConfig(max_len=6, embed_dim=8, num_layers=3, value_residual=True), 9)
    mixes = [weight for weight in model.weights if "value_mix" in weight.path]
    assert [float(mix.numpy()) for mix in mixes] == [0.5, 0.5]
    model.set_weights([w + draw.normal(0, 0.3, w.shape) for w in model.get_weights()])
    ids = draw.integers(0, 9, (2, 6))
    for mix in mixes:
        mix.assign(0.0)
    plain = GPT(GPTConfig(max_len=6, embed_dim=8, num_layers=3), 9)
    plain.set_weights([w.numpy() for w in model.weights if "value_mix" not in w.path])
    np.testing.assert_allclose(model(ids), plain(ids), rtol=1e-5, atol=1e-5)
    # With a weight of 1, the values of a block are those of the first: its own kernel has no effect.
    mixes[-1].assign(1.0)
    with_first = model(ids).numpy()
    assert np.abs(with_first - plain(ids)).max() > 1e-3
    kernel = model.blocks[-1].attention.qkv.kernel
    changed = kernel.numpy()
    changed[:, -8:] += 1.0
    kernel.assign(changed)
    np.testing.assert_allclose(model(ids), with_first, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_ids_in_a_cache_stay_exact_in_mixed_precision(precision):
    """The row of an n-gram depends on ids that bfloat16 would round."""
    model = GPT(
        GPTConfig(max_len=8, embed_dim=8, ngrams=[2, 3], convolution=4), 999, dtype=precision
    )
    model.ngram_embedding.table.assign(draw.normal(size=model.ngram_embedding.table.shape))
    ids = draw.integers(500, 999, (2, 8)).astype("int32")
    full, _ = model.ngram_embedding(ids)
    _, caches = model.call_with_cache(ids[:, :5], model.empty_caches(2), np.zeros(2, "int32"))
    for t in range(5, 8):
        index = np.full(2, t, "int32")
        step, _ = model.ngram_embedding(ids[:, t : t + 1], caches[0], index)
        np.testing.assert_array_equal(step[:, 0], full[:, t])
        _, caches = model.call_with_cache(ids[:, t : t + 1], caches, index)


def test_lora_trains_no_part_of_them():
    additions = {"value_residual": True, "convolution": 4, "ngrams": [2]}
    model = GPT(GPTConfig(max_len=8, embed_dim=8, num_layers=2, **additions), 9)
    enable_lora(model, 2)
    assert {weight.name for weight in model.trainable_weights} == {
        "lora_kernel_a",
        "lora_kernel_b",
    }
