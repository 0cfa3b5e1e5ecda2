"""The layers against two Keras examples, written here with Keras' own layers.

"Text generation with a miniature GPT" (docs/systems.md, S1), and "Text classification with Transformer",
whose block has no mask.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

from minigpt.layers import TokenAndPositionEmbedding, TransformerBlock

SIZES = {"max_len": 8, "vocab_size": 13, "embed_dim": 6, "num_heads": 2, "ff_dim": 10}


class ExampleEmbedding(layers.Layer):
    """Token vectors plus position vectors."""

    def __init__(self, max_len, vocab_size, embed_dim):
        super().__init__()
        self.tokens = layers.Embedding(vocab_size, embed_dim)
        self.positions = layers.Embedding(max_len, embed_dim)

    def call(self, ids):
        return self.tokens(ids) + self.positions(ops.arange(ops.shape(ids)[-1]))


class ExampleBlock(layers.Layer):
    """Attention and a feed-forward network, each with dropout, a shortcut and a norm of the sum."""

    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1, causal=True):
        super().__init__()
        self.attention = layers.MultiHeadAttention(num_heads, key_dim=embed_dim)
        self.expand = layers.Dense(ff_dim, activation="relu")
        self.contract = layers.Dense(embed_dim)
        self.norm1 = layers.LayerNormalization(epsilon=1e-6)
        self.norm2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout1, self.dropout2 = layers.Dropout(rate), layers.Dropout(rate)
        self.causal = causal

    def call(self, x):
        attended = self.attention(x, x, use_causal_mask=self.causal)
        x = self.norm1(x + self.dropout1(attended))
        return self.norm2(x + self.dropout2(self.contract(self.expand(x))))


def build(embedding_class, block_class, causal=True, **sizes) -> keras.Model:
    """The model of the example: ids → logits and the output of the block."""
    vocab_size, embed_dim = sizes["vocab_size"], sizes["embed_dim"]
    inputs = keras.Input((sizes["max_len"],), dtype="int32")
    x = embedding_class(sizes["max_len"], vocab_size, embed_dim)(inputs)
    x = block_class(embed_dim, sizes["num_heads"], sizes["ff_dim"], 0.1, causal=causal)(x)
    return keras.Model(inputs, [layers.Dense(vocab_size)(x), x])


def by_name(arrays: list) -> dict[str, np.ndarray]:
    """Returns weights of the example, or their gradients, by name."""
    names = ["tokens", "positions"]
    names += [f"{part}{of}" for part in ("query", "key", "value", "output") for of in ("", "_bias")]
    names += [f"{part}{of}" for part in ("expand", "contract") for of in ("", "_bias")]
    names += ["gain1", "bias1", "gain2", "bias2", "head", "head_bias"]
    return dict(
        zip(names, map(ops.convert_to_numpy, map(tf.convert_to_tensor, arrays)), strict=True)
    )


def in_our_order(arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Returns arrays of the example in the order and with the shapes of our weights."""
    width = arrays["tokens"].shape[1]
    kernels = [arrays[part].reshape(width, -1) for part in ("query", "key", "value")]
    biases = [arrays[f"{part}_bias"].ravel() for part in ("query", "key", "value")]
    return [
        arrays["tokens"],
        arrays["positions"],
        np.concatenate(kernels, 1),
        np.concatenate(biases),
        arrays["output"].reshape(-1, width),
        *(
            arrays[name]
            for name in (
                "output_bias",
                *("expand", "expand_bias", "contract", "contract_bias"),
                *("gain1", "bias1", "gain2", "bias2", "head", "head_bias"),
            )
        ),
    ]


def our_weights(model: keras.Model) -> list:
    _, embedding, block, head = model.layers
    attention = block.attention
    return [
        embedding.token_embedding.embeddings,
        embedding.position_table,
        *(attention.qkv.kernel, attention.qkv.bias),
        *(attention.output_projection.kernel, attention.output_projection.bias),
        *(block.expand.kernel, block.expand.bias, block.contract.kernel, block.contract.bias),
        *(block.norm1.gamma, block.norm1.beta, block.norm2.gamma, block.norm2.beta),
        *(head.kernel, head.bias),
    ]


def example_weights(model: keras.Model) -> list:
    _, embedding, block, head = model.layers
    attention = [w for w in block.attention.weights if "seed" not in w.path]
    assert [w.path.split("/")[-2] for w in attention[::2]] == [
        "query",
        "key",
        "value",
        "attention_output",
    ]
    return [
        embedding.tokens.embeddings,
        embedding.positions.embeddings,
        *attention,
        *(block.expand.kernel, block.expand.bias, block.contract.kernel, block.contract.bias),
        *(block.norm1.gamma, block.norm1.beta, block.norm2.gamma, block.norm2.beta),
        *(head.kernel, head.bias),
    ]


@pytest.mark.parametrize(("causal", "heads"), [(True, 2), (False, 4)])
def test_outputs_and_gradients_equal_those_of_the_example(causal, heads):
    sizes = {**SIZES, "num_heads": heads}
    ours = build(TokenAndPositionEmbedding, TransformerBlock, causal, **sizes)
    theirs = build(ExampleEmbedding, ExampleBlock, causal, **sizes)
    assert ours.count_params() == theirs.count_params()
    draw = np.random.default_rng(0)
    for weight in example_weights(theirs):
        weight.assign(draw.normal(size=weight.shape, scale=0.5))
    copied = in_our_order(by_name(example_weights(theirs)))
    for weight, value in zip(our_weights(ours), copied, strict=True):
        weight.assign(value)

    ids, targets = draw.integers(0, 13, (2, 5, 8)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    results, gradients = [], []
    for model, weights in ((ours, our_weights(ours)), (theirs, example_weights(theirs))):
        with tf.GradientTape() as tape:
            logits, latents = model(ids)
            value = loss(targets, logits)
        results.append((logits, latents, value))
        gradients.append(tape.gradient(value, [w.value for w in weights]))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    expected = in_our_order(by_name(gradients[1]))
    for found, right in zip(gradients[0], expected, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(found), right, atol=1e-5)


def test_the_sizes_of_the_example():
    block = TransformerBlock(256, 2, 256)
    block.build((None, None, 256))
    assert block.count_params() == 658_688
    assert TransformerBlock(32, 3, 64).config.head_dim == 32
