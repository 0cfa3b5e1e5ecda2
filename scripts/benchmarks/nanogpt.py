"""nanoGPT's settings for characters on a CPU, reimplemented in PyTorch.

Sizes and settings are those that https://github.com/karpathy/nanoGPT gives for a CPU; the code is ours.
"""

from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.held_out import windows
from benchmarks.measuring import Context, Outcome
from benchmarks.nanogpt_model import Model
from benchmarks.quality import TimedEvaluation, cosine
from benchmarks.quality_texts import read_characters
from benchmarks.sizes import CHARACTERS
from benchmarks.torch_fit import fit, nats_of, parameter_groups, random_windows

WARMUP, HIGHEST, LOWEST = 100, 1e-3, 1e-4


def quality(
    context: Context,
    text: str,
    steps: int | None = None,
    seconds: float | None = None,
    goals: Sequence[float] = (),
) -> Outcome:
    """Trains on the characters of a text, for a number of updates or of seconds.

    Args:
      text: name of a text of `quality_texts`.
      steps, seconds: the end of training, and of the learning rate's cosine; one of them.
      goals: scores whose times should be known.
    """
    train, val = read_characters(context, text)
    # nanoGPT's vocabulary is that of the whole text.
    characters = sorted({*train, *val})
    numbers = {character: i for i, character in enumerate(characters)}
    ids, held_out = (
        np.array([numbers[character] for character in part], np.int64) for part in (train, val)
    )
    torch.manual_seed(1337)
    model = Model(CHARACTERS, len(characters))
    evaluation = TimedEvaluation(
        context,
        windows(held_out, CHARACTERS.length, len(val.encode()), len(characters)),
        nats_of(model),
        goals=goals,
        ends=() if seconds is None else (seconds,),
        last_step=steps,
    )
    fit(
        model,
        model,
        parameter_groups(model),
        random_windows(ids, CHARACTERS.length, CHARACTERS.batch_size),
        evaluation,
        lambda step: cosine(
            step,
            evaluation.share if steps is None else (step - WARMUP) / (steps - WARMUP),
            HIGHEST,
            LOWEST,
            WARMUP,
        ),
    )
    return evaluation.outcome()
