"""Writes tests/fixtures/sampling.npz: results of the logits processors of transformers on random logits.

Run by maintainers with the extra `parity`: python scripts/make_sampling_fixtures.py
"""

from pathlib import Path

import numpy as np
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

OUTPUT = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "sampling.npz"
ROWS, VOCAB_SIZE, TEXT_LENGTH = 6, 50, 20
BANNED = (3, 17)
# temperature, top_k, top_p, min_p, repetition_penalty, whether the tokens BANNED are banned
CASES = [
    (1.0, 0, 1.0, 0.0, 1.0, False),
    (0.7, 0, 1.0, 0.0, 1.0, False),
    (1.0, 7, 1.0, 0.0, 1.0, False),
    (1.0, 0, 0.8, 0.0, 1.0, False),
    (1.0, 0, 1.0, 0.1, 1.0, False),
    (1.0, 0, 1.0, 0.0, 1.3, False),
    (1.0, 0, 1.0, 0.0, 0.8, True),
    (1.6, 20, 0.9, 0.05, 1.2, True),
    (0.6, 40, 0.95, 0.02, 1.1, True),
]


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn((len(CASES), ROWS, VOCAB_SIZE), generator=generator) * 3
    texts = torch.randint(0, VOCAB_SIZE, (len(CASES), ROWS, TEXT_LENGTH), generator=generator)
    expected = []
    for case, scores, text in zip(CASES, logits, texts, strict=True):
        temperature, top_k, top_p, min_p, repetition_penalty, banned = case
        processors = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(repetition_penalty)])
        if banned:
            processors.append(SuppressTokensLogitsProcessor(list(BANNED)))
        processors.append(TemperatureLogitsWarper(temperature))
        if top_k:
            processors.append(TopKLogitsWarper(top_k))
        processors.append(TopPLogitsWarper(top_p))
        processors.append(MinPLogitsWarper(min_p))
        expected.append(torch.softmax(processors(text, scores.clone()), dim=-1).numpy())
    np.savez_compressed(
        OUTPUT,
        cases=np.array(CASES, np.float32),
        banned=np.array(BANNED, np.int32),
        logits=logits.numpy(),
        texts=texts.numpy().astype(np.int32),
        probabilities=np.array(expected),
    )


if __name__ == "__main__":
    main()
