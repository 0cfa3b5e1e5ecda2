"""The progress of training: on the console, in metrics.jsonl and in steps.jsonl."""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from minigpt.environment import peak_memory
from minigpt.runs.records import append_lines
from minigpt.training.callbacks.callback import Callback, training_loss
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.callbacks.clock import Clock
from minigpt.training.console import duration, show

SECONDS_BETWEEN_LINES = 10
SECONDS_BETWEEN_BARS = 0.1
SECONDS_BETWEEN_CHANGES_OF_A_CELL = 1
# The speed is that between two points so far apart, so that it can be read in a bar.
SECONDS_BETWEEN_SPEEDS = 1


class Display(Callback):
    """Shows a progress bar on a terminal, one line that changes in a notebook, occasional lines elsewhere.

    After each epoch it shows a line with the scores.
    """

    def __init__(self, console: Console, clock: Clock) -> None:
        super().__init__()
        self.console = console
        self.clock = clock
        self._epoch = 0
        self._speed, self._timed = 0.0, clock.timed
        self._shown = self._speed_shown = time.perf_counter()
        self._interval = SECONDS_BETWEEN_BARS if console.is_terminal else SECONDS_BETWEEN_LINES
        if console.is_jupyter:
            self._interval = SECONDS_BETWEEN_CHANGES_OF_A_CELL
        self._cell_line: Any = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("compiling", total=1.0, figures="")

    def open(self) -> None:
        self._bar.start()
        show(self.console, "Compiling; the first step takes longer than the others.")

    def close(self) -> None:
        self._bar.stop()
        if self._cell_line is not None:
            self._change_cell("")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        if "val_loss" in logs:
            self._show_scores(f"step {self.clock.step:,}", logs)
        now = time.perf_counter()
        if not batch or now - self._shown < self._interval:
            return
        self._shown = now
        clock = self.clock
        if now - self._speed_shown >= SECONDS_BETWEEN_SPEEDS:
            self._speed = clock.speed_since(self._timed) or self._speed
            self._speed_shown, self._timed = now, clock.timed
        step, left = f"step {clock.step:,}", f"{duration(clock.seconds_left())} left"
        done = clock.step / clock.end
        if minutes := clock.config.max_minutes:
            share = min(1.0, clock.seconds / (60 * minutes))
            left = f"{share:.0%} of {minutes:g} min, {left}"
            done = done if clock.is_planned else share
        if clock.is_planned:
            step += f"/{clock.end:,}"
        figures = f"{step}  loss {training_loss(logs):.3f}  {_speed(self._speed, '  ')}{left}"
        if self.console.is_terminal:
            self._bar.update(
                self._task, completed=done, description=self._epoch_name, figures=figures
            )
        elif self.console.is_jupyter:
            self._change_cell(f"{self._epoch_name}  {figures}")
        else:
            show(self.console, f"{self._epoch_name}  {figures}")

    def _change_cell(self, line: str) -> None:
        """Shows the line in the output of a notebook's cell, in place of the line before."""
        from IPython.display import display

        if self._cell_line is None:
            self._cell_line = display(display_id=True)
        self._cell_line.update({"text/plain": line}, raw=True)

    @property
    def _epoch_name(self) -> str:
        """Returns "epoch 2/6"; "epoch 2" while a time limit leaves open how many there will be."""
        if not self.clock.is_planned:
            return f"epoch {self._epoch}"
        return f"epoch {self._epoch}/{self._epoch - 1 + max(1, self.clock.epochs_left)}"

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        self._show_scores(self._epoch_name, logs)

    def _show_scores(self, name: str, logs: dict[str, Any]) -> None:
        bits, bleu = logs["val_bits_per_byte"], logs.get("val_bleu")
        line = (
            f"{name}: training loss {training_loss(logs):.3f}, "
            f"validation loss {logs['val_loss']:.3f} nats per token, "
            f"perplexity {logs['val_perplexity']:.4g}"
            f"{'' if bits is None else f', {bits:.3f} bits per byte'}"
            f"{'' if bleu is None else f', BLEU {bleu:.1f}'}; "
            f"{_speed(self.clock.tokens_per_second, ', ')}{duration(self.clock.seconds)}"
        )
        show(self.console, (line, "bold"), indent=0)
        self._shown = time.perf_counter()

    def show_sample(self, prompt: str, text: str) -> None:
        """Shows a prompt in brackets and its continuation, indented, after an empty line."""
        indented = text.replace("\n", "\n  ")
        prompt = prompt.replace("\n", "\n  ")
        show(self.console, "\n  ", (f"[{prompt}]", "cyan"), indented, indent=2)

    def show_translations(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Shows the source, the reference and the translation of some sentences as a table."""
        rows = [("source", "reference", "translation"), *rows]
        first, second = (max(cell_len(row[column]) for row in rows) for column in (0, 1))
        for source, reference, translation in rows:
            columns = (set_cell_size(source, first), "cyan"), set_cell_size(reference, second)
            show(self.console, "  ", columns[0], f"  {columns[1]}  {translation}")


def _speed(tokens_per_second: float | None, separator: str) -> str:
    """Returns the speed and the separator; nothing if no batch was timed."""
    return f"{tokens_per_second:,.0f} tokens/s{separator}" if tokens_per_second else ""


# The first updates are all recorded; after that, the distance doubles whenever the number of updates does.
RECORDED_WITHOUT_GAPS = 256


class Recorder(Callback):
    """Appends a line to metrics.jsonl after every validation; within an epoch, "epoch" is a fraction."""

    def __init__(self, checkpointing: Checkpointing) -> None:
        super().__init__()
        self.checkpointing = checkpointing

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if logs and "val_loss" in logs:
            self._record(self.checkpointing.epochs_after(self.checkpointing.batch + 1), logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        self._record(epoch + 1, logs)

    def _record(self, epoch: float, logs: dict[str, Any]) -> None:
        clock = self.checkpointing.clock
        speed = clock.tokens_per_second
        line = {
            "epoch": epoch,
            "step": clock.step,
            "train_loss": training_loss(logs),
            **{name: value for name, value in logs.items() if name.startswith("val_")},
            "tokens_per_second": speed and round(speed, 1),
            "seconds": round(clock.seconds, 3),
            "learning_rate": float(np.asarray(self.model.optimizer.learning_rate)),
        }
        append_lines(self.checkpointing.run.metrics_file, [line])


class StepRecorder(Callback):
    """Records the mean training loss of the epoch so far, learning rate, speed and memory.

    A line holds the mean loss over the epoch and not over the updates since the line before, so that
    training that is resumed within an epoch needs no other state: readers subtract consecutive lines. The
    speed is that of the updates since the line before; null if none of them was timed.

    Lines are written before every checkpoint, which guarantees that those of its updates are on disk.

    Args:
      checkpointing: counts batches and calls `flush`. It must be called after this callback.
    """

    def __init__(self, checkpointing: Checkpointing) -> None:
        super().__init__()
        self.run = checkpointing.run
        self.clock = checkpointing.clock
        self.checkpointing = checkpointing
        checkpointing.before_saving.append(self.flush)
        self._epoch = 0
        self._timed = self.clock.timed
        self._lines: list[dict[str, Any]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        loss = float(training_loss(logs))
        is_update = self.clock.batches % self.clock.config.accumulate_steps == 0
        if (is_update and is_recorded(self.clock.step)) or not math.isfinite(loss):
            speed, self._timed = self.clock.speed_since(self._timed), self.clock.timed
            self._lines.append(
                {
                    "epoch": self._epoch,
                    "step": self.clock.step,
                    "batches": self.checkpointing.batch + 1,
                    # JSON has neither nan nor infinity.
                    "mean_loss": loss if math.isfinite(loss) else None,
                    "seconds": round(self.clock.seconds, 3),
                    "tokens_per_second": speed and round(speed, 1),
                    "learning_rate": float(np.asarray(self.model.optimizer.learning_rate)),
                    "memory_bytes": peak_memory(),
                }
            )

    def flush(self) -> None:
        """Writes the lines.

        Raises:
          OSError: they cannot be written.
        """
        lines, self._lines = self._lines, []
        if lines:
            append_lines(self.run.steps_file, lines)


def is_recorded(step: int) -> bool:
    """Returns whether a line is written after this number of updates.

    It depends on nothing else, so training that was interrupted has the same lines.
    """
    distance = 1
    while step > RECORDED_WITHOUT_GAPS * distance:
        distance *= 2
    return step % distance == 0
