"""The examination of a run by the doctor, during training and after it."""

import math
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import minigpt
from minigpt.config import Config
from minigpt.corpus.token_store import Corpus
from minigpt.errors import UserError, failure
from minigpt.evaluation.baselines import (
    MOST_READ,
    bigram_baseline,
    held_out_likeness,
    ngram_baselines,
)
from minigpt.insight.doctor import diagnose
from minigpt.insight.history import read_history
from minigpt.insight.memorization import is_measurable, measure_memorization
from minigpt.insight.report.report import write_report
from minigpt.insight.text_checks import check_text
from minigpt.notices import LOGGER
from minigpt.runs.analysis import (
    Analysis,
    Baselines,
    Memorization,
    State,
    Verdict,
    write_analysis,
)
from minigpt.runs.layout import run_error
from minigpt.runs.lock import run_lock
from minigpt.runs.records import read_lines
from minigpt.runs.run import Run, as_run, open_run_corpus
from minigpt.training.hooks import Hook
from minigpt.training.loop import TrainingLoop

# Measured on two slow cores: tokens counted, bytes whose n-grams are counted and which PPMd compresses, and
# products of weights and tokens by the engine, per second; the time to check a text, to compare its parts,
# and to open a model and read its text.
TOKENS_PER_SECOND, NGRAM_BYTES_PER_SECOND, PRODUCTS_PER_SECOND = 8e6, 2.5e5, 1e9
CHECK_SECONDS, LIKENESS_SECONDS, OPEN_SECONDS = 0.5, 0.5, 0.6
# Tokens that are drawn to measure memorization: at the end of training, and by the commands. The doctor
# draws fewer from a large model, in about this time for each state.
FEW_TOKENS, MANY_TOKENS, DRAW_SECONDS = 1280, 12_800, 30.0

# Share of the training time that analysis and report may take: during training, and with the end.
SHARE, FINAL_SHARE = 0.01, 0.05


@dataclass(frozen=True)
class Measurement:
    """One of the things that are measured once in a run.

    Attributes:
      subject: what it is, for messages.
      seconds: about how long it takes.
      is_due: returns whether it can be measured now and is not known yet. Arguments: the analysis so far,
        the number of epochs that have ended, and whether training has ended.
      measure: returns the analysis with the result. Arguments: the analysis and the number of epochs.
      refutes: the id of a verdict that it may show to be wrong. The verdict is not given during training
        before this is measured.
    """

    subject: str
    seconds: float
    is_due: Callable[[Analysis, int, bool], bool]
    measure: Callable[[Analysis, int], Analysis]
    refutes: str | None = None


def measurements(
    run: Run, corpus: Corpus, config: Config, tokens: int = FEW_TOKENS
) -> list[Measurement]:
    """Returns what is measured of a run, the cheapest and most important first.

    Args:
      run, corpus, config: the run, its text and its settings.
      tokens: how many are drawn to measure memorization, from each state.
    """

    def count_pairs(known: Analysis, epoch: int) -> Analysis:
        # Training has recorded the others.
        recorded = run.facts.get("baselines", {})
        return replace(
            known, baselines=Baselines(**recorded, bigram=bigram_baseline(corpus, config))
        )

    def count_ngrams(known: Analysis, epoch: int) -> Analysis:
        return replace(known, baselines=replace(known.baselines, **ngram_baselines(corpus, config)))

    def compare(known: Analysis, epoch: int) -> Analysis:
        train, val = corpus.train.ids, corpus.val.ids
        # An empty dictionary says that the texts are too short to tell.
        found = held_out_likeness(train, val, corpus.tokenizer.vocab_size) or {}
        return replace(known, held_out=found)

    def memorization_due(known: Analysis, epoch: int, is_finished: bool) -> bool:
        last = known.memorization.get("last")
        is_current = last and last.epoch == epoch and last.tokens >= tokens // 2
        # Without an epoch there is no state.
        return is_measurable(config) and is_finished and epoch > 0 and not is_current

    def memorized(state: Literal["best", "last"]) -> Memorization:
        return measure_memorization(run, state, tokens=tokens, corpus=corpus)

    def measure_states(known: Analysis, epoch: int) -> Analysis:
        best = memorized("best")
        last = replace(best, state="last") if best.epoch == epoch else memorized("last")
        return replace(known, memorization={"best": best, "last": last})

    read = sum(min(part.bytes, MOST_READ) for part in (corpus.train, corpus.val))
    drawn = tokens * run.facts.get("parameters", 0) / PRODUCTS_PER_SECOND
    return [
        Measurement(
            "baselines",
            corpus.train.tokens / TOKENS_PER_SECOND,
            lambda known, *_: known.baselines.uniform is None,
            count_pairs,
        ),
        Measurement(
            "how like the training text the held-out text is",
            LIKENESS_SECONDS,
            # Held-out pairs are drawn at random.
            lambda known, *_: config.data.source != "pairs" and known.held_out is None,
            compare,
            refutes="memorized",
        ),
        Measurement(
            "the text",
            CHECK_SECONDS,
            lambda known, *_: known.text is None,
            lambda known, _: replace(known, text=check_text(corpus, config)),
            refutes="unlike",
        ),
        # They need a text in which all tokens are predicted.
        Measurement(
            "n-grams and PPMd",
            read / NGRAM_BYTES_PER_SECOND,
            lambda known, *_: known.baselines.ngram is None and known.baselines.bigram is not None,
            count_ngrams,
        ),
        Measurement("memorization", 2 * (OPEN_SECONDS + drawn), memorization_due, measure_states),
    ]


