"""Writes analysis.json and report.html."""

import math
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import minigpt
from minigpt.insight.doctor import diagnose
from minigpt.insight.examination import measurements
from minigpt.insight.history import read_history
from minigpt.insight.report.report import write_report
from minigpt.runs.analysis import Analysis, State, Verdict, write_analysis
from minigpt.runs.run import Run
from minigpt.training.hooks import Hook
from minigpt.training.loop import TrainingLoop

# Share of the training time that analysis and report may take: during training, and with the end.
SHARE, FINAL_SHARE = 0.01, 0.05


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
