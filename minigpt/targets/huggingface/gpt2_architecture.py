"""GPT-2: config.json and tensors."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from minigpt.config import TransformerConfig
from minigpt.config.model import GPT2 as GPT2_DEFAULTS
from minigpt.targets.huggingface.architecture import Architecture, Layout, Refuse


class GPT2(Architecture):
    """GPT-2 (Radford et al. 2019): `GPT2LMHeadModel`."""

    name = "GPT-2"
    model_type = "gpt2"
    class_name = "GPT2LMHeadModel"
    block = "pre_norm"
    prefix = "transformer."
    tokens = "wte.weight"
    # The values of the published GPT-2. `reorder_and_upcast_attn` is not among them: it computes the same
    # in another order.
    fixed: ClassVar[dict[str, bool]] = {
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    }
    vocab_size = 50257
    end_id = 50256
    # The causal mask: a constant that old files contain.
    buffers = re.compile(r"h\.\d+\.attn\.(masked_)?bias")
    entries: ClassVar[dict[str, tuple[str, Any]]] = {
        "activation": ("activation_function", "gelu_new"),
        "embed_dim": ("n_embd", 768),
        "num_heads": ("n_head", 12),
        "norm_epsilon": ("layer_norm_epsilon", 1e-5),
        "max_len": ("n_positions", 1024),
        "num_layers": ("n_layer", 12),
        "dropout_rate": ("resid_pdrop", 0.1),
        "attention_dropout_rate": ("attn_pdrop", 0.1),
        # None: four times the width.
        "ff_dim": ("n_inner", None),
        "tie_embeddings": ("tie_word_embeddings", True),
    }
    # GPT-2 has no dropout in its MLP, which does not change what the trained model computes.
    others = ("qkv_bias", "ff_dropout_rate")

    def read_settings(self, content: Mapping[str, Any], refuse: Refuse) -> dict[str, Any]:
        return {
            "qkv_bias": True,
            "position": "learned",
            "tie_embeddings": content.get("tie_word_embeddings", True) is not False,
            "head_bias": False,
        }

    def required_settings(self, config: TransformerConfig) -> dict[str, Any]:
        width, rest = divmod(config.embed_dim, config.num_heads)
        return {
            **GPT2_DEFAULTS,
            "head_bias": False,
            "block": self.block,
            **dict.fromkeys(("head_dim", "value_dim"), None if rest else width),
            "num_kv_heads": config.num_heads,
        }

    def written_settings(self, config: TransformerConfig) -> dict[str, Any]:
        return {"embd_pdrop": config.dropout_rate}

    def inner_layout(self, config: TransformerConfig) -> Layout:
        # Dense kernels are [in, out], as in Keras, because GPT-2 uses Conv1D. Only the head is [V, D].
        width, inner = config.embed_dim, config.ff_size
        found: Layout = {"wpe.weight": ((config.max_len, width), "embedding.position_table")}
        for layer in range(config.num_layers):
            for name, (shape, part) in {
                "ln_1": ((width,), "norm1"),
                "attn.c_attn": ((width, 3 * width), "attention.qkv"),
                "attn.c_proj": ((width, width), "attention.output_projection"),
                "ln_2": ((width,), "norm2"),
                "mlp.c_fc": ((width, inner), "expand"),
                "mlp.c_proj": ((inner, width), "contract"),
            }.items():
                weight, bias = ("gamma", "beta") if len(shape) == 1 else ("kernel", "bias")
                path = f"blocks.{layer}.{part}"
                found[f"h.{layer}.{name}.weight"] = (shape, f"{path}.{weight}")
                found[f"h.{layer}.{name}.bias"] = (shape[-1:], f"{path}.{bias}")
        found["ln_f.weight"] = ((width,), "final_norm.gamma")
        found["ln_f.bias"] = ((width,), "final_norm.beta")
        return found
