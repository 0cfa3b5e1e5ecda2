"""The GPT."""

import math

import keras
import numpy as np
import pytest

from minigpt.config import GPTConfig, TransformerConfig, load_config
from minigpt.models import GPT

VOCAB_SIZE = 13
ADDITIONS = {"value_residual": True, "convolution": 3, "ngrams": [2, 4], "ngram_rows": 16}
MODERN = [
    {"block": "modern", "tie_embeddings": True},
    {"block": "modern", "tie_embeddings": False, "num_kv_heads": 1},
]
KINDS = [
    {"block": "post_norm", "position": "learned", "tie_embeddings": False},
    {"block": "pre_norm", "position": "learned", "tie_embeddings": True},
    {"block": "pre_norm", "position": "sinusoidal", "tie_embeddings": False},
    *MODERN,
    {"block": "pre_norm", "position": "rotary", "num_kv_heads": 1},
    {"block": "modern", **ADDITIONS},
    {"block": "post_norm", **ADDITIONS},
]


def small_gpt(seed: int = 0, **changes) -> GPT:
    """Returns a model whose logits differ clearly between tokens."""
    sizes = {"max_len": 8, "embed_dim": 8, "num_heads": 2, "num_layers": 2, "dropout_rate": 0.1}
    model = GPT(GPTConfig(**{**sizes, **changes}), VOCAB_SIZE)
    draw = np.random.default_rng(seed)
    model.set_weights([w + draw.normal(size=w.shape, scale=0.3) for w in model.get_weights()])
    return model


@pytest.fixture(params=KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def model(request) -> GPT:
    return small_gpt(**request.param)


@pytest.fixture
def ids() -> np.ndarray:
    return np.random.default_rng(1).integers(0, VOCAB_SIZE, (3, 8)).astype("int32")


def test_a_token_changes_no_earlier_logits(model, ids):
    before = model(ids).numpy()
    for t in range(8):
        changed = ids.copy()
        changed[:, t] = (changed[:, t] + 1) % VOCAB_SIZE
        after = model(changed).numpy()
        np.testing.assert_array_equal(after[:, :t], before[:, :t])
        assert np.abs(after[:, t] - before[:, t]).max() > 1e-3


def test_cached_equals_uncached(model, ids):
    whole = model(ids).numpy()
    caches = model.empty_caches(3)
    latents, caches = model.call_with_cache(ids[:, :3], caches, np.zeros(3, "int32"))
    steps = [model.logits(latents).numpy()]
    for t in range(3, 8):
        latents, caches = model.call_with_cache(ids[:, t : t + 1], caches, np.full(3, t, "int32"))
        steps.append(model.logits(latents).numpy())
    np.testing.assert_allclose(np.concatenate(steps, 1), whole, atol=1e-5)


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[-2]], ids=["S1", "all additions"])
def test_reloads_with_the_same_logits(kind, ids, tmp_path):
    model = small_gpt(**kind)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(ids), model(ids))
    assert again.get_config() == model.get_config()


def test_parts_of_kernels_that_muon_updates_by_themselves():
    sizes = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 6, "value_dim": 5, "ff_dim": 20}
    for block, projections, gates in (
        ("modern", (24, 12, 10), (20, 20)),
        ("pre_norm", None, (20,)),
    ):
        for layer in small_gpt(block=block, **sizes).blocks:
            assert getattr(layer.attention.qkv.kernel, "muon_parts", None) == projections
            assert layer.expand.kernel.muon_parts == gates


def parameters_without_memory(config: TransformerConfig, vocab_size: int) -> int:
    """Returns the number of parameters of the built model. Its variables have no values."""
    try:
        with keras.StatelessScope(initialize_variables=False):
            return sum(math.prod(v.shape) for v in GPT(config, vocab_size).weights)
    finally:
        # Otherwise Keras would initialize the variables, gigabytes of them, at the end of the next scope.
        keras.utils.clear_session()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # Numbers of parameters of `GPT2LMHeadModel` in transformers.
        ("gpt2_124m", 124_439_808),
        ("gpt2_355m", 354_823_168),
        ("gpt2_774m", 774_030_080),
        ("gpt2_1558m", 1_557_611_200),
        ("gpt2_124m_scratch", 124_439_808 - 12 * 3 * 768),
    ],
)
def test_gpt2_has_the_published_number_of_parameters(name, parameters):
    config = load_config(name)
    assert parameters_without_memory(config.model, config.tokenizer.vocab_size) == parameters
    assert (config.tokenizer.kind, config.model.max_len) == ("gpt2", 1024)


def test_heads_have_the_full_width_of_the_keras_example_unless_described_otherwise():
    sizes = {"embed_dim": 12, "num_heads": 3}
    assert GPT(vocab_size=VOCAB_SIZE, **sizes).config.head_dim == 12
    assert GPT(vocab_size=VOCAB_SIZE).config.head_dim == 192
    assert GPT(vocab_size=VOCAB_SIZE, embed_dim=10, num_heads=3).config.head_dim == 10
    assert GPT(vocab_size=VOCAB_SIZE, **sizes, head_dim=5).config.head_dim == 5
    assert GPT(vocab_size=VOCAB_SIZE, **sizes, head_dim=None).config.head_dim == 12
    for block in ("pre_norm", "modern"):
        assert GPT(vocab_size=VOCAB_SIZE, **sizes, block=block).config.head_dim == 4
    described = GPT(GPTConfig(**sizes, block="post_norm"), VOCAB_SIZE)
    assert described.config.head_dim == described.get_config()["head_dim"] == 4
    assert GPT.from_config(described.get_config()).config == described.config
