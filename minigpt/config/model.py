"""Settings of `[model]`: the one description of a transformer, which models and blocks take whole."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from minigpt.config.section import Positive, Rate, Section


class TransformerConfig(Section):
    kind: Literal["gpt", "encoder_decoder"] = Field(
        "gpt", description="encoder_decoder: reads one sequence, writes another, for pairs"
    )
    max_len: int = Field(
        128, ge=2, description="T, the context: tokens the model sees at once (of each sequence)"
    )
    embed_dim: Positive = Field(192, description="D, the width of a token's vector")
    head_dim: Positive | None = Field(
        None, validate_default=True, description="K, the width of a head; embed_dim / num_heads"
    )
    num_heads: Positive = Field(4, description="H, attention heads in a block")
    value_dim: Positive | None = Field(
        None, description="U, the width of a head's values; head_dim"
    )
    ff_dim: Positive | None = Field(
        None, description="F, the inner width of the feed-forward part; 4 x embed_dim"
    )
    num_layers: Positive = Field(4, description="L, transformer blocks")
    dropout_rate: Rate = Field(
        0.0,
        description="share of each sublayer's output (pre: the embeddings' too) dropped in training",
    )
    attention_dropout_rate: Rate = Field(0.0, description="the same of the attention weights")
    ff_dropout_rate: Rate = Field(0.0, description="the same inside the feed-forward part")
    norm: Literal["post", "pre"] = Field(
        "pre", description="LayerNorm after each sublayer's sum (post) or before the sublayer (pre)"
    )
    norm_epsilon: float = Field(1e-6, gt=0, description="of LayerNorm, inside the root")
    qkv_bias: bool = Field(True, description="whether queries, keys and values have a bias")
    scale_embeddings: bool = Field(False, description="token vectors times sqrt(embed_dim)")
    position: Literal["learned", "sinusoidal"] = Field(
        "learned", description="how a token's place is told to the model"
    )
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "relu_squared"] = Field(
        "gelu_tanh", description="the non-linearity of the feed-forward part"
    )
    tie_embeddings: bool = Field(
        True, description="the head's matrix is the token table, transposed"
    )

    @field_validator("norm")
    @classmethod
    def _norm_of_the_kind(cls, norm: str, info: ValidationInfo) -> str:
        if info.data.get("kind") == "encoder_decoder" and norm != "post":
            raise PydanticCustomError("norm", "should be 'post' for kind = 'encoder_decoder'")
        return norm

    @field_validator("num_heads")
    @classmethod
    def _heads_share_the_width(cls, num_heads: int, info: ValidationInfo) -> int:
        width = info.data.get("embed_dim")
        shared = "head_dim" in info.data and info.data["head_dim"] is None
        if width and shared and width % num_heads:
            raise PydanticCustomError(
                "num_heads",
                "should divide model.embed_dim = {embed_dim}, or model.head_dim be set",
                {"embed_dim": width},
            )
        return num_heads

    def resolved(self) -> "TransformerConfig":
        """The same with `head_dim`, `value_dim` and `ff_dim` written out."""
        head_dim = self.head_dim or self.embed_dim // self.num_heads
        return self.model_copy(
            update={
                "head_dim": head_dim,
                "value_dim": self.value_dim or head_dim,
                "ff_dim": self.ff_dim or 4 * self.embed_dim,
            }
        )
