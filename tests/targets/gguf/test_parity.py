"""The engine against the Keras model: the same logits, and the same text except at near ties."""

import copy
import itertools
import pickle
import random
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import tensorflow as tf

import minigpt
from minigpt.errors import UserError
from minigpt.targets.gguf.settings import Settings
from tests.generation.naive import newest_logits
from tests.targets.gguf.models import GPT_SHAPES, PAIR_SHAPES, TOKENIZERS, Built, build
from tests.targets.gguf.near_ties import is_near_tie

PROMPTS = ["", "Ana sat", "Béla sat on the roof", "Čeněk ate 3 figs.\nDirk", "xyz \U0001f600 ▁"]


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


@pytest.mark.parametrize("weights_type", ["float16", "int8"])
@pytest.mark.parametrize("shape", ["gpt2", "modern"])
def test_logits_of_rounded_weights(shape, weights_type, tmp_path):
    """The engine computes with the numbers that the library of the format reads."""
    built = build(GPT_SHAPES[shape])
    model = portable(built, tmp_path, weights_type)
    ids = some_ids(model.vocab_size)
    tensors = {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors
    }
    exact = built.model(ids).numpy()
    for weight in built.model.weights:
        weight.assign(_rounded(weight.path, weight.numpy(), tensors))
    rounded = built.model(ids).numpy()
    scale = np.abs(exact).max()
    # Rounding the weights changes the logits; the engine makes the same change.
    assert np.abs(rounded - exact).max() > (1e-4 if weights_type == "float16" else 5e-3) * scale
    # The engine rounds what it multiplies by integers to 16 bits.
    tolerance = 1e-5 if weights_type == "float16" else 5e-4
    np.testing.assert_allclose(model.logits(ids), rounded, rtol=0, atol=tolerance * scale)


def _rounded(path: str, value: np.ndarray, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the tensor of a file that holds a weight: the one that is nearest to it."""
    if value.ndim != 2 or "position" in path:
        return value
    wanted = value if "embedding" in path else value.T
    parts = [t for t in tensors.values() if t.ndim == 2 and t.shape[1] == wanted.shape[1]]
    rows, start = [], 0
    while start < len(wanted):
        fitting = [t for t in parts if start + len(t) <= len(wanted)]
        nearest = min(fitting, key=lambda t: np.abs(t - wanted[start : start + len(t)]).max())
        assert np.abs(nearest - wanted[start : start + len(nearest)]).max() < 0.01
        rows.append(nearest)
        start += len(nearest)
    result = np.concatenate(rows)
    return result if "embedding" in path else result.T


def settings_of_prompt(number: int) -> dict[str, Any]:
    """Every second prompt is greedy; the others have every option."""
    if number % 2:
        return {"temperature": 0.0}
    draw = random.Random(number)
    return {
        "temperature": draw.choice([0.5, 1.0, 1.5]),
        "top_k": draw.choice([0, 5, 50]),
        "top_p": draw.choice([1.0, 0.9]),
        "min_p": draw.choice([0.0, 0.02]),
        "typical_p": draw.choice([1.0, 0.9, 0.3]),
        "repetition_penalty": draw.choice([1.0, 1.3]),
        "banned_tokens": draw.choice([[], [5, 9]]),
        "stop": draw.choice([[], ["ate", "\n"]]),
    }


def compare_texts(built: Built, file: Any, prompts: list[str], new_tokens: int) -> Counter[str]:
    """Compares the texts of a Keras model and of its portable file.

    Returns:
      How many are "same", and how many "tied": they differ, and the first difference is a near tie.
    """
    expected_model, found = built.text_model(), Counter[str]()
    for number, prompt in enumerate(prompts):
        settings = settings_of_prompt(number)
        arguments = {"max_new_tokens": new_tokens, "seed": number, **settings}
        (expected,) = expected_model.samples(prompt, **arguments)
        (sample,) = file.samples(prompt, **arguments)
        if sample == expected:
            found["same"] += 1
            continue
        pairs = zip(sample.tokens, expected.tokens, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if at is None:
            at = min(len(sample.tokens), len(expected.tokens))
        text = [*built.tokenizer.encode(prompt), *expected.tokens[:at]]
        banned = [*built.tokenizer.never_sampled_ids, *settings.get("banned_tokens", [])]
        logits = newest_logits(built.model, text or [built.tokenizer.end_id], banned)
        checked = Settings(max_new_tokens=new_tokens, **settings)
        assert is_near_tie(logits, text, checked, number, at), (prompt, settings, sample, expected)
        found["tied"] += 1
    return found


@pytest.mark.usefixtures("without_xla")
@pytest.mark.parametrize(
    ("shape", "tokenizer"),
    [
        ("keras", "word"),
        ("gpt2", "gpt2"),
        ("annotated", "character"),
        ("modern", "byte_pair"),
        ("additions", "byte_pair"),
        ("additions_post_norm", "character"),
        ("odd", "word"),
    ],
)
@pytest.mark.filterwarnings("ignore:.* unknown to the tokenizer")
def test_texts(shape, tokenizer, tmp_path):
    """50 texts of up to 64 tokens, longer than the context."""
    built = build(GPT_SHAPES[shape], tokenizer)
    prompts = [f"{prompt}{i}"[: 3 * i] for i in range(2) for prompt in PROMPTS]
    found = compare_texts(built, portable(built, tmp_path), prompts, 64)
    assert found["same"] >= 9, found


def warned(call: Callable[[], object]) -> list[tuple[str, str]]:
    """Returns the warnings of a call, and the files whose lines they name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(str(w.message), w.filename) for w in caught if w.category is UserWarning]


