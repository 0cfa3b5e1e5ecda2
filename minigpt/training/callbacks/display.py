"""Shows the progress of training."""

import time
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from minigpt.training.callbacks.callback import Callback, training_loss
from minigpt.training.callbacks.clock import Clock
from minigpt.training.console import duration, show

SECONDS_BETWEEN_LINES = 10
SECONDS_BETWEEN_BARS = 0.1


class Display(Callback):
    """Shows a progress bar on a terminal or occasional lines elsewhere, and a line after each epoch."""

    def __init__(self, console: Console, clock: Clock, epochs: int, steps_per_epoch: int) -> None:
        super().__init__()
        self.console = console
        self.clock = clock
        self.epochs = epochs
        self._epoch = 0
        self._shown = time.perf_counter()
        self._interval = SECONDS_BETWEEN_BARS if console.is_terminal else SECONDS_BETWEEN_LINES
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("compiling", total=epochs * steps_per_epoch, figures="")

    def open(self) -> None:
        self._bar.start()
        show(self.console, "Compiling; the first step takes longer than the others.")

    def close(self) -> None:
        self._bar.stop()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        now = time.perf_counter()
        if not batch or now - self._shown < self._interval:
            return
        self._shown = now
        clock = self.clock
        name = f"epoch {self._epoch}/{self.epochs}"
        figures = (
            f"step {clock.step:,}/{clock.end:,}  loss {training_loss(logs):.3f}  "
            f"{clock.tokens_per_second:,.0f} tokens/s  {duration(clock.seconds_left())} left"
        )
        if self.console.is_terminal:
            self._bar.update(
                self._task,
                total=clock.end,
                completed=clock.step,
                description=name,
                figures=figures,
            )
        else:
            show(self.console, f"{name}  {figures}")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        bits, bleu = logs["val_bits_per_byte"], logs.get("val_bleu")
        line = (
            f"epoch {epoch + 1}/{self.epochs}: training loss {training_loss(logs):.3f}, "
            f"validation loss {logs['val_loss']:.3f} nats per token, "
            f"perplexity {logs['val_perplexity']:.4g}, "
            f"{'–' if bits is None else f'{bits:.3f}'} bits per byte"
            f"{'' if bleu is None else f', BLEU {bleu:.1f}'}; "
            f"{self.clock.tokens_per_second:,.0f} tokens/s, {duration(self.clock.seconds)}"
        )
        show(self.console, (line, "bold"))
        self._shown = time.perf_counter()

    def show_sample(self, prompt: str, text: str) -> None:
        """Shows a prompt in brackets and its continuation, indented, after an empty line."""
        indented = text.replace("\n", "\n  ")
        prompt = prompt.replace("\n", "\n  ")
        show(self.console, "\n  ", (f"[{prompt}]", "cyan"), indented)

    def show_translations(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Shows the source, the reference and the translation of some sentences as a table."""
        rows = [("source", "reference", "translation"), *rows]
        first, second = (max(cell_len(row[column]) for row in rows) for column in (0, 1))
        for source, reference, translation in rows:
            columns = (set_cell_size(source, first), "cyan"), set_cell_size(reference, second)
            show(self.console, "  ", columns[0], f"  {columns[1]}  {translation}")
