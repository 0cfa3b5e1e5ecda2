"""Sizes and steps that are chosen for a text."""

import json
import logging
import random
from pathlib import Path

import pytest

import minigpt
from minigpt.config import load_config
from minigpt.config.fit import fitted
from minigpt.corpus.fit import config_for_text, fit_to_text
from minigpt.corpus.token_store import reopen_corpus
from minigpt.errors import UserError
from minigpt.tokenizers import load_tokenizer

LINE = "Ana sat on the hill and ate 7 figs.\n"


def text_of(size: int, folder: Path) -> str:
    file = folder / "book.txt"
    file.write_text((LINE * (size // len(LINE) + 1))[:size])
    return str(file)


SIZES = (200, 5_000, 20_000, 100_000, 500_000, 2_000_000, 10_000_000, 60_000_000, 10**9)


@pytest.mark.parametrize("minutes", [0.5, 1, 3, 10, 60])
@pytest.mark.parametrize("size", SIZES)
def test_every_choice_is_a_configuration_within_its_limits(size, minutes):
    given = load_config(None, [f"training.max_minutes={minutes}"], text=["book.txt"])
    config, _ = fitted(given, size, characters=80)
    training, model = config.training, config.model
    tokens = training.epochs * training.steps_per_epoch * training.batch_size * model.max_len
    assert 0 < config.data.val_fraction * size <= 200_000
    assert training.epochs * training.steps_per_epoch >= 10
    assert training.warmup_steps <= training.epochs * training.steps_per_epoch / 2
    assert training.max_minutes == minutes
    # No token is shorter than a byte, so that this is at most the number of passes over the text.
    assert tokens / size < 13 or size < 1000
    if tokens / size > 5:
        assert model.dropout_rate > 0
    assert training.early_stopping_patience < training.epochs


@pytest.mark.parametrize("size", SIZES)
def test_more_time_never_chooses_a_narrower_model(size):
    chosen = []
    for minutes in (1, 3, 10, 60):
        given = load_config(None, [f"training.max_minutes={minutes}"], text=["book.txt"])
        chosen.append(fitted(given, size, 80)[0])
    widths = [config.model.embed_dim for config in chosen]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1] or size < 300_000


def test_without_a_limit_the_choice_is_that_for_ten_minutes(tmp_path):
    path = text_of(5_000, tmp_path)
    overrides = ["training.max_minutes=none"]
    unlimited, limited = config_for_text([path], overrides), config_for_text([path])
    assert unlimited.training.max_minutes is None
    assert limited.training.max_minutes == 10
    assert unlimited.model == limited.model
    assert unlimited.training.steps_per_epoch == limited.training.steps_per_epoch


def test_who_sets_the_number_of_steps_gets_the_default_recipe(tmp_path):
    path = text_of(5_000, tmp_path)
    training = config_for_text([path], ["training.steps_per_epoch=7"]).training
    assert (training.weight_decay, training.early_stopping_patience) == (0.1, None)
    training = config_for_text([path], ["training.early_stopping_patience=1"]).training
    assert (training.weight_decay, training.early_stopping_patience) == (1.0, 1)


def test_a_short_text_is_learned_in_characters_and_a_longer_one_in_byte_pairs(tmp_path):
    kinds = [
        config_for_text([text_of(size, tmp_path)]).tokenizer.kind
        for size in (5_000, 50_000, 100_000)
    ]
    assert kinds == ["character", "character", "byte_pair"]


def test_training_ends_before_the_text_is_memorized(tmp_path, no_export, without_xla):
    # Random letters: whatever is learned beyond their frequencies makes the held-out loss worse.
    rng = random.Random(1)
    (tmp_path / "book.txt").write_text("".join(rng.choices("abcdefgh ", k=3000)))
    overrides = ["training.epochs=40", "training.schedule=constant", "model.dropout_rate=0"]
    run = minigpt.train(config_for_text([str(tmp_path / "book.txt")], overrides), tmp_path / "run")
    lines = run.metrics_file.read_text().splitlines()
    losses = [json.loads(line)["val_loss"] for line in lines]
    assert len(losses) < 40
    assert losses.index(min(losses)) == len(losses) - 1 - 3


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
        assert fit_to_text(config) == expected


def test_training_has_the_chosen_settings(tmp_path, no_export, without_xla):
    data = {"source": "files", "paths": [text_of(5_000, tmp_path)]}
    small = {"embed_dim": 8, "num_heads": 2, "num_layers": 1}
    settings = {"data": data, "model": small, "training": {"epochs": 1}}
    run = minigpt.train(settings, tmp_path / "run")
    expected = fit_to_text(load_config(settings))
    assert run.config.training == expected.training
    assert (run.config.tokenizer.kind, run.config.model.max_len) == ("character", 64)


def test_a_complete_configuration_reads_no_text(tmp_path):
    config = config_for_text([text_of(5_000, tmp_path)])
    (tmp_path / "book.txt").unlink()
    assert fit_to_text(config) is config
    assert fit_to_text(load_config(None)) == load_config(None)


def test_what_was_chosen_is_logged(tmp_path, caplog):
    caplog.set_level(logging.INFO, "minigpt")
    config_for_text([text_of(5_000, tmp_path)], ["training.epochs=3"])
    assert "Chosen for 5,000 bytes of text" in caplog.text
    assert "training.batch_size = 8" in caplog.text
    assert "training.epochs" not in caplog.text


def test_settings_that_do_not_go_with_the_choice(tmp_path):
    path = text_of(5_000, tmp_path)
    with pytest.raises(UserError, match=r"num_heads = 6: should divide model\.embed_dim = 128"):
        config_for_text([path], ["model.num_heads=6"])


@pytest.mark.parametrize("paths", ["book.txt", Path("book.txt"), None, 5])
def test_paths_that_are_not_a_list(paths):
    with pytest.raises(UserError, match=r"paths = .*should be a list of paths"):
        config_for_text(paths)


def test_an_empty_list_of_paths():
    with pytest.raises(UserError, match=r"^paths = \[\]: should contain at least one path$"):
        config_for_text([])


def test_recorded_fingerprints_are_those_of_the_earlier_version():
    runs = Path(__file__).resolve().parents[1] / "fixtures" / "compatibility"
    recorded = {
        file.parent.name: json.loads(file.read_text())["fingerprint"]
        for file in runs.glob("*/corpus.json")
    }
    assert recorded["pre_norm"] == recorded["post_norm"] != recorded["character"]
    for name, text, tokenizer in (
        ("pre_norm", "text.txt", {"kind": "byte_pair", "vocab_size": 270}),
        ("character", "text.txt", {"kind": "character", "vocab_size": 48}),
    ):
        config = load_config(
            {
                "data": {"source": "files", "paths": [str(runs / text)], "val_fraction": 0.1},
                "tokenizer": tokenizer,
            }
        )
        corpus = reopen_corpus(config.data, config.tokenizer, None, recorded[name])
        assert corpus is not None and corpus.fingerprint == recorded[name]
        kept = load_tokenizer(runs / name / "tokenizer")
        assert corpus.tokenizer.fingerprint() == kept.fingerprint()
