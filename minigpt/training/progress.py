"""The progress of training on the console."""

import re
import time
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from minigpt.training.clock import Clock
from minigpt.training.console import duration, show
from minigpt.training.metrics import training_loss

SECONDS_BETWEEN_LINES = 10
SECONDS_BETWEEN_BARS = 0.1
SECONDS_BETWEEN_CHANGES_OF_A_CELL = 1
# The speed is that between two points so far apart, so that it can be read in a bar.
SECONDS_BETWEEN_SPEEDS = 1


class Display:
    """Shows a progress bar on a terminal, one line that changes in a notebook, occasional lines elsewhere.

    After each validation it shows a line with the scores. To be used in a `with` statement. `epoch` is the
    number of the epoch, from 1.
    """

    def __init__(self, console: Console, clock: Clock) -> None:
        self.console = console
        self.clock = clock
        self.epoch = 0
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

    def __enter__(self) -> None:
        self._bar.start()
        show(self.console, "Compiling; the first step takes longer than the others.")

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        if self._cell_line is not None:
            self._change_cell("")

    def show_step(self, logs: dict[str, Any]) -> None:
        """Shows the loss, the speed and the remaining time, if the line before was some time ago."""
        now = time.perf_counter()
        clock = self.clock
        if clock.tokens_per_second is None or now - self._shown < self._interval:
            return
        self._shown = now
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
        """Returns "epoch 2/6", or "epoch 2" if the time limit will end training before the last one."""
        clock = self.clock
        is_shortened = clock.end < clock.limits.total_steps
        return f"epoch {self.epoch}" + ("" if is_shortened else f"/{clock.config.epochs}")

    def show_scores(self, epoch: float, logs: dict[str, Any]) -> None:
        """Shows the scores after a validation; `epoch` is a fraction within an epoch, 0 before training."""
        name = self._epoch_name if epoch == self.epoch else f"step {self.clock.step:,}"
        name = f"{name}: training loss {training_loss(logs):.3f}," if epoch else "before training:"
        bits, bleu = logs["val_bits_per_byte"], logs.get("val_bleu")
        line = (
            f"{name} validation loss {logs['val_loss']:.3f} nats per token, "
            f"perplexity {logs['val_perplexity']:.4g}"
            f"{'' if bits is None else f', {bits:.3f} bits per byte'}"
            f"{'' if bleu is None else f', BLEU {bleu:.1f}'}; "
            f"{_speed(self.clock.tokens_per_second, ', ')}{duration(self.clock.seconds)}"
        )
        show(self.console, (line, "bold"), indent=0)
        self._shown = time.perf_counter()

    def show_sample(self, prompt: str, text: str) -> None:
        """Shows a prompt in brackets and its continuation, indented, after an empty line."""
        indented = re.sub(r"\n\s*\n", "\n\n", text.rstrip()).replace("\n", "\n  ")
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
