"""The encoder-decoder with the modern block."""

import numpy as np

from tests.models.test_encoder_decoder import VOCAB_SIZE, small_model

HEADS, GROUPS, SIZE, VALUE_SIZE, INNER = 4, 2, 6, 5, 20
SIZES = {"num_heads": HEADS, "num_kv_heads": GROUPS, "head_dim": SIZE, "value_dim": VALUE_SIZE}


def rotated(x: np.ndarray) -> np.ndarray:
    """Entries i and i + K/2 as a complex number, times e^(i angle) (Su et al. 2021, RoFormer)."""
    half = SIZE // 2
    angles = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(half) / half)
    pairs = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], -1)


def columns(matrix: np.ndarray, head: int) -> np.ndarray:
    """The columns of a head, if the matrix has those of all GROUPS or HEADS heads."""
    width = VALUE_SIZE if matrix.shape[1] == GROUPS * VALUE_SIZE else SIZE
    return matrix[:, head * width : (head + 1) * width]


def test_equals_its_equations():
    """docs/systems.md, S5 with the block of S6, written out in NumPy for one pair, one head at a time."""
    model = small_model(block="modern", ff_dim=INNER, **SIZES)
    weights = {v.path.split("/", 1)[1]: v.numpy().astype("float64") for v in model.variables}

    def norm(name, x):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weights[f"{name}/scale"]

    def attention(name, x, source, kernels, visible, rotation):
        wq, wk, wv = kernels
        outputs = []
        for head in range(HEADS):
            group = head * GROUPS // HEADS
            query = rotation(norm(f"{name}/query_norm", x @ columns(wq, head)))
            key = rotation(norm(f"{name}/key_norm", source @ columns(wk, group)))
            weight = np.exp(query @ key.T / np.sqrt(SIZE)) * visible
            outputs.append(weight / weight.sum(-1, keepdims=True) @ source @ columns(wv, group))
        return np.concatenate(outputs, -1) @ weights[f"{name}/output/kernel"]

    def causal(name, x):
        ends = [HEADS * SIZE, (HEADS + GROUPS) * SIZE]
        kernels = np.split(weights[f"{name}/qkv/kernel"], ends, axis=1)
        return attention(name, x, x, kernels, np.tri(len(x)), rotated)

    def bidirectional(name, x, source, rotation):
        parts = np.split(weights[f"{name}/key_value/kernel"], [GROUPS * SIZE], axis=1)
        kernels = [weights[f"{name}/query/kernel"], *parts]
        return attention(name, x, source, kernels, 1, rotation)

    def feed_forward(block, x):
        gate, values = np.split(weights[f"{block}/expand/kernel"], 2, axis=1)
        gated = x @ gate / (1 + np.exp(-x @ gate)) * (x @ values)
        return gated @ weights[f"{block}/contract/kernel"]

    draw = np.random.default_rng(1)
    source, target = draw.integers(VOCAB_SIZE, size=(1, 7)), draw.integers(VOCAB_SIZE, size=(1, 8))
    table, length = weights["embedding/token_embedding/embeddings"], 4
    x, y = table[source[0, :length]], table[target[0]]
    for block in ("encoder_block0", "encoder_block1"):
        inputs = norm(f"{block}/norm1", x)
        x = x + bidirectional(f"{block}/attention", inputs, inputs, rotated)
        x = x + feed_forward(block, norm(f"{block}/norm2", x))
    x = norm("encoder_norm", x)
    for block in ("decoder_block0", "decoder_block1"):
        y = y + causal(f"{block}/attention", norm(f"{block}/norm1", y))
        inputs = norm(f"{block}/cross_norm", y)
        y = y + bidirectional(f"{block}/cross_attention", inputs, x, lambda x: x)
        y = y + feed_forward(block, norm(f"{block}/norm2", y))
    expected = norm("decoder_norm", y) @ weights["head/kernel"]
    found = model((source.astype("int32"), np.array([length], "int32"), target.astype("int32")))
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(found[0], expected, atol=1e-4)
