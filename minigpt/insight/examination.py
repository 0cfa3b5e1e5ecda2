"""The examination of a run by the doctor, during training and after it."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import minigpt
from minigpt.config import Config
from minigpt.corpus.token_store import Corpus
from minigpt.errors import UserError, failure
from minigpt.evaluation import baselines
from minigpt.insight.doctor import diagnose
from minigpt.insight.history import read_history
from minigpt.insight.memorization import is_measurable, measure_memorization
from minigpt.insight.report.report import write_report
from minigpt.insight.text_checks import check_text
from minigpt.notices import LOGGER
from minigpt.runs.analysis import Analysis, Baselines, State, Verdict, write_analysis
from minigpt.runs.layout import is_newer, run_error
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


class Measurement(NamedTuple):
    """One of the things that are measured once in a run.

    Attributes:
      subject: what it is, for messages.
      seconds: about how long it takes.
      is_due: returns whether it can be measured now and is not known yet.
      measure: returns the analysis with the result.
      refutes: the id of a verdict that it may show to be wrong. The verdict is not given before this is
        measured.
    """

    subject: str
    seconds: float
    is_due: Callable[[Analysis], bool]
    measure: Callable[[Analysis], Analysis]
    refutes: str | None = None


def measurements(
    run: Run, corpus: Corpus, config: Config, epoch: int, is_finished: bool, tokens: int
) -> list[Measurement]:
    """Returns what is measured of a run, the cheapest and most important first.

    Args:
      run, corpus, config: the run, its text and its settings.
      epoch, is_finished: how many epochs have ended, and whether training has.
      tokens: how many are drawn to measure memorization, from each state.
    """

    def count_pairs(known: Analysis) -> Analysis:
        # Training has recorded the others.
        recorded = run.facts.get("baselines", {})
        bigram = baselines.bigram_baseline(corpus, config)
        return replace(known, baselines=Baselines(**recorded, bigram=bigram))

    def check(known: Analysis) -> Analysis:
        return replace(known, text=check_text(corpus, config))

    def ngrams_due(known: Analysis) -> bool:
        # They need a text in which all tokens are predicted.
        return known.baselines.ngram is None and known.baselines.bigram is not None

    def count_ngrams(known: Analysis) -> Analysis:
        return replace(
            known, baselines=replace(known.baselines, **baselines.ngram_baselines(corpus, config))
        )

    def likeness_due(known: Analysis) -> bool:
        # Held-out pairs are drawn at random.
        return config.data.source != "pairs" and known.held_out is None

    def compare(known: Analysis) -> Analysis:
        train, val = corpus.train.ids, corpus.val.ids
        # An empty dictionary says that the texts are too short to tell.
        found = baselines.held_out_likeness(train, val, corpus.tokenizer.vocab_size) or {}
        return replace(known, held_out=found)

    def memorization_due(known: Analysis) -> bool:
        last = known.memorization.get("last")
        is_current = last and last.epoch == epoch and last.tokens >= tokens // 2
        # Without an epoch there is no state.
        return is_measurable(config) and is_finished and epoch > 0 and not is_current

    def measure_states(known: Analysis) -> Analysis:
        last = best = measure_memorization(run, "best", tokens=tokens, corpus=corpus)
        if best.epoch != epoch:
            last = measure_memorization(run, "last", tokens=tokens, corpus=corpus)
        return replace(known, memorization={"best": best, "last": replace(last, state="last")})

    read = sum(min(part.bytes, baselines.MOST_READ) for part in (corpus.train, corpus.val))
    drawn = tokens * run.facts.get("parameters", 0) / PRODUCTS_PER_SECOND
    counting, reading = corpus.train.tokens / TOKENS_PER_SECOND, read / NGRAM_BYTES_PER_SECOND
    likeness = "how like the training text the held-out text is"
    return [
        Measurement("baselines", counting, lambda a: a.baselines.uniform is None, count_pairs),
        Measurement(likeness, LIKENESS_SECONDS, likeness_due, compare, refutes="overfitted"),
        Measurement("the text", CHECK_SECONDS, lambda a: a.text is None, check, refutes="unlike"),
        Measurement("n-grams and PPMd", reading, ngrams_due, count_ngrams),
        Measurement("memorization", 2 * (OPEN_SECONDS + drawn), memorization_due, measure_states),
    ]


def _examined(
    run: Run,
    known: Analysis,
    measurements: Sequence[Measurement],
    allows: Callable[[Measurement], bool],
) -> Analysis:
    """Returns an analysis with verdicts, and with what may be measured or may refute one of them."""
    for each in measurements:
        if each.is_due(known) and allows(each):
            known = each.measure(known)
    verdicts = diagnose(read_history(run, known))
    for each in measurements:
        if each.refutes in [verdict.id for verdict in verdicts] and each.is_due(known):
            known = each.measure(known)
            verdicts = diagnose(read_history(run, known))
    return replace(known, verdicts=verdicts)


def _write(run: Run, known: Analysis) -> None:
    write_analysis(run.analysis_file, known)
    write_report([run], run.report_file)


def examine(run: Run | str | Path) -> list[Verdict]:
    """Examines the last state of a run, and measures what its report does not have yet.

    The results are written to analysis.json and report.html in the directory of the run. If the text has
    changed since training, or the files cannot be written, a warning is logged, and the rest is done.

    Args:
      run: a run, or its directory.
    Returns:
      The verdicts; none if nothing is wrong.
    Raises:
      UserError: the run was imported, or is being trained.
    """
    run = as_run(run)
    if not run.corpus_file.is_file():
        raise run_error(run.path, "was imported, not trained")
    with run_lock(run.path, if_writable=True):
        known, measured = run.analysis, list[Measurement]()
        if known.state == "training":
            known = replace(known, state="interrupted")  # The process was killed.
        try:
            corpus = open_run_corpus(run)
        except UserError as error:
            LOGGER.warning("%s. What needs the text is not measured.", error)
        else:
            lines = read_lines(run.metrics_file)
            epoch = sum(type(e := line.get("epoch")) is int and e > 0 for line in lines)
            affordable = DRAW_SECONDS * PRODUCTS_PER_SECOND / max(1, run.facts.get("parameters", 0))
            tokens = round(max(FEW_TOKENS, min(MANY_TOKENS, affordable)))
            measured = measurements(run, corpus, run.config, epoch, True, tokens)

        def allows(measurement: Measurement) -> bool:
            LOGGER.info("Measuring: %s.", measurement.subject)
            return True

        known = _examined(run, known, measured, allows)
        try:
            _write(run, known)
        except (OSError, UserError) as error:
            LOGGER.warning("%s: the results are not kept: %s", run.path, failure(error))
    return known.verdicts or []


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
        is_new = not self.clock.step
        known = Analysis() if is_new else self.run.analysis
        # An earlier process may have ended training, and not recorded it, or not written the report.
        reported = is_newer(self.run.report_file, [self.run.analysis_file])
        self._reports_end = not (loop.is_over and known.state == "finished" and reported)
        self._analysis = known
        if loop.is_over:
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
            self._report("training")

    def finished(self, run: Run, state: str) -> list[str]:
        """Writes the last report; returns the verdicts of the doctor."""
        if not self._reports_end:
            return []
        self._report(cast(State, state))
        verdicts = self._analysis.verdicts or []
        if verdicts:
            self.advice = "".join(v.runnable_action(run.path, self.command) for v in verdicts)
        lines = [f"Doctor: {each.title}. {each.evidence}" for each in verdicts]
        return lines or ["Doctor: no problems found."]

    def _report(self, state: State) -> None:
        """Writes analysis.json and report.html."""
        start, is_finished = time.perf_counter(), state == "finished"
        share = FINAL_SHARE if is_finished else SHARE
        task, epoch = self.task, self.checkpointing.epoch

        def allows(measurement: Measurement) -> bool:
            spent = self.seconds + time.perf_counter() - start
            return spent + measurement.seconds <= share * self.clock.process_seconds

        known = replace(
            self._analysis,
            state=state,
            written=round(time.time(), 3),
            planned_steps=self.clock.end,
            **(task.breakdown.results() if task.breakdown else {}),
        )
        planned = self.run, task.corpus, task.config, epoch, is_finished, FEW_TOKENS
        self._analysis = _examined(self.run, known, measurements(*planned), allows)
        _write(self.run, self._analysis)
        self._last_seconds = time.perf_counter() - start
        self.seconds += self._last_seconds
