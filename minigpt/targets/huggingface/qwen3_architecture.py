"""Qwen3: config.json and tensors."""

from collections.abc import Mapping
from typing import Any, ClassVar

from minigpt.config import TransformerConfig
from minigpt.config.model import QWEN3
from minigpt.targets.huggingface.architecture import Architecture, Layout, Refuse

FULL_ATTENTION = "full_attention"
ROPE_THETA = 10_000.0
# The rotary settings of transformers 4 and of transformers 5.
ROPE_OBJECTS = ("rope_scaling", "rope_parameters")
# Those that are supported besides rope_theta.
_ROPE = {"type": "default", "rope_type": "default", "partial_rotary_factor": 1}


class Qwen3(Architecture):
    """Qwen3 without experts (Yang et al. 2025): `Qwen3ForCausalLM`."""

    name = "Qwen3"
    model_type = "qwen3"
    class_name = "Qwen3ForCausalLM"
    block = "modern"
    prefix = "model."
    tokens = "embed_tokens.weight"
    fixed: ClassVar[dict[str, bool]] = {"attention_bias": False, "use_sliding_window": False}
    vocab_size = 151_936
    end_id = None
    entries: ClassVar[dict[str, tuple[str, Any]]] = {
        "activation": ("hidden_act", "silu"),
        "num_heads": ("num_attention_heads", 32),
        # None: as many.
        "num_kv_heads": ("num_key_value_heads", 32),
        "head_dim": ("head_dim", 128),
        "max_len": ("max_position_embeddings", 32_768),
        "embed_dim": ("hidden_size", 4096),
        "ff_dim": ("intermediate_size", 22_016),
        "num_layers": ("num_hidden_layers", 32),
        "attention_dropout_rate": ("attention_dropout", 0.0),
        "norm_epsilon": ("rms_norm_eps", 1e-6),
        "tie_embeddings": ("tie_word_embeddings", False),
        "rotary_base": ("rope_theta", ROPE_THETA),
    }
    # Qwen3 has no other dropout, which does not change what the trained model computes.
    others = ("dropout_rate", "ff_dropout_rate")

    def read_settings(self, content: Mapping[str, Any], refuse: Refuse) -> dict[str, Any]:
        kinds = content.get("layer_types") or []
        if set(kinds) - {FULL_ATTENTION}:
            refuse("layer_types", kinds, f"should be {FULL_ATTENTION!r} in all layers")
        if content.get("partial_rotary_factor", 1) != 1:
            refuse("partial_rotary_factor", content["partial_rotary_factor"], "should be 1")
        found: dict[str, Any] = {}
        for part in ROPE_OBJECTS:
            rotary = content.get(part) or {}
            others = dict(rotary) if isinstance(rotary, dict) else {part: rotary}
            theta = others.pop("rope_theta", None)
            if any(value != _ROPE.get(name) for name, value in others.items()):
                refuse(part, rotary, "should be the rotary settings of type 'default'")
            found |= {} if theta is None else {"rotary_base": theta}
        return found

    def required_settings(self, config: TransformerConfig) -> dict[str, Any]:
        values = config.head_sizes[0]
        return {**QWEN3, "head_bias": False, "block": self.block, "value_dim": values}

    def written_settings(self, config: TransformerConfig) -> dict[str, Any]:
        return {
            # For transformers 5, then for version 4 and other programs.
            "rope_parameters": {"rope_theta": config.rotary_base, "rope_type": "default"},
            "rope_scaling": None,
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
