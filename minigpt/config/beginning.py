"""What training starts from, a base, a run or nothing; and how it goes on from a model that exists."""

import math
from pathlib import Path
from typing import Any

from minigpt.config.model import NO_ADDITIONS, TransformerConfig
from minigpt.config.schema import Config
from minigpt.errors import UserError
from minigpt.runs.layout import bases

# The value of training.init_from that starts from a base if it helps.
AUTO = "auto"
# Bits per byte before training below which a base helps to learn a text of at most a megabyte.
HELPS_BELOW = 4.0
# The number of weights of the models with which the recipe was measured.
_WEIGHTS = 5e6
# Models of more weights, such as GPT-2, are trained with AdamW, for few steps with short sequences, so that
# two cores complete a useful number of them.
_LARGE = 30e6
# Bits per byte of a model before training, if they are not measured: those of the base on modern English.
_BITS = 2.0


def base_helps(bits: float, ngram: float, size: int) -> bool:
    """Returns whether a text should be learned from a base.

    The base needs 1.4 to 2.0 bits per byte for English, 2.5 to 3.6 for Python, and 3.3 to 3.9 for French,
    Spanish and German messages of a program; these are learned better from it. It needs 4.2 for German in
    random order and 7.9 for Russian, which are not. Megabytes of sentences from templates are learned
    better by a small model from nothing: base and n-gram need 1.2 and less for them.

    Args:
      bits: bits per byte that the base needs for a part of the text, before training.
      ngram: those of an n-gram of bytes that was counted on the rest of the text.
      size: bytes of the text.
    """
    return bits < HELPS_BELOW and (size < 1_000_000 or max(bits, ngram) > 1.3)


def may_differ(model: TransformerConfig) -> set[str]:
    """Returns the settings of [model] that may differ from those of the model that training starts from.

    They affect training only, only set other settings, or, as the context without a table of positions, no
    weight.
    """
    names = {"dropout_rate", "attention_dropout_rate", "ff_dropout_rate", "ngram_dropout_rate"}
    return names | {"standard_parts"} | ({"max_len"} if model.position != "learned" else set())


_MANNER = "sentences in the manner of your text, not its facts"

# What a model writes after training on a text with fewer bytes, from the base and from nothing. See the
# samples in docs/data.md.
_EXPECTED = [
    (15_000, "sentences with few words of your text", "parts of words"),
    (50_000, "sentences with names and words of your text", "invented words"),
    (300_000, _MANNER, "invented words"),
    (1_500_000, _MANNER, "words, few whole sentences"),
    (math.inf, _MANNER, "sentences without sense"),
]
# A base that needs fewer bits per byte knows the language of a text.
_KNOWN = 2.5
# Bytes of dialogues below which answers were seen not to fit their questions.
_FEW_DIALOGUES = 10_000


def what_to_expect(size: int, bits: tuple[float, float] | None, is_dialogue: bool = False) -> str:
    """Returns a line that says what a model will write after training on a text of `size` bytes.

    Args:
      bits: bits per byte of the base that training starts from, and of an n-gram of the text itself; None
        if it starts from nothing.
      is_dialogue: whether the model learns to answer.
    Returns:
      "" for dialogues of `_FEW_DIALOGUES` bytes or more.
    """
    of_base, expected = next(words for limit, *words in _EXPECTED if size < limit)
    if is_dialogue:
        if size >= _FEW_DIALOGUES:
            return ""
        expected = "answers in the manner of your text, which seldom fit the question"
    elif bits is not None and bits[0] >= _KNOWN:
        expected = "lines in the manner of your text, with many mistakes"
    elif bits is not None:
        # A text that the n-gram predicts better is a log or a list, not prose.
        expected = of_base if bits[0] <= bits[1] else "lines in the manner of your text"
    amount = f"{round(size / 1000):,} KB" if size >= 1000 else f"{size:,} bytes"
    amount = f"{size / 1e6:.2g} MB" if size >= 1e6 else amount
    return f"{amount} of text: expect {expected}."


