"""A text is measured, and what suits it is chosen."""

from pathlib import Path

import pytest
import tensorflow as tf

import minigpt
from minigpt.config import Config, dump_config, load_config
from minigpt.config.complete import REFERENCE_SPEED, TextSize, complete, settings_to_choose
from minigpt.config.loading import as_strings, load_new_config
from minigpt.config.training import TrainingConfig
from minigpt.corpus.batches import check_fills_batch
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from minigpt.training import start, strategy
from minigpt.training.start import complete_settings, config_for_text, new_training
from tests.config.fitting import passes_of, steps_of

LINE = "Ana sat on the hill and ate 7 figs.\n"


def text_of(size: int, folder: Path) -> str:
    file = folder / "book.txt"
    file.write_text((LINE * (size // len(LINE) + 1))[:size])
    return str(file)


def test_passes_are_counted_in_characters(tmp_path):
    text = "Анна сидела на холме и ела 7 смокв.\n" * 500
    (tmp_path / "book.txt").write_text(text)
    config = config_for_text([str(tmp_path / "book.txt")])
    assert len(text.encode()) > 1.5 * len(text)
    assert 23 < passes_of(config, len(text)) < 25
    # Beyond the length up to which a text is kept for counting.
    (tmp_path / "book.txt").write_text(text * 4)
    config = config_for_text([str(tmp_path / "book.txt")], ["tokenizer.kind=character"])
    assert 23 < passes_of(config, 4 * len(text)) < 25


def fills_batches(config: Config) -> None:
    """Raises a `UserError` if the text is too short for one batch."""
    corpus = open_corpus(config.data, config.tokenizer)
    check_fills_batch(corpus.train.tokens, config.sequence_length, config.training.batch_size)


@pytest.mark.parametrize("given", [[], ["training.batch_size=1"], ["model.max_len=2"]])
@pytest.mark.parametrize("text", [LINE[:4], LINE[:20], LINE * 6, LINE * 16, "猫坐在山上。" * 30])
def test_the_smallest_text_fills_a_batch(text, given, tmp_path):
    (tmp_path / "book.txt").write_text(text)
    config = config_for_text([str(tmp_path / "book.txt")], given)
    fills_batches(config)
    assert steps_of(config) >= 10
    assert config.training.warmup_steps <= steps_of(config) / 10


def test_a_short_text_fills_a_batch_though_half_of_it_is_held_out(tmp_path):
    # Short documents are not divided.
    (tmp_path / "book.txt").write_text(f"{LINE * 13}@{LINE * 12}")
    fills_batches(config_for_text([str(tmp_path / "book.txt")], ["data.document_separator=@"]))


def test_what_is_chosen_for_pairs(tmp_path):
    (tmp_path / "pairs.tsv").write_text("a hill\tein Berg\n" * 20 + "a fig\teine Feige\n")
    data = {"source": "pairs", "paths": [str(tmp_path / "pairs.tsv")]}
    given = {"data": data, "model": {"kind": "encoder_decoder"}, "tokenizer": {"kind": "word"}}
    config = complete_settings(load_config(given))[0].config
    assert (config.tokenizer.kind, config.tokenizer.vocab_size) == ("word", 20_000)
    assert (config.model.dropout_rate, config.model.max_len) == (0.2, 128)
    training = config.training
    assert (training.epochs, training.steps_per_epoch, training.max_minutes) == (10, None, 10)


def test_python_toml_and_overrides_choose_alike(tmp_path):
    path = text_of(50_000, tmp_path)
    expected = config_for_text([path], ["model.embed_dim=48"])
    file = tmp_path / "mine.toml"
    data, model = {"source": "files", "paths": [path]}, {"embed_dim": 48}
    file.write_text(f'[data]\nsource = "files"\npaths = [{path!r}]\n[model]\nembed_dim = 48\n')
    for config in (
        load_config({"data": data, "model": model}),
        load_config(file),
        load_config(None, ["model.embed_dim=48"], text=[path]),
        load_config(None, ["model.embed_dim=48", "data.source=files", f"data.paths=[{path!r}]"]),
        load_config("default", ["model.embed_dim=48"], text=[path]),
    ):
        assert complete_settings(config)[0].config == expected


def test_python_takes_a_text_and_minutes_as_the_command_does(tmp_path):
    path, given = text_of(5_000, tmp_path), {"model": {"embed_dim": 48}, "training.epochs": 3}
    command = ["model.embed_dim=48", "training.epochs=3", "training.max_minutes=2"]
    expected = complete_settings(load_new_config(None, command, [path]))[0].config
    arguments = {"overrides": given, "minutes": 2}
    for text in (path, Path(path), [path]):
        plan = minigpt.plan(text=text, **arguments).as_dict()
        assert (plan["model"]["embed_dim"], plan["training"]["max_minutes"]) == (48, 2)
    begun = new_training(None, as_strings(given, 2), None, None, text=path)
    assert (begun.config, begun.name) == (expected, "book")
    assert new_training({"data": {"source": "files"}}, [], None, None, text=path).name == "run"
    assert as_strings({"training.max_minutes": None}) == ['training.max_minutes="none"']


def test_a_text_is_trained_on_from_python(tmp_path, monkeypatch, without_xla, no_export):
    monkeypatch.chdir(tmp_path)
    text_of(5_000, tmp_path)
    sizes = {"model": {"embed_dim": 16, "num_layers": 1, "num_heads": 2}}
    short = {"training": {"epochs": 1, "steps_per_epoch": 2}}
    run = minigpt.train(text="book.txt", minutes=2, base="none", overrides=sizes | short)
    assert run.path.name == "book-1" and Path(run.config.data.paths[0]).name == "book.txt"
    assert (run.config.training.max_minutes, run.config.model.embed_dim) == (2, 16)


def test_a_text_in_place_of_a_configuration(tmp_path):
    path = text_of(500, tmp_path)
    with pytest.raises(
        UserError, match=f"^{path}: is not a configuration; .*text='{path}' or --text$"
    ):
        minigpt.train(path)
    with pytest.raises(UserError, match=r"resume_from = .* cannot be combined with .*`text`"):
        minigpt.train(text=path, resume_from="runs/a")
    (tmp_path / "wrong.toml").write_text("Ana sat")
    with pytest.raises(UserError, match=r"not valid TOML: (?!.*--text)"):
        minigpt.train(tmp_path / "wrong.toml")


def test_a_complete_configuration_reads_no_text(tmp_path):
    config = config_for_text([text_of(5_000, tmp_path)])
    (tmp_path / "config.toml").write_text(dump_config(config))
    (tmp_path / "book.txt").unlink()
    assert complete_settings(config)[0].config == config
    # Nothing is chosen again from what a run has written.
    again = load_config(tmp_path / "config.toml")
    assert settings_to_choose(again) == set()
    assert complete_settings(again)[0].config == again
    assert complete_settings(load_config(None))[0].config == load_config(None)


def test_the_speed_of_the_machine_chooses_the_width(tmp_path, monkeypatch):
    path = text_of(2_000_000, tmp_path)
    widths = []
    for speed in (REFERENCE_SPEED / 10, REFERENCE_SPEED, 10 * REFERENCE_SPEED):
        monkeypatch.setattr(start, "probe_speed", lambda training, speed=speed: (speed, 0))
        config = config_for_text([path])
        widths.append(config.model.embed_dim)
        # Several processes choose the same.
        assert (
            complete_settings(load_config(None, text=[path]), measures_speed=False)[0].config
            == complete(load_config(None, text=[path]), TextSize(2_000_000, 2_000_000)).config
        )
    assert widths == [96, 192, 256]


@pytest.mark.parametrize(
    ("settings", "gpus"),
    [({}, 4), ({"devices": 3}, 3), ({"device": "gpu:1"}, 1), ({"device": "cpu"}, 0)],
)
def test_the_gpus_that_are_used_are_counted(settings, gpus, monkeypatch, tmp_path):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * 4)
    monkeypatch.setattr(strategy, "_cpu_speed", lambda: strategy.GPU_SPEED)
    speed = strategy.GPU_SPEED * max(1, gpus)
    assert strategy.probe_speed(TrainingConfig(**settings)) == (speed, gpus)
    seen = []
    monkeypatch.setattr(
        start, "complete", lambda *arguments: seen.append(arguments) or complete(*arguments)
    )
    complete_settings(load_config({"training": settings}, text=[text_of(2_000, tmp_path)]))
    assert seen[0][2:4] == (speed, gpus)


def test_deterministic_training_runs_one_operation_at_a_time(monkeypatch):
    """TensorFlow adds several gradients in an order that depends on which operations have ended."""
    threads = []
    monkeypatch.setattr(tf.config.threading, "set_inter_op_parallelism_threads", threads.append)
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: None)
    strategy.seed(0, deterministic=False)
    assert not threads
    strategy.seed(0, deterministic=True)
    assert threads == [1]
