"""The encoder-decoder."""

import keras
import numpy as np
import pytest

from minigpt.config import EncoderDecoderConfig, TransformerConfig, load_config
from minigpt.models import EncoderDecoder, build_model
from minigpt.training.optimizers import learning_rate

VOCAB_SIZE = 13
KINDS = [
    {"position": "sinusoidal", "scale_embeddings": True},
    {"position": "learned", "tie_embeddings": False, "value_dim": 6, "qkv_bias": False},
    {"block": "pre_norm", "position": "rotary"},
    {"block": "modern", "num_kv_heads": 1},
]


def small_model(seed: int = 0, **changes) -> EncoderDecoder:
    """Returns a model whose logits differ clearly between tokens."""
    sizes = {"max_len": 8, "embed_dim": 8, "num_heads": 2, "num_layers": 2, "dropout_rate": 0.1}
    config = EncoderDecoderConfig(**{**sizes, **changes})
    model = build_model(config, VOCAB_SIZE)
    draw = np.random.default_rng(seed)
    model.set_weights([w + draw.normal(size=w.shape, scale=0.3) for w in model.get_weights()])
    return model


@pytest.fixture(params=KINDS[1:], ids=lambda kind: "-".join(map(str, kind.values())))
def model(request) -> EncoderDecoder:
    return small_model(**request.param)


@pytest.fixture
def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    source = draw.integers(0, VOCAB_SIZE, (3, 7)).astype("int32")
    target = draw.integers(0, VOCAB_SIZE, (3, 8)).astype("int32")
    return source, np.array([7, 4, 1], "int32"), target


def test_the_content_of_padding_changes_nothing(model, inputs):
    source, lengths, target = inputs
    before = model(inputs).numpy()
    for row, length in enumerate(lengths):
        for position in (0, length - 1, min(length, 6), 6):
            changed = source.copy()
            changed[row, position] = (changed[row, position] + 1) % VOCAB_SIZE
            after = model((changed, lengths, target)).numpy()
            if position < length:
                assert np.abs(after[row] - before[row]).max() > 1e-3
            else:
                np.testing.assert_array_equal(after, before)


def test_a_target_token_changes_no_earlier_logits(model, inputs):
    source, lengths, target = inputs
    before = model(inputs).numpy()
    for t in range(8):
        changed = target.copy()
        changed[:, t] = (changed[:, t] + 1) % VOCAB_SIZE
        after = model((source, lengths, changed)).numpy()
        np.testing.assert_array_equal(after[:, :t], before[:, :t])
        assert np.abs(after[:, t] - before[:, t]).max() > 1e-3


def test_cached_equals_uncached(model, inputs):
    source, lengths, target = inputs
    whole = model(inputs).numpy()
    encoded = model.encode(source, lengths)
    caches = model.empty_caches(3)
    latents, caches = model.call_with_cache(target[:, :3], encoded, caches, np.zeros(3, "int32"))
    steps = [model.logits(latents).numpy()]
    for t in range(3, 8):
        latents, caches = model.call_with_cache(
            target[:, t : t + 1], encoded, caches, np.full(3, t, "int32")
        )
        steps.append(model.logits(latents).numpy())
    np.testing.assert_allclose(np.concatenate(steps, 1), whole, atol=1e-5)


def layer_norm(x, gain, bias):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-6) * gain + bias


def attention(x, source, visible, weights, heads):
    """Vaswani et al. 2017, section 3.2.2, one head at a time."""
    (wq, bq), (wk, bk), (wv, bv), (wo, bo) = weights
    query, key, value = x @ wq + bq, source @ wk + bk, source @ wv + bv
    size, outputs = query.shape[-1] // heads, []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = query[:, part] @ key[:, part].T / np.sqrt(size)
        weight = np.exp(scores) * visible
        outputs.append(weight / weight.sum(-1, keepdims=True) @ value[:, part])
    return np.concatenate(outputs, -1) @ wo + bo


def halves(weight, parts):
    return np.split(weight, parts, axis=-1)


