"""Training on a text of one's own: the loss from the base and from nothing; whose text the samples are."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Outcome

# Samples that are compared, each of so many tokens, and the n-grams of bytes that compare them.
_SAMPLES, _TOKENS, _ORDER = 40, 100, 5


def trained(path: str, base: str, minutes: float) -> Outcome:
    """Trains on a text; the value is the best loss in bits per byte."""
    import minigpt

    run = minigpt.train(text=path, base=base, minutes=minutes)
    lines = (run.path / "metrics.jsonl").read_text("utf-8").splitlines()
    losses = [json.loads(line).get("val_bits_per_byte") for line in lines]
    return {"value": min(loss for loss in losses if loss is not None)}


def own_samples(path: str, base_texts: str, minutes: float) -> Outcome:
    """Trains on a text from the base; the value is the number of samples that are closer to the text.

    A sample is closer to the text that needs fewer bits for it, by n-grams of bytes counted on the text,
    and on as many bytes of the texts of the base.
    """
    import minigpt
    from minigpt.evaluation.baselines import ngram_loss

    run = minigpt.train(text=path, base="english", minutes=minutes)
    model: Any = minigpt.open_model(run)
    prompts = run.config.sampling.prompts
    own = np.frombuffer(Path(path).read_bytes(), np.uint8)
    others = _evenly(Path(base_texts), len(own))
    closer = 0
    for number in range(_SAMPLES):
        prompt = prompts[number % len(prompts)]
        (text,) = model.generate(prompt, max_new_tokens=_TOKENS, temperature=0.7, seed=number)
        sample: Any = np.frombuffer(f"\n{text}".encode(), np.uint8)
        losses = [ngram_loss(counted, sample, 256, _ORDER) for counted in (own, others)]
        closer += losses[0] < losses[1]
    return {"value": closer}


def _evenly(path: Path, size: int) -> np.ndarray:
    """Returns about `size` bytes of the texts of a file of JSON Lines, from lines at equal distances."""
    texts = [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]
    share = max(1, sum(map(len, texts)) // size)
    pieces = (text[: -(-len(text) // share)] for text in texts)
    return np.frombuffer("\n".join(pieces).encode()[:size], np.uint8)
