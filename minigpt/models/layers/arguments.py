"""Arguments of the constructors of layers and models: their other names, and messages about wrong ones."""

import functools
import inspect
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from minigpt.config.model import (
    QWEN3,
    AnyTransformer,
    EncoderDecoderConfig,
    GPTConfig,
    TransformerConfig,
)

_ADAPTER: TypeAdapter[TransformerConfig] = TypeAdapter(AnyTransformer)

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
    """Returns a decorator of `__init__` that accepts other names and reports a wrong argument in one line.

    The signature stays that of the constructor. Numbers of NumPy are converted to those of Python.

    The constructor then raises a TypeError if an argument is missing or given twice, and a ValueError if a
    setting is not valid.

    Args:
      other_names: other name → name of the argument.
    """

    def decorate(constructor: Any) -> Any:
        signature = inspect.signature(constructor)

        @functools.wraps(constructor)
        def construct(self: Any, *args: Any, **kwargs: Any) -> None:
            written: dict[str, str] = {}  # Argument → how the caller writes it.
            for other in other_names.keys() & kwargs.keys():
                name = other_names[other]
                if name in kwargs:
                    same = sorted([written.get(name, name), other])
                    raise TypeError(
                        f"{type(self).__name__}() got {same[0]!r} and {same[1]!r}, which are the same "
                        "argument"
                    )
                written[name] = other
                kwargs[name] = kwargs.pop(other)
            args = tuple(map(_plain, args))
            kwargs = {name: _plain(value) for name, value in kwargs.items()}
            try:
                given = signature.bind(self, *args, **kwargs).arguments
            except TypeError as error:
                message = str(error)
                for name, other in written.items():
                    message = message.replace(repr(name), f"{name!r}, given as {other!r}")
                raise TypeError(f"{type(self).__name__}(): {message}") from None
            try:
                constructor(self, *args, **kwargs)
            except ValidationError as error:
                given = {**given, **given.get("kwargs", {})}
                problems = error.errors()
                # Other values may be derived from a wrong one.
                problems = [p for p in problems if _name_of(p) in given] or problems
                raise ValueError("; ".join(_line(p, written) for p in problems)) from None

        # Keras reads the signature without following `__wrapped__`.
        construct.__signature__ = signature  # type: ignore[attr-defined]
        return construct

    return decorate


def split_settings(
    arguments: Mapping[str, Any], **defaults: Any
) -> tuple[TransformerConfig, dict[str, Any]]:
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
    names = {*GPTConfig.model_fields, *EncoderDecoderConfig.model_fields}
    others = {name: value for name, value in arguments.items() if name not in names}
    settings = {
        name: value for name, value in arguments.items() if name in names and value is not None
    }
    if settings.get("block", defaults.get("block")) == "modern":
        defaults = {name: value for name, value in defaults.items() if name not in QWEN3}
    settings = {**defaults, **settings}
    is_gpt = settings.get("kind", "gpt") == "gpt"
    if is_gpt and settings.get("block") == "post_norm":
        width = settings.get("embed_dim", GPTConfig.model_fields["embed_dim"].default)
        settings.setdefault("head_dim", width)
    return _ADAPTER.validate_python(settings), others


def check_positive(**sizes: Any) -> None:
    """Raises a ValueError if a size is not a positive integer."""
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(
                f"`{name}` should be a positive integer. Received: {reprlib.repr(value)}"
            )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _name_of(problem: Any) -> str:
    """Returns the setting of one of the errors of a pydantic `ValidationError`."""
    # The location begins with the kind of model.
    location = [part for part in problem["loc"] if isinstance(part, str)]
    return location[1] if len(location) > 1 else "kind"


def _line(problem: Any, written: Mapping[str, str]) -> str:
    name, value = _name_of(problem), problem["input"]
    message = problem["msg"].removeprefix("Input ").replace("model.", "")
    if name == "kind":
        value, message = value.get("kind"), f"should be one of {problem['ctx']['expected_tags']}"
    return f"`{written.get(name, name)}` {message}. Received: {reprlib.repr(value)}"
