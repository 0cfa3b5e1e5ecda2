"""config.json of a GPT-2 folder: reading it as a model configuration, and writing it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minigpt.config import GPTConfig, TransformerConfig
from minigpt.errors import UserError

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
# The defaults of GPT2Config, and the values of the published GPT-2. No other values are supported.
PUBLISHED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
}
# Settings of a model that config.json or the tensors express.
EXPRESSED = {
    "max_len",
    "embed_dim",
    "num_heads",
    "ff_dim",
    "num_layers",
    "dropout_rate",
    "attention_dropout_rate",
    # GPT-2 has none; it does not change what the trained model computes.
    "ff_dropout_rate",
    "norm_epsilon",
    "qkv_bias",
    "activation",
    "tie_embeddings",
}


@dataclass(frozen=True)
class FolderConfig:
    """The content of a config.json.

    Attributes:
      model: the description of the model.
      vocab_size: V.
      end_id: the id of the end token; None if config.json does not contain it.
    """

    model: GPTConfig
    vocab_size: int
    end_id: int | None


def read_config(content: Mapping[str, Any], path: str) -> FolderConfig:
    """Reads config.json.

    Args:
      content: the JSON object.
      path: the path of the file, for messages.
    Raises:
      UserError: it describes a different architecture or an unsupported variant of GPT-2; one problem for
        every setting.
    """
    problems: list[str] = []
    kind = content.get("model_type")
    architectures = content.get("architectures") or ["GPT2LMHeadModel"]
    if kind != "gpt2":
        raise UserError(f"{path}: model_type = {kind!r}: should be 'gpt2'")
    known = {"GPT2LMHeadModel", "GPT2Model"}
    if not isinstance(architectures, list) or not known & set(map(str, architectures)):
        raise UserError(f"{path}: architectures = {architectures!r}: should be ['GPT2LMHeadModel']")

    def number(name: str, default: int) -> int:
        value = content.get(name, default)
        if type(value) is not int or value < 1:
            problems.append(f"{path}: {name} = {value!r}: should be a whole number of at least 1")
            return default
        return value

    def rate(name: str) -> float:
        value = content.get(name, 0.1)
        if type(value) not in (int, float) or not 0 <= value < 1:
            problems.append(f"{path}: {name} = {value!r}: should be at least 0 and less than 1")
            return 0.0
        return float(value)

    for name, published in PUBLISHED.items():
        if content.get(name, published) is not published:
            problems.append(f"{path}: {name} = {content[name]!r}: should be {published}")
    activation = content.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        problems.append(
            f"{path}: activation_function = {activation!r}: should be one of {', '.join(ACTIVATIONS)}"
        )
    width, heads = number("n_embd", 768), number("n_head", 12)
    if width % heads:
        problems.append(f"{path}: n_head = {heads}: should divide n_embd = {width}")
    epsilon = content.get("layer_norm_epsilon", 1e-5)
    if type(epsilon) not in (int, float) or not epsilon > 0:
        problems.append(f"{path}: layer_norm_epsilon = {epsilon!r}: should be greater than 0")
    vocab_size = number("vocab_size", 50257)
    sizes = {
        "max_len": number("n_positions", 1024),
        "embed_dim": width,
        "num_heads": heads,
        "ff_dim": 4 * width if content.get("n_inner") is None else number("n_inner", 1),
        "num_layers": number("n_layer", 12),
        "dropout_rate": rate("resid_pdrop"),
        "attention_dropout_rate": rate("attn_pdrop"),
        "block": "pre_norm",
        "qkv_bias": True,
        "position": "learned",
        "tie_embeddings": content.get("tie_word_embeddings", True) is not False,
    }
    embedding_rate = rate("embd_pdrop")
    if not problems and embedding_rate != sizes["dropout_rate"]:
        problems.append(
            f"{path}: embd_pdrop = {embedding_rate}: should be resid_pdrop = "
            f"{sizes['dropout_rate']}, because minigpt has one rate for both"
        )
    end_id = content.get("eos_token_id", 50256)
    end_id = end_id[0] if isinstance(end_id, list) and end_id else end_id
    if problems:
        raise UserError(*problems)
    model = GPTConfig.model_validate(
        {**sizes, "norm_epsilon": float(epsilon), "activation": ACTIVATIONS[activation]}
    )
    return FolderConfig(model, vocab_size, end_id if type(end_id) is int else None)


def export_problems(config: TransformerConfig) -> list[str]:
    """Returns one line for each setting that GPT-2 does not have; an empty list for a GPT-2.

    Args:
      config: the description of a GPT.
    """
    heads_width = config.embed_dim / config.num_heads
    required = {
        **{name: field.default for name, field in type(config).model_fields.items()},
        "head_dim": heads_width,
        "value_dim": heads_width,
        "num_kv_heads": config.num_heads,
    }
    actual = config.resolved().model_dump()
    problems = []
    if config.activation not in ACTIVATIONS.values():
        problems.append(f"model.activation = {config.activation!r}: transformers' GPT-2 has none")
    # A setting that config.json cannot express must have the value of GPT-2, which is its default.
    for name in sorted(required.keys() - EXPRESSED):
        if actual[name] != required[name]:
            expected = required[name]
            shown = f"{expected:g}" if isinstance(expected, float) else repr(expected)
            problems.append(f"model.{name} = {actual[name]!r}: GPT-2 has {shown}")
    return problems


def config_json(config: TransformerConfig, vocab_size: int, end_id: int) -> dict[str, Any]:
    """Returns the content of config.json for a model without `export_problems`.

    Args:
      config: the description of a GPT.
      vocab_size: V.
      end_id: the id of the end token, which is before and after every document.
    """
    activation = next(name for name, ours in ACTIVATIONS.items() if ours == config.activation)
    return {
        "activation_function": activation,
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": config.attention_dropout_rate,
        "bos_token_id": end_id,
        "dtype": "float32",
        "embd_pdrop": config.dropout_rate,
        "eos_token_id": end_id,
        "layer_norm_epsilon": config.norm_epsilon,
        "model_type": "gpt2",
        "n_embd": config.embed_dim,
        "n_head": config.num_heads,
        "n_inner": config.ff_size,
        "n_layer": config.num_layers,
        "n_positions": config.max_len,
        "resid_pdrop": config.dropout_rate,
        "tie_word_embeddings": config.tie_embeddings,
        "vocab_size": vocab_size,
        **PUBLISHED,
    }
