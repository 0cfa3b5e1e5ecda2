"""Writes tests/fixtures/parity.json: texts of small models with random weights, as TensorFlow writes them.

    python scripts/make_parity_fixtures.py

The engine of the portable file and the page are compared with them. Needs what the tests need.
"""

import json
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import minigpt
from minigpt.config.sampling import DISTRIBUTION
from minigpt.generation.sampling import SamplingSettings, sample
from minigpt.tokenizers.vocabulary import ContinuationText
from tests.generation.naive import newest_logits
from tests.mixed_lines import scraps
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
    draw, built = random.Random(number), built_of(case)
    for i, prompt in enumerate([*PROMPTS, *scraps(6, number)]):
        settings = {name: draw.choice(values) for name, values in SETTINGS.items()}
        settings = settings if i % 2 else {"temperature": 0.0, "max_new_tokens": 40, "seed": 0}
        given = case["sampling"] | settings
        first, *others = [continued(built, prompt, **given) for _ in perturbed(built)]
        if all(other == first for other in others):
            text, tokens = first
            found = {"prompt": prompt, "settings": settings, "text": text, "tokens": tokens}
            case["samples"].append(found)
    print(shape, len(case["samples"]), flush=True)
    return case


_sample = tf.function(sample, autograph=False)


def continued(
    built: Built,
    prompt: str,
    *,
    max_new_tokens: int,
    seed: int,
    stop: list[str],
    banned_tokens: list[int],
    **settings: Any,
) -> tuple[str, list[int]]:
    """Returns a continuation and its tokens: a full pass for every token, without caches."""
    tokenizer = built.tokenizer
    start = tokenizer.encode(prompt).tolist()
    ids, parts = start or [tokenizer.end_id], []
    text = ContinuationText(tokenizer, start, stop)
    penalty = settings.pop("repetition_penalty", 1.0)
    # As `minigpt.generate`, whose defaults are those of the table.
    defaults = {setting.name: setting.default for setting in DISTRIBUTION}
    chosen = SamplingSettings(**defaults | settings).as_tensors()
    for step in range(max_new_tokens):
        logits = newest_logits(built.model, ids)
        for token in {*start, *ids[len(start) or 1 :]}:
            logits[token] *= 1 / penalty if logits[token] > 0 else penalty
        logits[[*tokenizer.never_sampled_ids, *banned_tokens]] = -np.inf
        row = tf.constant(logits[None], tf.float32)
        token = int(_sample(row, tf.constant([seed]), tf.constant(step), chosen)[0])
        if token == tokenizer.end_id:
            break
        ids = [*ids, token]
        parts.append(text.push([token]))
        if text.stopped:
            break
    return "".join(parts) + ("" if text.stopped else text.finish()), text.tokens


def pair_case(shape: str, has_loud_start: bool) -> dict[str, Any]:
    case: dict[str, Any] = {"shape": shape, "has_loud_start": has_loud_start, "samples": []}
    built = built_of(case)
    model = minigpt.TranslationModel(built.model, built.tokenizer)
    for most in (40, 3):
        found = [model.translate(SOURCES, max_new_tokens=most) for _ in perturbed(built)]
        for source, *texts in zip(SOURCES, *found, strict=True):
            if len(set(texts)) == 1:
                sample = {"source": source, "max_new_tokens": most, "text": texts[0]}
                case["samples"].append(sample)
    print(shape, len(case["samples"]), flush=True)
    return case


def perturbed(built: Built) -> Iterator[None]:
    """Changes the weights of a model by more than rounding, twice; before and after, they are its own.

    A text in which two tokens were almost equally probable is not the same each time.
    """
    own = built.weights
    yield
    for seed in range(2):
        draw = np.random.default_rng(seed)
        built.model.set_weights([w * (1 + 3e-6 * draw.normal(size=w.shape)) for w in own])
        yield
    built.model.set_weights(own)


if __name__ == "__main__":
    main()
