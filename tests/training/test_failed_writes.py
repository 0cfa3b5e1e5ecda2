"""Files of a run that cannot be written: which of them end the training, and what is said."""

import io
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

import minigpt
from minigpt.errors import UserError
from minigpt.runs.layout import checkpoint_paths
from tests.cli.running import called
from tests.conftest import tiny_settings

pytestmark = pytest.mark.usefixtures("without_xla", "with_saved_models")
SHORT = {"epochs": 2, "steps_per_epoch": 2, "keep_checkpoints": 5, "keep_snapshots": True}
TOO_LARGE = "File too large"


def settings(file: Path, **training) -> dict:
    sections = {"training": {**SHORT, **training}, "model": {"num_layers": 1}}
    return tiny_settings(file, sampling={"prompts": []}, **sections)


def trained(*arguments, **options) -> tuple[minigpt.Run, list[str]]:
    """Trains; returns the run and the printed lines."""
    out = io.StringIO()
    run = minigpt.train(*arguments, console=Console(file=out, width=1000), **options)
    return run, out.getvalue().splitlines()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Larger writes fail, in C++ too, as on a full disk; the message is another one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["saved_model", "gguf"])
def test_a_full_disk_for_an_export(format, tiny_run, tmp_path):
    output = tmp_path / "export"
    with largest_file(20_000), pytest.raises(UserError) as caught:
        minigpt.export_run(tiny_run, format, output)
    reasons = {"gguf": "only a part could be written; is the disk full?"}
    reason = reasons.get(format, TOO_LARGE)
    assert str(caught.value) == f"output = '{output}': cannot be written: {reason}"
    assert not any(tmp_path.iterdir())


def broken(*arguments, **options):
    """Stands for a part that a contributor has changed: the error is none of minigpt's own."""
    raise KeyError("gain\nof attention")


def test_no_extra_of_a_run_ends_its_training(tiny_file, tmp_path, monkeypatch):
    reason = r"KeyError: 'gain\\nof attention' \(.*\.py, line \d+\)"
    for name in (
        "minigpt.targets.gguf.run_file.write_portable",
        "minigpt.insight.examination.write_report",
        "minigpt.targets.saved_model.modules.build_text_module",
    ):
        monkeypatch.setattr(name, broken)
    sections = settings(tiny_file) | {"sampling": {"prompts": ["Ana"]}}
    run, lines = trained(sections, tmp_path / "run")
    said = [line for line in lines if " is not written: " in line]
    names = ("a state of training", "report.html", "saved_model", "model.gguf")
    # Each once, although two epochs ended.
    assert [line.partition(" is not written: ")[0] for line in said] == list(names)
    for line in said:
        assert re.fullmatch(rf"[\w ./]+ is not written: {reason}", line), line
    assert [path.name[-7:] for path in checkpoint_paths(run.checkpoints_folder)] == [
        "epoch-1",
        "epoch-2",
    ]
    (done,) = [line for line in lines if line.startswith("Done: ")]
    kept = "model.keras for Keras (after import minigpt)"
    assert done.endswith(f"The best model is in {run.path}: {kept}.")
    assert not [line for line in lines if line.startswith("Doctor: ")]
    # The file that `sample` would write cannot be written either.
    greedy = ("--prompt=Ana sat", "--temperature=0", "--max-new-tokens=8")
    sampled = called("sample", run.path, *greedy)
    text = minigpt.load(run).generate("Ana sat", 8, temperature=0)[0]
    assert (sampled.returncode, sampled.stdout) == (0, f"Ana sat{text}\n"), sampled
    assert re.fullmatch(rf"model.gguf cannot be used: {reason}; using TensorFlow\n", sampled.stderr)
