"""Commands that run the engine instead of TensorFlow."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minigpt
from minigpt.cli import opening
from minigpt.errors import UserError
from minigpt.targets.gguf import run_file
from tests.cli.running import called, refused

FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs"
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
from minigpt.cli.app import run_command
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


def test_an_export_that_exists_is_refused_without_tensorflow(tiny_run, tmp_path):
    (tmp_path / "file").touch()
    code = COMMAND.replace("assert not end.code", "assert end.code == 2")
    for format, problem in (
        ("saved_model", "is a file; should be a new or empty directory"),
        ("keras", "exists; should be a new file"),
        ("gguf", "exists; should be a new file"),
    ):
        options = ("--format", format, "--output", tmp_path / "file")
        _, imported = imported_by(code, "export", tiny_run.path, *options)
        assert not imported & {"tensorflow", "keras"}
        line = f"minigpt: --output {tmp_path / 'file'}: {problem}"
        assert refused("export", tiny_run.path, *options, cwd=tmp_path) == [line]


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


def test_what_a_file_cannot_do(tiny_run, tmp_path):
    file = tiny_run.portable_file
    assert refused("sample", file, "--beams=3", cwd=tmp_path) == [
        "minigpt: --beams 3: should be 1: a portable file has no beam search, but its run has"
    ]
    (line,) = refused("sample", "nothing.gguf", cwd=tmp_path)
    assert line.startswith("minigpt: RUN nothing.gguf: does not exist; expected a run directory")
    (line,) = refused("evaluate", file, cwd=tmp_path)
    assert line.endswith(f"or by: minigpt sample {file}")
    (line,) = refused("translate", file, "--text", "a", cwd=tmp_path)
    assert line.endswith(f"is not a translation model; use: minigpt sample {file}")
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    (tmp_path / "b.gguf").write_bytes(b"something else")
    (tmp_path / "text").write_bytes(b"something else")
    (line,) = refused("sample", "text", cwd=tmp_path)
    assert line.startswith("minigpt: RUN text: is a file; expected a run directory")
    (line,) = refused("sample", "a.gguf", cwd=tmp_path)
    assert line == "minigpt: a.gguf: the file is not complete"
    (line,) = refused("tokenize", "b.gguf", "--text", "a", cwd=tmp_path)
    assert line == "minigpt: b.gguf: is not a GGUF file"
    # As long as before, so that the file stays valid; without a checksum.
    for before, after, problem in (
        (b'"sampling": {', b'"Sampling": {', "has no valid sampling settings"),
        (b'"top_k": 10', b'"top_k": -1', "has no valid sampling settings"),
        (b'{"tokenizer": {', b'{"tokenizer": [', "has no valid sampling settings"),
    ):
        data = file.read_bytes().replace(b"minigpt.crc32", b"another.crc32")
        assert before in data
        (tmp_path / "c.gguf").write_bytes(data.replace(before, after))
        (line,) = refused("sample", "c.gguf", cwd=tmp_path)
        assert line == f"minigpt: c.gguf: minigpt.config: {problem}"


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


def test_verbose_says_what_runs_the_model(tiny_run, monkeypatch):
    def said(*options: object) -> str:
        return called("sample", tiny_run.path, "--prompt=Ana", "--verbose", *options).stderr

    assert said() == "Running on the engine.\n"
    assert called("sample", tiny_run.portable_file, "--verbose").stderr == said()
    assert said("--beams=2") == "Running on TensorFlow: beam search.\n"
    monkeypatch.setattr(opening, "LARGE_BYTES", 1000)
    assert said().startswith("Running on TensorFlow: a model of 0 MB.")


def test_runs_without_a_portable_file(tmp_path):
    names = [path.name for path in FIXTURES.iterdir() if (path / "config.toml").is_file()]
    assert names
    for name in names:
        folder = shutil.copytree(FIXTURES / name, tmp_path / name)
        run = minigpt.Run(folder)
        run.portable_file.unlink(missing_ok=True)
        if run.config.model.kind != "gpt":
            continue
        done = called("sample", folder, "--prompt=Ana", "--temperature=0", "--max-new-tokens=5")
        assert done.returncode == 0, (name, done.stderr)
        expected = minigpt.load(run).generate("Ana", 5, temperature=0)[0]
        assert done.stdout == f"Ana{expected}\n", name


def test_arguments_are_checked_as_by_a_text_model(tiny_run, opened_without_xla):
    portable = minigpt.load_portable(tiny_run.portable_file)
    cases = [
        {"temperature": -1},
        {"temperature": float("nan")},
        {"temperature": "a"},
        {"top_k": 1.5},
        {"top_k": True},
        {"top_k": 2**31},
        {"top_p": 0},
        {"top_p": 1.1},
        {"min_p": -0.1, "repetition_penalty": 0},
        {"stop": "x"},
        {"stop": [3]},
        {"banned_tokens": [-1]},
        {"banned_tokens": [10**6]},
        {"max_new_tokens": -1},
        {"max_new_tokens": 10**7},
        {"num_samples": 0},
        {"seed": -1},
        {"beams": 0},
        {"length_penalty": float("inf")},
    ]
    for arguments in cases:
        problems = []
        for model in (portable, opened_without_xla):
            with pytest.raises(UserError) as caught:
                model.generate("Ana", **arguments)
            problems.append(caught.value.problems)
        assert problems[0] == problems[1], arguments
    for wrong in ({"prompts": 3}, {"num_samples": "2"}, {"seed": 0.5}):
        for model in (portable, opened_without_xla):
            with pytest.raises(TypeError):
                model.generate(**wrong)
    for model in (portable, opened_without_xla):
        with pytest.raises(UserError, match="topk = 1: unknown setting; did you mean top_k"):
            model.generate("Ana", topk=1)
    numbers = {"temperature": np.float32(0.5), "top_k": np.int64(3), "max_new_tokens": np.int32(5)}
    assert portable.generate("Ana", **numbers) == portable.generate(
        "Ana", temperature=0.5, top_k=3, max_new_tokens=5
    )
    with pytest.raises(UserError, match=r"temperature = 1000.*: should be a valid number"):
        portable.generate("Ana", temperature=10**400)
    with pytest.raises(UserError, match="beams = 2: should be 1: a portable file has no beam"):
        portable.generate("Ana", beams=2)
