"""verify: files that are damaged, or of another run, in one line; what the tolerances say."""

import shutil
from pathlib import Path

import pytest
import tensorflow as tf

import minigpt
from minigpt.config import Config
from minigpt.environment import install_command
from minigpt.errors import UserError
from minigpt.models import build_gpt
from minigpt.runs.run import Run
from minigpt.targets.certificate import problems_of
from minigpt.targets.material import PROMPTS, text_material
from minigpt.targets.targets import TOLERANCES, target_named
from minigpt.tokenizers import learn_tokenizer
from tests.cli.running import called
from tests.conftest import tiny_text
from tests.settings import tokenizer_config

DAMAGES = {
    "model.onnx": lambda file: file.write_bytes(file.read_bytes()[:2000]),
    "text_to_text.onnx": lambda file: file.write_bytes(b""),
    "minigpt.json": lambda file: file.write_text("{}"),
    "tokenizer.json": lambda file: file.unlink(),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder(tiny_run, onnx_folder, tmp_path, name):
    folder = tmp_path / "b"
    shutil.copytree(onnx_folder, folder)
    DAMAGES[name](folder / name)
    with pytest.raises(UserError) as caught:
        minigpt.verify(folder, tiny_run)
    (problem,) = caught.value.args
    assert problem.startswith(f"path = '{folder}': cannot be read as onnx: ")
    assert "\n" not in problem


def test_a_damaged_page(tiny_run, tmp_path):
    file = tmp_path / "a.html"
    minigpt.export_run(tiny_run, "html", file)
    page = file.read_text(encoding="utf-8")
    start = page.index('data-file="main"')
    model = page.index(">", start) + 1
    file.write_text(page[: model + 4000] + page[page.index("<", model) :], encoding="utf-8")
    with pytest.raises(UserError) as caught:
        minigpt.verify(file, tiny_run)
    assert str(caught.value).startswith(f"{file}: its model: ")


def test_weights_that_were_changed(tiny_run, tmp_path):
    """One line says so; it is the cause of every difference."""
    file = tmp_path / "a.gguf"
    minigpt.export_run(tiny_run, "gguf", file)
    model = minigpt.load_portable(file)
    model.learn(tiny_text(9), 2, length=4)
    model.save(file)
    certificate = minigpt.verify(file, tiny_run)
    expected = "its weights were changed after the export, by 2 steps of learning"
    assert certificate["problems"] == [expected]


def test_without_the_extra(tiny_run, tmp_path, monkeypatch):
    def fail(*arguments):
        raise ModuleNotFoundError("No module named 'onnxruntime'", name="onnxruntime")

    monkeypatch.setattr(target_named("onnx"), "open", fail)
    (tmp_path / "model.onnx").touch()
    with pytest.raises(UserError) as caught:
        minigpt.verify(tmp_path, tiny_run)
    assert str(caught.value).endswith(f": onnxruntime is not installed: {install_command('onnx')}")


@pytest.mark.parametrize(
    ("max_len", "vocab_size", "problem"),
    [
        (12, 320, "the export has max_len = 16, the run 12"),
        (16, 330, "the export has vocab_size = 320, the run 330"),
    ],
)
def test_another_run(tiny_run, tmp_path, max_len, vocab_size, problem):
    file = tmp_path / "a.gguf"
    minigpt.export_run(tiny_run, "gguf", file)
    other = another_run(tmp_path / "other", max_len, vocab_size)
    with pytest.raises(UserError, match=problem):
        minigpt.verify(file, other)


def another_run(path: Path, max_len: int, vocab_size: int) -> Run:
    settings = tokenizer_config(kind="byte_pair", vocab_size=vocab_size)
    tokenizer = learn_tokenizer([tiny_text()], settings)
    sizes = {"embed_dim": 16, "num_heads": 2, "num_layers": 1, "max_len": max_len}
    config = Config.model_validate({"model": sizes})
    model = build_gpt(config.model, tokenizer.vocab_size)
    return Run.create(path, config, tokenizer, None, model)


@pytest.mark.usefixtures("with_saved_models")
@pytest.mark.parametrize(
    ("max_len", "vocab_size", "problem"),
    [
        (
            24,
            320,
            "token_ids: at most max_len = 16 tokens per row, got 24; the export should be one of this run",
        ),
        (
            16,
            330,
            "the export has vocab_size = 320, the run 330; should be an export of this run",
        ),
    ],
)
def test_a_saved_model_of_another_run(saved_model, tmp_path, max_len, vocab_size, problem):
    """It does not say its sizes. One of a shorter context refuses the texts of the run."""
    other = another_run(tmp_path / "other", max_len, vocab_size)
    with pytest.raises(UserError) as caught:
        minigpt.verify(saved_model, other)
    assert str(caught.value) == problem
    done = called("verify", saved_model, "--against", other.path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"minigpt: {problem}\n"


def test_a_saved_model_of_another_kind(tiny_run, pair_run, saved_model, pair_saved_model):
    expected = "the export is another kind of model; should be an export of this run"
    for export, run in ((pair_saved_model, tiny_run), (saved_model, pair_run)):
        with pytest.raises(UserError) as caught:
            minigpt.verify(export, run)
        assert str(caught.value) == expected


def test_a_saved_model_of_another_program(tiny_run, tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path))
    with pytest.raises(UserError, match=r"path = .*: is a SavedModel of another program"):
        minigpt.verify(tmp_path, tiny_run)


def test_a_text_of_one_document_has_many_prompts(tiny_run):
    material = text_material(tiny_run, tiny_run.load_tokenizer(), 16)
    assert material.origin == "held-out text of the run"
    assert len(set(material.prompts)) == PROMPTS


def measured(same_as_model: int, gap: float, logits: dict | None) -> dict:
    texts = {
        "greedy": {"prompts": 50, "same_texts": 30, "second_largest_gap": gap},
        "tokenizer": {"lines": 9, "same": 9},
    }
    bits = {"relative_difference": 0.001, "export": 1.0, "source": 1.0}
    graph = {"text_to_text": {**texts, "same_as_model": same_as_model}} if logits else {}
    return {**texts, **graph, "logits": logits, "bits_per_byte": bits if logits else None}


LOGITS = {"largest_difference": 0.3, "largest_of_source": 20.0}


@pytest.mark.parametrize(
    ("same_as_model", "gap", "logits", "problem"),
    [
        (45, 0.3, LOGITS, None),
        # The weights of the graph cannot be those of model.onnx.
        (44, 0.3, LOGITS, "text_to_text.onnx: 6 of 50 greedy texts are not those of model.onnx"),
        # Where only texts are compared, they decide.
        (0, 0.9, None, None),
        (0, 1.1, None, "only 30 of 50 greedy continuations are the same"),
    ],
)
def test_int8(same_as_model, gap, logits, problem):
    found = problems_of(measured(same_as_model, gap, logits), TOLERANCES["int8"])
    assert [each[: len(problem or "")] for each in found] == ([problem] if problem else [])
