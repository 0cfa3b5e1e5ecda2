"""docs/from-scratch/: the code of all chapters runs in order, and prints what is shown."""

import contextlib
import io
import re
import shutil
from pathlib import Path

import pytest

import minigpt

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "from-scratch"
CHAPTERS = sorted(FOLDER.glob("[0-9]-*.md"))
# A block of code, and the box that follows it, if there is one.
BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n(?:(About|For example):\n\n)?```text\n(.*?)^```\n)?", re.M | re.S
)
NUMBER = re.compile(r"\d+\.\d+")


def difference(shown: str, printed: str, kind: str) -> str | None:
    """Returns what is wrong with an output, or None.

    Args:
      shown: the output in the document.
      printed: the output of the code.
      kind: what is above the box. "About": decimal numbers may differ by 10%. "For example": the text is
        drawn from a trained model, so only its first word is compared. "": nothing may differ.
    """
    if kind == "For example":
        is_same = shown.split()[0] == printed.split()[0] and len(printed) >= len(shown) // 2
    elif kind == "About":
        numbers, others = NUMBER.findall(shown), NUMBER.findall(printed)
        is_same = NUMBER.sub("#", shown) == NUMBER.sub("#", printed) and [
            float(number) for number in numbers
        ] == pytest.approx([float(number) for number in others], rel=0.1)
    else:
        is_same = shown == printed
    return None if is_same else f"shown:\n{shown}\nprinted:\n{printed}"


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_code_prints_what_is_shown(is_whole, tiny_run, tmp_path, monkeypatch):
    """In short, chapter 5 trains for a few steps, and chapter 7 has another run in place of training."""
    if not is_whole:
        run = minigpt.Run(shutil.copytree(tiny_run.path, tmp_path / "runs" / "tiny"))
        monkeypatch.setattr(minigpt, "train", lambda settings: run)
    monkeypatch.chdir(tmp_path)
    variables: dict[str, object] = {"__name__": "__main__"}
    for page in CHAPTERS:
        for code, kind, shown in BLOCK.findall(page.read_text(encoding="utf-8")):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                done = code if is_whole else code.replace("range(steps)", "range(20)")
                exec(compile(done, page.name, "exec"), variables)
            # What a training run prints is not shown. From chapter 5 on, it is about a trained model.
            if "minigpt.train(" not in code and (is_whole or page.name < "5"):
                problem = difference(shown, output.getvalue(), kind)
                assert problem is None, f"{page.name}:\n{code}\n{problem}"
    assert list(tmp_path.glob("runs/*/page.html"))
