"""The common interface of the architectures that a folder of `transformers` may contain."""

import abc
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
import numpy as np

from minigpt.config import TransformerConfig
from minigpt.models import GPT
from minigpt.targets.huggingface.config_reader import ConfigReader, FolderConfig

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


class Architecture(abc.ABC):
    """An architecture: its config.json and its tensors, in both directions.

    The objects have no state. Names of tensors omit `prefix`.

    Attributes:
      name: in messages.
      model_type: in config.json.
      classes: accepted in `architectures`; the first has a head.
      block: the value of `model.block`.
      tokenizer_class: the tokenizer that `transformers` uses if the folder does not name one.
      prefix: of all tensors except the head.
      tokens: the name of the token table.
      buffers: matches tensors that are constants; None if there are none.
      expressed: settings of a model that config.json or the tensors express, and settings that affect
        training only.
    """

    name: ClassVar[str]
    model_type: ClassVar[str]
    classes: ClassVar[tuple[str, ...]]
    block: ClassVar[str]
    tokenizer_class: ClassVar[str]
    prefix: ClassVar[str]
    tokens: ClassVar[str]
    buffers: ClassVar[re.Pattern[str] | None] = None
    expressed: ClassVar[frozenset[str]]

    @abc.abstractmethod
    def read_settings(self, reader: ConfigReader) -> FolderConfig:
        """Reads the settings of config.json; called after the architecture is known.

        Raises:
          UserError: a setting is not supported; one problem for every setting.
        """

    @abc.abstractmethod
    def required_settings(self, config: TransformerConfig) -> dict[str, Any]:
        """Returns the values of settings that the architecture fixes, where they are not the defaults."""

    @abc.abstractmethod
    def config_json(
        self, config: TransformerConfig, vocab_size: int, end_id: int
    ) -> dict[str, Any]:
        """Returns the content of config.json for a model without `export_problems`.

        Args:
          config: the description of a GPT.
          vocab_size: V.
          end_id: the id of the end token, which is before and after every document.
        """

    @abc.abstractmethod
    def tensor_shapes(
        self, config: TransformerConfig, vocab_size: int
    ) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every tensor."""

    @abc.abstractmethod
    def variables(self, model: GPT) -> dict[tuple[str, ...], Any]:
        """Returns the Keras variable of every tensor; None for a bias that the model does not have.

        Several names mean that the variable holds these tensors side by side, in its columns.
        """

    @abc.abstractmethod
    def is_transposed(self, name: str) -> bool:
        """Returns whether a tensor is [out, in]; kernels in Keras are [in, out]."""

    def export_problems(self, config: TransformerConfig) -> list[str]:
        """Returns one line for each setting that the architecture does not have.

        Args:
          config: the description of a GPT.
        """
        required = {
            **{name: field.default for name, field in type(config).model_fields.items()},
            **self.required_settings(config),
        }
        actual = config.resolved().model_dump()
        problems = []
        if config.activation not in ACTIVATIONS.values():
            problems.append(
                f"model.activation = {config.activation!r}: transformers' {self.name} has none"
            )
        for name in sorted(required.keys() - self.expressed):
            if actual[name] != required[name]:
                expected = required[name]
                shown = f"{expected:g}" if isinstance(expected, float) else repr(expected)
                problems.append(f"model.{name} = {actual[name]!r}: {self.name} has {shown}")
        return problems

    def assign(self, model: GPT, read: Callable[[str], np.ndarray]) -> None:
        """Copies tensors into a model, one variable at a time.

        Args:
          model: a model of this architecture.
          read: returns the tensor with a name.
        """
        for names, variable in self.variables(model).items():
            values = [read(name).T if self.is_transposed(name) else read(name) for name in names]
            variable.assign(values[0] if len(values) == 1 else np.concatenate(values, axis=-1))

    def tensors(self, model: GPT) -> dict[str, np.ndarray]:
        """Returns every tensor as float32, with the names in the file.

        A bias that the model does not have is zero.
        """
        shapes = self.tensor_shapes(model.config, model.vocab_size)
        written = {}
        for names, variable in self.variables(model).items():
            widths = [shapes[name][0 if self.is_transposed(name) else -1] for name in names]
            value = (
                np.zeros(sum(widths), "float32")
                if variable is None
                else keras.ops.convert_to_numpy(variable)
            )
            for name, part in zip(
                names, np.split(value, np.cumsum(widths)[:-1], axis=-1), strict=True
            ):
                tensor = part.T if self.is_transposed(name) else part
                stored = name if name == HEAD else self.prefix + name
                written[stored] = np.ascontiguousarray(tensor)
        return written


def activation_name(config: TransformerConfig) -> str:
    """Returns the name of the activation function in config.json."""
    return next(name for name, ours in ACTIVATIONS.items() if ours == config.activation)


def end_token(content: Mapping[str, Any], default: int | None) -> int | None:
    """Returns the id of the end token in config.json, the first of several."""
    end_id = content.get("eos_token_id", default)
    end_id = end_id[0] if isinstance(end_id, list) and end_id else end_id
    return end_id if type(end_id) is int else None