def examine(run: Run | str | Path) -> list[Verdict]:
    """Examines the last state of a run, and measures what its report does not have yet.

    The results are written to analysis.json and report.html in the directory of the run. If the text has
    changed since training, or the files cannot be written, a warning is logged, and the rest is done.

    Args:
      run: a run, or its directory. It must not be trained by another process.
    Returns:
      The verdicts; none if nothing is wrong.
    Raises:
      UserError: the run was imported, or is being trained.
    """
    run = as_run(run)
    if not run.corpus_file.is_file():
        raise run_error(run.path, "was imported, not trained")
    with run_lock(run.path, if_writable=True):
        known = run.analysis
        if known.state == "training":
            known = replace(known, state="interrupted")  # The process was killed.
        try:
            corpus = open_run_corpus(run)
        except UserError as error:
            LOGGER.warning("%s. What needs the text is not measured.", error)
        else:
            known = _measured(run, corpus, known)
        verdicts = diagnose(read_history(run, known))
        try:
            write_analysis(run.analysis_file, replace(known, verdicts=verdicts))
            write_report([run], run.report_file)
        except (OSError, UserError) as error:
            LOGGER.warning("%s: the results are not kept: %s", run.path, failure(error))
    return verdicts


def _measured(run: Run, corpus: Corpus, known: Analysis) -> Analysis:
    """Returns an analysis with what was not measured yet."""
    epoch = sum(type(line.get("epoch")) is int for line in read_lines(run.metrics_file))
    affordable = DRAW_SECONDS * PRODUCTS_PER_SECOND / max(1, run.facts.get("parameters", 0))
    tokens = round(max(FEW_TOKENS, min(MANY_TOKENS, affordable)))
    for measurement in measurements(run, corpus, run.config, tokens):
        if measurement.is_due(known, epoch, True):
            LOGGER.info("Measuring: %s.", measurement.subject)
            known = measurement.measure(known, epoch)
    return known


