"""Runs that the last version without a format number wrote; scripts/make_compatibility_fixtures.py."""

import hashlib
import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest

import minigpt
from minigpt.runs.checkpoints import checkpoint_paths, read_checkpoint

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "compatibility"
RECORD = json.loads((FIXTURES / "answers.json").read_text(encoding="utf-8"))
RUNS = RECORD["runs"]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """A copy of the fixtures whose absolute paths lead to the copy."""
    folder = tmp_path_factory.mktemp("written") / "runs"
    shutil.copytree(FIXTURES, folder)
    for file in folder.glob("*/config.toml"):
        file.write_text(file.read_text().replace(RECORD["folder"], str(folder)))
    for file in folder.glob("*/checkpoints/*/manifest.json"):
        content = json.loads(file.read_text().replace(RECORD["folder"], str(folder)))
        del content["sha256"]
        content["sha256"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        file.write_text(json.dumps(content))
    return folder


def test_the_fixtures_are_of_the_format_without_a_number():
    assert all("format" not in file.read_text() for file in FIXTURES.glob("*/config.toml"))


def test_same_translation(written):
    assert minigpt.load(written / "pairs").translate("a b c d") == RUNS["pairs"]["translation"]


def test_same_generated_text(written):
    """Of one run: every call of `generate` for another model is compiled anew, which takes seconds."""
    model = minigpt.load(written / "character")
    greedy = model.generate("Ana sat", max_new_tokens=12, temperature=0.0)
    assert greedy == RUNS["character"]["text"]


@pytest.mark.parametrize("name", [name for name in RUNS if "text" in RUNS[name]])
def test_same_greedy_text(written, name):
    model = minigpt.load(written / name)
    prompt = list(model.tokenizer.encode("Ana sat"))
    ids = list(prompt)
    for _ in range(12):
        ids.append(int(np.argmax(model.logits([ids[-model.model.max_len :]])[0, -1])))
    assert model.tokenizer.decode(ids[len(prompt) :]) == RUNS[name]["text"][0]


@pytest.mark.parametrize("name", [name for name in RUNS if RUNS[name]["scores"]])
def test_same_scores_on_the_same_held_out_text(written, name):
    scores = minigpt.evaluate_run(minigpt.Run(written / name))
    assert vars(scores) == pytest.approx(RUNS[name]["scores"], rel=1e-5)


@pytest.mark.parametrize("name", RUNS)
def test_keras_opens_the_model(written, name):
    opened = keras.models.load_model(written / name / "model.keras")
    ours = minigpt.load(written / name).model
    assert type(opened) is type(ours)
    assert [w.name for w in opened.weights] == [w.name for w in ours.weights]
    for theirs, right in zip(opened.weights, ours.weights, strict=True):
        np.testing.assert_array_equal(theirs, right)


@pytest.mark.parametrize("name", [*RUNS, "interrupted"])
def test_settings_left_out_stay_unset(written, name):
    config = minigpt.Run(written / name).config
    training = config.training
    assert training.max_minutes is training.clip_norm is training.early_stopping_patience is None
    assert (training.optimizer, training.weight_decay, training.adam_beta_2) == (
        "adamw",
        0.0,
        0.999,
    )
    assert training.step_limits == []
    assert config.sampling.temperature == 1.0


def test_resuming_within_an_epoch_ends_as_the_earlier_version_did(written, tmp_path, no_export):
    """To the bit on one machine; another machine's matrix products may differ in the last bits."""
    path = shutil.copytree(written / "interrupted", tmp_path / "interrupted")
    (begun,) = checkpoint_paths(path / "checkpoints")
    assert read_checkpoint(begun).progress.batch > 0
    resumed = minigpt.resume(path)
    (ours,) = checkpoint_paths(resumed.checkpoints_folder)
    (theirs,) = checkpoint_paths(written / "character" / "checkpoints")
    assert ours.name == theirs.name
    arrays, right = read_checkpoint(ours).arrays, read_checkpoint(theirs).arrays
    assert set(arrays) == set(right)
    width = resumed.config.model.embed_dim
    for name in right:
        actual, expected = arrays[name], right[name]
        if expected.shape == (3 * width,):
            # The second third is the biases of keys. Their gradient is zero but for rounding,
            # because softmax ignores what all scores have in common; AdamW makes steps of it.
            for biases in (actual, expected):
                assert np.abs(biases[width : 2 * width]).max() < 1e-3
                biases[width : 2 * width] = 0
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6, err_msg=name)
    kept = written / "character"
    assert resumed.samples_file.read_bytes() == (kept / "samples.jsonl").read_bytes()
    assert "format = 2" in resumed.config_file.read_text()
