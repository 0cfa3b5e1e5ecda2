"""Sizes of the measured models."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Sizes of a GPT and its batches, as V, T, D, H, K, F, L and B in minigpt.

    `context` is the maximum sequence length of the model, `length` the sequence length of a training batch.
    `gated`: the feed-forward network has a third matrix, its gate, as in Qwen3.
    """

    vocab_size: int
    context: int
    length: int
    embed_dim: int
    num_heads: int
    head_dim: int
    ff_dim: int
    num_layers: int
    batch_size: int
    gated: bool = False

    @property
    def tokens_per_step(self) -> int:
        return self.batch_size * self.length

    @property
    def matrix_parameters(self) -> int:
        """Number of entries of all matrices in the forward pass; a tied head counts once."""
        heads = self.num_heads * self.head_dim
        block = 4 * self.embed_dim * heads + (3 if self.gated else 2) * self.embed_dim * self.ff_dim
        return self.num_layers * block + self.embed_dim * self.vocab_size


WORDS = Sizes(20000, 80, 80, 256, 2, 256, 256, 1, 128)
CHARACTERS = Sizes(65, 64, 64, 128, 4, 32, 512, 4, 12)
DEFAULT = Sizes(2048, 128, 128, 192, 4, 48, 768, 4, 16)
MODERN = Sizes(2048, 128, 128, 192, 4, 48, 512, 4, 16, gated=True)
GPT2_124M = Sizes(50257, 1024, 256, 768, 12, 64, 3072, 12, 4)
SMALL = Sizes(8192, 256, 256, 256, 4, 64, 1024, 4, 1)
# GPT-2's shape: 2 and 17 million parameters.
ENGINE_2M = Sizes(2048, 256, 256, 192, 4, 48, 768, 4, 1)
ENGINE_20M = Sizes(8192, 512, 512, 384, 6, 64, 1536, 8, 1)
