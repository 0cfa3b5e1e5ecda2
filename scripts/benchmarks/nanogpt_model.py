"""nanoGPT's model, reimplemented in PyTorch. Imports what nanoGPT's own `model.py` imports, and no more."""

import math

import torch
from torch import nn
from torch.nn import functional

from benchmarks.sizes import Sizes


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
