"""The supported architectures.

To add one, write a subclass of `Architecture` in a new file and add it to `ARCHITECTURES`.
"""

from collections.abc import Mapping
from typing import Any

from minigpt.config import TransformerConfig
from minigpt.errors import UserError
from minigpt.targets.huggingface.architecture import Architecture
from minigpt.targets.huggingface.gpt2 import GPT2
from minigpt.targets.huggingface.qwen3 import Qwen3
from minigpt.targets.huggingface.tokenizer_export import export_problem
from minigpt.tokenizers import Tokenizer

# The first is the one with which a model of no known architecture is compared.
ARCHITECTURES: tuple[Architecture, ...] = (GPT2(), Qwen3())


def architecture_of_folder(content: Mapping[str, Any], path: str) -> Architecture:
    """Returns the architecture that a config.json names.

    Args:
      content: the JSON object.
      path: the path of the file, for messages.
    Raises:
      UserError: it names another one.
    """
    kind = content.get("model_type")
    found = next((a for a in ARCHITECTURES if a.model_type == kind), None)
    if found is None:
        known = " or ".join(repr(a.model_type) for a in ARCHITECTURES)
        raise UserError(f"{path}: model_type = {kind!r}: should be {known}")
    classes = content.get("architectures") or [found.classes[0]]
    if not isinstance(classes, list) or not set(found.classes) & set(map(str, classes)):
        raise UserError(f"{path}: architectures = {classes!r}: should be {[found.classes[0]]!r}")
    return found


def architecture_of_model(config: TransformerConfig) -> Architecture:
    """Returns the architecture that a model is exported as, or with which it is compared."""
    return next((a for a in ARCHITECTURES if a.block == config.block), ARCHITECTURES[0])


def export_problems(config: TransformerConfig, tokenizer: Tokenizer) -> list[str]:
    """Returns why a GPT and its tokenizer cannot be written for `transformers`, one line per reason."""
    problems = architecture_of_model(config).export_problems(config)
    reason = export_problem(tokenizer)
    return [*problems, reason] if reason else problems
