"""nanoGPT's settings for characters on a CPU, reimplemented in PyTorch.

Sizes and settings are those that https://github.com/karpathy/nanoGPT gives for a CPU; the code is ours.
"""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.measuring import Context, Outcome
from benchmarks.quality import Looks, held_out, text_of
from benchmarks.sizes import CHARACTERS

STEPS, WARMUP, HIGHEST, LOWEST = 2000, 100, 1e-3, 1e-4


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


def rate(step: int) -> float:
    """Returns the learning rate: warm-up, then a cosine to the minimum at the last step."""
    if step < WARMUP:
        return HIGHEST * (step + 1) / (WARMUP + 1)
    done = (step - WARMUP) / (STEPS - WARMUP)
    return LOWEST + 0.5 * (1 + math.cos(math.pi * done)) * (HIGHEST - LOWEST)


def quality(context: Context, bits: float) -> Outcome:
    """Measures seconds from the start of the process until the held-out loss is below `bits` per byte."""
    text = text_of(context)
    characters = sorted(set(text))
    numbers = {character: i for i, character in enumerate(characters)}
    ids = np.array([numbers[character] for character in text], np.int64)
    train, val = held_out(ids)
    torch.manual_seed(1337)
    model = Model(len(characters))
    optimizer = torch.optim.AdamW(
        [
            {"params": [w for w in model.parameters() if w.ndim >= 2], "weight_decay": 0.1},
            {"params": [w for w in model.parameters() if w.ndim < 2], "weight_decay": 0.0},
        ],
        betas=(0.9, 0.99),
    )

    def nats(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            logits = model(torch.from_numpy(inputs)).transpose(1, 2)
            losses = functional.cross_entropy(logits, torch.from_numpy(targets), reduction="none")
            return losses.sum(1).numpy()

    looks = Looks(context, val, nats, bits)
    draw = torch.Generator().manual_seed(1337)
    places = torch.arange(CHARACTERS.length + 1)
    data = torch.from_numpy(train)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        starts = torch.randint(
            len(train) - CHARACTERS.length, (CHARACTERS.batch_size, 1), generator=draw
        )
        rows = data[starts + places]
        logits = model(rows[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if looks.good_enough(step + 1):
            return looks.outcome(step + 1)
    return {"failed": f"{looks.last:.3f} bits per byte after all {STEPS} steps"}
