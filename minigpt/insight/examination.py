"""The examination of a run by the doctor, after training."""

import logging
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from minigpt.config import Config
from minigpt.corpus.token_store import Corpus
from minigpt.errors import UserError, failure
from minigpt.insight.analysis import Verdict, write_analysis
from minigpt.insight.baselines import (
    MOST_READ,
    compression_baselines,
    evaluation_baselines,
    held_out_likeness,
    ngram_baselines,
    read_texts,
)
from minigpt.insight.doctor import diagnose
from minigpt.insight.history import read_history
from minigpt.insight.memorization import measure_memorization
from minigpt.insight.report.report import write_report
from minigpt.insight.text_checks import check_text
from minigpt.runs.layout import run_error
from minigpt.runs.lock import run_lock
from minigpt.runs.records import read_lines
from minigpt.runs.run import Run, as_run, open_run_corpus

# Measured on two slow cores: tokens counted, bytes whose n-grams are counted, bytes compressed by all
# programs, and products of weights and tokens by the engine, per second; the time to check a text, to
# compare its parts, and to open a model and read its text.
TOKENS_PER_SECOND, NGRAM_BYTES_PER_SECOND, COMPRESSED_BYTES_PER_SECOND = 8e6, 4e5, 4e5
PRODUCTS_PER_SECOND = 1e9
CHECK_SECONDS, LIKENESS_SECONDS, OPEN_SECONDS = 0.5, 0.5, 0.6
# Tokens that are drawn to measure memorization: at the end of training, and by the commands. The doctor
# draws fewer from a large model, in about this time for each state.
FEW_TOKENS, MANY_TOKENS, DRAW_SECONDS = 1280, 12_800, 30.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measurement:
    """One of the things that are measured once in a run.

    Attributes:
      subject: what it is, for messages.
      seconds: about how long it takes.
      is_due: returns whether it can be measured now and is not known yet. Arguments: the content of
        analysis.json, the number of epochs that have ended, and whether training has ended.
      measure: returns the keys of analysis.json that change. Arguments: its content and the number of
        epochs.
      refutes: the id of a verdict that it may show to be wrong. The verdict is not given during training
        before this is measured.
    """

    subject: str
    seconds: float
    is_due: Callable[[dict[str, Any], int, bool], bool]
    measure: Callable[[dict[str, Any], int], dict[str, Any]]
    refutes: str | None = None


def measurements(
    run: Run, corpus: Corpus, config: Config, tokens: int = FEW_TOKENS
) -> list[Measurement]:
    """Returns what is measured of a run, the cheapest and most important first.

    Args:
      run, corpus, config: the run, its text and its settings.
      tokens: how many are drawn to measure memorization, from each state.
    """

    def lacks(key: str, needed: str) -> Callable[[dict[str, Any], int, bool], bool]:
        """Whether a baseline is not known; only with the other one can it be measured."""

        def is_due(analysis: dict[str, Any], epoch: int, is_finished: bool) -> bool:
            known = analysis.get("baselines") or {}
            return known.get(key) is None and known.get(needed) is not None

        return is_due

    def count_ngrams(analysis: dict[str, Any], epoch: int) -> dict[str, Any]:
        return {"baselines": analysis["baselines"] | ngram_baselines(corpus, config)}

    def compress(analysis: dict[str, Any], epoch: int) -> dict[str, Any]:
        texts = read_texts(corpus, config)
        assert texts  # They have a score of n-grams.
        return {"baselines": analysis["baselines"] | compression_baselines(*texts)}

    def check(analysis: dict[str, Any], epoch: int) -> dict[str, Any]:
        return {"text": [asdict(finding) for finding in check_text(corpus, config)]}

    def compare(analysis: dict[str, Any], epoch: int) -> dict[str, Any]:
        # An empty dictionary says that the texts are too short to tell.
        train, val = corpus.train.ids, corpus.val.ids
        return {"held_out": held_out_likeness(train, val, corpus.tokenizer.vocab_size) or {}}

    def memorization_due(analysis: dict[str, Any], epoch: int, is_finished: bool) -> bool:
        known = (analysis.get("memorization") or {}).get("last") or {}
        is_current = known.get("epoch") == epoch and known.get("tokens", 0) >= tokens // 2
        if config.data.source == "dialogues":
            return False  # Samples would need questions.
        # Without an epoch there is no state.
        return is_finished and epoch > 0 and not is_current

    def memorized(state: Literal["best", "last"]) -> dict[str, Any]:
        return measure_memorization(run, state, tokens=tokens, corpus=corpus).as_dict()

    def measure_states(analysis: dict[str, Any], epoch: int) -> dict[str, Any]:
        best = memorized("best")
        last = best if best["epoch"] == epoch else memorized("last")
        return {"memorization": {"best": best, "last": last | {"state": "last"}}}

    read = sum(min(part.bytes, MOST_READ) for part in (corpus.train, corpus.val))
    drawn = tokens * run.facts.get("parameters", 0) / PRODUCTS_PER_SECOND
    return [
        Measurement(
            "baselines",
            corpus.train.tokens / TOKENS_PER_SECOND,
            lambda analysis, *_: not analysis.get("baselines"),
            lambda *_: {"baselines": evaluation_baselines(corpus, config)},
        ),
        Measurement(
            "the text",
            CHECK_SECONDS,
            lambda analysis, *_: not isinstance(analysis.get("text"), list),
            check,
            refutes="unlike",
        ),
        Measurement(
            "how like the training text the held-out text is",
            LIKENESS_SECONDS,
            # Held-out pairs are drawn at random.
            lambda analysis, *_: (
                config.data.source != "pairs" and not isinstance(analysis.get("held_out"), dict)
            ),
            compare,
            refutes="memorized",
        ),
        Measurement(
            "n-grams",
            read / NGRAM_BYTES_PER_SECOND,
            lacks("ngram", "bigram"),
            count_ngrams,
        ),
        Measurement(
            "what compression programs make of the held-out text",
            read / COMPRESSED_BYTES_PER_SECOND,
            lacks("ppmd_bits_per_byte", "ngram_bits_per_byte"),
            compress,
        ),
        Measurement("memorization", 2 * (OPEN_SECONDS + drawn), memorization_due, measure_states),
    ]


