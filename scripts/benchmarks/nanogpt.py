"""nanoGPT's settings for characters on a CPU, reimplemented in PyTorch.

Sizes and settings are those that https://github.com/karpathy/nanoGPT gives for a CPU; the code is ours.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.held_out import windows
from benchmarks.measuring import Context, Outcome
from benchmarks.quality import TimedEvaluation, cosine
from benchmarks.quality_texts import read_characters
from benchmarks.sizes import CHARACTERS
from benchmarks.torch_fit import fit, nats_of, parameter_groups, random_windows

WARMUP, HIGHEST, LOWEST = 100, 1e-3, 1e-4


class Block(nn.Module):
    """A pre-norm block without biases, as in nanoGPT's training."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(size, bias=False), nn.LayerNorm(size, bias=False)
        self.qkv = nn.Linear(size, 3 * size, bias=False)
        self.join = nn.Linear(size, size, bias=False)
        self.expand = nn.Linear(size, 4 * size, bias=False)
        self.contract = nn.Linear(4 * size, size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).flatten(2))
        return x + self.contract(functional.gelu(self.expand(self.norm2(x))))


class Model(nn.Module):
    """Token and position tables, blocks, a final normalization, and a tied head."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        sizes = CHARACTERS
        self.tokens = nn.Embedding(vocab_size, sizes.embed_dim)
        self.positions = nn.Embedding(sizes.context, sizes.embed_dim)
        self.blocks = nn.Sequential(
            *(Block(sizes.embed_dim, sizes.num_heads) for _ in range(sizes.num_layers))
        )
        self.norm = nn.LayerNorm(sizes.embed_dim, bias=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                into_sum = name.endswith(("join.weight", "contract.weight"))
                deep = math.sqrt(2 * sizes.num_layers) if into_sum else 1.0
                nn.init.normal_(weight, std=0.02 / deep)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        return self.norm(self.blocks(x)) @ self.tokens.weight.T


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
    model = Model(len(characters))
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
