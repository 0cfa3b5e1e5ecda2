"""Trains minigpt until it reaches the scores of its peers."""

import json
import os
import time
from collections.abc import Sequence
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.held_out import HeldOut, beginnings, windows
from benchmarks.measuring import Context, Outcome
from benchmarks.quality import TimedEvaluation
from benchmarks.quality_texts import folder, read_characters, read_ids, with_file
from benchmarks.watching import Finished

# What minigpt trains on each text. None: what `--text` chooses for the prose.
CONFIGURATIONS = {
    "shakespeare": "shakespeare_character",
    "prose": None,
    "words": "imdb",
    "stories": "default",
}
# The words have the peers' vocabulary. Start and time limit together take no longer than the target.
WORDS_SETTINGS = ("training.max_minutes=1.75",)


def until(
    context: Context, text: str, goals: Sequence[float], overrides: Sequence[str] = ()
) -> Outcome:
    """Measures seconds from the start of the process until the score falls to each goal.

    Args:
      text: "shakespeare", "prose", "words" or "stories".
      goals: scores.
      overrides: settings, as `SECTION.KEY=VALUE`.
    """
    if text in ("shakespeare", "prose"):
        # The token store is part of the measurement.
        os.environ["MINIGPT_CACHE"] = mkdtemp(dir=context.work)
    import minigpt  # noqa: F401

    config = _in_one_epoch(_settings(context, text, overrides))
    evaluations: list[TimedEvaluation] = []
    steps = config.training.epochs * (config.training.steps_per_epoch or 0)

    def observe(model: Any, step: int, event: str) -> None:
        if event == "begin":
            from benchmarks.keras_fit import nats_of

            began = time.perf_counter()
            held_out = _held_out(context, text, config, model)
            taken = time.perf_counter() - began
            evaluations.append(
                TimedEvaluation(
                    context,
                    held_out,
                    nats_of(model),
                    goals=goals,
                    stops_at_goals=True,
                    evaluation_seconds=taken,
                )
            )
        else:
            evaluations[0].evaluate_if_due(step, model.stop_training or step == steps)
        if evaluations[0].is_over:
            raise Finished

    from benchmarks.our_training import train

    with _clock_without(evaluations):
        train(context, config, observe)
    return evaluations[0].outcome()


def check_overrides(text: str, overrides: Sequence[str]) -> None:
    """Raises a `UserError` if the settings of a case are wrong. Reads no text and imports no TensorFlow.

    Args:
      text, overrides: as for `until`.
    """
    import minigpt

    words = ("tokenizer.kind=word", *WORDS_SETTINGS) if text == "words" else ()
    paths = ["text.txt"] if text == "prose" else []
    minigpt.load_config(CONFIGURATIONS[text], [*words, *overrides], paths)


def _settings(context: Context, text: str, overrides: Sequence[str]) -> Any:
    import minigpt

    name = CONFIGURATIONS[text]
    if name is None:
        from minigpt.corpus.fit import config_for_text

        return config_for_text([str(folder(context, text) / "text.txt")], overrides)
    if text == "stories":
        return minigpt.load_config(name, overrides)
    if text == "shakespeare":
        return with_file(name, folder(context, text) / "text.txt", overrides)
    settings = read_ids(context, text)[2]["settings"]
    same_words = [
        f"{section}.{key}={json.dumps(value)}"
        for section, values in settings.items()
        for key, value in values.items()
    ]
    return minigpt.load_config(name, [*same_words, *WORDS_SETTINGS, *overrides])


def _in_one_epoch(config: Any) -> Any:
    """Returns the same training in one epoch, because validation at its end would count as training."""
    training = config.training
    if training.steps_per_epoch is None:
        return config
    steps = training.epochs * training.steps_per_epoch
    changed = {"epochs": 1, "steps_per_epoch": steps}
    return config.model_copy(update={"training": training.model_copy(update=changed)})


def _clock_without(evaluations: list[TimedEvaluation]) -> Any:
    """Stops the clock of `training.max_minutes` during evaluations."""
    from minigpt.training.callbacks import clock

    def now() -> float:
        return time.perf_counter() - sum(each.evaluation_seconds for each in evaluations)

    return patch.object(clock, "time", SimpleNamespace(perf_counter=now))


def _held_out(context: Context, text: str, config: Any, model: Any) -> HeldOut:
    """Returns the held-out text in our tokens; checks that it is the text of the peers."""
    from minigpt.corpus.token_store import open_corpus

    corpus = open_corpus(config.data, config.tokenizer)
    tokenizer, val = corpus.tokenizer, corpus.val
    if text == "words":
        _, rows, facts = read_ids(context, text)
        if corpus.fingerprint != facts["fingerprint"]:
            raise ValueError("the words of minigpt differ from those of the peers")
        return beginnings(rows, tokenizer.vocab_size)
    ids = np.asarray(val.ids).astype(np.int32)
    length = config.sequence_length
    if text == "stories":
        facts = read_ids(context, text)[2]
        if val.bytes != facts["bytes"]:
            raise ValueError("the held-out stories of minigpt differ from those of the peers")
        return windows(ids, length, val.bytes, tokenizer.vocab_size, val.unknown_tokens)
    # The first and the last id are the end tokens around the text.
    ids = ids[1:-1]
    wanted = read_characters(context, text)[1]
    if tokenizer.lossless and not val.unknown_tokens and tokenizer.decode(ids) != wanted:
        raise ValueError("the held-out text of minigpt differs from that of the peers")
    return windows(ids, length, len(wanted.encode()), tokenizer.vocab_size, val.unknown_tokens)
