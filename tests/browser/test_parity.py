"""The text of the page against that of the portable file and of the SavedModel: the same, always."""

import itertools
import random
import warnings
from typing import Any

import pytest
import tensorflow as tf

import minigpt
from tests.browser.conftest import Exported
from tests.browser.runs import write_page, write_run
from tests.mixed_lines import scraps
from tests.targets.gguf.models import GPT_SHAPES, PAIR_SHAPES, TOKENIZERS, build

pytestmark = pytest.mark.browser

# Every shape, and every tokenizer at least once.
MODELS = dict(zip(GPT_SHAPES, itertools.cycle(TOKENIZERS), strict=False))
PROMPTS_PER_MODEL = 29
ODD_PROMPTS = [
    "",
    " ",
    "\0",
    "\0Ana\0",
    "\U0001f600",
    "👨\u200d👩\u200d👧 \ufeff",
    "\u2581 \x10a\x10",
    "\ufffd",
    "e\u0301\u202e\u2028\r\n\t",
    "العربية עברית",
    "東京都 日本語",
    "Ana sat\n",
    # Many times the context.
    "Ana sat on the hill. " * 40,
]
# Option of the page → setting, and values of it.
OPTIONS: dict[str, tuple[str, list[Any]]] = {
    "maxNewTokens": ("max_new_tokens", [0, 1, 17, 64]),
    "temperature": ("temperature", [0, 0.3, 0.8, 1, 1.7]),
    "topK": ("top_k", [0, 1, 5, 50, 10_000]),
    "topP": ("top_p", [1, 0.9, 0.3]),
    "minP": ("min_p", [0, 0.02]),
    "repetitionPenalty": ("repetition_penalty", [1, 1.3, 0.8]),
    "seed": ("seed", [0, 7, 2**31 - 1]),
}


def some_prompts(count: int, seed: int) -> list[str]:
    """Returns the odd prompts, and lines in mixed scripts."""
    return [*ODD_PROMPTS, *scraps(count, seed)][:count]


def some_options(draw: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns some options of the page, and the settings they stand for."""
    options, settings = {}, {}
    for name, (setting, values) in OPTIONS.items():
        if draw.random() < 0.7:
            options[name] = settings[setting] = draw.choice(values)
    return options, settings


@pytest.fixture(scope="module", params=MODELS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A page of each shape."""
    built = build(GPT_SHAPES[request.param], MODELS[request.param])
    number = list(MODELS).index(request.param)
    sampling = {
        "max_new_tokens": 24,
        "seed": number,
        "stop": ["a", "\n", "ill"] if number % 2 else [],
        "banned_tokens": [5, 9, 20] if number % 3 == 0 else [],
    }
    run = write_run(tmp_path_factory.mktemp("parity") / request.param, built, sampling=sampling)
    return Exported(built, run, write_page(run))


def test_two_hundred_prompts(exported, open_page):
    tab, model = open_page(exported.page), exported.portable()
    sampling = exported.run.config.sampling.model_dump(exclude={"prompts"})
    draw, ended = random.Random(exported.run.path.name), 0
    for prompt in some_prompts(PROMPTS_PER_MODEL, draw.randrange(1000)):
        options, settings = some_options(draw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Words that the vocabulary does not contain.
            (expected,) = model.samples(prompt, **{**sampling, **settings})
        found = tab.generate(prompt, **options)
        assert found["text"] == expected.text, (prompt, options)
        assert found["tokens"] == expected.tokens, (prompt, options)
        ended += len(found["tokens"]) < {**sampling, **settings}["max_new_tokens"]
    if sampling["stop"]:
        assert ended > 1
    assert PROMPTS_PER_MODEL * len(MODELS) >= 200


@pytest.mark.parametrize("shape", PAIR_SHAPES)
def test_translations(shape, open_page, tmp_path):
    built = build({"kind": "encoder_decoder", **PAIR_SHAPES[shape]}, spread=0.7)
    run = write_run(tmp_path / shape, built)
    exported = Exported(built, run, write_page(run))
    tab, model = open_page(exported.page), exported.portable()
    sources = [
        "Ana sat on the hill.",
        " \t",
        "",
        "Béla",
        "Čeněk ate figs. " * 9,
        "\x1cDirk\x85",
        "\xa0a",
    ]
    sources += some_prompts(20, 3)
    written = set()
    for source in sources:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Sources that are too long.
            (expected,) = model.translate([source], max_new_tokens=40)
            (short,) = model.translate([source], max_new_tokens=3)
        assert tab.generate(source, maxNewTokens=40)["text"] == expected, source
        assert tab.generate(source, maxNewTokens=3)["text"] == short, source
        written.add(expected)
    assert len(written) > 3


@pytest.mark.parametrize("weights", ["float16", "int8"])
def test_rounded_weights(weights, gpt, open_page):
    page = write_page(gpt.run, weights)
    assert page.stat().st_size < gpt.page.stat().st_size
    file = page.with_suffix(".gguf")
    if not file.exists():
        minigpt.export_run(gpt.run, "gguf", file, weights=weights)
    tab, model = open_page(page), minigpt.load_portable(file)
    page.unlink()
    for seed in range(5):
        (expected,) = model.generate("Ana", 40, temperature=1.1, top_k=0, seed=seed, stop=["hill"])
        found = tab.generate("Ana", maxNewTokens=40, temperature=1.1, topK=0, seed=seed)
        assert found["text"] == expected


def test_a_page_without_simd(gpt, open_page, tmp_path):
    """The other engine writes the same. A browser without SIMD refuses the first one's bytes."""
    content = gpt.page.read_text(encoding="utf-8")
    start = content.index('data-file="engine.wasm"')
    start = content.index(">", start) + 1
    # The version of the format, which follows the four bytes of the magic number.
    broken = content[:start] + content[start:].replace("AGFzbQE", "AGFzbf8", 1)
    assert broken != content
    page = tmp_path / "without-simd.html"
    page.write_text(broken, encoding="utf-8")
    tab, usual = open_page(page), open_page(gpt.page)
    for seed in range(5):
        options = {"maxNewTokens": 200, "seed": seed}
        assert tab.generate("Ana", **options) == usual.generate("Ana", **options)


@pytest.mark.slow
def test_the_saved_model_writes_the_same(tiny_run, signatures, chromium, tmp_path):
    """A trained model: its page and its SavedModel, which TensorFlow computes."""
    page = tmp_path / "trained.html"
    minigpt.export_run(tiny_run, "html", page)
    tab = chromium.open(page)
    differing, prompts = 0, [prompt[:40] for prompt in some_prompts(200, 0)]
    for number, prompt in enumerate(prompts):
        temperature = number % 2 * 0.8
        served = signatures["serving_default"](
            prompt=tf.constant([prompt]),
            max_new_tokens=tf.constant(24),
            temperature=tf.constant(temperature),
            top_k=tf.constant(10),
            top_p=tf.constant(0.95),
            seed=tf.constant(number),
        )["text"].numpy()
        options = {"temperature": temperature, "topK": 10, "topP": 0.95, "seed": number}
        found = tab.generate(prompt, maxNewTokens=24, **options)["text"]
        differing += found != served[0].decode()
    tab.close()
    # Rounding decides between two tokens that are almost equally probable.
    assert differing <= 1
