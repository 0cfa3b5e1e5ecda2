"""Training as a whole, and what it leaves on disk."""

import math
import re
import shlex
import shutil
import time
import tomllib

import numpy as np
import pytest
from rich.console import Console

import minigpt
from minigpt.config import load_config
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from minigpt.evaluation import evaluate_run
from minigpt.training import pipeline
from minigpt.training.start import check_trains_all_positions
from tests.conftest import SAMPLED, tiny_settings, tiny_text
from tests.run_files import METRICS, RUN_FILES, names_in, records


@pytest.mark.usefixtures("with_saved_models")
def test_run_directory_is_complete(tiny_run):
    assert names_in(tiny_run.path) == RUN_FILES - {"lock", "saved_model"}
    names = sorted(path.name for path in (tiny_run.path / "checkpoints").iterdir())
    assert names == ["step-00000040-epoch-1", "step-00000080-epoch-2"]


def test_it_learns(tiny_run):
    metrics = records(tiny_run.metrics_file)
    assert [line["epoch"] for line in metrics] == [1, 2]
    assert [line["step"] for line in metrics] == [40, 80]
    # 320 tokens: a uniform guess is 5.8 nats.
    assert metrics[1]["val_loss"] < metrics[0]["val_loss"] < 4
    for line in metrics:
        assert line["val_perplexity"] == pytest.approx(math.exp(line["val_loss"]))
        assert line["seconds"] > 0 and line["tokens_per_second"] > 0
        assert set(line) == METRICS


def test_samples_are_recorded_with_the_same_seed_every_epoch(tiny_run):
    samples = records(tiny_run.samples_file)
    assert [(s["epoch"], s["prompt"]) for s in samples] == [
        (1, "Ana sat"),
        (1, ""),
        (2, "Ana sat"),
        (2, ""),
    ]
    assert {s["seed"] for s in samples} == {0}
    assert set(samples[0]) == {"epoch", "prompt", "text", "seed", "temperature", "top_k"}


def test_the_recorded_config_gives_the_same_run(tiny_file, tmp_path, no_export):
    """To the bit with `training.deterministic`; without it, sums may be rounded differently."""
    settings = tiny_settings(tiny_file, training={"deterministic": True}, sampling=SAMPLED)
    run = minigpt.train(settings, tmp_path / "run")
    again = minigpt.train(run.config_file, tmp_path / "again")
    first, second = records(run.metrics_file), records(again.metrics_file)
    for a, b in zip(first, second, strict=True):
        for name in set(a) - {"seconds", "tokens_per_second"}:
            assert a[name] == b[name], name
    assert records(again.samples_file) == records(run.samples_file)
    assert tomllib.loads(again.config_file.read_text()) == tomllib.loads(
        run.config_file.read_text()
    )


def test_validation_loss_is_that_of_a_plain_loop(tiny_run):
    """Every held-out token once, end tokens included, in windows side by side."""
    opened, config = minigpt.load(tiny_run), tiny_run.config
    part = open_corpus(config.data, config.tokenizer).val
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


def test_evaluate_on_other_text(tiny_run, tmp_path):
    (tmp_path / "other.txt").write_text(tiny_text(20, seed=9))
    by_file = evaluate_run(tiny_run, [str(tmp_path / "other.txt")])
    by_text = minigpt.load(tiny_run).evaluate(tiny_text(20, seed=9))
    # Sums in batches of other sizes: the last digits differ.
    assert by_file.as_dict() == pytest.approx(by_text.as_dict(), rel=1e-6)
    assert by_file.loss < minigpt.load(tiny_run).evaluate("zebra quilt vex! " * 20).loss


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


