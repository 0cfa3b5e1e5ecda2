"""Settings: defaults, checks, overrides."""

import os
import re
import tomllib

import pytest

from minigpt.config import (
    Config,
    FilesConfig,
    dump_config,
    load_config,
    shipped_configs,
)
from minigpt.errors import UserError


def problems_of(source=None, overrides=(), **options) -> list[str]:
    with pytest.raises(UserError) as caught:
        load_config(source, overrides, **options)
    return list(caught.value.problems)


@pytest.mark.parametrize("name", shipped_configs())
def test_every_shipped_config_loads_and_says_what_to_expect(name):
    path = shipped_configs()[name]
    assert isinstance(load_config(name), Config)
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    command = "minigpt train" if name == "default" else f"minigpt train --config {name}"
    assert any(command in line for line in header)
    # "minigpt" is no measurement.
    assert any(re.search(r"\d+ (min|s)\b|Not measured", line) for line in header)


def test_dumped_config_reads_back_equal():
    config = load_config(
        {
            "data": {"source": "files", "paths": ["a"], "document_separator": "\n\n"},
            "sampling": {"prompts": ["é\"'\n", ""]},
        },
        ["training.clip_norm=0.5"],
    )
    again = load_config(tomllib.loads(dump_config(config)))
    assert again.model == config.model.resolved()
    assert again.model_copy(update={"model": config.model}) == config


def test_head_dim_and_ff_dim_are_resolved():
    settings = {"embed_dim": 24, "num_heads": 3}
    model = load_config({"model": settings | {"block": "pre_norm"}}).model.resolved()
    assert (model.head_dim, model.ff_dim) == (8, 4 * 24)
    model = load_config({"model": settings | {"num_kv_heads": 1}}).model.resolved()
    assert (model.head_dim, model.ff_dim, model.num_kv_heads) == (8, 24 * 8 // 3, 1)
    # 8/3 of 32 is between 64 and 96.
    assert load_config({"model": {"embed_dim": 32}}).model.resolved().ff_dim == 96


def test_problem_names_where_it_comes_from(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[model]\nmax_len = 0\n[training]\nepochs = 3\n")
    found = problems_of(file, ["training.epochs=0"])
    assert found[0].startswith(f"{file}: model.max_len = 0")
    assert "training.epochs = 0" in found[1] and str(file) not in found[1]


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("training.learning_rate=1e-5", "training", "learning_rate", 1e-5),
        ("training.learning_rate=1", "training", "learning_rate", 1.0),
        ("training.device=cpu", "training", "device", "cpu"),
        ("training.init_from=1", "training", "init_from", "1"),
        ('sampling.prompts=["a", "b"]', "sampling", "prompts", ["a", "b"]),
        ("model.tie_embeddings=false", "model", "tie_embeddings", False),
    ],
)
def test_override_values(override, section, key, value):
    assert getattr(getattr(load_config(None, [override]), section), key) == value


def test_unreadable_files(tmp_path):
    (tmp_path / "a.toml").write_text("[model\n")
    (tmp_path / "b.toml").write_bytes(b"\xff")
    for path in (tmp_path / "a.toml", tmp_path / "b.toml", tmp_path):
        (line,) = problems_of(path)
        assert str(path) in line and "\n" not in line


@pytest.mark.parametrize(
    "line", ["step_limits = " + "[" * 5000, "epochs = " + "9" * 5000, ".".join("a" * 3000) + " = 1"]
)
def test_what_no_reader_of_toml_can_take_is_one_short_line(line, tmp_path):
    (tmp_path / "odd.toml").write_text(f"[training]\n{line}\n")
    for source, overrides in [(tmp_path / "odd.toml", []), (None, [f"training.{line}"])]:
        with pytest.raises(UserError) as refused:
            load_config(source, overrides)
        assert all(len(problem) < 16_000 for problem in refused.value.problems)


def test_text_takes_the_place_of_a_download():
    assert load_config("imdb", text=["a.txt"]).data == FilesConfig(
        paths=["a.txt"], val_fraction=0.02
    )


PAIRS = {
    "data": {"source": "pairs", "paths": ["a.tsv"]},
    "model": {"kind": "encoder_decoder", "block": "post_norm"},
}


def test_text_keeps_a_source_of_pairs():
    data = load_config(PAIRS, text=["b.tsv", "c.tsv"]).data
    assert (data.source, data.paths) == ("pairs", ["b.tsv", "c.tsv"])


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "large.toml"])
def test_files_that_cannot_be_a_configuration_are_not_read(name, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "large.toml", "wb") as file:
        file.truncate(10**10)
    (line,) = problems_of(tmp_path / name)
    assert line.startswith("config = ") and name in line
    assert "not a regular file" in line or "larger than 1,000,000 bytes" in line


def test_the_present_format_is_read_as_it_is():
    text = dump_config(load_config(None))
    assert text.startswith("format = 2\n")
    assert dump_config(load_config(tomllib.loads(text))) == text


def test_a_dictionary_of_the_caller_is_not_changed():
    settings = {"format": 2, "training": {"epochs": 2}}
    load_config(settings, ["training.epochs=3", "model.embed_dim=8"], ["text.txt"])
    assert settings == {"format": 2, "training": {"epochs": 2}}