@pytest.mark.parametrize("block_kind", ["post_norm", "pre_norm"])
def test_equals_the_equations_of_the_paper(block_kind, inputs):
    """Section 3 of the paper, written out in NumPy for one pair; pre-norm as in section 2.3 of GPT-2."""
    variants = {"scale_embeddings": True, "position": "sinusoidal", "activation": "relu"}
    model = small_model(block=block_kind, **variants)
    source, lengths, target = inputs
    row, heads, width = 1, 2, 8
    weights = {v.path.split("/", 1)[1]: v.numpy().astype("float64") for v in model.variables}

    def matrix(name):
        return weights[f"{name}/kernel"], weights[f"{name}/bias"]

    def norm(name, x):
        return layer_norm(x, weights[f"{name}/gamma"], weights[f"{name}/beta"])

    def feed_forward(block, x):
        (w1, b1), (w2, b2) = matrix(f"{block}/expand"), matrix(f"{block}/contract")
        return np.maximum(x @ w1 + b1, 0) @ w2 + b2

    table = weights["embedding/token_embedding/embeddings"]

    def embed(ids):
        angles = np.arange(len(ids))[:, None] / 10000 ** (2 * (np.arange(width) // 2) / width)
        positions = np.where(np.arange(width) % 2, np.cos(angles), np.sin(angles))
        return table[ids] * np.sqrt(width) + positions

    def source_weights(name):
        (wkv, bkv) = matrix(f"{name}/key_value")
        pairs = zip(halves(wkv, 2), halves(bkv, 2), strict=True)
        return [matrix(f"{name}/query"), *pairs, matrix(f"{name}/output")]

    def self_weights(name):
        (w, b) = matrix(f"{name}/qkv")
        return [*zip(halves(w, 3), halves(b, 3), strict=True), matrix(f"{name}/output")]

    def residual(name, x, sublayer):
        if block_kind == "post_norm":
            return norm(name, x + sublayer(x))
        return x + sublayer(norm(name, x))

    def encode(block, x):
        own = source_weights(f"{block}/attention")
        x = residual(f"{block}/norm1", x, lambda x: attention(x, x, True, own, heads))
        return residual(f"{block}/norm2", x, lambda x: feed_forward(block, x))

    def decode(block, y, x):
        own, cross = self_weights(f"{block}/attention"), source_weights(f"{block}/cross_attention")
        causal = np.tri(len(y))
        y = residual(f"{block}/norm1", y, lambda y: attention(y, y, causal, own, heads))
        y = residual(f"{block}/cross_norm", y, lambda y: attention(y, x, True, cross, heads))
        return residual(f"{block}/norm2", y, lambda y: feed_forward(block, y))

    x, y = embed(source[row, : lengths[row]]), embed(target[row])
    for layer in range(2):
        x = encode(f"encoder_block{layer}", x)
    x = x if block_kind == "post_norm" else norm("encoder_norm", x)
    for layer in range(2):
        y = decode(f"decoder_block{layer}", y, x)
    y = y if block_kind == "post_norm" else norm("decoder_norm", y)
    np.testing.assert_allclose(model(inputs).numpy()[row], y @ table.T, atol=1e-4)


def expected_parameters(c: TransformerConfig, vocab_size: int) -> int:
    """Returns the number of parameters by the definition (docs/systems.md, S5)."""
    c = c.resolved()
    d, inner, f = c.embed_dim, c.num_heads * c.head_dim, c.ff_dim
    attention = 3 * (d * inner + inner * c.qkv_bias) + inner * d + d
    feed_forward = d * f + f + f * d + d
    encoder = attention + feed_forward + 2 * 2 * d
    decoder = 2 * attention + feed_forward + 3 * 2 * d
    return vocab_size * d + c.num_layers * (encoder + decoder)


def test_the_base_model_is_that_of_the_paper():
    """Vaswani et al. 2017: table 3, sections 5.3 and 5.4."""
    config = load_config("vaswani_base")
    model, training = config.model.resolved(), config.training
    assert (model.embed_dim, model.num_layers, model.num_heads, model.ff_dim) == (512, 6, 8, 2048)
    assert (model.head_dim, model.value_dim, model.dropout_rate) == (64, 64, 0.1)
    assert (training.optimizer, training.adam_beta_2, training.adam_epsilon) == ("adam", 0.98, 1e-9)
    assert (training.label_smoothing, training.warmup_steps) == (0.1, 4000)
    assert training.epochs * training.steps_per_epoch == 100_000
    for step in (1, 100, 3999, 4000, 4001, 10_000, 100_000):
        rate = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert learning_rate(training, step - 1, step / 100_000) == pytest.approx(rate, rel=1e-6)
    # "65 million": the paper does not give the size of its vocabulary exactly.
    assert expected_parameters(model, 37_000) == pytest.approx(65e6, rel=0.04)


def test_zeros_at_the_end_of_a_source_are_padding(inputs):
    """`model((context, x))`, as in the TensorFlow tutorial. A zero before another id is a token."""
    model, (source, lengths, target) = small_model(), inputs
    source = np.maximum(source, 1) * (np.arange(7) < lengths[:, None])
    source[0, 3] = 0
    expected = model((source, lengths, target)).numpy()
    for dtype in ("int32", "int64"):
        context = source.astype(dtype)
        np.testing.assert_array_equal(model((context, target)), expected)
        np.testing.assert_array_equal(model([context, target.astype(dtype)]), expected)
    np.testing.assert_allclose(model.predict((source, target), verbose=0), expected, atol=1e-5)
    symbolic = (keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32"))
    functional = keras.Model(symbolic, model(symbolic))
    np.testing.assert_allclose(functional((source, target)), expected, atol=1e-5)
    assert functional.output_shape == (None, None, VOCAB_SIZE)


def test_a_source_of_padding_only(inputs):
    """It counts as one token: the softmax over none would be NaN."""
    model, (source, _, target) = small_model(), inputs
    source = np.zeros_like(source)
    logits = model((source, target)).numpy()
    np.testing.assert_array_equal(logits, model((source, np.ones(3, "int32"), target)))
    assert np.isfinite(logits).all()
