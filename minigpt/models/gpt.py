"""The GPT: embedding, blocks, head."""

from typing import Any

import keras
from keras import ops

from minigpt.config import TransformerConfig
from minigpt.layers.embedding import TokenAndPositionEmbedding
from minigpt.layers.transformer_block import PreNormTransformerBlock, TransformerBlock
from minigpt.models.language_model import LanguageModel

BLOCKS = {"post": TransformerBlock, "pre": PreNormTransformerBlock}


@keras.saving.register_keras_serializable("minigpt")
class GPT(LanguageModel):
    """A decoder-only Transformer: `model(token_ids)` gives the logits of every next token.

    With norm="post" the Keras example's model and initial weights; with norm="pre" GPT-2's, which
    also drops from the embedding sum and has a last LayerNorm.

    Args:
      vocab_size: V.
      max_len: the longest sequence.
      embed_dim: D.
      num_heads: H.
      ff_dim: F.
      num_layers: L.
      head_dim: K, D // H if None.
      dropout_rate: see the blocks.
      norm: "post" or "pre".
      position: "learned" or "sinusoidal".
      activation: of the feed-forward networks.
      tie_embeddings: whether the head's matrix is the token table.
      value_dim: U, K if None.
      qkv_bias: whether queries, keys and values have a bias.
      attention_dropout_rate: share of the attention weights dropped while training.
      ff_dropout_rate: share of the FFN's inner activations dropped while training.
      norm_epsilon: of every LayerNorm.
      scale_embeddings: whether token vectors are multiplied by sqrt(D).
    """

    def __init__(
        self,
        vocab_size: int,
        max_len: int,
        embed_dim: int,
        num_heads: int,
        ff_dim: int,
        num_layers: int = 1,
        head_dim: int | None = None,
        dropout_rate: float = 0.1,
        norm: str = "post",
        position: str = "learned",
        activation: str = "relu",
        tie_embeddings: bool = False,
        value_dim: int | None = None,
        qkv_bias: bool = True,
        attention_dropout_rate: float = 0.0,
        ff_dropout_rate: float = 0.0,
        norm_epsilon: float = 1e-6,
        scale_embeddings: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if norm not in BLOCKS:
            raise ValueError(f"`norm` must be 'post' or 'pre'. Received: {norm}")
        self.sizes = {
            "vocab_size": vocab_size,
            "max_len": max_len,
            "embed_dim": embed_dim,
            "num_heads": num_heads,
            "ff_dim": ff_dim,
            "num_layers": num_layers,
            "head_dim": head_dim,
            "dropout_rate": dropout_rate,
            "norm": norm,
            "position": position,
            "activation": activation,
            "tie_embeddings": tie_embeddings,
            "value_dim": value_dim,
            "qkv_bias": qkv_bias,
            "attention_dropout_rate": attention_dropout_rate,
            "ff_dropout_rate": ff_dropout_rate,
            "norm_epsilon": norm_epsilon,
            "scale_embeddings": scale_embeddings,
        }
        self.max_len = max_len
        self.vocab_size = vocab_size
        pre = norm == "pre"

        def normal(stddev: float) -> Any:
            return keras.initializers.RandomNormal(stddev=stddev)

        policy = self.dtype_policy
        self.embedding = TokenAndPositionEmbedding(
            max_len,
            vocab_size,
            embed_dim,
            position,
            dropout_rate if pre else 0.0,
            scale_embeddings,
            # A tied table of the example's width would start with logits far from uniform.
            normal(0.02) if pre or tie_embeddings else "uniform",
            dtype=policy,
            name="embedding",
        )
        self.blocks = [
            BLOCKS[norm](
                embed_dim,
                num_heads,
                ff_dim,
                dropout_rate,
                head_dim,
                activation,
                value_dim,
                qkv_bias,
                attention_dropout_rate,
                ff_dropout_rate,
                norm_epsilon,
                kernel_initializer=normal(0.02) if pre else "glorot_uniform",
                # Each of the 2 L sums into the residual stream starts small (GPT-2, section 2.3).
                output_initializer=normal(0.02 / (2 * num_layers) ** 0.5) if pre else None,
                dtype=policy,
                name=f"block{layer}",
            )
            for layer in range(num_layers)
        ]
        self.final_norm = (
            keras.layers.LayerNormalization(epsilon=norm_epsilon, dtype=policy, name="final_norm")
            if pre
            else None
        )
        self.head = (
            None
            if tie_embeddings
            else keras.layers.Dense(
                vocab_size,
                kernel_initializer=normal(0.02) if pre else "glorot_uniform",
                dtype=policy,
                name="head",
            )
        )

    def build(self, input_shape: Any = None) -> None:
        size = self.sizes["embed_dim"]
        self.embedding.build((None, None))
        for block in self.blocks:
            block.build((None, None, size))
        for layer in (self.final_norm, self.head):
            if layer is not None:
                layer.build((None, None, size))
        self.built = True

    def call(self, token_ids: Any, training: bool | None = None) -> Any:
        """int32[B, T] → float32[B, T, V]: row t scores the token at t + 1."""
        return self.logits(self.latents(token_ids, training=training))

    def latents(self, token_ids: Any, /, training: bool | None = None) -> Any:
        """int32[B, T] → float[B, T, D]: what goes into the head.

        That is the last block's output; with pre-norm, behind the last LayerNorm.
        """
        return self.call_with_cache(token_ids, training=training)[0]

    def call_with_cache(
        self, token_ids: Any, caches: Any = None, index: Any = None, training: bool | None = None
    ) -> tuple[Any, Any]:
        """The one forward pass, from token ids to latents, with a cache or without.

        Args:
          token_ids: int32[B, T].
          caches: None, or one a block, from `empty_caches` or an earlier call.
          index: int32[B], position of each row's first token.
        Returns:
          float[B, T, D] and the caches with these tokens in them (None if none were given).
        """
        x = self.embedding(token_ids, index, training=training)
        updated = []
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks), strict=True):
            x, cache = block.call_with_cache(x, cache, index, training)
            updated.append(cache)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return x, updated if caches else None

    def log_probabilities(self, token_ids: Any) -> Any:
        """int32[B, T] → float32[B, T, V]: log-softmax of the logits, the annotated GPT's generator."""
        return ops.log_softmax(self(token_ids, training=False))

    def empty_caches(self, batch_size: Any) -> list[Any]:
        """A cache a block with room for max_len tokens."""
        return [block.attention.empty_cache(batch_size, self.max_len) for block in self.blocks]

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape, self.vocab_size)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.sizes}


def build_gpt(config: TransformerConfig, vocab_size: int, precision: str = "float32") -> GPT:
    """The model that a configuration describes, with its initial weights.

    Args:
      config: sizes and variants.
      vocab_size: V, of the tokenizer.
      precision: a Keras dtype policy, such as "mixed_bfloat16".
    """
    sizes = config.resolved().model_dump(exclude={"kind"})
    model = GPT(vocab_size=vocab_size, dtype=precision, **sizes)
    model.build()
    return model