@pytest.mark.usefixtures("without_xla")
@pytest.mark.parametrize(
    ("tokenizer", "form"),
    [
        ("character", "characters are unknown to the tokenizer and are read as bytes"),
        ("word", "tokens are unknown to the tokenizer and are read as [UNK]"),
        ("byte_pair", ""),
    ],
)
def test_warnings_of_unknown_characters(tokenizer, form, tmp_path):
    """Both models warn of them in every call that reads a prompt, at the line of the caller."""
    built = build(GPT_SHAPES["modern"], tokenizer)
    text = "Ana Ж 漢"
    expected = [(f"prompt {text!r}: 2 of its {form}", __file__)] if form else []
    for model in (built.text_model(), portable(built, tmp_path)):
        assert model.unknown_tokens(text) == 2 * len(expected)
        for call in (
            lambda model=model: model.generate(text, 1),
            lambda model=model: model.samples(["Ana", text], 1, num_samples=2),
            lambda model=model: list(model.iter_samples(text, 1)),
            lambda model=model: list(model.stream(text, 1)),
        ):
            assert warned(call) == expected, model
        assert warned(lambda model=model: model.generate("Ana", 1)) == []


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("shape", GPT_SHAPES)
@pytest.mark.filterwarnings("ignore:.* unknown to the tokenizer")
def test_a_thousand_texts(shape, tokenizer, tmp_path):
    """Together 1,050 prompts x 64 tokens. A text counts once: after a difference, all tokens differ."""
    built = build(GPT_SHAPES[shape], tokenizer, max_len=48)
    prompts = some_prompts(30)
    found = compare_texts(built, portable(built, tmp_path), prompts, 64)
    print(f"{shape}, {tokenizer}: {found['same']} the same, {found['tied']} near ties")
    assert found["tied"] <= 2, found


def some_prompts(count: int) -> list[str]:
    draw = random.Random(0)
    words = " ".join(PROMPTS).split(" ")
    return [" ".join(draw.choices(words, k=draw.randint(0, 12))) for _ in range(count)]


@pytest.mark.slow
def test_the_saved_model_writes_the_same(tiny_run, signatures):
    """A trained model: the file that a run ends with, and its SavedModel."""
    model = minigpt.load_portable(tiny_run.portable_file)
    prompts = [prompt[:40] for prompt in some_prompts(60)]
    differing = 0
    for number, prompt in enumerate(prompts):
        temperature = number % 2 * 0.8
        served = signatures["serving_default"](
            prompt=tf.constant([prompt]),
            max_new_tokens=tf.constant(32),
            temperature=tf.constant(temperature),
            top_k=tf.constant(10),
            top_p=tf.constant(0.95),
            seed=tf.constant(number),
        )["text"].numpy()
        options = {"temperature": temperature, "top_k": 10, "top_p": 0.95}
        differing += model.generate(prompt, 32, seed=number, **options) != [served[0].decode()]
    assert differing <= 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", PAIR_SHAPES)