@pytest.mark.parametrize(
    ("banned", "message"),
    [([3, 320, 999], "320, 999: should be ids from 0 to 319"), (list(range(320)), "bans all 320")],
    ids=["unknown", "all"],
)
def test_banned_tokens_are_checked_before_training(banned, message, tiny_file, tmp_path):
    settings = tiny_settings(tiny_file, sampling={"banned_tokens": banned})
    with pytest.raises(UserError, match=rf"sampling\.banned_tokens: {message}"):
        minigpt.train(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_two_trainings_without_a_directory_get_one_each(
    tiny_file, tmp_path, monkeypatch, no_export
):
    """The second one creates its run while the first one is about to."""
    monkeypatch.chdir(tmp_path)
    settings = tiny_settings(tiny_file, training={"epochs": 1, "steps_per_epoch": 2})
    runs = []

    def train_another(task, *arguments):
        if not runs:
            runs.append(None)
            runs[0] = minigpt.train(settings, name="tiny")
        return summary(task, *arguments)

    from minigpt.training.messages import summary

    monkeypatch.setattr("minigpt.training.messages.summary", train_another)
    runs.append(minigpt.train(settings, name="tiny"))
    assert [str(run.path) for run in runs] == ["runs/tiny-1", "runs/tiny-2"]
    assert all(len(records(run.metrics_file)) == 1 for run in runs)


def test_suggested_commands_are_quoted_and_markup_is_shown(
    tiny_file, tmp_path, capsys, monkeypatch
):
    """The commands can be pasted into a shell, and run."""
    # The times are printed in whole seconds: an export that takes more than one separates them.
    export = pipeline.export_best
    monkeypatch.setattr(pipeline, "export_best", lambda *a: (time.sleep(1.1), export(*a))[1])
    path = tmp_path / "a run [/INST]"
    settings = tiny_settings(
        tiny_file,
        training={"epochs": 1, "steps_per_epoch": 2},
        sampling={"prompts": ["[/INST] it's"], "max_new_tokens": 2},
    )
    console = Console(highlight=False, soft_wrap=True)
    minigpt.train(settings, path, console=console)
    out = capsys.readouterr().out
    (command,) = re.findall(r"Sample from it with: (.*)", out)
    assert shlex.split(command) == ["minigpt", "sample", str(path), "--prompt", "[/INST] it's"]
    assert "1 epoch of 2 steps of 8 x 16 tokens" in out
    assert "\n  [[/INST] it's]" in out
    times = re.search(
        r"Done: trained for (?:(\d+) min )?(\d+) s, (?:(\d+) min )?(\d+) s in all", out
    )
    minutes, seconds, total_minutes, total_seconds = (int(n or 0) for n in times.groups())
    assert 60 * minutes + seconds < 60 * total_minutes + total_seconds


def test_no_finished_checkpoint(tiny_run, tmp_path):
    (tmp_path / "config.toml").write_text(tiny_run.config_file.read_text())
    with pytest.raises(UserError, match="has no checkpoint"):
        minigpt.load(tmp_path)


def test_a_damaged_run_is_refused_in_one_line(tiny_run, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(tiny_run.path, broken)
    (broken / "corpus.json").write_text("{")
    with pytest.raises(UserError, match=r"corpus\.json: damaged"):
        evaluate_run(minigpt.Run(broken))
    for data in (b"", tiny_run.model_file.read_bytes()[:2000]):
        (broken / "model.keras").write_bytes(data)
        with pytest.raises(UserError, match=r"model\.keras: damaged"):
            minigpt.load(broken)


@pytest.mark.parametrize(
    "training",
    [
        {"optimizer": "muon", "weight_decay": 0.1, "clip_norm": 1.0},
        {"optimizer": "sgd", "accumulate_steps": 3, "schedule": "linear", "warmup_steps": 3},
        # Without units for it a processor is slow at this.
        pytest.param({"optimizer": "adam", "precision": "mixed_bfloat16"}, marks=pytest.mark.slow),
        pytest.param({"optimizer": "adamw", "precision": "mixed_float16"}, marks=pytest.mark.slow),
    ],
    ids=lambda training: "-".join(map(str, training.values())),
)
def test_optimizers_and_precisions_learn(training, tiny_file, tmp_path, no_export):
    training = {**training, "epochs": 2, "steps_per_epoch": 15}
    run = minigpt.train(tiny_settings(tiny_file, training=training), tmp_path / "run")
    metrics = records(run.metrics_file)
    assert [line["step"] for line in metrics] == [15, 30]
    assert metrics[1]["val_loss"] < metrics[0]["val_loss"] < math.log(320)


@pytest.mark.slow
def test_max_minutes_ends_in_good_order(tiny_file, tmp_path):
    run = minigpt.train(
        tiny_settings(tiny_file, training={"max_minutes": 0.05, "steps_per_epoch": 100_000}),
        tmp_path / "run",
    )
    (line,) = records(run.metrics_file)
    assert 0 < line["step"] < 100_000
    assert run.model_file.is_file() and run.saved_model_folder.is_dir()
    # What the clock made of the plan is recorded: with more time it is the same run again.
    again = minigpt.train(
        load_config(run.config_file, ["training.max_minutes=60"]), tmp_path / "again"
    )
    (line_again,) = records(again.metrics_file)
    for name in set(line) - {"seconds", "tokens_per_second"}:
        assert line[name] == line_again[name], name


def test_early_stopping(tiny_file, tmp_path, capsys, no_export):
    # A rate this high never gets better after its first epoch.
    settings = tiny_settings(
        tiny_file,
        training={
            "epochs": 30,
            "steps_per_epoch": 5,
            "learning_rate": 30.0,
            "schedule": "constant",
            "early_stopping_patience": 2,
        },
    )
    run = minigpt.train(settings, tmp_path / "run")
    metrics = records(run.metrics_file)
    losses = [line["val_loss"] for line in metrics]
    assert len(losses) < 30
    assert min(losses) == losses[-3]
    assert "early_stopping_patience = 2" in capsys.readouterr().out


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


def test_a_run_with_positions_that_were_never_trained_is_resumed(
    tiny_file, tmp_path, monkeypatch, no_export, without_xla
):
    settings = tiny_settings(
        tiny_file,
        model={"position": "learned"},
        training={"sequence_length": 4, "epochs": 1, "steps_per_epoch": 2},
    )
    with monkeypatch.context() as patched:
        check = "minigpt.training.start.check_trains_all_positions"
        patched.setattr(check, lambda config: None)
        run = minigpt.train(settings, tmp_path / "run")
    run = minigpt.resume(run, ["training.epochs=2"])
    assert [line["step"] for line in records(run.metrics_file)] == [2, 4]
    assert evaluate_run(run).loss > 0


@pytest.mark.parametrize(
    ("position", "length", "source"),
    [
        ("learned", 16, "stories"),
        ("learned", 17, "stories"),
        ("learned", "none", "stories"),
        ("rotary", 8, "stories"),
        ("sinusoidal", 8, "stories"),
        ("learned", "none", "pairs"),
    ],
)
def test_other_lengths_train_all_positions(position, length, source):
    kind = "encoder_decoder" if source == "pairs" else "gpt"
    config = load_config(
        {
            "data": {"source": source} | ({"paths": ["x"]} if source == "pairs" else {}),
            "model": {"kind": kind, "max_len": 16, "position": position},
            "training": {"sequence_length": length},
        }
    )
    check_trains_all_positions(config)


def test_arguments_of_the_wrong_type_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=r"`run` must be a Run or the path of one. Received: None"):
        minigpt.resume(None)
    with pytest.raises(TypeError, match="`changes` must be a sequence of strings"):
        minigpt.resume("runs/a", "training.epochs=1")
    with pytest.raises(TypeError, match="`overrides` must be a sequence of strings"):
        minigpt.train(overrides="training.epochs=1")
    assert not any(tmp_path.iterdir())