class Reporter(Hook):
    """Examines the run after every epoch, and writes the results and the report.

    Measurements that would take too long are left to `minigpt doctor`, except those that may refute a
    verdict. An epoch is skipped if the reports would take more than `SHARE` of the training time, but
    never the first one of a process.

    Args:
      command: how the user calls minigpt, for the suggested commands.

    Attributes:
      seconds: time spent here, in this process.
    """

    name = "report.html"

    def __init__(self, command: str = "minigpt") -> None:
        self.command = command
        self.seconds = self._last_seconds = 0.0
        self._analysis = Analysis()
        self._reports_end = False

    def started(self, loop: TrainingLoop) -> None:
        self.run, self.task, self.clock = loop.run, loop.task, loop.clock
        self.checkpointing = loop.checkpointing
        self._reports_end = True
        self._measurements = measurements(loop.run, loop.task.corpus, loop.task.config)
        is_new = not self.clock.step
        known = Analysis() if is_new else self.run.analysis
        if loop.is_over:
            # An earlier process has ended training, and perhaps not recorded it.
            self._reports_end = known.state != "finished"
            self._analysis = known
            return
        self._analysis = replace(
            known,
            version=minigpt.__version__,
            tokens_per_step=self.task.tokens_per_batch * loop.training.accumulate_steps,
            resumed_at=[] if is_new else [*known.resumed_at, self.clock.step],
            # It is about a state that training goes on from.
            memorization={},
        )

    def evaluated(self, logs: dict[str, Any]) -> None:
        loss, bits = logs["val_loss"], logs["val_bits_per_byte"]
        bytes_per_token = loss / math.log(2) / bits if bits else None
        self._analysis = replace(self._analysis, bytes_per_token=bytes_per_token)
        allowed = SHARE * self.clock.process_seconds
        if not self.seconds or self.seconds + self._last_seconds <= allowed:
            self.report("training")

    def finished(self, run: Run, state: str) -> list[str]:
        """Writes the last report; returns the verdicts of the doctor and what was not measured."""
        if not self._reports_end:
            return []
        verdicts = self.report(cast(State, state))
        # It would have taken too long.
        left = [
            each.subject
            for each in self._measurements
            if each.is_due(self._analysis, self.checkpointing.epoch, True)
        ]
        return lines_of(verdicts, left, run.path, self.command)

    def report(self, state: State) -> list[Verdict]:
        """Writes analysis.json and report.html.

        Args:
          state: "training", "finished", "interrupted" or "failed".
        Returns:
          The verdicts of the doctor.
        Raises:
          OSError: a file cannot be written.
        """
        start = time.perf_counter()
        known, epoch, is_finished = self._analysis, self.checkpointing.epoch, state == "finished"
        share = FINAL_SHARE if is_finished else SHARE
        for measurement in self._measurements:
            spent = self.seconds + time.perf_counter() - start
            if (
                measurement.is_due(known, epoch, is_finished)
                and spent + measurement.seconds <= share * self.clock.process_seconds
            ):
                known = measurement.measure(known, epoch)
        known = replace(
            known,
            state=state,
            written=round(time.time(), 3),
            planned_steps=self.clock.end,
            **(self.task.breakdown.results() if self.task.breakdown else {}),
        )
        verdicts = diagnose(read_history(self.run, known))
        for measurement in self._measurements:
            is_accused = measurement.refutes in [verdict.id for verdict in verdicts]
            if is_accused and measurement.is_due(known, epoch, is_finished):
                known = measurement.measure(known, epoch)
                verdicts = diagnose(read_history(self.run, known))
        self._analysis = replace(known, verdicts=verdicts)
        write_analysis(self.run.analysis_file, self._analysis)
        write_report([self.run], self.run.report_file)
        self._last_seconds = time.perf_counter() - start
        self.seconds += self._last_seconds
        return verdicts


def lines_of(
    verdicts: Sequence[Verdict], not_measured: Sequence[str], run: Path, command: str
) -> list[str]:
    """Returns a line for each verdict of the doctor, and one for what was not measured.

    Args:
      verdicts: the verdicts.
      not_measured: subjects of measurements.
      run: the run directory.
      command: how the user calls minigpt.
    """
    lines, actions = [], set[str]()
    for verdict in verdicts:
        lines.append(f"Doctor: {verdict.title}. {verdict.evidence}")
        if (action := verdict.runnable_action(run, command)) not in actions:
            # On its own line, since it may have a command to copy.
            lines[-1] += f"\n{action}"
            actions.add(action)
    lines = lines or ["Doctor: no problems found."]
    if not_measured:
        lines.append(
            f"Not measured, to save time: {', '.join(not_measured)}. "
            f"To measure {'it' if len(not_measured) == 1 else 'them'}: "
            f"`{command} doctor {shlex.quote(str(run))}`"
        )
    return lines
