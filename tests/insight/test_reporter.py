"""Measurements during training, and the states that are recorded."""

import json
import math
import os
import random
import shutil

import pytest

import minigpt
from minigpt.insight.examination import Reporter
from minigpt.insight.history import read_history
from minigpt.runs.analysis import TITLES, Analysis, Verdict
from minigpt.runs.run import Run
from minigpt.training.checkpointing import Checkpointing
from tests.conftest import tiny_settings


def analysis_of(run: Run) -> dict:
    return json.loads(run.analysis_file.read_text(encoding="utf-8"))


def test_a_finished_run(tiny_run):
    found = analysis_of(tiny_run)
    assert found["state"] == "finished" and found["planned_steps"] == 80
    assert found["tokens_per_step"] == 8 * 16 and found["resumed_at"] == []
    assert {verdict["id"] for verdict in found["verdicts"]} <= set(TITLES)
    # Every held-out token is in one group of each kind.
    for kind in ("positions", "frequencies"):
        assert sum(group["tokens"] for group in found[kind]) == tiny_run.facts["val_tokens"]
        total = sum(group["tokens"] * group["loss"] for group in found[kind])
        last = read_history(tiny_run).last
        assert total / tiny_run.facts["val_tokens"] == pytest.approx(last.val_loss, abs=2e-3)
    assert last.bits_per_byte == pytest.approx(
        last.val_loss / math.log(2) / found["bytes_per_token"]
    )
    assert 'type="application/json"' in tiny_run.report_file.read_text(encoding="utf-8")


def test_a_training_that_is_extended(tiny_run, tmp_path, no_export):
    run = Run(shutil.copytree(tiny_run.path, tmp_path / "run"))
    minigpt.resume(run, ["training.epochs=3"])
    found = analysis_of(run)
    assert found["resumed_at"] == [80] and found["state"] == "finished"
    assert read_history(run).last_step == 120


def test_killed_before_the_last_report(tiny_run, tmp_path, no_export):
    """analysis.json says that training has ended; the report was not written, or is an earlier one."""
    run = Run(shutil.copytree(tiny_run.path, tmp_path / "run"))
    run.report_file.unlink()
    minigpt.resume(run)
    written = run.report_file.read_bytes()
    run.report_file.write_text("an earlier one")
    os.utime(run.report_file, (0, 0))
    minigpt.resume(run)
    assert run.report_file.stat().st_size > len(written) / 2


def test_a_training_that_fails(tiny_file, tmp_path, capsys):
    training = {"optimizer": "sgd", "learning_rate": 1e30, "clip_norm": "none"}
    with pytest.raises(minigpt.UserError, match="the loss is"):
        minigpt.train(tiny_settings(tiny_file, training=training), tmp_path / "run")
    run = Run(tmp_path / "run")
    found = analysis_of(run)
    assert found["state"] == "failed"
    assert [verdict["id"] for verdict in found["verdicts"]] == ["diverging"]
    assert run.report_file.is_file()


def test_an_interrupted_training(tiny_file, tmp_path, monkeypatch, no_export):
    save = Checkpointing.save

    def interrupted(self):
        save(self)
        if self.epoch == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpointing, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        minigpt.train(tiny_settings(tiny_file), tmp_path / "run")
    assert analysis_of(Run(tmp_path / "run"))["state"] == "interrupted"


def test_a_training_on_two_languages_is_not_accused_of_memorizing(
    tmp_path, monkeypatch, without_xla, no_export
):
    """What refutes the verdict is measured, however short training was."""
    monkeypatch.setattr("minigpt.insight.examination.SHARE", 1e-9)
    draw = random.Random(0)
    english, german = (
        " ".join(draw.choice(words.split()) for _ in range(count)) + "."
        for words, count in (
            ("the cat saw a dog and she ran to his house when it was late in that wood", 6000),
            ("der Hund sah eine Katze und lief zu ihrem Haus als es im Wald schon dunkel war", 700),
        )
    )
    text = tmp_path / "text.txt"
    text.write_text(english + "\n" + german, encoding="utf-8")
    sizes = {"epochs": 3, "steps_per_epoch": 60, "batch_size": 32, "learning_rate": 0.02}
    settings = tiny_settings(text, tokenizer={"kind": "character"}, training=sizes)
    minigpt.train(settings, tmp_path / "run")
    found = analysis_of(Run(tmp_path / "run"))
    assert [verdict["id"] for verdict in found["verdicts"]][:1] == ["unlike"]
    assert "overfitted" not in {verdict["id"] for verdict in found["verdicts"]}


def test_advice_is_what_the_verdicts_say(tiny_run, monkeypatch):
    monkeypatch.setattr(Reporter, "_report", lambda *_: None)
    for verdicts, advice in (
        ([], None),
        ([Verdict("too_short", "Falling.", "Wait."), Verdict("below_ngram", "1.5.", "")], "Wait."),
        ([Verdict("below_ngram", "1.5.", "")], ""),
    ):
        reporter = Reporter()
        reporter._reports_end, reporter._analysis = True, Analysis(verdicts=verdicts)
        assert len(reporter.finished(tiny_run, "finished")) == max(1, len(verdicts))
        assert reporter.advice == advice
