"""Qwen3: config.json and tensors."""

from typing import Any

from minigpt.config import TransformerConfig
from minigpt.config.model import QWEN3
from minigpt.targets.huggingface.architecture import (
    ACTIVATIONS,
    HEAD,
    Architecture,
    ConfigReader,
    FolderConfig,
    Layout,
    activation_name,
    end_token,
    is_positive,
)

FULL_ATTENTION = "full_attention"
ROPE_THETA = 10_000.0
# The rotary settings of transformers 4 and of transformers 5.
ROPE_OBJECTS = ("rope_scaling", "rope_parameters")


class Qwen3(Architecture):
    """Qwen3 without experts (Yang et al. 2025): `Qwen3ForCausalLM`."""

    name = "Qwen3"
    model_type = "qwen3"
    classes = ("Qwen3ForCausalLM", "Qwen3Model")
    block = "modern"
    tokenizer_class = "Qwen2Tokenizer"
    prefix = "model."
    tokens = "embed_tokens.weight"
    expressed = frozenset(
        {
            "max_len",
            "embed_dim",
            "num_heads",
            "num_kv_heads",
            "head_dim",
            "ff_dim",
            "num_layers",
            "attention_dropout_rate",
            # Qwen3 has neither of these two; they do not change what the trained model computes.
            "dropout_rate",
            "ff_dropout_rate",
            "norm_epsilon",
            "rotary_base",
            "activation",
            "tie_embeddings",
        }
    )

    def read_settings(self, reader: ConfigReader) -> FolderConfig:
        reader.fixed({"attention_bias": False, "use_sliding_window": False})
        kinds = reader.content.get("layer_types") or []
        for layer, kind in enumerate(kinds if isinstance(kinds, list) else [kinds]):
            if kind != FULL_ATTENTION:
                reader.problem(f"layer_types[{layer}]", kind, f"should be {FULL_ATTENTION!r}")
                break
        activation = reader.one_of("hidden_act", "silu", ACTIVATIONS)
        heads = reader.number("num_attention_heads", 32)
        kv_heads = (
            heads
            if reader.content.get("num_key_value_heads", 32) is None
            else reader.number("num_key_value_heads", 32)
        )
        if heads % kv_heads:
            message = f"should divide num_attention_heads = {heads}"
            reader.problem("num_key_value_heads", kv_heads, message)
        head_dim = reader.number("head_dim", 128)
        if head_dim % 2:
            reader.problem("head_dim", head_dim, "should be even")
        vocab_size = reader.number("vocab_size", 151_936)
        settings = {
            "max_len": reader.number("max_position_embeddings", 32_768),
            "embed_dim": reader.number("hidden_size", 4096),
            "num_heads": heads,
            "num_kv_heads": kv_heads,
            "head_dim": head_dim,
            "ff_dim": reader.number("intermediate_size", 22_016),
            "num_layers": reader.number("num_hidden_layers", 32),
            "attention_dropout_rate": reader.rate("attention_dropout", 0.0),
            "block": self.block,
            "norm_epsilon": reader.positive("rms_norm_eps", 1e-6),
            "rotary_base": _rotary_base(reader),
            "activation": ACTIVATIONS[activation],
            "tie_embeddings": reader.flag("tie_word_embeddings", False),
        }
        return reader.result(settings, vocab_size, end_token(reader.content, None))

    def required_settings(self, config: TransformerConfig) -> dict[str, Any]:
        values = config.head_sizes[0]
        return {**QWEN3, "head_bias": False, "block": self.block, "value_dim": values}

    def config_json(
        self, config: TransformerConfig, vocab_size: int, end_id: int
    ) -> dict[str, Any]:
        config = config.resolved()
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": config.attention_dropout_rate,
            "bos_token_id": end_id,
            "dtype": "float32",
            "eos_token_id": end_id,
            "head_dim": config.head_dim,
            "hidden_act": activation_name(config),
            "hidden_size": config.embed_dim,
            "intermediate_size": config.ff_dim,
            "max_position_embeddings": config.max_len,
            "model_type": self.model_type,
            "num_attention_heads": config.num_heads,
            "num_hidden_layers": config.num_layers,
            "num_key_value_heads": config.num_kv_heads,
            "rms_norm_eps": config.norm_epsilon,
            # For transformers 5, then for version 4 and other programs.
            "rope_parameters": {"rope_theta": config.rotary_base, "rope_type": "default"},
            "rope_scaling": None,
            "rope_theta": config.rotary_base,
            "sliding_window": None,
            "tie_word_embeddings": config.tie_embeddings,
            "use_sliding_window": False,
            "vocab_size": vocab_size,
        }

    def layout(self, config: TransformerConfig, vocab_size: int) -> Layout:
        config = config.resolved()
        width, inner, head_dim = config.embed_dim, config.ff_size, config.head_sizes[0]
        queries, keys = config.num_heads * head_dim, (config.num_kv_heads or 0) * head_dim
        found: Layout = {self.tokens: ((vocab_size, width), "embedding.token_embedding.embeddings")}
        for layer in range(config.num_layers):
            for name, (shape, part) in {
                "input_layernorm": ((width,), "norm1.scale"),
                "self_attn.q_proj": ((queries, width), "attention.qkv.kernel"),
                "self_attn.k_proj": ((keys, width), "attention.qkv.kernel"),
                "self_attn.v_proj": ((keys, width), "attention.qkv.kernel"),
                "self_attn.q_norm": ((head_dim,), "attention.query_norm.scale"),
                "self_attn.k_norm": ((head_dim,), "attention.key_norm.scale"),
                "self_attn.o_proj": ((width, queries), "attention.output_projection.kernel"),
                "post_attention_layernorm": ((width,), "norm2.scale"),
                "mlp.gate_proj": ((inner, width), "expand.kernel"),
                "mlp.up_proj": ((inner, width), "expand.kernel"),
                "mlp.down_proj": ((width, inner), "contract.kernel"),
            }.items():
                found[f"layers.{layer}.{name}.weight"] = (shape, f"blocks.{layer}.{part}")
        found["norm.weight"] = ((width,), "final_norm.scale")
        if not config.tie_embeddings:
            found[HEAD] = ((vocab_size, width), "head.kernel")
        return found

    def is_transposed(self, name: str) -> bool:
        return name == HEAD or name.endswith("_proj.weight")


def _rotary_base(reader: ConfigReader) -> float:
    """Returns the base of rotary positions, and adds a problem for every other rotary setting."""
    content, name = reader.content, "rope_theta"
    base = content.get(name, ROPE_THETA)
    parts = {"": content}
    for part in ROPE_OBJECTS:
        settings = content.get(part)
        if settings is None:
            continue
        if not isinstance(settings, dict) or any(isinstance(v, dict) for v in settings.values()):
            reader.problem(part, settings, "should be one table of rotary settings, for all layers")
            continue
        parts[f"{part}."] = settings
        for key in ("type", "rope_type"):
            if settings.get(key, "default") != "default":
                reader.problem(f"{part}.{key}", settings[key], "should be 'default'")
        if settings.get("rope_theta") is not None:
            name, base = f"{part}.rope_theta", settings["rope_theta"]
    for prefix, settings in parts.items():
        if settings.get("partial_rotary_factor", 1) != 1:
            value = settings["partial_rotary_factor"]
            reader.problem(f"{prefix}partial_rotary_factor", value, "should be 1")
    if not is_positive(base):
        reader.problem(name, base, "should be a finite number greater than 0")
        return ROPE_THETA
    return float(base)
