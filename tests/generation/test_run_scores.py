"""Scores of a run."""

import shutil

import numpy as np
import pytest

import minigpt
from minigpt import evaluate_run
from minigpt.errors import ArgumentProblem, UserError
from minigpt.runs.run import Run


def test_errors_name_python_arguments(tiny_run, tmp_path):
    imported = Run(shutil.copytree(tiny_run.path, tmp_path / "run"))
    imported.corpus_file.unlink()
    with pytest.raises(UserError) as error:
        evaluate_run(imported)
    (problem,) = error.value.args
    assert isinstance(problem, ArgumentProblem) and problem.name == "run"
    for arguments, name in (((tiny_run, "book.txt"), "`paths`"), ((None,), "`run`")):
        with pytest.raises(TypeError, match=name):
            evaluate_run(*arguments)


def test_with_a_stride_of_one_every_token_is_predicted_from_a_full_window(tiny_run):
    """Against a call of the model for each token."""
    model = minigpt.load(tiny_run)
    text = "Ana sat on the hill and ate 4 figs. Nobody else had brought xylophones."
    ids = [model.tokenizer.end_id, *model.tokenizer.encode(text).tolist(), model.tokenizer.end_id]
    assert len(ids) > model.max_len + 3
    losses = []
    for at in range(1, len(ids)):
        logits = np.asarray(model.logits([ids[max(0, at - model.max_len) : at]]))[0, -1]
        logits = logits.astype(np.float64)
        losses.append(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[ids[at]])
    assert model.evaluate(text, stride=1).loss == pytest.approx(np.mean(losses), rel=1e-5)
    adjacent = model.evaluate(text).loss
    assert adjacent == model.evaluate(text, stride=model.max_len).loss
    assert adjacent != pytest.approx(np.mean(losses), rel=1e-3)


def test_the_stride_is_checked(tiny_run):
    for stride in (0, 17):
        with pytest.raises(UserError, match=f"stride = {stride}"):
            evaluate_run(tiny_run, stride=stride)
    held_out, overlapping = evaluate_run(tiny_run), evaluate_run(tiny_run, stride=4)
    assert overlapping.tokens == held_out.tokens and overlapping.loss < held_out.loss


def test_a_run_is_a_run_or_its_directory(tiny_run, tmp_path):
    (tmp_path / "book.txt").write_text("Ana sat on the hill.\n")
    paths = [str(tmp_path / "book.txt")]
    assert evaluate_run(str(tiny_run.path), paths) == evaluate_run(tiny_run, paths)
