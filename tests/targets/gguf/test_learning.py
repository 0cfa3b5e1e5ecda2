"""Learning in the engine against TensorFlow: gradients, learned weights; saved files."""

from pathlib import Path
from typing import Any

import gguf
import keras
import numpy as np
import pytest
import tensorflow as tf

import minigpt
from minigpt.errors import UserError
from minigpt.models import build_model
from minigpt.runs.tensors import named_tensors
from minigpt.targets.gguf.instance import Engine
from tests.conftest import tiny_text
from tests.targets.gguf.gguf_parts import parsed
from tests.targets.gguf.models import GPT_SHAPES, PAIR_SHAPES, Built, build

LENGTH, BATCH, SEED, STEPS = 23, 3, 7, 8
CRC = b"minigpt.crc32"
# The order of the engine: minigpt/targets/gguf/engine/parameters.c.
_OF_BLOCK = (
    *("attn_q", "attn_k", "attn_v", "attn_output", "attn_norm", "ffn_norm", "attn_q_norm"),
    *("attn_k_norm", "attn_v_mix", "attn_conv", "ffn_conv", "ffn_gate", "ffn_up", "ffn_down"),
)


def windows(ids: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
    """The inputs and targets of a step, int32[B, T], from TensorFlow's random numbers."""
    numbers = range(step * BATCH, (step + 1) * BATCH)
    draws = [tf.random.stateless_uniform([], [SEED, n], alg="philox").numpy() for n in numbers]
    starts = [int(draw.astype("float64") * (len(ids) - LENGTH)) for draw in draws]
    rows = np.stack([ids[start : start + LENGTH + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


def loss_and_gradients(model: Any, inputs: np.ndarray, targets: np.ndarray) -> tuple[float, Any]:
    with tf.GradientTape() as tape:
        logits = model(inputs, training=False)
        losses = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True)
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, model.trainable_weights)
    return float(loss), [tf.convert_to_tensor(gradient) for gradient in gradients]


def some_ids(built: Built) -> np.ndarray:
    return np.random.default_rng(3).integers(0, built.tokenizer.vocab_size, 60)


def engine_gradients(built: Built, engine: Engine) -> dict[str, np.ndarray]:
    """The gradients of the last step by the names of the tensors."""
    shapes = dict(named_tensors(built.model.config, built.weights))
    names = ["token_embd", "position_embd", "ngram_embd"]
    names += [f"blk.{n}.{part}" for n in range(built.model.config.num_layers) for part in _OF_BLOCK]
    names += ["output_norm", "output"]
    ordered = [f"{name}.{kind}" for name in names for kind in ("weight", "bias")]
    ordered = [name for name in ordered if name in shapes]
    assert sorted(ordered) == sorted(shapes)
    address, found = engine._call("learning_gradients"), {}
    for name in ordered:
        size = 4 * shapes[name].size
        found[name] = engine._view(address, size).view("<f4").reshape(shapes[name].shape).copy()
        address += size
    return found


@pytest.mark.parametrize(
    "shape", [name for name in GPT_SHAPES if name not in ("gpt2", "gpt2_untied")]
)
def test_gradients(shape, tmp_path):
    """All gradients of a weight are within 1e-5 of its largest one, computed in float64."""
    built = build(GPT_SHAPES[shape])
    exact = build_model(built.config.model, built.tokenizer.vocab_size, "float64")
    exact.set_weights(built.weights)
    ids = some_ids(built)
    loss, gradients = loss_and_gradients(exact, *windows(ids, 0))
    engine = Engine(built.write(tmp_path / "model.gguf"))
    with engine.learning(ids, LENGTH, BATCH, SEED, STEPS, 1e-3) as (_, step):
        assert step() == pytest.approx(loss, rel=1e-6)
        found = engine_gradients(built, engine)
    expected = dict(named_tensors(built.model.config, [g.numpy() for g in gradients]))
    # TensorFlow has one weight for the queries, keys and values. A bias of keys has no gradient.
    for name, gradient in expected.items():
        joined = [name]
        if ".attn_k.bias" in name:
            joined.append(name.replace("attn_k", "attn_q"))
        elif gradient.size == 1:  # A sum whose terms may cancel: the shares of the first values.
            joined = [other for other in expected if "attn_v_mix" in other]
        largest = max(np.abs(expected[n]).max() for n in joined)
        difference = np.abs(found[name] - gradient).max()
        assert difference <= 1e-5 * largest, (name, difference, largest)


@pytest.mark.parametrize("shape", ["gpt2_without_bias", "additions"])
def test_weights_after_some_steps(shape, tmp_path):
    """They are those of Keras' Adam with a linear decay, within 0.2 % of the largest change."""
    built = build(GPT_SHAPES[shape])
    ids = some_ids(built)
    before = dict(named_tensors(built.model.config, built.weights, joins_qkv="gpt2" in shape))
    engine = Engine(built.write(tmp_path / "model.gguf"))
    decay = keras.optimizers.schedules.PolynomialDecay(1e-3, STEPS, 0.0)
    optimizer, losses, found = keras.optimizers.Adam(decay), [], []
    with engine.learning(ids, LENGTH, BATCH, SEED, STEPS, 1e-3) as (_, step):
        for number in range(STEPS):
            found.append(step())
            loss, gradients = loss_and_gradients(built.model, *windows(ids, number))
            optimizer.apply(gradients, built.model.trainable_weights)
            losses.append(loss)
    np.testing.assert_allclose(found, losses, rtol=1e-3)
    assert losses[-1] < losses[0]
    (tmp_path / "learned.gguf").write_bytes(engine.file())
    tensors = tensors_of(tmp_path / "learned.gguf")
    after = named_tensors(built.model.config, built.weights, joins_qkv="gpt2" in shape)
    for name, expected in after:
        # The gradients of a bias of keys are noise around 0, of which Adam makes steps.
        if not name.endswith("attn_k.bias"):
            change = np.abs(expected - before[name]).max()
            assert change > 1e-3
            difference = np.abs(tensors[name] - expected).max()
            assert difference <= 2e-3 * change, (name, difference, change)


def tensors_of(path: Path) -> dict[str, np.ndarray]:
    tensors = gguf.GGUFReader(path).tensors
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in tensors}


@pytest.mark.parametrize(
    ("shape", "weights"), [("odd", "float32"), ("gpt2", "float16"), ("additions", "int8")]
)
def test_a_saved_file_is_the_model(shape, weights, tmp_path):
    built = build(GPT_SHAPES[shape])
    original = built.write(tmp_path / "original.gguf", weights)
    model = minigpt.load_portable(original)
    model.save(tmp_path / "same.gguf")
    assert (tmp_path / "same.gguf").read_bytes() == original.read_bytes()
    losses = model.learn(tiny_text(60), 12, learning_rate=0.003)
    assert len(losses) == 12 and losses[-1] < losses[0] - 0.5
    model.save(str(tmp_path / "saved.gguf"))
    saved = minigpt.load_portable(tmp_path / "saved.gguf")
    assert (saved.learned_steps, saved.weights) == (12, weights)
    ids = some_ids(built)[None, :20]
    np.testing.assert_array_equal(saved.logits(ids), model.logits(ids))
    assert saved.generate("Ana", seed=3) == model.generate("Ana", seed=3)
    # The file has the types of the exported one, rounded as the library of the format does it.
    before, after = (gguf.GGUFReader(path).tensors for path in (original, tmp_path / "saved.gguf"))
    assert [t.tensor_type for t in before] == [t.tensor_type for t in after]
    for tensor in after:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        again = gguf.quants.quantize(values, tensor.tensor_type)
        np.testing.assert_array_equal(
            gguf.quants.dequantize(again, tensor.tensor_type), values, err_msg=tensor.name
        )
    # Learning goes on from there, step by step.
    assert saved.learn(tiny_text(60), 3) == model.learn(tiny_text(60), 3)
    assert saved.learned_steps == 15


def test_learning_twice_gives_the_same_numbers(tmp_path):
    path = build(GPT_SHAPES["additions"]).write(tmp_path / "model.gguf")
    first, second = minigpt.load_portable(path), minigpt.load_portable(path)
    arguments: dict[str, Any] = {"steps": 5, "batch_size": 2, "length": 9, "seed": 3}
    found = []
    losses = first.learn(tiny_text(9), on_step=lambda *step: found.append(step), **arguments)
    assert found == list(zip(range(1, 6), losses, strict=True))
    # Texts between two steps do not disturb it.
    texts = []
    again = second.learn(
        tiny_text(9),
        on_step=lambda *_: texts.extend(second.generate("Ana", 9, seed=1)),
        **arguments,
    )
    assert again == losses
    assert texts[-1:] == second.generate("Ana", 9, seed=1) == first.generate("Ana", 9, seed=1)
    assert len(set(texts)) > 1
    assert minigpt.load_portable(path).learn(tiny_text(9), **{**arguments, "seed": 4}) != losses


def test_learning_can_be_ended(tmp_path):
    model = minigpt.load_portable(build(GPT_SHAPES["gpt2"]).write(tmp_path / "model.gguf"))
    settings: Any = {
        "batch_size": np.int64(2),
        "seed": np.int64(1),
        "learning_rate": np.float32(1e-3),
    }
    losses = model.learn(tiny_text(9), np.int64(7), on_step=lambda n, _: n < 3, **settings)
    assert len(losses) == 3

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.learn(tiny_text(9), on_step=stop)
    assert model.learned_steps == 4
    assert model.learn(tiny_text(9), 1)


def test_arguments(tmp_path):
    model = minigpt.load_portable(build(GPT_SHAPES["gpt2"]).write(tmp_path / "model.gguf"))
    text, count = "Ana sat on the roof", len(model.tokenizer.encode("Ana sat on the roof"))
    values: dict[str, list[Any]] = {
        **{"text": [""], "length": [0, count], "steps": [0], "batch_size": [0], "seed": [-1]},
        "learning_rate": [0, float("nan"), 1e300],
    }
    for name, value in ((n, wrong) for n, several in values.items() for wrong in several):
        with pytest.raises(UserError) as caught:
            model.learn(**{"text": text, name: value})
        assert len(caught.value.problems) == 1 and name in str(caught.value)
    for name, value in {"steps": 1.5, "length": "9", "learning_rate": "1", "text": b"a"}.items():
        with pytest.raises(TypeError, match=f"`{name}` must be"):
            model.learn(**{"text": text, name: value})
    assert model.learned_steps == 0
    with pytest.raises(UserError, match="finite"):
        model.learn(text, 9, learning_rate=9e37)
    # What is asked afterwards is still answered.
    assert model.logits(np.zeros((1, 3), np.int32)).shape == (1, 3, model.vocab_size)


def test_what_cannot_learn(tmp_path):
    pairs = build({"kind": "encoder_decoder", **PAIR_SHAPES["paper"]})
    engine = Engine(pairs.write(tmp_path / "pairs.gguf"))
    with pytest.raises(UserError), engine.learning([1, 2, 3], 2, 1, 0):
        pass
    with pytest.raises(UserError):
        engine.file()
    engine = Engine(build(GPT_SHAPES["gpt2"]).write(tmp_path / "gpt2.gguf"))
    with (
        pytest.raises(UserError, match="memory"),
        engine.learning(range(60), LENGTH, 2**20, 0),
    ):
        pass
    # The number of steps has no place in the file.
    path = build(GPT_SHAPES["gpt2"]).write(tmp_path / "old.gguf")
    file = parsed(path.read_bytes())
    file.keys = [key for key in file.keys if key.name not in (b"minigpt.learned_steps", CRC)]
    path.write_bytes(file.data())
    model = minigpt.load_portable(path)
    with pytest.raises(UserError, match="learned_steps"):
        model.learn(tiny_text(9))
