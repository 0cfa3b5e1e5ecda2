"""Scores of a run."""

import shutil

import pytest

from minigpt.errors import ArgumentProblem, UserError
from minigpt.evaluation import evaluate_run
from minigpt.runs.run import Run


def test_errors_name_python_arguments(tiny_run, tmp_path):
    with pytest.raises(UserError, match=r"paths = 'book.txt': should be a list of paths"):
        evaluate_run(tiny_run, "book.txt")
    with pytest.raises(UserError, match=r"paths = '': should name a file"):
        evaluate_run(tiny_run, [""])
    imported = Run(shutil.copytree(tiny_run.path, tmp_path / "run"))
    imported.corpus_file.unlink()
    with pytest.raises(UserError, match="was imported and has no held-out text") as error:
        evaluate_run(imported)
    (problem,) = error.value.args
    assert isinstance(problem, ArgumentProblem) and problem.name == "run"


def test_a_run_is_a_run_or_its_directory(tiny_run, tmp_path):
    (tmp_path / "book.txt").write_text("Ana sat on the hill.\n")
    paths = [str(tmp_path / "book.txt")]
    assert evaluate_run(str(tiny_run.path), paths) == evaluate_run(tiny_run, paths)
    with pytest.raises(TypeError, match=r"`run` must be a Run or the path of one. Received: None"):
        evaluate_run(None)
