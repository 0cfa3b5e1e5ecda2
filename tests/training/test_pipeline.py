"""Training as a whole, and what it leaves on disk."""

import math
import shutil
from contextlib import contextmanager

import numpy as np
import pytest

import minigpt
from minigpt import evaluate_run
from minigpt.errors import UserError
from minigpt.generation.base_models import whole_sentences
from minigpt.runs.run import open_run_corpus
from minigpt.training.samples import held_out_prompts
from minigpt.training.strategy import Strategy
from tests.conftest import tiny_settings, tiny_text
from tests.run_files import records


def test_validation_loss_is_that_of_a_plain_loop(tiny_run):
    """Every held-out token once, end tokens included, in windows side by side."""
    opened = minigpt.load(tiny_run)
    part = open_run_corpus(tiny_run).val
    ids = np.asarray(part.ids, "int64")
    losses = []
    for start in range(0, len(ids) - 1, 16):
        window = ids[start : start + 17]
        logits = opened.logits(window[None, :-1]).astype("float64")[0]
        log_sums = np.log(np.exp(logits).sum(-1))
        losses += list(log_sums - logits[np.arange(len(window) - 1), window[1:]])
    assert len(losses) == part.tokens
    scored = evaluate_run(tiny_run)
    assert scored.loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert scored.tokens == part.tokens
    text = tiny_text()
    assert scored.bytes == len(text.encode()) - int(len(text.encode()) * 0.9)
    assert scored.bits_per_byte == pytest.approx(sum(losses) / math.log(2) / scored.bytes, rel=1e-5)
    best = min(line["val_loss"] for line in records(tiny_run.metrics_file))
    assert scored.loss == pytest.approx(best, rel=1e-5)


def test_in_the_last_two_fifths_r_drop_repeats_every_second_row(tiny_file, tmp_path, monkeypatch):
    batches, computing = [], Strategy.computing

    @contextmanager
    def recording(self, loop):
        with computing(self, loop) as step:
            yield lambda batch: step(batches.append(batch) or batch)

    monkeypatch.setattr(Strategy, "computing", recording)
    training = {"epochs": 2, "steps_per_epoch": 5, "batch_size": 5}
    for r_drop in (0.0, 1.0):
        chosen = {"training": {**training, "r_drop": r_drop}, "model": {"dropout_rate": 0.1}}
        minigpt.train(tiny_settings(tiny_file, **chosen), tmp_path / str(r_drop))
    for number, (without, repeated) in enumerate(zip(batches[:10], batches[10:], strict=True)):
        rows = [0, 1, 2, 3, 4] if number < 6 else [0, 0, 2, 2, 4]
        for array, expected in zip(repeated[:2], without[:2], strict=True):
            np.testing.assert_array_equal(array, expected[rows])


def test_evaluate_notices_that_the_text_has_changed(tiny_run, tmp_path):
    """The run is a copy with a text of its own: workers share that of `tiny_run`."""
    run = minigpt.Run(shutil.copytree(tiny_run.path, tmp_path / "run"))
    (original,) = run.config.data.paths
    text = shutil.copy(original, tmp_path / "tiny.txt")
    config = run.config_file.read_text()
    run.config_file.write_text(config.replace(original, str(text)))
    run = minigpt.Run(run.path)
    assert evaluate_run(run).loss > 0
    text.write_text(text.read_text().replace("Ana", "Eva"))
    with pytest.raises(UserError, match="has changed since training"):
        evaluate_run(run)


def test_a_run_is_never_overwritten(tiny_file, tiny_run):
    before = tiny_run.metrics_file.read_text()
    with pytest.raises(
        UserError, match="already contains a run; expected a new or empty directory"
    ):
        minigpt.train(tiny_settings(tiny_file), tiny_run.path)
    assert tiny_run.metrics_file.read_text() == before


