"""Settings of `[model]`: the description of a transformer. Models and blocks take the whole object."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Tag, TypeAdapter, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from minigpt.config.section import Positive, Rate, Section, selected_by

# Compiling a training step takes about 0.4 s per block. The deepest published models have about 120 blocks.
MAX_LAYERS = 256

DropoutRate = Annotated[
    Rate,
    Field(
        description="share of each sublayer's output that is dropped in training; also of the "
        "sum of the embeddings, except in a GPT with norm = 'post'"
    ),
]
Position = Annotated[
    Literal["learned", "sinusoidal"],
    Field(description="how positions are encoded: a trained table or a fixed one"),
]
Activation = Annotated[
    Literal["relu", "gelu", "gelu_tanh", "silu", "relu_squared"],
    Field(description="activation function of the feed-forward network"),
]
ScaleEmbeddings = Annotated[
    bool, Field(description="whether token vectors are multiplied by sqrt(embed_dim)")
]


class TransformerConfig(Section):
    """Sizes and variants of a transformer. The subclasses are the kinds of model.

    Attributes:
      Letters in the descriptions: T context, D model width, H heads, K width of a head's queries and
      keys, U width of a head's values, F inner width of the feed-forward network, L blocks.
    """

    kind: Literal["gpt", "encoder_decoder"] = Field(description="the kind of model")
    max_len: int = Field(
        128, ge=2, le=1_000_000_000, description="T, the context: maximum length of a sequence"
    )
    embed_dim: Positive = Field(192, description="D, width of the vector of a token")
    head_dim: Positive | None = Field(
        None, description="K, width of a head; embed_dim / num_heads if unset"
    )
    num_heads: Positive = Field(4, description="H, attention heads of a block")
    value_dim: Positive | None = Field(
        None, description="U, width of the values of a head; head_dim if unset"
    )
    ff_dim: Positive | None = Field(
        None, description="F, inner width of the feed-forward network; 4 * embed_dim if unset"
    )
    num_layers: int = Field(
        4, ge=1, le=MAX_LAYERS, description="L, transformer blocks (of the encoder and the decoder)"
    )
    dropout_rate: DropoutRate = 0.0
    attention_dropout_rate: Rate = Field(0.0, description="dropout rate of the attention weights")
    ff_dropout_rate: Rate = Field(
        0.0, description="dropout rate inside the feed-forward network, after the activation"
    )
    norm: Literal["post", "pre"] = Field(
        "pre",
        description="LayerNorm after the sum of sublayer and shortcut (post) or before the sublayer (pre)",
    )
    norm_epsilon: float = Field(1e-6, gt=0, description="added to the variance in LayerNorm")
    qkv_bias: bool = Field(True, description="whether queries, keys and values have a bias")
    scale_embeddings: ScaleEmbeddings = False
    position: Position = "learned"
    activation: Activation = "gelu_tanh"
    tie_embeddings: bool = Field(
        True, description="whether the head's matrix is the transposed token table"
    )

    @field_validator("num_heads")
    @classmethod
    def _check_heads_divide_width(cls, num_heads: int, info: ValidationInfo) -> int:
        embed_dim = info.data.get("embed_dim")
        head_dim_unset = "head_dim" in info.data and info.data["head_dim"] is None
        if embed_dim and head_dim_unset and embed_dim % num_heads:
            raise PydanticCustomError(
                "num_heads",
                "should divide model.embed_dim = {embed_dim}, unless model.head_dim is set",
                {"embed_dim": embed_dim},
            )
        return num_heads

    @property
    def head_sizes(self) -> tuple[int, int]:
        """K and U; values that are unset are computed."""
        head_dim = self.head_dim or self.embed_dim // self.num_heads
        return head_dim, self.value_dim or head_dim

    @property
    def ff_size(self) -> int:
        """F; computed if unset."""
        return self.ff_dim or 4 * self.embed_dim

    def resolved(self) -> Self:
        """Returns the same description with `head_dim`, `value_dim` and `ff_dim` set."""
        head_dim, value_dim = self.head_sizes
        return self.model_copy(
            update={"head_dim": head_dim, "value_dim": value_dim, "ff_dim": self.ff_size}
        )


class GPTConfig(TransformerConfig):
    """A decoder-only Transformer, which continues a text."""

    kind: Literal["gpt"] = Field("gpt", description="a GPT, which continues a text")


class EncoderDecoderConfig(TransformerConfig):
    """The Transformer of Vaswani et al. 2017, for pairs. The defaults of the variants are the paper's."""

    kind: Literal["encoder_decoder"] = Field(
        "encoder_decoder", description="an encoder-decoder, which translates; for pairs"
    )
    dropout_rate: DropoutRate = 0.1
    norm: Literal["post"] = Field(
        "post", description="LayerNorm after the sum of sublayer and shortcut"
    )
    scale_embeddings: ScaleEmbeddings = True
    position: Position = "sinusoidal"
    activation: Activation = "relu"


AnyTransformer = Annotated[
    Annotated[GPTConfig, Tag("gpt")] | Annotated[EncoderDecoderConfig, Tag("encoder_decoder")],
    selected_by("kind", "gpt"),
]
_ADAPTER: TypeAdapter[TransformerConfig] = TypeAdapter(AnyTransformer)


def split_settings(
    arguments: Mapping[str, Any], **defaults: Any
) -> tuple[TransformerConfig, dict[str, Any]]:
    """Separates the settings of a transformer from the other keyword arguments of a layer.

    Args:
      arguments: settings by name, `kind` among them if it is not "gpt", and other arguments.
      defaults: values of absent settings that differ from those of the kind.
    Returns:
      The description, and the other arguments.
    Raises:
      ValueError: a setting is not valid.
    """
    names = {*GPTConfig.model_fields, *EncoderDecoderConfig.model_fields}
    settings = {name: value for name, value in arguments.items() if name in names}
    others = {name: value for name, value in arguments.items() if name not in names}
    return _ADAPTER.validate_python({**defaults, **settings}), others
