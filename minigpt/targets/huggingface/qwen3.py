"""Qwen3: config.json and tensors."""

from typing import Any, ClassVar

from minigpt.config import TransformerConfig
from minigpt.config.model import QWEN3
from minigpt.targets.huggingface.architecture import (
    Architecture,
    ConfigReader,
    Entry,
    Layout,
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
    fixed: ClassVar[dict[str, bool]] = {"attention_bias": False, "use_sliding_window": False}
    vocab_size = 151_936
    end_id = None
    entries: ClassVar[dict[str, Entry]] = {
        "hidden_act": Entry("activation", "activation", "silu"),
        "num_attention_heads": Entry("num_heads", "count", 32),
        "head_dim": Entry("head_dim", "count", 128),
        "max_position_embeddings": Entry("max_len", "count", 32_768),
        "hidden_size": Entry("embed_dim", "count", 4096),
        "intermediate_size": Entry("ff_dim", "count", 22_016),
        "num_hidden_layers": Entry("num_layers", "count", 32),
        "attention_dropout": Entry("attention_dropout_rate", "rate", 0.0),
        "rms_norm_eps": Entry("norm_epsilon", "positive", 1e-6),
        "tie_word_embeddings": Entry("tie_embeddings", "flag", False),
    }
    # Qwen3 has no other dropout, which does not change what the trained model computes.
    others = ("num_kv_heads", "rotary_base", "dropout_rate", "ff_dropout_rate")

    def read_settings(self, reader: ConfigReader) -> dict[str, Any]:
        kinds = reader.content.get("layer_types") or []
        for layer, kind in enumerate(kinds if isinstance(kinds, list) else [kinds]):
            if kind != FULL_ATTENTION:
                reader.problem(f"layer_types[{layer}]", kind, f"should be {FULL_ATTENTION!r}")
                break
        settings = self.read_entries(reader)
        name, heads = "num_key_value_heads", settings["num_heads"]
        kv_heads = heads if reader.content.get(name, 32) is None else reader.read(name, "count", 32)
        if heads % kv_heads:
            reader.problem(name, kv_heads, f"should divide num_attention_heads = {heads}")
        if settings["head_dim"] % 2:
            reader.problem("head_dim", settings["head_dim"], "should be even")
        return settings | {"num_kv_heads": kv_heads, "rotary_base": _rotary_base(reader)}

    def required_settings(self, config: TransformerConfig) -> dict[str, Any]:
        values = config.head_sizes[0]
        return {**QWEN3, "head_bias": False, "block": self.block, "value_dim": values}

    def written_settings(self, config: TransformerConfig) -> dict[str, Any]:
        return {
            "num_key_value_heads": config.num_kv_heads,
            # For transformers 5, then for version 4 and other programs.
            "rope_parameters": {"rope_theta": config.rotary_base, "rope_type": "default"},
            "rope_scaling": None,
            "rope_theta": config.rotary_base,
            "sliding_window": None,
        }

    def inner_layout(self, config: TransformerConfig) -> Layout:
        width, inner, head_dim = config.embed_dim, config.ff_size, config.head_sizes[0]
        queries, keys = config.num_heads * head_dim, (config.num_kv_heads or 0) * head_dim
        found: Layout = {}
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
        return found

    def is_transposed(self, name: str) -> bool:
        return super().is_transposed(name) or name.endswith("_proj.weight")


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
