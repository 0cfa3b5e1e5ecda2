"""The architectures that a folder of `transformers` may contain: config.json and tensors, both ways."""

import abc
import json
import re
from collections.abc import Callable, Mapping
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import ValidationError

from minigpt.config import GPTConfig, TransformerConfig
from minigpt.config.model import GPT2 as GPT2_DEFAULTS
from minigpt.config.model import NO_ADDITIONS, QWEN3
from minigpt.errors import UserError
from minigpt.models import GPT
from minigpt.tokenizers.base import read_or_refuse

# Names in config.json → names in minigpt. Three names mean the same formula, the tanh form.
ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "relu2": "relu_squared",
}
# The output projection, with the same name in all architectures.
HEAD = "lm_head.weight"
# (entry of config.json, its value, what is wrong): adds a problem.
Refuse = Callable[[str, object, str], None]
# Tensor → its shape, and the variable of the model that holds it, such as "blocks.0.attention.qkv.kernel".
Layout = dict[str, tuple[tuple[int, ...], str]]
# Settings without an effect in a model that has only parts of the architecture.
_OTHERS = ("standard_parts", "ngram_rows", "ngram_dropout_rate")


def read_json_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
      UserError: the file cannot be read or contains anything other than an object.
    """
    try:
        content = json.loads(read_or_refuse(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: should be a JSON object")
    return content


class Architecture(abc.ABC):
    """An architecture: its config.json and its tensors, in both directions.

    Names of tensors omit `prefix`.

    Attributes:
      name: in messages.
      model_type: in config.json.
      class_name: in transformers.
      block: the value of `model.block`.
      prefix: of all tensors except the head.
      tokens: the name of the token table.
      fixed: settings in config.json with the only value that is supported, which is also their default.
      vocab_size, end_id: the values of `vocab_size` and `eos_token_id` if config.json does not have them.
      buffers: matches tensors that are constants; None if there are none.
      entries: settings of `model` → their name in config.json, and the value if it is missing.
      others: further settings of `model` that config.json or the tensors express, or that affect training
        only.
    """

    name: ClassVar[str]
    model_type: ClassVar[str]
    class_name: ClassVar[str]
    block: ClassVar[str]
    prefix: ClassVar[str]
    tokens: ClassVar[str]
    fixed: ClassVar[Mapping[str, bool]]
    vocab_size: ClassVar[int]
    end_id: ClassVar[int | None]
    buffers: ClassVar[re.Pattern[str] | None] = None
    entries: ClassVar[Mapping[str, tuple[str, Any]]]
    others: ClassVar[tuple[str, ...]]

    def read_config(
        self, content: Mapping[str, Any], path: Path
    ) -> tuple[GPTConfig, int, int | None]:
        """Returns the description of a model, V, and the id of its end token, None if there is none.

        Raises:
          UserError: with the path, and one problem for every setting that is not supported.
        """
        problems: list[str] = []

        def refuse(name: str, value: object, message: str) -> None:
            problems.append(f"{path}: {name} = {value!r}: {message}")

        for name, expected in self.fixed.items():
            if content.get(name, expected) is not expected:
                refuse(name, content[name], f"should be {expected}")
        settings = {"block": self.block}
        settings |= {key: content.get(*entry) for key, entry in self.entries.items()}
        settings |= self.read_settings(content, refuse)
        if (activation := str(settings.pop("activation"))) in ACTIVATIONS:
            settings["activation"] = ACTIVATIONS[activation]
        else:
            known = f"should be one of {', '.join(ACTIVATIONS)}"
            refuse(self.entries["activation"][0], activation, known)
        vocab_size = content.get("vocab_size", self.vocab_size)
        if type(vocab_size) is not int or vocab_size < 1:
            refuse("vocab_size", vocab_size, "should be a whole number of at least 1")
        try:
            model = GPTConfig.model_validate(settings)
        except ValidationError as error:
            for details in error.errors():
                found = details.get("ctx", {})  # Of settings that do not suit each other.
                setting = str(found.get("setting") or next(iter(details["loc"]), "kind"))
                name = self.entries.get(setting, (f"model.{setting}",))[0]
                refuse(name, found.get("value", details["input"]), details["msg"])
        if problems:
            raise UserError(*problems)
        end_id = content.get("eos_token_id", self.end_id)
        # The first of several.
        end_id = end_id[0] if isinstance(end_id, list) and end_id else end_id
        return model, vocab_size, end_id if type(end_id) is int else None

    @abc.abstractmethod
    def read_settings(self, content: Mapping[str, Any], refuse: Refuse) -> dict[str, Any]:
        """Returns the settings of `model` that are not `entries`, or whose default depends on others.

        Their values are checked afterwards, by `GPTConfig`; `refuse` is for what it does not have.
        """

    @abc.abstractmethod
    def required_settings(self, config: TransformerConfig) -> dict[str, Any]:
        """Returns further settings that the architecture fixes, where they are not the defaults."""

    def config_json(
        self, config: TransformerConfig, vocab_size: int, end_id: int
    ) -> dict[str, Any]:
        """Returns the content of config.json for a model without `export_problems`."""
        config = config.resolved()
        names = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
        values = config.model_dump() | {"activation": names[config.activation]}
        return {
            **{name: values[setting] for setting, (name, _) in self.entries.items()},
            "architectures": [self.class_name],
            "bos_token_id": end_id,
            "dtype": "float32",
            "eos_token_id": end_id,
            "model_type": self.model_type,
            "vocab_size": vocab_size,
            **self.fixed,
            **self.written_settings(config),
        }

    @abc.abstractmethod
    def written_settings(self, config: TransformerConfig) -> dict[str, Any]:
        """Returns the settings of config.json that are neither `entries` nor `fixed`."""

    def layout(self, config: TransformerConfig, vocab_size: int) -> Layout:
        """Returns the shape and the variable of every tensor.

        If neighbors have the same variable, it holds these tensors side by side, in its columns.
        """
        config, shape = config.resolved(), (vocab_size, config.embed_dim)
        head: Layout = {} if config.tie_embeddings else {HEAD: (shape, "head.kernel")}
        tokens = (shape, "embedding.token_embedding.embeddings")
        return {self.tokens: tokens, **self.inner_layout(config), **head}

    @abc.abstractmethod
    def inner_layout(self, config: TransformerConfig) -> Layout:
        """Returns the layout without token table and head; `config` is resolved."""

    def is_transposed(self, name: str) -> bool:
        """Returns whether a tensor is [out, in]; kernels in Keras are [in, out]."""
        return name == HEAD

    def export_problems(self, config: TransformerConfig) -> list[str]:
        """Returns one line for each setting that the architecture does not have."""
        fields = type(config).model_fields.items()
        required = {name: field.get_default(call_default_factory=True) for name, field in fields}
        required |= {"block": self.block, "head_bias": False, **self.required_settings(config)}
        actual = config.resolved().model_dump()
        problems = [
            f"model.{name} = {actual[name]!r}: {self.name} has {required[name]!r}"
            for name in sorted(required.keys() - {*self.others, *_OTHERS, *self.entries})
            if actual[name] != required[name]
        ]
        if config.activation not in ACTIVATIONS.values():
            problems.insert(0, f"model.activation = {config.activation!r}: {self.name} has none")
        if any(actual[name] != value for name, value in NO_ADDITIONS.items()):
            problems.append("train with model.standard_parts = true")
        return problems

    def assign(self, model: GPT, read: Callable[[str], np.ndarray]) -> None:
        """Copies tensors, which `read` returns by their names, into a model of this architecture."""
        for names, variable in self.variables(model):
            values = [read(name).T if self.is_transposed(name) else read(name) for name in names]
            variable.assign(values[0] if len(values) == 1 else np.concatenate(values, axis=-1))

    def tensors(self, model: GPT) -> dict[str, np.ndarray]:
        """Returns every tensor as float32, with the names in the file.

        A bias that the model does not have is zero.
        """
        layout, written = self.layout(model.config, model.vocab_size), {}
        for names, variable in self.variables(model):
            widths = [layout[name][0][0 if self.is_transposed(name) else -1] for name in names]
            whole = np.zeros(sum(widths), "float32") if variable is None else np.array(variable)
            parts = np.split(whole, np.cumsum(widths)[:-1], axis=-1)
            for name, part in zip(names, parts, strict=True):
                stored = name if name == HEAD else self.prefix + name
                written[stored] = np.ascontiguousarray(part.T if self.is_transposed(name) else part)
        return written

    def variables(self, model: GPT) -> list[tuple[list[str], Any]]:
        """Returns each variable with its tensors; None for a bias that the model does not have."""
        layout = self.layout(model.config, model.vocab_size)
        paths = {name: path for name, (_, path) in layout.items()}
        return [
            (list(names), reduce(_part, path.split("."), model))
            for path, names in groupby(paths, paths.__getitem__)
        ]


def _part(whole: Any, name: str) -> Any:
    return whole[int(name)] if name.isdigit() else getattr(whole, name)


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
        return {**QWEN3, "value_dim": config.head_sizes[0]}

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


# A model is exported as the architecture with its block; the first is the one with which a model of no
# known architecture is compared.
ARCHITECTURES: tuple[Architecture, ...] = (GPT2(), Qwen3())


def architecture_of_model(config: TransformerConfig) -> Architecture:
    """Returns the architecture that a model is exported as, or with which it is compared."""
    return next((a for a in ARCHITECTURES if a.block == config.block), ARCHITECTURES[0])
