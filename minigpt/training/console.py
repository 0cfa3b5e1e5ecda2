"""Terminal output of training. Imports no TensorFlow.

Text from a corpus, a model, a prompt or a path is data. It is never interpreted as markup, and on a
terminal its control characters are made visible instead of being sent.
"""

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text

from minigpt.environment import printable


class _OutputConsole(Console):
    def on_broken_pipe(self) -> None:
        raise  # rich would end the process, and nothing would say which checkpoint was saved.


def new_console() -> Console:
    """Returns a console on standard output: live on a terminal, colored there and in a notebook.

    It raises `BrokenPipeError` if the program that reads the output has ended.
    """
    return _OutputConsole(highlight=False, soft_wrap=True, markup=False, emoji=False)


def show(console: Console, *parts: str | tuple[str, str], indent: int | None = 0) -> None:
    """Prints one message, whose parts may be data.

    Args:
      console: where to print. Whether it interprets markup makes no difference.
      *parts: texts, or pairs of a text and a rich style. They are joined without a separator.
      indent: on a terminal, lines are broken between words and continued in this column, except lines with
        a command in backticks, which is copied. None: no line is broken here.
    """
    styled = [(part, "") if isinstance(part, str) else part for part in parts]
    if console.is_terminal:
        message = Text.assemble(*((printable(text), style) for text, style in styled))
        if indent is not None:
            lines = message.split("\n", allow_blank=True)
            message = Text("\n").join(_broken(line, console, indent) for line in lines)
        console.print(message, soft_wrap=True)
        return
    if console.is_jupyter:
        # rich would write one block of HTML per message, which a notebook does not wrap.
        for text, style in [*styled, ("\n", "")]:
            rendered = Style.parse(style).render(printable(text), color_system=ColorSystem.STANDARD)
            console.file.write(rendered)
        return
    # Text is written unchanged to files and pipes. `Text` would remove some control characters.
    segments = [Segment(text, Style.parse(style)) for text, style in styled]
    console.print(Segments([*segments, Segment("\n")]), soft_wrap=True, end="")


def _broken(line: Text, console: Console, indent: int) -> Text:
    if "`" in line.plain or line.cell_len <= console.width or console.width < 2 * indent:
        return line
    first, rest = line[:indent], line[indent:]
    broken = rest.wrap(console, console.width - indent)
    for part in broken:
        part.rstrip()
    return Text.assemble(first, Text("\n" + " " * indent).join(broken))


def duration(seconds: float) -> str:
    """Returns "42 s", "3 min 20 s" or "2 h 5 min"."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def counted(number: int, noun: str) -> str:
    """Returns "1 epoch" or "1,200 epochs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def rounded(number: float) -> str:
    """Returns a number with two significant digits and no exponent: "0.57", "12" or "9,500"."""
    return f"{float(f'{number:.2g}'):,.10g}"
