"""Writing the portable file: a whole model in one GGUF file (docs/portable-file.md)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as TensorType
from gguf import GGUFValueType as ValueType

import minigpt
from minigpt.config import Config, GPTConfig, TransformerConfig
from minigpt.config.model import NO_ADDITIONS
from minigpt.errors import UserError
from minigpt.runs.layout import checksum
from minigpt.runs.tensors import named_tensors
from minigpt.storage.atomic import atomic_file
from minigpt.targets.gguf.tokenizer_tables import (
    LlamaVocabulary,
    llama_vocabulary,
    tokenizer_problem,
    tokenizer_tables,
)
from minigpt.targets.targets import WeightsType
from minigpt.tokenizers.base import Tokenizer

FORMAT = 1
OWN = "minigpt"
_CHECKSUM = "minigpt.crc32"

_TENSOR_TYPES = {"float32": TensorType.F32, "float16": TensorType.F16, "int8": TensorType.Q8_0}
_FILE_TYPES = {
    "float32": gguf.LlamaFileType.ALL_F32,
    "float16": gguf.LlamaFileType.MOSTLY_F16,
    "int8": gguf.LlamaFileType.MOSTLY_Q8_0,
}
# The settings of a model that are in the file or in the shapes of its tensors, or that only training reads.
_KNOWN_SETTINGS = {
    *("kind", "max_len", "embed_dim", "head_dim", "num_heads", "num_kv_heads", "value_dim"),
    *("ff_dim", "num_layers", "dropout_rate", "attention_dropout_rate", "ff_dropout_rate"),
    *("block", "norm_epsilon", "qkv_bias", "scale_embeddings", "position", "rotary_base"),
    *("activation", "tie_embeddings", "head_bias", "value_residual", "convolution", "ngrams"),
    *("ngram_rows", "ngram_dropout_rate", "standard_parts"),
}
# The values that the engine supports: minigpt/targets/gguf/engine/model.c.
_KNOWN_NAMES = {
    "kind": ("gpt", "encoder_decoder"),
    "block": ("post_norm", "pre_norm", "modern"),
    "position": ("learned", "sinusoidal", "rotary"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "relu_squared"),
}
# The architectures of llama.cpp: settings → their values; and the values of all.
_LLAMA: dict[str, dict[str, Any]] = {
    "gpt2": {"block": "pre_norm", "position": "learned", "activation": "gelu_tanh"},
    "qwen3": {"block": "modern", "position": "rotary", "activation": "silu", "qkv_bias": False},
}
_ALL_LLAMA = {"head_bias": False, "scale_embeddings": False, **NO_ADDITIONS}
# Settings that can name files of the user.
_PRIVATE: Any = {
    "data": True,
    "tokenizer": {"encoder_url", "merges_url"},
    "training": {"init_from"},
}
# Numbers in a block of Q8_0, which share a scale.
_BLOCK = 32


def write_portable(
    path: Path,
    config: Config,
    tokenizer: Tokenizer,
    weights: Sequence[np.ndarray],
    *,
    name: str = "",
    training: Mapping[str, Any] | None = None,
    weights_type: WeightsType = "float32",
) -> None:
    """Writes a portable file, whole or not at all. An existing file is replaced.

    Args:
      weights: the values of `model.weights`, in their order.
      training: facts about the run, the keys of `minigpt.training`.
      weights_type: how matrices are stored. "int8" has one scale for each 32 numbers.
    Raises:
      UserError: the format cannot express the model or the tokenizer.
    """
    model = config.model.resolved()
    if problem := portable_problem(config.model, tokenizer):
        raise UserError(problem)
    vocabulary = llama_vocabulary(tokenizer)
    architecture = architecture_of(model, vocabulary)
    with atomic_file(path) as unfinished:
        writer = gguf.GGUFWriter(unfinished, architecture)
        # One of the first keys: before any text that the user chooses.
        writer.add_uint32(_CHECKSUM, 0)
        if name:
            writer.add_name(name)
        writer.add_file_type(_FILE_TYPES[weights_type])
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        if config.data.license is not None:
            writer.add_license(config.data.license)
        _write_own(writer, config, model, tokenizer, training or {})
        if architecture != OWN:
            assert vocabulary is not None
            _write_architecture(writer, architecture, model)
            vocabulary.write(writer, tokenizer)
        noise = np.random.default_rng(0) if config.training.init_from else None
        for tensor_name, array in _tensors(architecture, model, weights):
            _add_tensor(writer, tensor_name, array, _TENSOR_TYPES[weights_type], noise)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        write_checksum(unfinished)


def write_checksum(path: Path) -> None:
    """Sets the checksum of a portable file, in place."""
    data = np.memmap(path, np.uint8)
    place, right = checksum(data)
    data[place : place + 4] = list(right.to_bytes(4, "little"))
    data.flush()


def portable_problem(model: TransformerConfig, tokenizer: Tokenizer) -> str | None:
    """Returns why a model cannot be written as a portable file; None if it can.

    The engine would ignore a setting that it does not know, so such a setting must have its default.
    """
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        is_default = value == field.get_default(call_default_factory=True)
        is_unknown = name not in _KNOWN_SETTINGS and not is_default
        if is_unknown or value not in _KNOWN_NAMES.get(name, (value,)):
            return f"model.{name} = {value!r}: has no form in a portable file"
    return tokenizer_problem(tokenizer)


def public_settings(config: Config) -> dict[str, Any]:
    """Returns the settings as JSON values, without those that can name files of the user."""
    return config.model_dump(mode="json", exclude=_PRIVATE)


def architecture_of(model: TransformerConfig, vocabulary: LlamaVocabulary | None) -> str:
    """Returns the architecture of a model's file: one that llama.cpp knows, or "minigpt".

    Args:
      model: the description, resolved.
      vocabulary: None if llama.cpp does not have the tokenizer.
    """
    given = model.model_dump()
    if vocabulary is None or model.kind != "gpt" or model.head_dim != model.value_dim:
        return OWN
    fitting = (n for n, wanted in _LLAMA.items() if given | _ALL_LLAMA | wanted == given)
    name = next(fitting, OWN)
    heads = model.num_heads
    is_gpt2_sized = (model.num_kv_heads, model.head_dim) == (heads, model.embed_dim / heads)
    return OWN if name == "gpt2" and not is_gpt2_sized else name


def _write_own(
    writer: gguf.GGUFWriter,
    config: Config,
    model: TransformerConfig,
    tokenizer: Tokenizer,
    training: Mapping[str, Any],
) -> None:
    """Adds the keys that the engine reads."""
    names = ["kind", "block", "position", "activation", "max_len", "embed_dim", "num_heads"]
    names += ["num_kv_heads", "head_dim", "value_dim", "ff_dim", "num_layers"]
    described: dict[str, Any] = {name: getattr(model, name) for name in names}
    described["vocab_size"] = tokenizer.vocab_size
    described["norm_epsilon"] = float(model.norm_epsilon)
    described["scale_embeddings"] = model.scale_embeddings
    described["tie_embeddings"] = model.tie_embeddings
    if isinstance(model, GPTConfig):
        # Missing if a model does not have them.
        described["value_residual"] = model.value_residual or None
        described["convolution"] = model.convolution or None
        described["ngrams"] = np.array(model.ngrams, np.int32)
        described["ngram_rows"] = model.ngram_rows if model.ngrams else None
    if model.position == "rotary":
        half = model.head_sizes[0] // 2
        frequencies = model.rotary_base ** (-np.arange(half) / half)
        described["rotary_frequencies"] = frequencies.astype(np.float32)
    values = {
        "format": FORMAT,
        "version": minigpt.__version__,
        # Learning adds its steps in place.
        "learned_steps": 0,
        "config": json.dumps(public_settings(config)),
        "training": json.dumps(dict(training)),
        **{f"model.{key}": value for key, value in described.items()},
        **{f"tokenizer.{key}": value for key, value in tokenizer_tables(tokenizer).items()},
    }
    for key, value in values.items():
        _add(writer, f"minigpt.{key}", value)


def _add(writer: gguf.GGUFWriter, name: str, value: Any) -> None:
    """Adds a key whose type is that of its value; nothing for None, and GGUF has no empty arrays."""
    if isinstance(value, np.ndarray):
        if value.dtype == np.uint8 and value.size:
            # The only form in which the library writes bytes at once.
            writer.add_key_value(name, value.tobytes(), ValueType.ARRAY)
        elif value.size:
            sub_type = ValueType[value.dtype.name.upper()]
            writer.add_key_value(name, value.tolist(), ValueType.ARRAY, sub_type=sub_type)
    elif isinstance(value, int) and not isinstance(value, bool):
        is_signed = name.endswith("unknown_id")
        writer.add_key_value(name, value, ValueType.INT32 if is_signed else ValueType.UINT32)
    elif value is not None:
        types = {bool: ValueType.BOOL, str: ValueType.STRING, float: ValueType.FLOAT32}
        writer.add_key_value(name, value, types[type(value)])


def _write_architecture(
    writer: gguf.GGUFWriter, architecture: str, model: TransformerConfig
) -> None:
    """Adds the keys that llama.cpp reads."""
    head_dim, value_dim = model.head_sizes
    writer.add_context_length(model.max_len)
    writer.add_embedding_length(model.embed_dim)
    writer.add_feed_forward_length(model.ff_size)
    writer.add_block_count(model.num_layers)
    writer.add_head_count(model.num_heads)
    if architecture == "gpt2":
        writer.add_layer_norm_eps(model.norm_epsilon)
        return
    writer.add_head_count_kv(model.num_kv_heads or model.num_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(value_dim)
    writer.add_layer_norm_rms_eps(model.norm_epsilon)
    writer.add_rope_freq_base(model.rotary_base)


def _tensors(
    architecture: str, model: TransformerConfig, weights: Sequence[np.ndarray]
) -> Iterator[tuple[str, np.ndarray]]:
    if model.position == "sinusoidal":
        # Not at the top: the module of the layer imports TensorFlow.
        from minigpt.models.layers.variants import sinusoid

        yield "position_embd.weight", sinusoid(model.max_len, model.embed_dim)
    # llama.cpp reads GPT-2 with one tensor for queries, keys and values, and with its bias.
    is_gpt2 = architecture == "gpt2"
    for name, array in named_tensors(model, weights, joins_qkv=is_gpt2):
        yield name, array
        if is_gpt2 and name.endswith("attn_qkv.weight") and not model.qkv_bias:
            yield name.replace(".weight", ".bias"), np.zeros(len(array), np.float32)


def _add_tensor(
    writer: gguf.GGUFWriter,
    name: str,
    array: np.ndarray,
    tensor_type: TensorType,
    noise: np.random.Generator | None,
) -> None:
    if array.ndim != 2 or name == "position_embd.weight":
        tensor_type = TensorType.F32
    elif tensor_type == TensorType.Q8_0 and array.shape[1] % _BLOCK:
        tensor_type = TensorType.F16
    elif tensor_type == TensorType.Q8_0 and noise:
        # Training began from weights that may be rounded, and changed most by less than half a step of the
        # scale: rounding to the nearest step would undo that. So a part of them is rounded up. The bounds
        # keep the weights that have not changed.
        blocks = array.reshape(-1, _BLOCK)
        steps = np.maximum(np.abs(blocks).max(1, keepdims=True) / 127, np.finfo(np.float32).tiny)
        steps_up = np.floor(blocks / steps + noise.uniform(0.001, 0.999, blocks.shape))
        array = (steps_up * steps).astype(np.float32).reshape(array.shape)
    writer.add_tensor(name, gguf.quants.quantize(array, tensor_type), raw_dtype=tensor_type)
