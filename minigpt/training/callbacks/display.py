"""What a person sees of a training."""

import time
from collections.abc import Sequence
from typing import Any

import keras
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from minigpt.training.callbacks.basic import Clock, training_loss
from minigpt.training.console import duration

SECONDS_BETWEEN_LINES = 10


class Display(keras.callbacks.Callback):
    """A progress bar on a terminal, a short line now and then elsewhere; a line after each epoch."""

    def __init__(self, console: Console, clock: Clock, epochs: int, steps_per_epoch: int) -> None:
        super().__init__()
        self.console = console
        self.clock = clock
        self.epochs = epochs
        self.steps_per_epoch = steps_per_epoch
        self._epoch = 0
        self._said = time.perf_counter()
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
        self.console.print("Compiling; the first step takes a little longer.")

    def close(self) -> None:
        self._bar.stop()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        figures = (
            f"step {self.clock.step:,}/{self.clock.end:,}  "
            f"loss {training_loss(logs):.3f}  {self.clock.tokens_per_second:,.0f} tokens/s  "
            f"{duration(self._seconds_left())} left"
        )
        name = f"epoch {self._epoch}/{self.epochs}"
        self._bar.update(
            self._task,
            total=self.clock.end,
            completed=self.clock.step,
            description=name,
            figures=figures,
        )
        now = time.perf_counter()
        if not self.console.is_terminal and batch and now - self._said > SECONDS_BETWEEN_LINES:
            self._said = now
            self.console.print(f"{name}  {figures}")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        bits, bleu = logs["val_bits_per_byte"], logs.get("val_bleu")
        self.console.print(
            f"epoch {epoch + 1}/{self.epochs}: training loss {training_loss(logs):.3f}, "
            f"validation loss {logs['val_loss']:.3f} nats per token, "
            f"perplexity {logs['val_perplexity']:.4g}, "
            f"{'–' if bits is None else f'{bits:.3f}'} bits per byte"
            f"{'' if bleu is None else f', BLEU {bleu:.1f}'}; "
            f"{self.clock.tokens_per_second:,.0f} tokens/s, {duration(self.clock.seconds)}",
            style="bold",
        )
        self._said = time.perf_counter()

    def show_sample(self, prompt: str, text: str) -> None:
        """The prompt in brackets, its continuation behind it, indented."""
        line = Text("  ")
        line.append(f"[{prompt}]", style="cyan")
        line.append(text)
        self.console.print(Text("\n  ").join(line.split("\n", allow_blank=True)))

    def show_translations(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Source, reference and translation of some sentences, side by side."""
        rows = [("source", "reference", "translation"), *rows]
        first, second = (max(cell_len(row[column]) for row in rows) for column in (0, 1))
        for source, reference, translation in rows:
            line = Text("  ")
            line.append(set_cell_size(source, first), style="cyan")
            line.append(f"  {set_cell_size(reference, second)}  {translation}")
            self.console.print(line)

    def _seconds_left(self) -> float:
        """By updates at today's speed."""
        clock = self.clock
        left = (clock.end - clock.step) * clock.tokens_per_step
        return left / clock.tokens_per_second if clock.tokens_per_second else 0.0
