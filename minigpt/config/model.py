"""Settings of `[model]`: the description of a transformer. Models and blocks take the whole object."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, Tag, model_validator

from minigpt.config.section import Positive, Rate, Section, selected_by

# Compiling a training step takes about 0.4 s per block. The deepest published models have about 120 blocks.
MAX_LAYERS = 256
# The hash of an n-gram is computed with 32 bits: see `minigpt.models.layers.ngrams`.
MAX_NGRAM_ROWS = 2**15

DropoutRate = Annotated[
    Rate,
    Field(
        description="share of each sublayer's output that is dropped in training; also of the "
        "sum of the embeddings, except in a GPT with block = 'post_norm'"
    ),
]


BlockName = Annotated[
    Literal["post_norm", "pre_norm", "modern"],
    Field(
        description="post_norm (Vaswani et al. 2017), pre_norm (GPT-2) or modern: RMSNorm, normalized "
        "queries and keys, a gated feed-forward network and no biases (Qwen3); the defaults of position, "
        "activation, qkv_bias, tie_embeddings and, in an encoder-decoder, scale_embeddings depend on it"
    ),
]
Position = Annotated[
    Literal["learned", "sinusoidal", "rotary"],
    Field(
        description="how positions are encoded: a trained table, a fixed one, or rotated queries and keys"
    ),
]
Activation = Annotated[
    Literal["relu", "gelu", "gelu_tanh", "silu", "relu_squared"],
    Field(
        description="activation function of the feed-forward network, or of its gate in a modern block"
    ),
]
QkvBias = Annotated[bool, Field(description="whether queries, keys and values have a bias")]
TieEmbeddings = Annotated[
    bool, Field(description="whether the head's matrix is the transposed token table")
]
ScaleEmbeddings = Annotated[
    bool, Field(description="whether token vectors are multiplied by sqrt(embed_dim)")
]


# The variants of GPT-2 and of Qwen3: what the settings are by default if a block is chosen.
GPT2 = {"position": "learned", "activation": "gelu_tanh", "qkv_bias": True, "tie_embeddings": True}
QWEN3 = {"position": "rotary", "activation": "silu", "qkv_bias": False, "tie_embeddings": False}


class TransformerConfig(Section):
    """Sizes and variants of a transformer. The subclasses are the kinds of model.

    Attributes:
      Letters in the descriptions: T context, D model width, H heads, K width of a head's queries and
      keys, U width of a head's values, F inner width of the feed-forward network, L blocks.
    """

    # Block → the defaults that differ from those of the class.
    defaults_of_blocks: ClassVar[dict[str, dict[str, Any]]] = {}

    kind: Literal["gpt", "encoder_decoder"]
    """the kind of model"""
    max_len: int = Field(128, ge=2, le=1_000_000_000)
    """T, the context: maximum length of a sequence"""
    embed_dim: Positive = 192
    """D, width of the vector of a token"""
    head_dim: Positive | None = None
    """K, width of a head; embed_dim / num_heads if unset"""
    num_heads: Positive = 4
    """H, attention heads of a block"""
    num_kv_heads: Positive | None = None
    """G, heads of keys and values, each shared by num_heads / num_kv_heads query heads; num_heads if
    unset"""
    value_dim: Positive | None = None
    """U, width of the values of a head; head_dim if unset"""
    ff_dim: Positive | None = None
    """F, inner width of the feed-forward network; if unset, 4 * embed_dim or, in a modern block, 8/3 *
    embed_dim, rounded up to a multiple of 32"""
    num_layers: int = Field(4, ge=1, le=MAX_LAYERS)
    """L, transformer blocks (of the encoder and the decoder)"""
    dropout_rate: DropoutRate = 0.0
    attention_dropout_rate: Rate = 0.0
    """dropout rate of the attention weights"""
    ff_dropout_rate: Rate = 0.0
    """dropout rate inside the feed-forward network, after the activation"""
    block: BlockName = "modern"
    norm_epsilon: float = Field(1e-6, gt=0, le=1)
    """added to the variance in LayerNorm, to the mean square in RMSNorm"""
    qkv_bias: QkvBias = False
    scale_embeddings: ScaleEmbeddings = False
    position: Position = "rotary"
    rotary_base: float = Field(10_000.0, gt=0, le=1e30)
    """base of the wavelengths of rotary positions"""
    activation: Activation = "silu"
    tie_embeddings: TieEmbeddings = False
    head_bias: bool | None = None
    """whether a head that is not tied has a bias; if unset, except in a modern block"""

    def _conflict(self) -> tuple[str, str] | None:
        if self.head_dim is None and self.embed_dim % self.num_heads:
            should = (
                f"should divide model.embed_dim = {self.embed_dim}, unless model.head_dim is set"
            )
            return "num_heads", should
        if self.num_kv_heads and self.num_heads % self.num_kv_heads:
            return "num_kv_heads", f"should divide model.num_heads = {self.num_heads}"
        if self.position == "rotary" and self.head_sizes[0] % 2:
            return "position", f"needs an even head_dim, not {self.head_sizes[0]}"
        if self.head_bias and self.tie_embeddings:
            return "head_bias", "needs model.tie_embeddings = false"
        return None

    @model_validator(mode="before")
    @classmethod
    def _add_defaults_of_the_block(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        block = values.get("block")
        defaults = cls.defaults_of_blocks.get(block, {}) if isinstance(block, str) else {}
        return {**defaults, **values}

    @property
    def is_modern(self) -> bool:
        """Whether the blocks have RMSNorm, normalized queries and keys, a gate and no biases."""
        return self.block == "modern"

    @property
    def use_bias(self) -> bool:
        """Whether dense layers have a bias, except those of `qkv_bias` and `head_bias`."""
        return not self.is_modern

    @property
    def has_head_bias(self) -> bool:
        """Whether the head has a bias; the default of the block if unset."""
        chosen = self.use_bias if self.head_bias is None else self.head_bias
        return chosen and not self.tie_embeddings

    @property
    def head_sizes(self) -> tuple[int, int]:
        """K and U; values that are unset are computed."""
        head_dim = self.head_dim or self.embed_dim // self.num_heads
        return head_dim, self.value_dim or head_dim

    @property
    def ff_size(self) -> int:
        """F; computed if unset."""
        default = -(-self.embed_dim // 12) * 32 if self.is_modern else 4 * self.embed_dim
        return self.ff_dim or default

    def resolved(self) -> Self:
        """Returns the same description with `head_bias` and all sizes set."""
        head_dim, value_dim = self.head_sizes
        sizes = {
            "head_dim": head_dim,
            "num_kv_heads": self.num_kv_heads or self.num_heads,
            "value_dim": value_dim,
            "ff_dim": self.ff_size,
            "head_bias": self.has_head_bias,
        }
        return self.model_copy(update=sizes)


# A model with these values has only parts that other programs know.
NO_ADDITIONS: dict[str, Any] = {"value_residual": False, "convolution": 0, "ngrams": []}


class GPTConfig(TransformerConfig):
    """A decoder-only Transformer, which continues a text."""

    defaults_of_blocks: ClassVar[dict[str, dict[str, Any]]] = {"post_norm": GPT2, "pre_norm": GPT2}

    kind: Literal["gpt"] = "gpt"
    """a GPT, which continues a text"""
    value_residual: bool = False
    """whether the values of each block are mixed with those of the first, with one trained weight per
    block (Zhou et al. 2024)"""
    convolution: int = Field(0, ge=0, le=16)
    """taps of the causal convolution of each channel before attention and feed-forward network
    (Allen-Zhu 2025, Canon layers); 0 for none"""
    ngrams: list[Annotated[int, Field(ge=2, le=8)]] = Field([])
    """orders of the n-grams whose embeddings are added to those of the tokens (Pagnoni et al. 2024);
    [2, 3] adds those of the last two and of the last three tokens"""
    ngram_rows: int = Field(8192, ge=16, le=MAX_NGRAM_ROWS)
    """rows of the table of each order; n-grams with the same hash share a row"""
    ngram_dropout_rate: Rate = 0.0
    """dropout rate of the sum of the embeddings of the n-grams"""

    standard_parts: bool = False
    """whether the model has only parts that Hugging Face and llama.cpp know: no value residuals,
    convolutions and n-grams, whatever the settings before say"""

    @model_validator(mode="before")
    @classmethod
    def _switch_additions_off(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("standard_parts") is True:
            return {**values, **NO_ADDITIONS}
        return values

    def _conflict(self) -> tuple[str, str] | None:
        if self.convolution == 1:
            return "convolution", "should be 0 or at least 2"
        if len(set(self.ngrams)) < len(self.ngrams):
            return "ngrams", "should not contain an order twice"
        return super()._conflict()


class EncoderDecoderConfig(TransformerConfig):
    """The Transformer of Vaswani et al. 2017, for pairs. The defaults of the variants are the paper's or,
    in a modern block, Qwen3's."""

    defaults_of_blocks: ClassVar[dict[str, dict[str, Any]]] = {
        "modern": QWEN3 | {"scale_embeddings": False}
    }

    kind: Literal["encoder_decoder"] = "encoder_decoder"
    """an encoder-decoder, which translates; for pairs"""
    dropout_rate: DropoutRate = 0.1
    block: BlockName = "post_norm"
    qkv_bias: QkvBias = True
    scale_embeddings: ScaleEmbeddings = True
    position: Position = "sinusoidal"
    activation: Activation = "relu"
    tie_embeddings: TieEmbeddings = True


AnyTransformer = Annotated[
    Annotated[GPTConfig, Tag("gpt")] | Annotated[EncoderDecoderConfig, Tag("encoder_decoder")],
    selected_by("kind", "gpt"),
]
