"""The engine against the Keras model: the same logits, and the texts that TensorFlow wrote."""

import copy
import itertools
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import minigpt
from minigpt.errors import UserError
from tests.targets.gguf.golden import built_of, golden, name_of
from tests.targets.gguf.models import GPT_SHAPES, Built, build


def portable(built: Built, path: Path, *arguments: Any) -> Any:
    return minigpt.load_portable(built.write(path / "model.gguf", *arguments))


def some_ids(vocab_size: int, shape: tuple[int, int] = (2, 24)) -> np.ndarray:
    return np.random.default_rng(1).integers(0, vocab_size, shape)


@pytest.mark.parametrize("shape", GPT_SHAPES)
def test_logits(shape, tmp_path):
    built = build(GPT_SHAPES[shape])
    model = portable(built, tmp_path)
    ids = some_ids(model.vocab_size)
    expected = built.model(ids).numpy()
    tolerance = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(model.logits(ids), expected, rtol=0, atol=tolerance)
    # Shorter texts are not padded, and a text does not depend on another one.
    np.testing.assert_allclose(model.logits(ids[1:, :7]), expected[1:, :7], rtol=0, atol=tolerance)


@pytest.mark.parametrize(("shape", "weights_type"), [("gpt2", "float16"), ("modern", "int8")])
def test_logits_of_rounded_weights(shape, weights_type, tmp_path):
    """The engine computes with the numbers to which the library of the format rounds."""
    built = build(GPT_SHAPES[shape])
    model = portable(built, tmp_path, weights_type)
    ids = some_ids(model.vocab_size)
    exact = built.model(ids).numpy()
    for weight in built.model.weights:
        weight.assign(_rounded(weight.path, weight.numpy(), weights_type))
    rounded = built.model(ids).numpy()
    scale = np.abs(exact).max()
    # Rounding the weights changes the logits; the engine makes the same change.
    assert np.abs(rounded - exact).max() > (1e-4 if weights_type == "float16" else 5e-3) * scale
    # The engine rounds what it multiplies by integers to 16 bits.
    tolerance = 1e-5 if weights_type == "float16" else 5e-4
    np.testing.assert_allclose(model.logits(ids), rounded, rtol=0, atol=tolerance * scale)


def _rounded(path: str, value: np.ndarray, weights_type: str) -> np.ndarray:
    if value.ndim != 2 or "position" in path:
        return value
    rows = value if "embedding" in path else value.T
    has_blocks = weights_type == "int8" and rows.shape[1] % 32 == 0
    kind = gguf.GGMLQuantizationType.Q8_0 if has_blocks else gguf.GGMLQuantizationType.F16
    result = gguf.quants.dequantize(gguf.quants.quantize(rows, kind), kind)
    return result if "embedding" in path else result.T


@pytest.mark.parametrize("case", golden("texts"), ids=name_of)
@pytest.mark.filterwarnings("ignore:.* unknown to the tokenizer")
def test_texts(case, tmp_path):
    """Longer than the context, with all settings."""
    model = portable(built_of(case), tmp_path)
    assert len(case["samples"]) >= 15
    for wanted in case["samples"]:
        (sample,) = model.samples(wanted["prompt"], **case["sampling"] | wanted["settings"])
        assert (sample.text, sample.tokens) == (wanted["text"], wanted["tokens"]), wanted


@pytest.mark.parametrize("case", golden("translations"), ids=name_of)
@pytest.mark.filterwarnings("ignore:source .* only the first:UserWarning")
def test_translations(case, tmp_path):
    built = built_of(case)
    model = portable(built, tmp_path)
    texts = {wanted["text"] for wanted in case["samples"]}
    assert len(case["samples"]) >= 15 and len(texts) >= 3
    for wanted in case["samples"]:
        found = model.translate(wanted["source"], max_new_tokens=wanted["max_new_tokens"])
        assert found == [wanted["text"]], wanted["source"]