def settings_for(
    weights: float, tokens: float, max_len: int, bits: float | None
) -> tuple[dict[str, Any], float, float]:
    """Returns the recipe for a model and a text, from measurements (EXPERIMENTS.md).

    The learning rate and the passes over the text grow with the distance of the text from what the model
    knows. The rate falls with the root of the number of weights.

    Args:
      weights: those that are multiplied.
      tokens: those of the training text.
      bits: bits per byte of the model before training; None if they are not known.
    Returns:
      settings of [training], the dropout rate, and the tokens to train on.
    """
    training: dict[str, Any]
    if weights >= _LARGE:
        training = {"optimizer": "adamw", "adam_beta_2": 0.999, "weight_decay": 0.01}
        training |= {"batch_size": 4, "sequence_length": 128}
        rate, dropout_rate, trained = 5e-4, 0.0, 200.0 * 4 * 128
    else:
        bits = min(max(bits or _BITS, 1.25), 3.5)
        training = {"optimizer": "muon", "adam_beta_2": 0.99, "weight_decay": 1.0}
        training |= {"sequence_length": min(256, max_len), "schedule": "linear"}
        training["batch_size"] = 4 if tokens < 100_000 else 8
        rate, dropout_rate = 1.2e-3 * (bits - 1), 0.1
        # Twice as many passes over 20 KB of tales made the loss of the next 40 KB higher.
        trained = max((3.5 * bits - 2) * tokens, min(10_000, 20 * tokens))
    rate = float(f"{rate * (_WEIGHTS / weights) ** 0.5:.2g}")
    return {**training, "learning_rate": rate}, dropout_rate, trained


def why_from_nothing(config: Config, name: str, source: Config) -> str | None:
    """Returns why settings exclude the base with a name and its settings; None if they do not."""
    reasons = {
        "pairs": "a base continues text, and does not translate pairs",
        "ids": "token ids were given, and a base has a tokenizer of its own",
        "stories": "the bundled stories are learned from nothing",
    }
    if reason := reasons.get(config.data.source):
        return reason
    for setting, value, expected in _contradictions(source, config):
        return f'{setting} = {value!r} was given, and the base "{name}" has {expected!r}'
    return None


def _contradictions(source: Config, config: Config) -> list[tuple[str, Any, Any]]:
    """Returns the given settings that a run has with another value: name, value, that of the run."""
    found = []
    pairs: list[tuple[str, Any, Any]] = [
        ("model", config.model, source.model.resolved()),
        ("tokenizer", config.tokenizer, source.tokenizer),
    ]
    for section, requested, existing in pairs:
        for name in requested.model_dump(exclude_none=True, exclude_unset=True):
            value, expected = getattr(requested, name), getattr(existing, name, None)
            if name in may_differ(source.model) or value == expected:
                continue
            if name in NO_ADDITIONS and getattr(requested, "standard_parts", False):
                # It has set this one, which nobody gave.
                name, value, expected = "standard_parts", True, False
            if (contradiction := (f"{section}.{name}", value, expected)) not in found:
                found.append(contradiction)
    return found


def with_sizes_of(source: Config, config: Config) -> Config:
    """Returns settings with the sizes and the tokenizer of the run that training starts from.

    Raises:
      UserError: a setting contradicts the run; one line each.
    """
    training, model = config.training, source.model.resolved()
    init_from = f"training.init_from = {training.init_from!r}"
    if model.kind != "gpt":
        problem = (
            f"model.kind = {model.kind!r} cannot be fine-tuned; should be a run of kind 'gpt', "
        )
        raise UserError(f"{init_from}: {problem}trained on text")
    if config.model.kind != "gpt":
        problem = "continues text, and does not translate pairs; should be left out"
        raise UserError(f"{init_from}: {problem}")
    if problems := [
        f"{name} = {value!r}: {init_from} has {expected!r}; should be equal or left out"
        for name, value, expected in _contradictions(source, config)
    ]:
        raise UserError(*problems)
    own = may_differ(model) & config.model.model_fields_set
    model = model.model_copy(update={name: getattr(config.model, name) for name in own})
    if training.init_from not in bases():
        config = config.with_training(init_from=str(Path(training.init_from or "").absolute()))
    return config.model_copy(update={"model": model, "tokenizer": source.tokenizer})
