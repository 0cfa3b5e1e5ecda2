"""nanoGPT's model and its settings for characters on a CPU, reimplemented in PyTorch.

Sizes and settings are those that https://github.com/karpathy/nanoGPT gives for a CPU; the code is ours.
`python -m benchmarks.nanogpt CHECKPOINT PROMPT` continues a prompt as nanoGPT's `sample.py`. Two
differences are in its favor: each token is printed at once, and the checkpoint has no state of the
optimizer.
"""

import math
import sys
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.measuring import CHARACTERS, PROMPT, Outcome, Sizes, seconds_to_word

WARMUP, HIGHEST, LOWEST = 100, 1e-3, 1e-4
CHECKPOINT = "nanogpt.pt"
# Those of nanoGPT's script.
TEMPERATURE, TOP_K, NEW_TOKENS = 0.8, 200, 40


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
    """Token and position tables, blocks, a final normalization, and a tied head.

    Args:
      sizes: `head_dim`, `ff_dim` and the sizes of batches are not used.
      vocab_size: V.
    """

    def __init__(self, sizes: Sizes, vocab_size: int) -> None:
        super().__init__()
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


def quality(steps: int) -> Outcome:
    """Trains on the characters of tiny Shakespeare; returns seconds and bits per byte of held-out text."""
    import numpy as np

    from benchmarks.quality import characters, held_out_windows, score, seconds_of_training

    train, val = characters()
    # nanoGPT's vocabulary is that of the whole text.
    numbers = {character: i for i, character in enumerate(sorted({*train, *val}))}
    ids, held_out = (
        torch.tensor([numbers[character] for character in part]) for part in (train, val)
    )
    torch.manual_seed(1337)
    sizes = CHARACTERS
    model = Model(sizes, len(numbers))
    parameters = list(model.parameters())
    groups: list[dict[str, Any]] = [
        {"params": [w for w in parameters if w.ndim >= 2], "weight_decay": 0.1},
        {"params": [w for w in parameters if w.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    places = torch.arange(sizes.length + 1)
    for step in range(steps):
        share = (step - WARMUP) / (steps - WARMUP)
        rate = LOWEST + 0.5 * (1 + math.cos(math.pi * share)) * (HIGHEST - LOWEST)
        for group in optimizer.param_groups:
            group["lr"] = HIGHEST * (step + 1) / (WARMUP + 1) if step < WARMUP else rate
        rows = ids[torch.randint(len(ids) - sizes.length, (sizes.batch_size, 1)) + places]
        loss = functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seconds = seconds_of_training()

    def nats(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            logits = model(torch.from_numpy(inputs).long()).transpose(1, 2)
            wanted = torch.from_numpy(targets).long()
            return functional.cross_entropy(logits, wanted, reduction="none").numpy()

    rows = held_out_windows(held_out.numpy(), sizes.length)
    return {"value": seconds, "score": score(nats, *rows) / (math.log(2) * len(val.encode()))}


def prepare_first_word() -> Outcome:
    """Writes a checkpoint with the sizes of the default configuration, and random weights."""
    import minigpt

    run = minigpt.Run("run-first-word")
    tokenizer, model = run.load_tokenizer(), run.config.model.resolved()
    pieces = [piece.decode(errors="replace") for piece in tokenizer.pieces]
    sizes = replace(
        CHARACTERS,
        context=model.max_len,
        embed_dim=model.embed_dim,
        num_heads=model.num_heads,
        num_layers=model.num_layers,
    )
    torch.manual_seed(0)
    weights = Model(sizes, len(pieces)).state_dict()
    torch.save({"model": weights, "sizes": asdict(sizes), "pieces": pieces}, CHECKPOINT)
    return {"value": len(pieces)}


def first_word() -> Outcome:
    return seconds_to_word([sys.executable, "-m", "benchmarks.nanogpt", CHECKPOINT, PROMPT])


@torch.no_grad()
def sample(path: str, prompt: str) -> None:
    """Prints a prompt and its continuation. As in nanoGPT, nothing is kept from one token to the next."""
    torch.manual_seed(1337)
    checkpoint = torch.load(path, map_location="cpu")
    pieces, sizes = checkpoint["pieces"], Sizes(**checkpoint["sizes"])
    model = Model(sizes, len(pieces)).eval()
    model.load_state_dict(checkpoint["model"])
    numbers = {piece: i for i, piece in enumerate(pieces)}
    ids = torch.tensor([[numbers[character] for character in prompt]])
    print(prompt, end="", flush=True)
    for _ in range(NEW_TOKENS):
        logits = model(ids[:, -sizes.context :])[:, -1] / TEMPERATURE
        lowest = torch.topk(logits, TOP_K).values[:, -1:]
        shares = torch.softmax(logits.masked_fill(logits < lowest, -torch.inf), dim=-1)
        new = torch.multinomial(shares, num_samples=1)
        ids = torch.cat((ids, new), dim=1)
        print(pieces[new.item()], end="", flush=True)


if __name__ == "__main__":
    sample(*sys.argv[1:])
