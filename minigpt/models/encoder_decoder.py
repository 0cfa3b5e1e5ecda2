"""The encoder-decoder Transformer, which maps one sequence to another."""

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from minigpt.config import TransformerConfig
from minigpt.models.language_model import LanguageModel
from minigpt.models.layers.dense import PackedGlorotUniform
from minigpt.models.layers.transformer_block import DecoderBlock, EncoderBlock
from minigpt.models.layers.variants import build_norm


@keras.saving.register_keras_serializable("minigpt")
class EncoderDecoder(LanguageModel):
    """The Transformer of Vaswani et al. 2017: `model((source_ids, source_lengths, target_ids))`.

    Source and target share one vocabulary and one token table (section 3.4). Tokens after the length
    of a row are padding, whatever their ids are; no id is reserved for padding. `max_len` limits the
    source and the target. Except with `block = "post_norm"`, a norm follows the last block of the encoder
    and of the decoder.

    `model((source_ids, target_ids))`, as in the TensorFlow tutorial "Neural machine translation with a
    Transformer and Keras", takes zeros at the end of a source row as padding. That is right if id 0 is
    never the last token of a text, as with `keras.layers.TextVectorization` and with minigpt's
    tokenizers, except those of GPT-2 and other imported ones. Otherwise, give the lengths.

    Initial matrices are those of `PackedGlorotUniform`: with the larger queries, keys and values of the
    Keras example, the first epochs have a higher loss (EXPERIMENTS.md, 2026-11-23). Arguments are those of
    `LanguageModel`.
    """

    keyword_defaults: ClassVar[dict[str, Any]] = {"kind": "encoder_decoder", "num_layers": 6}

    def __init__(
        self, config: TransformerConfig | None = None, vocab_size: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(config, vocab_size, **kwargs)
        config, policy = self.config, self.dtype_policy
        # Scaled vectors are as large as position vectors; as rows of the head they give logits near 1.
        table = keras.initializers.RandomNormal(stddev=config.embed_dim**-0.5)
        self.build_embedding(config.dropout_rate, table)
        normalizes_sums = config.block == "post_norm"
        # Without norms of the sums, each block is the identity at first (Zhang et al. 2019, Fixup).
        initial = {
            "kernel_initializer": PackedGlorotUniform(),
            "output_initializer": "glorot_uniform" if normalizes_sums else "zeros",
            "dtype": policy,
        }
        settings = config.model_dump()
        self.encoder_blocks = [
            EncoderBlock(**settings, **initial, name=f"encoder_block{layer}")
            for layer in range(config.num_layers)
        ]
        self.decoder_blocks = [
            DecoderBlock(**settings, **initial, name=f"decoder_block{layer}")
            for layer in range(config.num_layers)
        ]
        self.encoder_norm = None if normalizes_sums else build_norm(config, "encoder_norm", policy)
        self.decoder_norm = None if normalizes_sums else build_norm(config, "decoder_norm", policy)
        self.build_head("glorot_uniform")
        if type(self) is EncoderDecoder:  # A subclass may still add layers.
            self.build()

    def call(self, inputs: Sequence[Any], training: bool | None = None) -> Any:
        """Computes the logits of the next target tokens.

        Args:
          inputs: source_ids int32[B, S], source_lengths int32[B], each 1 or more, and target_ids
            int32[B, T], which begin with the beginning-of-sentence token. Ids are right-padded with
            any ids. Or source_ids and target_ids: zeros at the end of a source are padding.
        Returns:
          float32[B, T, V]: logits of the target token at t + 1.
        """
        return self.logits(self.latents(inputs, training=training))

    def latents(self, inputs: Sequence[Any], /, training: bool | None = None) -> Any:
        """Computes the input of the head, float[B, T, D]; `inputs` as in `call`."""
        source_ids, *lengths, target_ids = inputs
        source_lengths = lengths[0] if lengths else _lengths_without_padding(source_ids)
        source = self.encode(source_ids, source_lengths, training=training)
        return self.call_with_cache(target_ids, source, training=training)[0]

    def encode(self, source_ids: Any, source_lengths: Any, training: bool | None = None) -> Any:
        """Encodes the source, once for all decoding steps.

        Args:
          source_ids: int32[B, S], S ≤ max_len.
          source_lengths: int32[B], each 1 or more.
        Returns:
          The argument `source` of `call_with_cache`: keys and values for each decoder block, and the
          lengths.
        """
        source_lengths = ops.cast(source_lengths, "int32")  # NumPy's integers are int64.
        x = self.embedding(source_ids, training=training)
        for block in self.encoder_blocks:
            x = block(x, source_lengths, training=training)
        if self.encoder_norm is not None:
            x = self.encoder_norm(x)
        encoded = [block.cross_attention.keys_and_values(x) for block in self.decoder_blocks]
        return encoded, source_lengths

    def call_with_cache(
        self,
        target_ids: Any,
        source: Any,
        caches: Any = None,
        index: Any = None,
        training: bool | None = None,
    ) -> tuple[Any, Any]:
        """Computes the decoder's forward pass, with or without a cache.

        Args:
          target_ids: int32[B, T].
          source: from `encode`.
          caches: None, or one for each block, from `empty_caches` or an earlier call.
          index: int32[B], position of the first token of each row.
        Returns:
          float[B, T, D], and the caches with these tokens added (None without caches).
        """
        encoded, lengths = source
        x = self.embedding(target_ids, index, training=training)
        updated = []
        caches_or_none = caches or [None] * len(self.decoder_blocks)
        for block, keys_and_values, cache in zip(
            self.decoder_blocks, encoded, caches_or_none, strict=True
        ):
            x, cache = block.call_with_cache(x, keys_and_values, lengths, cache, index, training)
            updated.append(cache)
        if self.decoder_norm is not None:
            x = self.decoder_norm(x)
        return x, updated if caches else None

    def empty_caches(self, batch_size: Any, max_len: Any = None) -> list[Any]:
        """Returns an empty cache of B rows for each decoder block, of `max_len` tokens if None."""
        capacity = self.max_len if max_len is None else max_len
        return [block.attention.empty_cache(batch_size, capacity) for block in self.decoder_blocks]

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape[-1], self.vocab_size)

    def input_signature(self) -> list[Any]:
        ids = [
            keras.InputSpec(shape=(None, None), dtype="int32", name=f"{side}_ids")
            for side in ("source", "target")
        ]
        lengths = keras.InputSpec(shape=(None,), dtype="int32", name="source_lengths")
        return [(ids[0], lengths, ids[1])]


def _lengths_without_padding(token_ids: Any) -> Any:
    """int[B, S] → int32[B]: tokens of each row without the zeros at its end, at least 1.

    Attention to no token at all would be NaN.
    """
    ends = ops.where(ops.not_equal(token_ids, 0), ops.arange(1, ops.shape(token_ids)[1] + 1), 1)
    return ops.max(ends, axis=-1)
