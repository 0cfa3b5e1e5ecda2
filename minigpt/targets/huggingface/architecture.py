"""The interface of the architectures that a folder of `transformers` may contain, and its config.json."""

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
from minigpt.config.model import NO_ADDITIONS
from minigpt.errors import UserError
from minigpt.models import GPT
from minigpt.tokenizers.base import read_file

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
        content = json.loads(read_file(path))
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

        Args:
          content: the JSON object.
          path: the file, for messages.
        Raises:
          UserError: a setting is not supported; one problem for every setting.
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
        """Returns the values of settings that the architecture fixes, where they are not the defaults."""

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
        required |= self.required_settings(config)
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