def warned(call: Callable[[], object]) -> list[tuple[str, str]]:
    """Returns the warnings of a call, and the files whose lines they name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(str(w.message), w.filename) for w in caught if w.category is UserWarning]


@pytest.mark.parametrize("tokenizer", ["character", "word", "byte_pair"])
def test_warnings_of_unknown_characters(tokenizer, tmp_path):
    """They name the prompt, at the line of the caller; see tests/generation for TensorFlow."""
    model, text = portable(build(GPT_SHAPES["modern"], tokenizer), tmp_path), "Ana Ж 漢"
    count = 0 if tokenizer == "byte_pair" else 2
    assert model.unknown_tokens(text) == count
    for call in (
        lambda: model.generate(text, 1),
        lambda: list(model.iter_samples(text, 1)),
        lambda: list(model.stream(text, 1)),
    ):
        found = warned(call)
        assert len(found) == bool(count)
        assert all(repr(text) in message and file == __file__ for message, file in found)
    assert warned(lambda: model.generate("Ana", 1)) == []


def test_streams_and_samples(tmp_path):
    model = portable(build(GPT_SHAPES["modern"]), tmp_path)
    arguments = {"seed": 3, "temperature": 0.8, "top_k": 0}
    pieces = list(model.stream("Ana", 30, **arguments))
    assert ["".join(pieces)] == model.generate("Ana", 30, **arguments)
    assert len(pieces) > 10
    prompts = ["Ana", "Béla sat"]
    samples = model.samples(prompts, 9, num_samples=2, **arguments)
    assert [(s.prompt, s.seed) for s in samples] == [(p, seed) for p in prompts for seed in (3, 4)]
    for sample in samples:
        alone = model.samples(sample.prompt, 9, **arguments | {"seed": sample.seed})
        assert alone == [sample]
    assert model.generate(prompts, 9, seed=[4, 5])[1:] == model.generate("Béla sat", 9, seed=5)


def test_streams_at_the_same_time(tmp_path):
    """The engine has one text at a time. Streams take turns, and threads and copies too."""
    model = portable(build(GPT_SHAPES["gpt2"]), tmp_path)
    options = {"temperature": 1.0, "top_k": 0, "repetition_penalty": 1.2}
    prompts = ["Ana", "", "Béla sat on the roof"]
    alone = [model.generate(prompt, 30, seed=7, **options)[0] for prompt in prompts]
    streams = [model.stream(prompt, 30, seed=7, **options) for prompt in prompts]
    texts = ["", "", ""]
    for pieces in itertools.zip_longest(*streams, fillvalue=""):
        model.logits([[1, 2, 3]])
        assert model.config["model"]["max_len"] == 24
        texts = [text + piece for text, piece in zip(texts, pieces, strict=True)]
    assert texts == alone
    twin = copy.copy(model)
    stream = model.stream(prompts[0], 30, seed=7, **options)
    start = next(stream)
    assert (
        twin.generate(prompts[0], 30, seed=7, **options) == alone[:1] == [start + "".join(stream)]
    )
    with ThreadPoolExecutor(3) as pool:
        streamed = pool.map(lambda p: "".join(model.stream(p, 30, seed=7, **options)), prompts)
        assert list(streamed) == alone


def test_a_text_that_could_not_start(tmp_path, monkeypatch):
    """An earlier stream goes on afterwards."""
    model = portable(build(GPT_SHAPES["modern"]), tmp_path)
    (alone,) = model.generate("Ana", 20, seed=1)
    stream = model.stream("Ana", 20, seed=1)
    text = next(stream)
    with monkeypatch.context() as patch:
        patch.setattr(type(model._engine), "_write_ids", lambda *_: (0, 2**31))
        with pytest.raises(UserError, match=r"model.gguf: "):
            model.generate("Béla", 20)
    assert text + "".join(stream) == alone


def test_everything_banned_ends_the_text(tmp_path):
    model = portable(build(GPT_SHAPES["modern"]), tmp_path)
    with pytest.raises(UserError, match="banned_tokens"):
        model.samples("Ana", 9, banned_tokens=list(range(model.vocab_size)))
    # A processor is not checked beforehand.
    (sample,) = model.samples("Ana", 9, logits_processor=lambda ids, logits: logits - np.inf)
    assert (sample.text, sample.tokens) == ("", [])
