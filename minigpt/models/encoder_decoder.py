"""The encoder-decoder Transformer: one sequence in, another out."""

from typing import Any

import keras

from minigpt.config import TransformerConfig
from minigpt.layers.embedding import TokenAndPositionEmbedding
from minigpt.layers.encoder_decoder_blocks import DecoderBlock, EncoderBlock
from minigpt.models.language_model import LanguageModel


@keras.saving.register_keras_serializable("minigpt")
class EncoderDecoder(LanguageModel):
    """The Transformer of Vaswani et al. 2017: `model((source_ids, source_lengths, target_ids))`.

    Source and target share one vocabulary and one token table (section 3.4). Padding is what stands
    behind a row's length, whatever its ids are: no id is set aside for it.

    Args:
      vocab_size: V.
      max_len: the longest source and the longest target.
      embed_dim: D.
      num_heads: H.
      ff_dim: F.
      num_layers: N, blocks of the encoder, and of the decoder.
      head_dim: K, D // H if None.
      dropout_rate: of the sublayers' outputs and of the embedding sums (section 5.4).
      position: "sinusoidal" or "learned".
      activation: of the feed-forward networks.
      tie_embeddings: whether the head's matrix is the token table.
      value_dim: U, K if None.
      qkv_bias: whether queries, keys and values have a bias.
      attention_dropout_rate: share of the attention weights dropped while training.
      ff_dropout_rate: share of the FFN's inner activations dropped while training.
      norm_epsilon: of every LayerNorm.
      scale_embeddings: whether token vectors are multiplied by sqrt(D) (section 3.4).
    """

    def __init__(
        self,
        vocab_size: int,
        max_len: int,
        embed_dim: int,
        num_heads: int,
        ff_dim: int,
        num_layers: int = 6,
        head_dim: int | None = None,
        dropout_rate: float = 0.1,
        position: str = "sinusoidal",
        activation: str = "relu",
        tie_embeddings: bool = True,
        value_dim: int | None = None,
        qkv_bias: bool = True,
        attention_dropout_rate: float = 0.0,
        ff_dropout_rate: float = 0.0,
        norm_epsilon: float = 1e-6,
        scale_embeddings: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sizes = {
            "vocab_size": vocab_size,
            "max_len": max_len,
            "embed_dim": embed_dim,
            "num_heads": num_heads,
            "ff_dim": ff_dim,
            "num_layers": num_layers,
            "head_dim": head_dim,
            "dropout_rate": dropout_rate,
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
        policy = self.dtype_policy
        self.embedding = TokenAndPositionEmbedding(
            max_len,
            vocab_size,
            embed_dim,
            position,
            dropout_rate,
            scale_embeddings,
            # Scaled, vectors are as large as positions; as a head's rows they give logits near 1.
            keras.initializers.RandomNormal(stddev=embed_dim**-0.5),
            dtype=policy,
            name="embedding",
        )
        block = {
            "embed_dim": embed_dim,
            "num_heads": num_heads,
            "ff_dim": ff_dim,
            "dropout_rate": dropout_rate,
            "head_dim": head_dim,
            "activation": activation,
            "value_dim": value_dim,
            "qkv_bias": qkv_bias,
            "attention_dropout_rate": attention_dropout_rate,
            "ff_dropout_rate": ff_dropout_rate,
            "norm_epsilon": norm_epsilon,
            "dtype": policy,
        }
        self.encoder_blocks = [
            EncoderBlock(**block, name=f"encoder_block{layer}") for layer in range(num_layers)
        ]
        self.decoder_blocks = [
            DecoderBlock(**block, name=f"decoder_block{layer}") for layer in range(num_layers)
        ]
        self.head = (
            None if tie_embeddings else keras.layers.Dense(vocab_size, dtype=policy, name="head")
        )

    def build(self, input_shape: Any = None) -> None:
        latents = (None, None, self.sizes["embed_dim"])
        self.embedding.build((None, None))
        for block in (*self.encoder_blocks, *self.decoder_blocks):
            block.build(latents)
        if self.head is not None:
            self.head.build(latents)
        self.built = True

    def call(self, inputs: tuple[Any, Any, Any], training: bool | None = None) -> Any:
        """Scores every next token of the targets.

        Args:
          inputs: source_ids int32[B, S], source_lengths int32[B], each 1 or more, and target_ids
            int32[B, T], which begin with the beginning-of-sentence token. Right-padded with any ids.
        Returns:
          float32[B, T, V]: row t scores the target's token at t + 1.
        """
        return self.logits(self.latents(inputs, training=training))

    def latents(self, inputs: tuple[Any, Any, Any], /, training: bool | None = None) -> Any:
        """What goes into the head, float[B, T, D]; `inputs` as in `call`."""
        source_ids, source_lengths, target_ids = inputs
        source = self.encode(source_ids, source_lengths, training=training)
        return self.call_with_cache(target_ids, source, training=training)[0]

    def encode(self, source_ids: Any, source_lengths: Any, training: bool | None = None) -> Any:
        """Reads the source, once for all steps of decoding.

        Args:
          source_ids: int32[B, S], S ≤ max_len.
          source_lengths: int32[B], each 1 or more.
        Returns:
          What `call_with_cache` needs of it: keys and values for every decoder block, and the lengths.
        """
        x = self.embedding(source_ids, training=training)
        for block in self.encoder_blocks:
            x = block(x, source_lengths, training=training)
        read = [block.cross_attention.keys_and_values(x) for block in self.decoder_blocks]
        return read, source_lengths

    def call_with_cache(
        self,
        target_ids: Any,
        source: Any,
        caches: Any = None,
        index: Any = None,
        training: bool | None = None,
    ) -> tuple[Any, Any]:
        """The one pass through the decoder, with a cache or without.

        Args:
          target_ids: int32[B, T].
          source: from `encode`.
          caches: None, or one a block, from `empty_caches` or an earlier call.
          index: int32[B], position of each row's first token.
        Returns:
          float[B, T, D] and the caches with these tokens in them (None if none were given).
        """
        read, lengths = source
        x = self.embedding(target_ids, index, training=training)
        updated = []
        caches_or_none = caches or [None] * len(self.decoder_blocks)
        for block, keys_and_values, cache in zip(
            self.decoder_blocks, read, caches_or_none, strict=True
        ):
            x, cache = block.call_with_cache(x, keys_and_values, lengths, cache, index, training)
            updated.append(cache)
        return x, updated if caches else None

    def empty_caches(self, batch_size: Any, max_len: Any = None) -> list[Any]:
        """A cache a decoder block with room for `max_len` tokens, the model's if None."""
        room = self.max_len if max_len is None else max_len
        return [block.attention.empty_cache(batch_size, room) for block in self.decoder_blocks]

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape[2], self.vocab_size)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.sizes}


def build_encoder_decoder(
    config: TransformerConfig, vocab_size: int, precision: str = "float32"
) -> EncoderDecoder:
    """The model that a configuration describes, with its initial weights.

    Args:
      config: sizes and variants; `norm` is "post".
      vocab_size: V, of the tokenizer.
      precision: a Keras dtype policy, such as "mixed_bfloat16".
    """
    sizes = config.resolved().model_dump(exclude={"kind", "norm"})
    model = EncoderDecoder(vocab_size=vocab_size, dtype=precision, **sizes)
    model.build()
    return model
