"""Writes analysis.json and report.html."""

import math
import time
from typing import Any

import minigpt
from minigpt.insight.doctor import as_records, diagnose
from minigpt.insight.history import read_history
from minigpt.insight.measuring import measurements
from minigpt.insight.record import read_analysis, write_analysis
from minigpt.insight.verdict import Verdict
from minigpt.pages.report_page import write_report
from minigpt.runs.run import Run
from minigpt.training.callbacks.callback import Callback
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.failures import OptionalOutput
from minigpt.training.tasks.task import Task

# Share of the training time that analysis and report may take.
SHARE = 0.01


class Reporter(Callback):
    """Examines the training after every epoch, and writes what was found and the report.

    It must be called after `checkpointing`: the report is about a state that training can resume from. An
    epoch is passed over if the reports would take more than `SHARE` of the training time, but never the
    first one of a process.

    Args:
      run: the run.
      task: corpus, settings, and the losses of the held-out tokens.
      checkpointing: counts epochs and steps.

    Attributes:
      seconds: time spent here, in this process.
      output: the report, which training can do without.
    """

    def __init__(self, run: Run, task: Task, checkpointing: Checkpointing) -> None:
        super().__init__()
        self.run = run
        self.task = task
        self.clock = checkpointing.clock
        self.checkpointing = checkpointing
        self.seconds = self._last_seconds = 0.0
        self.output = OptionalOutput(run.report_file.name)
        self._measurements = measurements(run, task.corpus, task.config)
        self._analysis: dict[str, Any] = {}

    def on_train_begin(self, logs: Any = None) -> None:
        if self._analysis:
            return  # `fit` is called a second time, after the rest of an epoch.
        is_new = not self.clock.step
        known = {} if is_new else read_analysis(self.run)
        resumed_at = known.get("resumed_at")
        earlier = resumed_at if isinstance(resumed_at, list) else []
        accumulated = self.task.config.training.accumulate_steps
        # It is about a state that training goes on from.
        known.pop("memorization", None)
        self._analysis = known | {
            "version": minigpt.__version__,
            "tokens_per_step": self.task.tokens_per_batch * accumulated,
            "resumed_at": earlier if is_new else [*earlier, self.clock.step],
        }

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        with self.output.writing():
            self._report_epoch(logs)

    def _report_epoch(self, logs: dict[str, Any]) -> None:
        loss, bits = logs["val_loss"], logs["val_bits_per_byte"]
        self._analysis["bytes_per_token"] = loss / math.log(2) / bits if bits else None
        if not self.seconds or self.seconds + self._last_seconds <= self._allowed:
            self.report("training")

    @property
    def _allowed(self) -> float:
        return SHARE * self.clock.process_seconds

    @property
    def not_measured(self) -> list[str]:
        """What was left out at the end of training, because it would have taken too long."""
        epoch = self.checkpointing.epoch
        return [
            each.subject for each in self._measurements if each.is_due(self._analysis, epoch, True)
        ]

    def report(self, state: str) -> list[Verdict]:
        """Writes analysis.json and report.html.

        Args:
          state: "training", "finished", "interrupted" or "failed".
        Returns:
          The verdicts of the doctor; none if training has not begun.
        Raises:
          OSError: a file cannot be written.
        """
        # Nothing was left to train: an earlier process ended before it had recorded the end.
        self._analysis = self._analysis or read_analysis(self.run)
        if not self._analysis:
            return []
        start = time.perf_counter()
        for measurement in self._measurements:
            spent = self.seconds + time.perf_counter() - start
            if measurement.is_due(
                self._analysis, self.checkpointing.epoch, state == "finished"
            ) and (spent + measurement.seconds <= self._allowed):
                self._analysis |= measurement.measure(self._analysis)
        if self.task.breakdown:
            self._analysis |= self.task.breakdown.as_dict()
        self._analysis |= {
            "state": state,
            "written": round(time.time(), 3),
            "planned_steps": self.clock.end,
        }
        verdicts = diagnose(read_history(self.run, self._analysis))
        self._analysis["verdicts"] = as_records(verdicts)
        write_analysis(self.run, self._analysis)
        write_report([self.run], self.run.report_file)
        self._last_seconds = time.perf_counter() - start
        self.seconds += self._last_seconds
        return verdicts
