"""Certificates: what they say about good exports, and that they see each kind of damage."""

import json

import numpy as np
import pytest

import minigpt
from minigpt.errors import UserError
from minigpt.targets import export, onnx
from minigpt.targets.comparison import pair_material
from minigpt.targets.export import certificate_path, certify
from minigpt.targets.targets import TARGETS, ExportSource, target_named, target_of
from tests.cli.running import called

SMALL = {"LINES": 60, "PROMPTS": 5, "TOKENS": 100}


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Compares less text: the tiny model has seen little."""
    for name, value in SMALL.items():
        monkeypatch.setattr(f"minigpt.targets.comparison.{name}", value)


def exported(run, format: str, path, weights: str = "float32") -> dict:
    for package in target_named(format).packages:
        pytest.importorskip(package, reason=f"needs the extra {format}")
    return minigpt.export_run(run, format, path, weights=weights, certificate=True)


# XLA compiles them, or the whole graph is traced.
SLOW = ("saved_model", "keras")


@pytest.mark.parametrize(
    "format",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in TARGETS
        if name != "huggingface"
    ],
)
def test_every_format_has_a_certificate(tiny_run, tmp_path, format):
    path = tmp_path / "exported"
    certificate = exported(tiny_run, format, path)
    assert certificate["problems"] == []
    assert path.is_dir() == target_named(format).is_folder
    assert json.loads(certificate_path(path).read_text()) == certificate
    assert certificate["text"] == "held-out text of the run"
    assert certificate["logits"]["largest_difference"] < 1e-4
    assert certificate["tokenizer"] == {"lines": 60, "same": 60}
    assert certificate["bytes"] == sum(
        file.stat().st_size
        for file in ([path] if path.is_file() else path.rglob("*"))
        if file.is_file() and file.name != "certificate.json"
    )
    assert target_of(path).name == format
    again = minigpt.verify(path, tiny_run)
    for key in ("sha256", "logits", "bits_per_byte", "greedy", "tokenizer", "problems"):
        assert again[key] == certificate[key]


@pytest.mark.parametrize(
    "format",
    [*(pytest.param(name, marks=pytest.mark.slow) for name in SLOW), "gguf", "html"],
)
def test_pairs(pair_run, tmp_path, format):
    certificate = exported(pair_run, format, tmp_path / "exported")
    assert certificate["problems"] == []
    assert (certificate["logits"] is None) == (format in ("gguf", "html"))
    assert certificate["text"] == "held-out pairs of the run"


def test_sources_that_are_not_cut(pair_run):
    tokenizer = pair_run.load_tokenizer()
    lengths = [len(tokenizer.encode(s)) + 1 for s in pair_material(pair_run, tokenizer, 99).prompts]
    most = sorted(lengths)[len(lengths) // 2]
    assert most < max(lengths)
    prompts = pair_material(pair_run, tokenizer, most).prompts
    assert prompts and all(len(tokenizer.encode(prompt)) + 1 <= most for prompt in prompts)


def test_formats_without_pairs(pair_run, tmp_path):
    for format in ("litert", "onnx", "huggingface", "transformers_js"):
        with pytest.raises(UserError, match=r"format = .*: the model is a"):
            exported(pair_run, format, tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("format", ["gguf", "html", "litert", "onnx", "transformers_js"])
@pytest.mark.parametrize("weights", ["float16", "int8"])
def test_smaller_weights(tiny_run, tmp_path, format, weights):
    certificate = exported(tiny_run, format, tmp_path / "exported", weights)
    assert certificate["weights"] == weights
    assert certificate["problems"] == []
    assert certificate["bits_per_byte"]["relative_difference"] < 5e-3
    full = exported(tiny_run, format, tmp_path / "full")
    # Of a tiny model, most bytes are not weights.
    assert certificate["bytes"] < full["bytes"]


class Damaged(ExportSource):
    """A source with some weights changed, as if the export were wrong."""

    def __init__(self, run, change):
        super().__init__(run)
        model = run.load_model()
        variable = model.embedding.token_embedding.embeddings
        variable.assign(change(variable.numpy()))
        self.__dict__["model"] = model


@pytest.mark.parametrize("problem", ["logits differ", "bits per byte"])
def test_other_weights_are_seen_and_nothing_is_left(tiny_run, tmp_path, monkeypatch, problem):
    original = export.certify

    def certify_another(path, source, target):
        other = Damaged(source.run, lambda values: values + 0.05 * np.sign(values))
        return original(path, other, target)

    monkeypatch.setattr(export, "certify", certify_another)
    with pytest.raises(UserError, match=problem) as raised:
        minigpt.export_run(tiny_run, "gguf", tmp_path / "a.gguf", certificate=True)
    assert all(text.startswith("format = 'gguf': ") for text in raised.value.problems)
    assert list(tmp_path.iterdir()) == []


def test_weights_that_are_no_numbers(tiny_run, tmp_path):
    minigpt.export_run(tiny_run, "gguf", tmp_path / "a.gguf")
    other = Damaged(tiny_run, lambda values: values * np.nan)
    found = certify(tmp_path / "a.gguf", other, target_named("gguf"))
    assert found["problems"][0] == "logits are nan or infinite"
    # JSON has no such numbers.
    json.dumps(found, allow_nan=False)


def test_another_tokenizer_is_seen(tiny_run, tmp_path):
    minigpt.export_run(tiny_run, "gguf", tmp_path / "a.gguf")
    source = ExportSource(tiny_run)
    encode = source.tokenizer.encode_many
    source.tokenizer.encode_many = lambda texts: [ids[::-1] for ids in encode(texts)]
    found = certify(tmp_path / "a.gguf", source, target_named("gguf"))
    assert any(problem.endswith("lines have other tokens") for problem in found["problems"])


def test_a_wrong_decoding_loop_is_seen(tiny_run, onnx_folder, monkeypatch):
    """The logits of a full pass are right, those of the steps are not."""
    original = onnx.opened_step

    def wrong(step, *arguments):
        def rolled(*inputs):
            logits, caches = step(*inputs)
            # Of whole texts, the logits stay right.
            return np.roll(logits, len(logits) == 1, axis=1), caches

        return original(rolled, *arguments)

    monkeypatch.setattr(onnx, "opened_step", wrong)
    problems = minigpt.verify(onnx_folder, tiny_run)["problems"]
    assert any("greedy continuations" in problem for problem in problems)
    assert not any("logits" in problem or "bits" in problem for problem in problems)


def test_verify_refuses_what_is_no_export(tiny_run, tmp_path):
    for path in (tmp_path, tmp_path / "nothing", tiny_run.config_file):
        with pytest.raises(UserError, match=r"^path = "):
            minigpt.verify(path, tiny_run)


def test_the_commands(tiny_run, tmp_path):
    path = tmp_path / "model.gguf"
    done = called("export", tiny_run.path, "--format=gguf", "--output", path)
    assert done.returncode == 0, done.stderr
    assert f"Wrote {path}\n" in done.stdout
    names = {"model.gguf", "model.gguf.certificate.json"}
    assert {file.name for file in tmp_path.iterdir()} == names
    done = called("verify", path, "--against", tiny_run.path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["problems"] == []
