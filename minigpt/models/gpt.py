"""The GPT: embedding, blocks, head."""

from typing import Any, ClassVar

import keras

from minigpt.config import GPTConfig, TransformerConfig
from minigpt.models.language_model import LanguageModel
from minigpt.models.layers.ngrams import NGramEmbedding
from minigpt.models.layers.transformer_block import BLOCKS
from minigpt.models.layers.variants import build_norm


@keras.saving.register_keras_serializable("minigpt")
class GPT(LanguageModel):
    """A decoder-only Transformer: `model(token_ids)` returns the logits of the next tokens.

    With `block = "post_norm"` it has the structure and the initial weights of the Keras example; with
    "pre_norm" those of GPT-2, which also applies dropout to the sum of the embeddings and has a final norm;
    with "modern" the structure of Qwen3.

    Settings given as keyword arguments have the Keras example's defaults: a post-norm block, in which each
    head has the full width D unless `head_dim` is given. In other blocks, and in a `GPTConfig`, K = D / H
    by default. If `block = "modern"` is given, position, activation, biases and head have Qwen3's defaults.
    Arguments are those of `LanguageModel`.
    """

    config: GPTConfig
    keyword_defaults: ClassVar[dict[str, Any]] = {
        "kind": "gpt",
        "num_layers": 1,
        "dropout_rate": 0.1,
        "block": "post_norm",
        "activation": "relu",
        "tie_embeddings": False,
    }

    def __init__(
        self, config: TransformerConfig | None = None, vocab_size: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(config, vocab_size, **kwargs)
        config, policy = self.config, self.dtype_policy
        # GPT-2's initial values suit a residual stream that is not normalized.
        is_pre_norm = config.block != "post_norm"

        def kernel_initializer(stddev: float = 0.02) -> Any:
            return (
                keras.initializers.RandomNormal(stddev=stddev) if is_pre_norm else "glorot_uniform"
            )

        def output_initializer() -> Any:
            if config.is_modern:
                # Each block is the identity at first (Zhang et al. 2019, Fixup).
                return "zeros"
            # Small initial values for the 2 L terms of the residual stream (GPT-2, section 2.3).
            return kernel_initializer(0.02 / (2 * config.num_layers) ** 0.5)

        # With the example's initial range, a tied table would give logits far from uniform.
        is_normal = is_pre_norm or config.tie_embeddings
        table: Any = keras.initializers.RandomNormal(stddev=0.02) if is_normal else "uniform"
        self.build_embedding(config.dropout_rate if is_pre_norm else 0.0, table)
        self.ngram_embedding = None
        if config.ngrams:
            sizes = config.ngrams, config.ngram_rows, config.embed_dim, config.ngram_dropout_rate
            self.ngram_embedding = NGramEmbedding(*sizes, dtype=policy, name="ngram_embedding")
        self.blocks = [
            BLOCKS[config.block](
                **config.model_dump() | ({} if layer else {"value_residual": False}),
                kernel_initializer=kernel_initializer(),
                output_initializer=output_initializer(),
                dtype=policy,
                name=f"block{layer}",
            )
            for layer in range(config.num_layers)
        ]
        self.final_norm = build_norm(config, "final_norm", policy) if is_pre_norm else None
        # Without a head, no seed is drawn.
        has_zeros = config.is_modern or config.tie_embeddings
        self.build_head("zeros" if has_zeros else kernel_initializer())
        if type(self) is GPT:  # A subclass may still add layers.
            self.build()

    def call(self, token_ids: Any, training: bool | None = None) -> Any:
        """int32[B, T] → float32[B, T, V]: logits of the token at t + 1.

        Instead of the ids, a pair may be given: the ids, and int32[B, T], where the text of each token
        begins in its row. Texts in one row do not see each other.
        """
        return self.logits(self.latents(token_ids, training=training))

    def latents(self, token_ids: Any, /, training: bool | None = None) -> Any:
        """Computes the input of the head: int32[B, T], or a pair as for `call`, → float[B, T, D].

        It is the output of the last block or, except with post-norm, of the final norm.
        """
        starts = None
        if isinstance(token_ids, tuple | list):
            token_ids, starts = token_ids
        return self.call_with_cache(token_ids, training=training, starts=starts)[0]

    def call_with_cache(
        self,
        token_ids: Any,
        caches: Any = None,
        index: Any = None,
        training: bool | None = None,
        starts: Any = None,
    ) -> tuple[Any, Any]:
        """Computes the forward pass from token ids to latents, with or without a cache.

        Args:
          token_ids: int32[B, T].
          caches: None, or those from `empty_caches` or an earlier call.
          index: int32[B], position of the first token of each row.
          starts: int32[B, T], where the text of each token begins in its row; None: each row is one text.
            Only without caches.
        Returns:
          float[B, T, D], and the caches with these tokens added (None without caches).
        """
        x = self.embedding(token_ids, index, training=training, starts=starts)
        ids, *of_blocks = caches or [None] * (len(self.blocks) + 1)
        if self.ngram_embedding is not None:
            ngrams, ids = self.ngram_embedding(
                token_ids, ids, index, training=training, starts=starts
            )
            x = x + ngrams
        updated, first_values = [ids], None
        for block, cache in zip(self.blocks, of_blocks, strict=True):
            x, cache, values = block.call_with_cache(
                x, cache, index, training, first_values=first_values, starts=starts
            )
            first_values = values if first_values is None else first_values
            updated.append(cache)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return x, updated if caches else None

    def input_signature(self) -> list[Any]:
        return [keras.InputSpec(shape=(None, None), dtype="int32", name="token_ids")]

    def empty_caches(self, batch_size: Any, capacity: Any = None) -> list[Any]:
        """Returns the empty caches: the token ids that n-grams need, and the cache of each block.

        The first is zeros[B, 1, capacity, 1], or an empty tuple without n-grams. `capacity` is in tokens;
        the model's `max_len` if None.
        """
        capacity = self.max_len if capacity is None else capacity
        ids: Any = ()
        if self.ngram_embedding is not None:
            ids = keras.ops.zeros((batch_size, 1, capacity, 1), "float32")
        return [ids, *(block.empty_cache(batch_size, capacity) for block in self.blocks)]

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape, self.vocab_size)