def test_nothing_is_left_of_a_run_that_could_not_begin(tmp_path):
    (tmp_path / "short.txt").write_text("Too short for a batch.")
    with pytest.raises(UserError, match=r"short\.txt: .*training\.batch_size"):
        minigpt.train(tiny_settings(tmp_path / "short.txt"), tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["short.txt"]


def test_a_damaged_run_is_refused_in_one_line(tiny_run, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(tiny_run.path, broken)
    (broken / "corpus.json").write_text("{")
    with pytest.raises(UserError, match=r"corpus\.json: damaged"):
        evaluate_run(minigpt.Run(broken))
    for data in (b"", tiny_run.model_file.read_bytes()[:2000]):
        (broken / "model.keras").write_bytes(data)
        with pytest.raises(UserError, match=r"model\.keras: not a readable model"):
            minigpt.load(broken)


def test_positions_that_are_never_trained_are_refused(tiny_file, tmp_path):
    settings = tiny_settings(tiny_file, training={"sequence_length": 4})
    settings["model"] |= {"position": "learned"}
    max_len = settings["model"]["max_len"]
    for train in (minigpt.train, minigpt.plan):
        with pytest.raises(UserError) as raised:
            train(settings, tmp_path / "run")
        (problem,) = raised.value.problems
        assert problem.startswith(
            f"training.sequence_length = 4: should be model.max_len = {max_len} or unset"
        )
    assert not (tmp_path / "run").exists()


def test_unset_prompts_are_beginnings_of_the_held_out_text(tmp_path):
    (tmp_path / "train.txt").write_text("An apple is on the table.\n\n" * 200)
    lines = [f"Number {number} stands beside the old white house.\n\n" for number in range(9)]
    (tmp_path / "val.txt").write_text("".join(lines))
    settings = tiny_settings(tmp_path / "train.txt", training={"epochs": 1, "steps_per_epoch": 1})
    settings["data"]["val_paths"] = [str(tmp_path / "val.txt")]
    settings["sampling"].pop("prompts", None)
    run = minigpt.train(settings, tmp_path / "run")
    prompts = run.config.sampling.prompts
    assert len(set(prompts)) == 2
    assert all(any(line.startswith(prompt) for line in lines) for prompt in prompts)
    # A run from nothing is not validated before its first step.
    assert [line["epoch"] for line in records(run.metrics_file)] == [1]
    tokenizer = run.load_tokenizer()
    # The second line of a paragraph is not a prompt.
    ids = tokenizer.encode(
        "\n\n".join(line.strip() + "\nIt never begins here, anyway, at all." for line in lines)
    )
    begun = held_out_prompts(ids, tokenizer, 0, count=9)
    assert len(begun) == 9 and all(prompt.startswith("Number") for prompt in begun)
    # Documents that fit into the context are begun.
    ids = tokenizer.encode(lines[0].strip())
    ids = np.tile([*ids, tokenizer.end_id], 5)
    begun = held_out_prompts(ids, tokenizer, 0, max_len=len(ids) // 5 + 1)
    assert begun[0] == "" and lines[0].startswith(begun[1]) and len(begun) == 2
    assert "" not in held_out_prompts(ids, tokenizer, 0, max_len=len(ids) // 5 - 1)
    # The end of a document that was divided.
    assert "" not in held_out_prompts(ids[-(len(ids) // 5) - 1 :], tokenizer, 0, max_len=len(ids))
    samples = records(run.samples_file)
    assert [sample["prompt"] for sample in samples] == prompts
    # The engine continues them, with the weights of the only epoch.
    names = {"max_new_tokens", "seed", "temperature", "top_k", "top_p", "min_p"}
    drawn = run.config.sampling.model_dump(include=names)
    written = minigpt.load_portable(run.portable_file).samples(prompts, **drawn)
    texts = [whole_sentences(sample, drawn["max_new_tokens"]) for sample in written]
    assert [sample["text"] for sample in samples] == texts