def examine(run: Run | str | Path, *, sweep: bool = True) -> list[Verdict]:
    """Examines the last state of a run, and measures what its report does not have yet.

    The results are written to analysis.json and report.html in the directory of the run. If the text has
    changed since training, or the files cannot be written, a warning is logged, and the rest is done.

    Args:
      run: a run, or its directory. It must not be trained by another process.
      sweep: whether to try other learning rates in short runs from the beginning, which takes a
        minute or two. If False, an earlier sweep counts.
    Returns:
      The verdicts; none if nothing is wrong.
    Raises:
      UserError: the run was imported, or is being trained.
    """
    run = as_run(run)
    if not run.corpus_file.is_file():
        raise run_error(run.path, "was imported, not trained")
    with run_lock(run.path, if_writable=True):
        corpus = _corpus(run)
        analysis = run.analysis
        if analysis.get("state") == "training":
            analysis["state"] = "interrupted"  # The process was killed.
        if corpus is not None:
            epoch = sum(type(line.get("epoch")) is int for line in read_lines(run.metrics_file))
            affordable = DRAW_SECONDS * PRODUCTS_PER_SECOND / max(1, run.facts.get("parameters", 0))
            tokens = round(max(FEW_TOKENS, min(MANY_TOKENS, affordable)))
            for measurement in measurements(run, corpus, run.config, tokens):
                if measurement.is_due(analysis, epoch, True):
                    logger.info("Measuring: %s.", measurement.subject)
                    analysis |= measurement.measure(analysis, epoch)
            if run.metrics_file.is_file() and not analysis.get("positions"):
                analysis |= _broken_down(run, corpus)
            if sweep:
                analysis |= _swept(run)
        verdicts = diagnose(read_history(run, analysis))
        analysis["verdicts"] = [verdict.as_dict() for verdict in verdicts]
        try:
            write_analysis(run, analysis)
            write_report([run], run.report_file)
        except (OSError, UserError) as error:
            logger.warning("%s: the results are not kept: %s", run.path, failure(error))
    return verdicts


def _corpus(run: Run) -> Corpus | None:
    """Returns the text of a run; None, with a warning, if it is not there any more."""
    try:
        corpus = open_run_corpus(run)
        problem = "" if corpus else f"{run.path}: its text has changed since training"
    except UserError as error:
        corpus, problem = None, str(error)
    if corpus is None:
        logger.warning("%s. What needs the text is not measured.", problem)
    return corpus


def _broken_down(run: Run, corpus: Corpus) -> dict[str, Any]:
    """Returns the keys of analysis.json about where the loss of the best model is."""
    # Imports TensorFlow.
    from minigpt.training.tasks import build_task

    logger.info("Measuring: the loss by position and token.")
    task = build_task(run.config, corpus)
    task.set_model(run.load_model())
    task.loss()
    assert task.breakdown is not None
    return task.breakdown.as_dict()


def _swept(run: Run) -> dict[str, Any]:
    """Returns the keys of analysis.json about a sweep; {} if updates take too long."""
    # Imports TensorFlow.
    from minigpt.insight.learning_rates import TooSlow, sweep_learning_rates

    try:
        found = sweep_learning_rates(run, logger.info)
    except TooSlow as error:
        logger.info("No learning rates are tried: %s", error)
        return {}
    return {
        "sweep_steps": found.steps,
        "sweep": [
            {"learning_rate": rate, "loss": loss if math.isfinite(loss) else None}
            for rate, loss in sorted(found.losses.items())
        ],
    }
