"""Text to token ids and back, without TensorFlow: words, characters, and pieces of words.

Each kind of tokenizer is a subclass of `Tokenizer` in its own file. `graph.graph_of` returns the same
tokenizer in TensorFlow operations. Both give the same ids and the same text.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # An alias marks a name as public for type checkers.
    from minigpt.tokenizers.base import Tokenizer as Tokenizer
    from minigpt.tokenizers.kinds import KINDS as KINDS
    from minigpt.tokenizers.kinds import learn_tokenizer as learn_tokenizer
    from minigpt.tokenizers.kinds import load_tokenizer as load_tokenizer

# A module is imported when its name is first used: a portable file needs no sentencepiece.
_MODULES = {
    "KINDS": "minigpt.tokenizers.kinds",
    "Tokenizer": "minigpt.tokenizers.base",
    "learn_tokenizer": "minigpt.tokenizers.kinds",
    "load_tokenizer": "minigpt.tokenizers.kinds",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value
