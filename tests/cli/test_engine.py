"""Commands that run the engine instead of TensorFlow."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import minigpt
from minigpt.targets import open_model
from minigpt.targets.gguf import run_file
from tests.cli.running import called, refused

GREEDY = ("--prompt", "Ana sat", "--temperature", 0, "--max-new-tokens", 8)


def imported_by(code: str, *arguments: object) -> tuple[str, set[str]]:
    """Runs Python code in a new process. Returns what it prints and the packages that it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)"],
        env=os.environ | {"ARGUMENTS": "\n".join(map(str, arguments))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, {name.partition(".")[0] for name in done.stderr.split()}


COMMAND = """
import os, sys
sys.argv = ["minigpt", *os.environ["ARGUMENTS"].split("\\n")]
from minigpt.cli.program import run_command
try:
    run_command()
except SystemExit as end:
    assert not end.code
"""


def test_sampling_does_not_import_tensorflow(tiny_run, opened_without_xla):
    out, imported = imported_by(COMMAND, "sample", tiny_run.path, *GREEDY)
    assert out == "Ana sat" + opened_without_xla.generate("Ana sat", 8, temperature=0)[0] + "\n"
    assert not imported & {"tensorflow", "keras"}
    # Nor what only writing the file needs.
    assert "gguf" not in imported


ONLY = """
import importlib.abc, os, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        package = name.partition(".")[0]
        if package not in {"minigpt", "numpy", "wasmtime"} | sys.stdlib_module_names:
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Blocked())
import minigpt
model = minigpt.load_portable(os.environ["ARGUMENTS"])
print(model.generate("Ana sat", 8, temperature=0, stop=["x"])[0])
"""


def test_a_portable_file_needs_numpy_and_wasmtime_alone(tiny_run, opened_without_xla):
    out, imported = imported_by(ONLY, tiny_run.portable_file)
    assert out == opened_without_xla.generate("Ana sat", 8, temperature=0)[0] + "\n"
    assert {"numpy", "wasmtime"} <= imported


def test_translating_and_tokenizing_do_not_import_tensorflow(pair_run):
    sources = ("--text", "a b c")
    for command in ("translate", "tokenize"):
        out, imported = imported_by(COMMAND, command, pair_run.path, *sources)
        assert out.strip()
        assert not imported & {"tensorflow", "keras"}
    greedy = called("translate", pair_run.portable_file, *sources)
    assert greedy.stdout == called("translate", pair_run.path, "--beams=1", *sources).stdout


def test_commands_on_a_file(tiny_run, tmp_path):
    file = shutil.copy(tiny_run.portable_file, tmp_path / "sent.gguf")
    seeded = ("--prompt", "Béla", "--prompt", "", "--seed", 3, "--num-samples", 2, "--json")
    done = called("sample", file, *seeded)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == called("sample", tiny_run.path, *seeded).stdout
    text = ("--text", "Čeněk sat ▁ on\x10 the \U0001f600", "--json")
    assert called("tokenize", file, *text).stdout == called("tokenize", tiny_run.path, *text).stdout
    streamed = called("sample", file, "--stream", "--prompt", "Ana", "--seed", 5).stdout
    assert streamed == called("sample", file, "--prompt", "Ana", "--seed", 5).stdout


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"sampling": {', b'"Sampling": {'),
        (b'"top_k": 10', b'"top_k": -1'),
        (b'{"tokenizer": {', b'{"tokenizer": ['),
    ],
)
def test_settings_of_a_file_that_cannot_be_used(before, after, tiny_run, tmp_path):
    """As long as before, so that the file stays valid; without a checksum."""
    data = tiny_run.portable_file.read_bytes().replace(b"minigpt.crc32", b"another.crc32")
    assert before in data
    (tmp_path / "c.gguf").write_bytes(data.replace(before, after))
    (line,) = refused("sample", "c.gguf", cwd=tmp_path)
    assert line.startswith("minigpt: c.gguf: minigpt.config: ")


def test_beams_in_the_settings_of_a_file(pair_run, tmp_path):
    """Who gets the file has no run. The file is used without a beam search."""
    run = minigpt.Run(shutil.copytree(pair_run.path, tmp_path / "run"))
    sampling = run.config.sampling.model_copy(update={"beams": 5})
    run.replace_config(run.config.model_copy(update={"sampling": sampling}))
    run_file.write_run_file(run, tmp_path / "sent.gguf")
    done = called("translate", tmp_path / "sent.gguf", "--text", "a b c")
    assert done.stdout == called("translate", pair_run.path, "--beams=1", "--text", "a b c").stdout
    assert done.stderr == f"{tmp_path}/sent.gguf: its setting beams = 5 needs its run; using 1.\n"


def test_an_earlier_run_gets_its_file(tiny_run, tmp_path):
    """At the first sample, said in one line; also if the file is damaged or older than a checkpoint."""
    folder = shutil.copytree(tiny_run.path, tmp_path / "run", symlinks=True)
    run = minigpt.Run(folder)
    expected = called("sample", tiny_run.path, *GREEDY).stdout
    run.portable_file.unlink()
    wrote = f"Wrote {run.portable_file}, from which the model starts faster.\n"
    first = called("sample", folder, *GREEDY)
    assert (first.stdout, first.stderr) == (expected, wrote)
    again = called("sample", folder, *GREEDY)
    assert (again.stdout, again.stderr) == (expected, "")
    run.portable_file.write_bytes(run.portable_file.read_bytes()[:-9])
    damaged = called("sample", folder, *GREEDY)
    assert damaged.stdout == expected
    assert damaged.stderr.endswith(f"; it is written again\n{wrote}")
    os.utime(run.portable_file, (0, 0))
    assert called("sample", folder, *GREEDY).stderr == wrote


def test_an_unfinished_run_is_sampled_from_its_best_checkpoint(tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run.path, tmp_path / "run")
    for name in ("model.keras", "model.gguf"):
        (folder / name).unlink()
    done = called("sample", folder, *GREEDY)
    assert done.stdout == called("sample", tiny_run.path, *GREEDY).stdout


def test_a_run_that_cannot_be_written(tiny_run, tmp_path, monkeypatch):
    folder = shutil.copytree(tiny_run.path, tmp_path / "run")
    (folder / "model.gguf").unlink()
    write = run_file.write_run_file

    def write_elsewhere(run: minigpt.Run, path: Path, *arguments: object) -> None:
        if path == run.portable_file:
            raise PermissionError
        write(run, path, *arguments)

    monkeypatch.setattr(run_file, "write_run_file", write_elsewhere)
    done = called("sample", folder, *GREEDY)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == called("sample", tiny_run.path, *GREEDY).stdout


def test_verbose_says_what_runs_the_model(tiny_run, pair_run, monkeypatch):
    def said() -> str:
        return called("sample", tiny_run.path, "--prompt=Ana", "--seed=0", "--verbose").stderr

    assert said() == "Running on the engine.\n"
    assert called("sample", tiny_run.portable_file, "--seed=0", "--verbose").stderr == said()
    searched = called("translate", pair_run.path, "--text=a", "--verbose", "--beams=2")
    assert searched.stderr == "Running on TensorFlow: beam search.\n"
    monkeypatch.setattr(open_model, "LARGE_BYTES", 1000)
    assert said().startswith("Running on TensorFlow: a model of 0 MB.")