def test_many_translations(shape, tmp_path):
    built = build({"kind": "encoder_decoder", **PAIR_SHAPES[shape]}, spread=0.7)
    model = portable(built, tmp_path)
    sources = [source[:40] for source in some_prompts(60)]
    expected = minigpt.TranslationModel(built.model, built.tokenizer).translate(sources)
    pairs = zip(model.translate(sources), expected, strict=True)
    assert sum(found != wanted for found, wanted in pairs) <= 1


@pytest.mark.parametrize("shape", PAIR_SHAPES)
def test_translations(shape, tmp_path):
    # With smaller weights, a model repeats the same token for every source.
    built = build({"kind": "encoder_decoder", **PAIR_SHAPES[shape]}, spread=0.7)
    expected = minigpt.TranslationModel(built.model, built.tokenizer)
    model = portable(built, tmp_path)
    sources = ["Ana sat on the hill.", " \t", "Béla", "Čeněk ate figs. " * 9, "hill", "9", "Dirk,"]
    with pytest.warns(UserWarning, match="only the first 23 are translated"):
        translations = expected.translate(sources)
    with pytest.warns(UserWarning, match="source 4 has .* only the first 23 are translated"):
        assert model.translate(sources) == translations
    assert len(set(translations)) >= 3, translations
    assert model.translate("Béla", max_new_tokens=3) == expected.translate("Béla", max_new_tokens=3)


def test_a_translation_begins_with_the_start_token_of_the_file(tmp_path):
    built = build({"kind": "encoder_decoder", **PAIR_SHAPES["pre_norm"]}, spread=0.7)
    # Which token is first hardly matters to random weights, unless it is unlike all others.
    table = built.model.embedding.weights[0].numpy()
    table[built.tokenizer.start_id] *= 20
    built.model.embedding.weights[0].assign(table)
    with_end = copy.copy(built.tokenizer)
    with_end.own_start_id = None
    sources, found = ["Ana sat on the hill.", "Béla", "hill", "9", "Dirk,"], []
    for number, tokenizer in enumerate((built.tokenizer, with_end)):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append(portable(built._replace(tokenizer=tokenizer), folder).translate(sources))
        assert found[-1] == minigpt.TranslationModel(built.model, tokenizer).translate(sources)
    assert found[0] != found[1]


@pytest.mark.usefixtures("without_xla")
def test_streams_and_samples(tmp_path):
    built = build(GPT_SHAPES["modern"])
    model, expected = portable(built, tmp_path), built.text_model()
    arguments = {"seed": 3, "temperature": 0.8, "top_k": 0}
    pieces = list(model.stream("Ana", 30, **arguments))
    assert "".join(pieces) == expected.generate("Ana", 30, **arguments)[0]
    assert len(pieces) > 10
    prompts = ["Ana", "Béla sat"]
    samples = model.samples(prompts, 9, num_samples=2, **arguments)
    assert samples == expected.samples(prompts, 9, num_samples=2, **arguments)
    assert model.generate(prompts, 9, seed=[4, 5]) == expected.generate(prompts, 9, seed=[4, 5])


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
    twin = pickle.loads(pickle.dumps(copy.copy(model)))
    assert twin.generate(prompts[0], 30, seed=7, **options) == alone[:1]
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


def test_equal_weights_are_ordered_by_logits(tmp_path):
    """At a very high temperature all weights are 1; top-k still keeps the largest logits."""
    built = build(GPT_SHAPES["modern"])
    model = portable(built, tmp_path)
    ids = built.tokenizer.encode("Ana sat")
    logits = newest_logits(built.model, ids, built.tokenizer.never_sampled_ids)
    best = set(np.argsort(-logits)[:5].tolist())
    drawn = [model.samples("Ana sat", 1, seed=s, temperature=1e9, top_k=5) for s in range(40)]
    tokens = {tuple(sample.tokens) for (sample,) in drawn}
    assert tokens <= {(token,) for token in best} | {()}
    assert len(tokens) == 5


def test_everything_banned_ends_the_text(tmp_path):
    model = portable(build(GPT_SHAPES["modern"]), tmp_path)
    (sample,) = model.samples("Ana", 9, banned_tokens=list(range(model.vocab_size)))
    assert (sample.text, sample.tokens) == ("", [])
