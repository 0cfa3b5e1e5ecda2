"""Writes tests/fixtures/parity.json: texts of small models with random weights, as TensorFlow writes them.

    python scripts/make_parity_fixtures.py

The engine of the portable file and the page are compared with them. Needs what the tests need.
"""

import json
import random
import warnings
from typing import Any

import numpy as np

import minigpt
from minigpt.generation.step_models import CachedGPT
from tests.mixed_lines import scraps
from tests.settings import NEVER_COMPILED
from tests.targets.gguf.golden import FILE, built_of
from tests.targets.gguf.models import GPT_SHAPES, PAIR_SHAPES, TOKENIZERS, Built

PROMPTS = [
    *("", " ", "Ana sat", "Béla sat on the roof", "Čeněk ate 3 figs.\nDirk", "\0Ana\0"),
    *("xyz \U0001f600 ▁ \x10a\x10", "👨\u200d👩\u200d👧 \ufeff", "e\u0301\u202e\u2028\r\n\t"),
    *("العربية עברית", "東京都 日本語", "Ana sat on the hill. " * 9),
]
SOURCES = [
    *("Ana sat on the hill.", " \t", "", "Béla", "Čeněk ate figs. " * 9, "\x1cDirk\x85", "\xa0a"),
    *("hill", "9", "Dirk,"),
]
# Every second text is greedy; the others have some of these.
SETTINGS: dict[str, list[Any]] = {
    "temperature": [0.5, 1.0, 1.5],
    "top_k": [0, 5, 50],
    "top_p": [1.0, 0.9],
    "min_p": [0.0, 0.02],
    "typical_p": [1.0, 0.9, 0.3],
    "repetition_penalty": [1.0, 1.3, 0.8],
    "max_new_tokens": [1, 17, 40],
    "seed": [0, 7, 2**31 - 1],
}


def main() -> None:
    warnings.simplefilter("ignore")  # Characters that a vocabulary does not contain.
    setattr(CachedGPT, "jit_compile", NEVER_COMPILED)  # noqa: B010 - a property
    texts = [text_case(number, shape) for number, shape in enumerate(GPT_SHAPES)]
    pairs = [pair_case(shape, False) for shape in PAIR_SHAPES] + [pair_case("pre_norm", True)]
    content = {"texts": texts, "translations": pairs}
    FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def text_case(number: int, shape: str) -> dict[str, Any]:
    names = list(TOKENIZERS)
    case: dict[str, Any] = {
        "shape": shape,
        "tokenizer": names[number % len(names)],
        # Those of the model, which a page has.
        "sampling": {
            "max_new_tokens": 30,
            "stop": ["a", "\n", "ill"] if number % 2 else [],
            "banned_tokens": [5, 9, 20] if number % 3 == 0 else [],
        },
        "samples": [],
    }
    draw = random.Random(number)
    models = [minigpt.TextModel(b.model, b.tokenizer) for b in perturbed(built_of(case))]
    for i, prompt in enumerate([*PROMPTS, *scraps(6, number)]):
        settings = {name: draw.choice(values) for name, values in SETTINGS.items()}
        settings = settings if i % 2 else {"temperature": 0.0, "max_new_tokens": 40, "seed": 0}
        found = [model.samples(prompt, **case["sampling"] | settings)[0] for model in models]
        if found[0] == found[1] == found[2]:
            sample = {"text": found[0].text, "tokens": found[0].tokens}
            case["samples"].append({"prompt": prompt, "settings": settings, **sample})
    print(shape, len(case["samples"]))
    return case


def pair_case(shape: str, has_loud_start: bool) -> dict[str, Any]:
    case: dict[str, Any] = {"shape": shape, "has_loud_start": has_loud_start, "samples": []}
    models = [minigpt.TranslationModel(b.model, b.tokenizer) for b in perturbed(built_of(case))]
    for source in SOURCES:
        for most in (40, 3):
            found = {model.translate(source, max_new_tokens=most)[0] for model in models}
            if len(found) == 1:
                sample = {"source": source, "max_new_tokens": most, "text": found.pop()}
                case["samples"].append(sample)
    print(shape, len(case["samples"]))
    return case


def perturbed(built: Built) -> list[Built]:
    """Returns a model, and two whose weights differ from it by more than rounding.

    A text in which two tokens were almost equally probable is not the same in all three.
    """
    found = [built]
    for seed in range(2):
        draw, other = np.random.default_rng(seed), built.copy()
        for weight in other.model.weights:
            weight.assign(weight.numpy() * (1 + 3e-6 * draw.normal(size=weight.shape)))
        found.append(other)
    return found


if __name__ == "__main__":
    main()
