"""The memorization meter on models that were really trained."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minigpt
from minigpt.errors import UserError
from minigpt.insight.memorization import draw_samples, open_state
from minigpt.insight.verbatim import TokenBytes
from minigpt.runs.checkpoints import newest_checkpoint, write_checkpoint
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.run import Run, open_run_corpus
from tests.insight.conftest import PASSAGE
from tests.insight.training_texts import brute_force

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "runs"


@pytest.fixture(scope="module")
def found(learned_by_heart) -> minigpt.Memorization:
    return minigpt.measure_memorization(learned_by_heart, tokens=2000)


def test_a_passage_that_was_learned_by_heart_is_found(found):
    assert found.share > 0.3
    assert found.held_out_share < 0.02
    copied = [sample.text[slice(*span)] for sample in found.samples for span in sample.copied]
    assert sum(PASSAGE[:40] in text for text in copied) > 5


def test_copied_parts_equal_those_of_brute_force(found, learned_by_heart):
    documents = ["A short one.\n", (learned_by_heart.path.parent / "book.txt").read_text()]
    for sample in found.samples:
        inside = brute_force(documents, sample.prompt + sample.text)
        copied = {p for begin, end in sample.copied for p in range(begin, end)}
        begin = len(sample.prompt)
        assert {position - begin for position in inside if position >= begin} == copied


def test_the_size_and_the_kinds_of_samples(found):
    assert 1900 < found.tokens <= 2000
    assert found.words == pytest.approx(
        sum(len(sample.text.split()) for sample in found.samples), abs=len(found.samples)
    )
    prompts = [sample.prompt for sample in found.samples]
    assert prompts[0] == "" and prompts[2] == "Ana sat"
    held_out = prompts[1::2]
    assert all(held_out) and len(set(held_out)) > len(held_out) / 2


def test_it_is_deterministic_and_has_the_form_of_the_record(found, learned_by_heart):
    again = minigpt.measure_memorization(str(learned_by_heart.path), "best", tokens=2000)
    assert again == found
    record = json.loads(json.dumps(found.as_dict()))
    assert (record["state"], record["epoch"], record["step"]) == ("best", 3, 360)


def test_the_last_state_is_the_newest_checkpoint(learned_by_heart, tmp_path):
    run = Run(shutil.copytree(learned_by_heart.path, tmp_path / "run"))
    best = minigpt.measure_memorization(run, tokens=400)
    same = minigpt.measure_memorization(run, "last", tokens=400)
    assert (same.state, same.epoch, same.step) == ("last", 3, 360)
    assert same.samples == best.samples
    newest = newest_checkpoint(run.checkpoints_folder)
    arrays = {
        name: -array if name.startswith("weights/") else array
        for name, array in newest.arrays.items()
    }
    progress = newest.progress.model_copy(update={"step": 400})
    write_checkpoint(run.checkpoints_folder, "step-00000400", arrays, progress)
    last = minigpt.measure_memorization(run, "last", tokens=400)
    assert (last.step, last.samples == best.samples) == (400, False)
    assert minigpt.measure_memorization(run, tokens=400) == best
    for path in checkpoint_paths(run.checkpoints_folder):
        shutil.rmtree(path)
    with pytest.raises(UserError, match="no checkpoint; its last state is unknown"):
        minigpt.measure_memorization(run, "last", tokens=400)


def test_a_greedy_model_continues_each_prompt_once(learned_by_heart):
    corpus, sampling = open_run_corpus(learned_by_heart), learned_by_heart.config.sampling
    given = TokenBytes(corpus.tokenizer), np.asarray(corpus.val.ids)
    greedy = sampling.model_copy(update={"temperature": 0.0})
    draws = draw_samples(minigpt.open_model(learned_by_heart), *given, greedy, 2000)
    prompts = [sample.prompt for sample, _ in draws]
    assert prompts and len(set(prompts)) == len(prompts)


def test_pairs_are_not_measured(pair_run):
    with pytest.raises(UserError, match="pairs"):
        minigpt.measure_memorization(pair_run, tokens=300)


def test_tensorflow_is_not_imported(learned_by_heart):
    code = (
        "import sys, minigpt\n"
        "for state in ('best', 'last'):\n"
        "    minigpt.measure_memorization(sys.argv[1], state, tokens=100)\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(learned_by_heart.path)], check=True)


@pytest.mark.parametrize("name", ["lora", "post_norm"])
def test_the_last_state_of_every_kind_of_run(name):
    """In the fixture `lora`, the newest checkpoint is not the best one."""
    run = Run(FIXTURES / name)
    ids = [[5, 9, 3, 7]]
    model, epoch, step = open_state(run, "last")
    assert (epoch, step) == (2, 40)
    newest = newest_checkpoint(run.checkpoints_folder)
    expected = minigpt.TextModel(run.load_model(newest), run.load_tokenizer()).logits(ids)
    np.testing.assert_allclose(model.logits(ids), expected, atol=1e-4)
