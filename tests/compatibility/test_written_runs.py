"""Runs and exports that commit fbd710fe wrote: see scripts/make_run_fixtures.py."""

import hashlib
import json
import shutil
import tomllib
from pathlib import Path

import keras
import numpy as np
import pytest

import minigpt
from minigpt.config import dump_config
from minigpt.corpus.batches import training_batch
from minigpt.runs.checkpoints import read_checkpoint
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.run import open_run_corpus

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "runs"
ANSWERS = json.loads((FIXTURES / "answers.json").read_text(encoding="utf-8"))
RUNS = [name for name in ANSWERS if not name.startswith("exports/")]
TRAINED = [name for name in RUNS if "scores" in ANSWERS[name]]
PORTABLE = ["character", "chat", "pairs", "post_norm", "tiny", "exports/int8.gguf"]
PROMPT = "Ana sat"


@pytest.mark.parametrize("name", [*RUNS, "interrupted"])
def test_every_setting_has_the_value_it_had(runs_folder, name):
    run = minigpt.Run(runs_folder / name)
    before = tomllib.loads(run.config_file.read_text())
    after = tomllib.loads(dump_config(run.config))
    assert before.pop("format") == after.pop("format") == 2
    # It was renamed.
    before["training"]["keep_snapshots"] = before["training"].pop("keep_epochs")
    assert before == {
        section: {key: after[section][key] for key in settings}
        for section, settings in before.items()
    }


@pytest.mark.parametrize("name", TRAINED)
def test_same_text_same_batches(runs_folder, name):
    corpus = open_run_corpus(minigpt.Run(runs_folder / name))
    for side, part in (("train", corpus.train), ("val", corpus.val)):
        ids = np.asarray(part.ids).astype("<u4").tobytes()
        assert hashlib.sha256(ids).hexdigest() == ANSWERS[name]["ids"][side]
    if "batch" in ANSWERS[name]:
        batch = training_batch(corpus.train.ids, 16, 4, seed=0, step=123)
        np.testing.assert_array_equal(batch, ANSWERS[name]["batch"])


@pytest.mark.parametrize("name", TRAINED)
def test_same_scores_on_the_same_held_out_text(runs_folder, name):
    scores = minigpt.evaluate_run(minigpt.Run(runs_folder / name))
    assert vars(scores) == pytest.approx(ANSWERS[name]["scores"], rel=1e-5)


# A chat ends with its turn; it is among the portable files.
@pytest.mark.parametrize("name", ["character", "imported", "lora", "post_norm", "tiny"])
def test_same_greedy_text(runs_folder, name):
    model = minigpt.load(runs_folder / name)
    prompt = list(model.tokenizer.encode(PROMPT))
    ids = list(prompt)
    for _ in range(12):
        ids.append(int(np.argmax(model.logits([ids[-model.model.max_len :]])[0, -1])))
    new = ids[len(prompt) :]
    assert model.tokenizer.continuation(prompt, new) == ANSWERS[name]["text"][0]


def test_same_generated_text(runs_folder, without_xla):
    """Of one run: every call of `generate` for another model is traced anew, which takes seconds."""
    model = minigpt.load(runs_folder / "character")
    answers = ANSWERS["character"]
    assert model.generate(PROMPT, max_new_tokens=12, temperature=0.0) == answers["text"]
    assert model.generate(PROMPT, max_new_tokens=12, seed=1) == answers["sampled"]


def test_same_translation(runs_folder, without_xla):
    model = minigpt.load(runs_folder / "pairs")
    assert model.translate("a b c d") == ANSWERS["pairs"]["translation"]
    assert model.translate("a b c d", beams=2) == ANSWERS["pairs"]["beams"]


@pytest.mark.parametrize("name", PORTABLE)
def test_portable_files(runs_folder, name):
    path = runs_folder / name
    model = minigpt.load_portable(path / "model.gguf" if path.is_dir() else path)
    answers = ANSWERS[name]
    if name == "pairs":
        assert model.translate("a b c d") == answers["translation"]
    else:
        assert model.generate(PROMPT, max_new_tokens=12, temperature=0.0) == answers["text"]
        assert model.generate(PROMPT, max_new_tokens=12, seed=1) == answers["sampled"]


