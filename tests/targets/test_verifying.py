"""verify: files that are damaged, or of another run, in one line; what the tolerances say."""

import shutil
from pathlib import Path

import pytest
import tensorflow as tf

import minigpt
from minigpt.config import Config
from minigpt.environment import install_command
from minigpt.errors import UserError
from minigpt.models import GPT
from minigpt.runs.run import Run
from minigpt.targets.comparison import PROMPTS, text_material
from minigpt.targets.export import problems_of
from minigpt.targets.targets import TOLERANCES, target_named
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.cli.running import called
from tests.conftest import tiny_text
from tests.settings import tokenizer_config

DAMAGES = {
    "model.onnx": lambda file: file.write_bytes(file.read_bytes()[:2000]),
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


def test_weights_that_were_changed(tiny_run, tmp_path):
    file = tmp_path / "a.gguf"
    minigpt.export_run(tiny_run, "gguf", file)
    model = minigpt.load_portable(file)
    model.learn(tiny_text(9), 2, length=4)
    model.save(file)
    certificate = minigpt.verify(file, tiny_run)
    # The cause of every difference is the only line.
    (problem,) = certificate["problems"]
    assert "learning, in 2 steps" in problem


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
    model = GPT(config.model, tokenizer.vocab_size)
    return Run.create(path, config, tokenizer, None, model)


def test_a_saved_model_of_another_run(saved_model, tmp_path):
    """It does not say its sizes, and refuses the texts of a run with a longer context."""
    other = another_run(tmp_path / "other", 24, 320)
    done = called("verify", saved_model, "--against", other.path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "at most max_len = 16" in done.stderr


def test_a_saved_model_of_another_kind(pair_run, saved_model):
    with pytest.raises(UserError, match="another kind of model"):
        minigpt.verify(saved_model, pair_run)


def test_a_saved_model_of_another_program(tiny_run, tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path))
    with pytest.raises(UserError, match=r"path = .*: is a SavedModel of another program"):
        minigpt.verify(tmp_path, tiny_run)


def test_a_text_of_one_document_has_many_prompts(tiny_run):
    material = text_material(tiny_run, tiny_run.load_tokenizer(), 16)
    assert material.origin == "held-out text of the run"
    assert len(material.prompts) > 0.8 * PROMPTS


def problems(weights: str, gap: float = 0.0, logits: dict | None = None, answers: int = 10):
    measured = {
        "greedy": {"prompts": 50, "same_texts": 30, "second_largest_gap": gap},
        "tokenizer": {"lines": 9, "same": 9},
        "answers": {"questions": 10, "same": answers},
        "logits": logits,
        "bits_per_byte": {"relative_difference": 5e-5, "export": 1.0, "source": 1.0},
    }
    return problems_of(measured, TOLERANCES[weights])


def test_tolerances():
    logits = {"largest_difference": 0.03, "largest_of_source": 20.0}
    assert problems("float32") == problems("float32", answers=9) == []
    assert "2 of 10 answers" in problems("float32", answers=8)[0]
    assert "logits differ" in problems("float32", logits=logits)[0]
    assert problems("float16", gap=0.7, logits=logits) == []
    assert "30 of 50" in problems("float16", gap=0.9, logits=logits)[0]
    # Where only texts are compared, they decide.
    assert problems("int8", gap=9.9, logits=logits, answers=0) == problems("int8", gap=0.9) == []
    assert "30 of 50" in problems("int8", gap=1.1)[0]
