"""Arguments of the constructors of layers and models: their other names, and one check of their values."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from pydantic import TypeAdapter, ValidationError

from minigpt.config import model
from minigpt.config.loading import problem_of
from minigpt.models.layers.dense import Dense, own_initializer

_ADAPTER: TypeAdapter[model.TransformerConfig] = TypeAdapter(model.AnyTransformer)

# Names in the Keras examples, in programs derived from them, and in `keras.layers.MultiHeadAttention`.
MODEL_NAMES = {
    "maxlen": "max_len",
    "rate": "dropout_rate",
    "dropout": "dropout_rate",
    "feed_forward_dim": "ff_dim",
    "key_dim": "head_dim",
}
ATTENTION_NAMES = {"key_dim": "head_dim", "dropout": "attention_dropout_rate"}


def checked_arguments(other_names: Mapping[str, str]) -> Callable[[Any], Any]:
    """Returns a decorator of `__init__` that accepts other names of arguments; the signature stays.

    Numbers of NumPy are converted to those of Python. The constructor then raises a TypeError if an
    argument is given twice, and a ValueError, in one line, if a setting is not valid.

    Args:
      other_names: other name → name of the argument.
    """

    def decorate(constructor: Any) -> Any:
        @functools.wraps(constructor)
        def construct(self: Any, *args: Any, **kwargs: Any) -> None:
            for other in other_names.keys() & kwargs.keys():
                if (name := other_names[other]) in kwargs:
                    both = f"{name!r}, of which {other!r} is another name"
                    raise TypeError(f"{type(self).__name__}() got multiple values for {both}")
                kwargs[name] = kwargs.pop(other)
            plain = {name: _plain(value) for name, value in kwargs.items()}
            try:
                constructor(self, *map(_plain, args), **plain)
            except ValidationError as error:
                raise ValueError("; ".join(map(_line, error.errors()))) from None

        # Keras reads the signature without following `__wrapped__`.
        construct.__signature__ = inspect.signature(constructor)  # type: ignore[attr-defined]
        return construct

    return decorate


def split_settings(
    arguments: Mapping[str, Any], **defaults: Any
) -> tuple[model.TransformerConfig, dict[str, Any]]:
    """Separates the settings of a transformer from the other keyword arguments of a layer or a model.

    If `head_dim` is not given for a GPT's post-norm block, each head has the full width, as in the Keras
    example; for other blocks, and in a configuration file, K = D / H.

    Args:
      arguments: settings by name, `kind` among them if it is not "gpt", and other arguments. A setting that
        is None is not given.
      defaults: values of absent settings that differ from those of the kind. In a modern block those of
        `QWEN3` apply instead.
    Returns:
      The description, and the other arguments.
    Raises:
      ValueError: a setting is not valid.
    """
    names = {*model.GPTConfig.model_fields, *model.EncoderDecoderConfig.model_fields}
    others = {name: value for name, value in arguments.items() if name not in names}
    settings = {
        name: value for name, value in arguments.items() if name in names and value is not None
    }
    if settings.get("block", defaults.get("block")) == "modern":
        defaults = {name: value for name, value in defaults.items() if name not in model.QWEN3}
    settings = {**defaults, **settings}
    is_gpt = settings.get("kind", "gpt") == "gpt"
    if is_gpt and settings.get("block") == "post_norm":
        width = settings.get("embed_dim", model.GPTConfig.model_fields["embed_dim"].default)
        settings.setdefault("head_dim", width)
    return _ADAPTER.validate_python(settings), others


class DescribedLayer(keras.layers.Layer):
    """Base class of attention and of blocks: a layer that settings of `[model]` and initializers describe.

    Args:
      arguments, defaults: as for `split_settings`; the other arguments are those of `keras.layers.Layer`.
      kernel_initializer: of each matrix, drawn separately, except those of `output_initializer`.
      output_initializer: of the matrices whose product is added to the shortcut; the same if None.
    """

    def __init__(
        self,
        arguments: Mapping[str, Any],
        kernel_initializer: Any = "glorot_uniform",
        output_initializer: Any = None,
        **defaults: Any,
    ) -> None:
        config, others = split_settings(arguments, **defaults)
        super().__init__(**others)
        self.config = config.resolved()
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.output_initializer = keras.initializers.get(output_initializer or kernel_initializer)

    def dense(self, units: int, initializer: Any, name: str, activation: Any = None) -> Dense:
        """Returns a dense layer with the settings of this layer, whose matrix is drawn separately."""
        return Dense(
            units,
            activation,
            use_bias=self.config.use_bias,
            kernel_initializer=own_initializer(initializer),
            dtype=self.dtype_policy,
            name=name,
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.config.model_dump(),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "output_initializer": keras.initializers.serialize(self.output_initializer),
        }


def check_positive(**sizes: Any) -> None:
    """Raises a ValueError if a size is not a positive integer."""
    for name, value in sizes.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"`{name}` should be a positive integer. Received: {value!r:.80}")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _line(problem: Any) -> str:
    """Returns the line for one of the errors of a pydantic `ValidationError`."""
    line = problem_of({**problem, "loc": ("model", *problem["loc"])}, "", ())
    return line.replace("model.", "")