def test_snapshots(runs_folder):
    for file in minigpt.Run(runs_folder / "tiny").snapshots().values():
        assert len(minigpt.load_portable(file).generate(PROMPT, max_new_tokens=3)) == 1


@pytest.mark.parametrize("name", RUNS)
def test_keras_opens_the_model(runs_folder, name):
    opened = keras.models.load_model(runs_folder / name / "model.keras")
    ours = minigpt.load(runs_folder / name).model
    assert type(opened) is type(ours)
    assert [w.name for w in opened.weights] == [w.name for w in ours.weights]
    for theirs, right in zip(opened.weights, ours.weights, strict=True):
        np.testing.assert_array_equal(theirs, right)


def test_an_exported_hugging_face_folder_is_imported(runs_folder, tmp_path):
    again = minigpt.import_run(runs_folder / "exports" / "huggingface", tmp_path / "imported")
    found, right = minigpt.load(again), minigpt.load(runs_folder / "imported")
    assert found.tokenizer.fingerprint() == right.tokenizer.fingerprint()
    ids = found.tokenizer.encode(PROMPT)
    np.testing.assert_array_equal(found.logits([ids]), right.logits([ids]))


@pytest.mark.parametrize("name", ["character", "pairs"])
def test_runs_are_exported(runs_folder, name, tmp_path):
    certificate = minigpt.export_run(
        runs_folder / name, "gguf", tmp_path / "model.gguf", certificate=True
    )
    assert certificate["problems"] == []
    exported, before = (
        minigpt.load_portable(file)
        for file in (tmp_path / "model.gguf", runs_folder / name / "model.gguf")
    )
    if name == "pairs":
        assert exported.translate("a b c d") == before.translate("a b c d")
    else:
        ids = [[3, 4, 3, 5]]
        np.testing.assert_array_equal(exported.logits(ids), before.logits(ids))


def test_resuming_within_an_epoch_ends_as_the_earlier_version_did(runs_folder, tmp_path, no_export):
    """To the bit on one machine; another machine's matrix products may differ in the last bits."""
    path = shutil.copytree(runs_folder / "interrupted", tmp_path / "interrupted")
    (begun,) = checkpoint_paths(path / "checkpoints")
    assert read_checkpoint(begun).progress.batch > 0
    resumed = minigpt.resume(path)
    (ours,) = checkpoint_paths(resumed.checkpoints_folder)
    (theirs,) = checkpoint_paths(runs_folder / "character" / "checkpoints")
    assert ours.name == theirs.name
    arrays, right = read_checkpoint(ours).arrays, read_checkpoint(theirs).arrays
    assert set(arrays) == set(right)
    for name in right:
        # Entries near zero are sums of larger ones.
        atol = 1e-4 * np.max(np.abs(right[name]), initial=0.01)
        np.testing.assert_allclose(arrays[name], right[name], rtol=1e-4, atol=atol, err_msg=name)
    kept = minigpt.Run(runs_folder / "character")
    assert resumed.samples_file.read_bytes() == kept.samples_file.read_bytes()
    losses = [
        [json.loads(line)["val_loss"] for line in run.metrics_file.read_text().splitlines()]
        for run in (resumed, kept)
    ]
    assert len(losses[0]) == 2 and losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize("name", ["lora", pytest.param("pairs", marks=pytest.mark.slow)])
def test_finished_runs_are_trained_further(runs_folder, name, tmp_path, no_export, without_xla):
    path = shutil.copytree(runs_folder / name, tmp_path / name)
    resumed = minigpt.resume(path, ["training.epochs=3"])
    lines = resumed.metrics_file.read_text().splitlines()
    assert len(lines) == 3
    assert lines[:2] == (FIXTURES / name / "metrics.jsonl").read_text().splitlines()
