"""Look inside: attention and logit lens of the engine against the layers of the Keras model."""

import numpy as np
import pytest

import minigpt
from minigpt.config.sampling import TextSettings
from minigpt.targets.gguf.instance import EngineError
from tests.targets.gguf.looking import GUESSES, Inspector, look_inside, look_inside_pairs, softmax
from tests.targets.gguf.models import GPT_SHAPES, PAIR_SHAPES, build

SHAPES = ("keras", "modern", "annotated", "odd")
TOLERANCE = 2e-5


def some_ids(vocab_size: int, count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, vocab_size, count, "int32")


def check(found, expected, chosen):
    """Compares an inspection with the oracle's, whose lens is float[L, V]."""
    np.testing.assert_allclose(found.attention, expected.attention, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(found.attention.sum(axis=-1), 1, atol=TOLERANCE)
    for choice, probabilities in zip(found.lens, expected.lens, strict=True):
        np.testing.assert_allclose(choice.chosen, probabilities[chosen], rtol=0, atol=TOLERANCE)
        assert len(set(choice.ids.tolist())) == GUESSES
        # Of the ten tokens that it names, and of the ten best.
        for wanted in (probabilities[choice.ids], np.sort(probabilities)[::-1][:GUESSES]):
            np.testing.assert_allclose(choice.probabilities, wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_gpt(shape, tmp_path):
    built = build(GPT_SHAPES[shape])
    inspector = Inspector(built.write(tmp_path / "model.gguf"))
    ids = some_ids(built.tokenizer.vocab_size, 24)
    inspector.open(ids)
    for position in (0, 23, 7, 8, 2):
        expected = look_inside(built.model, ids[: position + 1])
        chosen = int(np.argsort(expected.lens[-1])[-3])
        check(inspector.inspect(position, chosen), expected, chosen)
        # The oracle is the model itself.
        scores = built.model(ids[None, : position + 1]).numpy()[0, -1].astype("float64")
        np.testing.assert_allclose(expected.lens[-1], softmax(scores), atol=1e-6)


@pytest.mark.parametrize("shape", PAIR_SHAPES)
def test_an_encoder_decoder(shape, tmp_path):
    built = build({"kind": "encoder_decoder", **PAIR_SHAPES[shape]}, spread=0.4)
    inspector = Inspector(built.write(tmp_path / "model.gguf"))
    ids, source = (some_ids(built.tokenizer.vocab_size, count, count) for count in (9, 11))
    inspector.open(ids, source)
    for position in (3, 8, 0):
        expected = look_inside_pairs(built.model, ids[: position + 1], source)
        found = inspector.inspect(position, 7)
        check(found, expected, 7)
        np.testing.assert_allclose(found.cross, expected.cross, rtol=0, atol=TOLERANCE)


def test_a_text_is_continued_after_an_inspection(tmp_path):
    """The inspection uses the memory of a continuation, which is then started again."""
    built = build(GPT_SHAPES["modern"])
    path = built.write(tmp_path / "model.gguf")
    model, inspector = minigpt.load_portable(path), Inspector(path)
    (expected,) = model.samples("Ana sat", 30, seed=2, sampling=TextSettings())
    ids = built.tokenizer.encode("Ana sat").tolist()
    banned = TextSettings(banned_tokens=built.tokenizer.never_sampled_ids)
    inspector.engine.set_sampling(banned, 2)
    inspector.open(ids)
    inspector.inspect(1, 4)
    inspector.engine.start(ids, 30)
    assert inspector.engine.add_tokens(30) == expected.tokens
    with pytest.raises(EngineError, match="outside the inspected text"):
        inspector.inspect(0, 4)


def test_what_cannot_be_inspected(tmp_path):
    inspector = Inspector(build(GPT_SHAPES["gpt2"]).write(tmp_path / "model.gguf"))
    for ids, source in (([1] * 25, []), ([], []), ([1], [1]), ([1, 100_000], []), ([-1], [])):
        with pytest.raises(EngineError):
            inspector.open(ids, source)
        with pytest.raises(EngineError):
            inspector.inspect(0, 1)
    inspector.open([1, 2, 3])
    for position, chosen in ((3, 1), (2**31 - 1, 1), (0, 100_000)):
        with pytest.raises(EngineError):
            inspector.inspect(position, chosen)
    assert inspector.inspect(2, -1).lens[0].chosen == 0
    for heads, layers in (([4], []), ([-1], []), ([], [2]), ([], [-1])):
        with pytest.raises(EngineError):
            inspector.leave_out(heads, layers)


@pytest.mark.parametrize("shape", ("additions", "additions_post_norm", "odd"))
def test_heads_and_layers_that_are_left_out(shape, tmp_path):
    """As the model whose output projections have zeros in place of the rows of these heads."""
    built = build(GPT_SHAPES[shape])
    inspector = Inspector(built.write(tmp_path / "model.gguf"))
    model, vocab_size = built.model, built.tokenizer.vocab_size
    heads, width = built.config.model.num_heads, model.blocks[0].attention.value_dim
    ids = some_ids(vocab_size, 20)
    whole = inspector.engine.score(ids, vocab_size)

    def without(numbers: list[int], layers: list[int]) -> np.ndarray:
        inspector.leave_out(numbers, layers)
        return inspector.engine.score(ids, vocab_size)

    found = without([1, heads], [])
    for layer, head in ((0, 1), (1, 0)):
        kernel = model.blocks[layer].attention.output_projection.kernel
        rows = slice(head * width, (head + 1) * width)
        kernel.assign(
            np.where(np.isin(np.arange(kernel.shape[0]), np.r_[rows])[:, None], 0, kernel)
        )
    np.testing.assert_allclose(found, model(ids[None])[0], rtol=0, atol=2e-4)
    assert np.abs(found - whole).max() > 0.01
    without([], [0, 1])
    np.testing.assert_array_equal(without([], []), whole)
    if built.config.model.block == "post_norm":
        return
    # Beside a layer that adds nothing to its input, but whose values later ones may use.
    found = without([1, heads], [0])
    block = model.blocks[0]
    for dense in (block.attention.output_projection, block.contract):
        for weight in dense.weights:
            weight.assign(np.zeros(weight.shape))
    np.testing.assert_allclose(found, model(ids[None])[0], rtol=0, atol=2e-4)
