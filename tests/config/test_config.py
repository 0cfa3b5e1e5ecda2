"""Settings: defaults, checks, overrides."""

import os
import re
import tomllib
from pathlib import Path

import pytest

from minigpt.config import (
    Config,
    FilesConfig,
    ImdbConfig,
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


def test_heads_that_do_not_fit():
    for setting, problem in [
        ("num_kv_heads=3", "model.num_kv_heads = 3: should divide model.num_heads = 4"),
        ("head_dim=7", "model.position = 'rotary': needs an even head_dim, not 7"),
    ]:
        with pytest.raises(UserError) as caught:
            load_config(None, [f"model.{setting}"])
        assert problem in caught.value.problems


def test_a_tied_head_has_no_bias():
    with pytest.raises(UserError) as caught:
        load_config(None, ["model.block=pre_norm", "model.head_bias=true"])
    assert caught.value.problems == ("model.head_bias = True: needs model.tie_embeddings = false",)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("modern", "rotary", "silu", False, False)),
        ({"block": "pre_norm"}, ("pre_norm", "learned", "gelu_tanh", True, True)),
        (
            {"block": "post_norm", "activation": "relu"},
            ("post_norm", "learned", "relu", True, True),
        ),
        (
            {"block": "modern", "position": "sinusoidal"},
            ("modern", "sinusoidal", "silu", False, False),
        ),
    ],
)
def test_defaults_depend_on_the_block(settings, expected):
    model = load_config({"model": settings}).model
    found = (model.block, model.position, model.activation, model.qkv_bias, model.tie_embeddings)
    assert found == expected
    overrides = [f"model.{name}={value}" for name, value in settings.items()]
    assert load_config(None, overrides).model == model


def test_all_problems_are_reported_together():
    found = problems_of(
        {
            "model": {"max_len": 1, "num_heads": 5, "embed_dim": 64, "dropout": 0.1},
            "sampling": {"top_k": -1, "temperature": -1.0},
            "traning": {},
            "tokenizer": {"kind": "wrd"},
            "data": {"val_fraction": 1.5},
        },
        ["training.epochs=ten", "nonsense", "foo.bar=1"],
    )
    for thing, right in {
        "model.max_len = 1": "greater than or equal to 2",
        "model.num_heads = 5": "should divide model.embed_dim = 64",
        "model.dropout = 0.1": "did you mean model.dropout_rate?",
        "sampling.top_k = -1": "greater than or equal to 0",
        "sampling.temperature = -1.0": "greater than or equal to 0",
        "[traning]": "did you mean training?",
        "tokenizer.kind = 'wrd'": "should be one of 'byte_pair', 'character', 'word', 'gpt2'",
        "data.val_fraction = 1.5": "less than 1",
        "training.epochs = 'ten'": "valid integer",
        "overrides = 'nonsense'": "SECTION.KEY=VALUE",
        "overrides = 'foo.bar=1'": "unknown section 'foo'",
    }.items():
        matching = [line for line in found if thing in line]
        assert len(matching) == 1, thing
        assert right in matching[0]
    assert len(found) == 11
    assert not any("\n" in line for line in found)


def test_problem_names_where_it_comes_from(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[model]\nmax_len = 0\n[training]\nepochs = 3\n")
    found = problems_of(file, ["training.epochs=0"])
    assert found[0].startswith(f"{file}: model.max_len = 0")
    assert found[1].startswith("training.epochs = 0")


def test_head_dim_frees_the_width_from_the_heads():
    assert (
        load_config({"model": {"embed_dim": 64, "num_heads": 5, "head_dim": 6}}).model.head_dim == 6
    )


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


@pytest.mark.parametrize("wrong", ["true", "1.0", "'3'"])
def test_wrong_types_are_not_guessed_at(wrong):
    assert "valid integer" in problems_of(None, [f"training.epochs={wrong}"])[0]


def test_unreadable_files(tmp_path):
    assert "should be a TOML file or one of: default" in problems_of("missing")[0]
    (tmp_path / "a.toml").write_text("[model\n")
    assert "not valid TOML" in problems_of(tmp_path / "a.toml")[0]
    (tmp_path / "b.toml").write_bytes(b"\xff")
    assert "not valid UTF-8 at byte 0" in problems_of(tmp_path / "b.toml")[0]
    assert len(problems_of(tmp_path)) == 1


@pytest.mark.parametrize(
    "line", ["step_limits = " + "[" * 5000, "epochs = " + "9" * 5000, ".".join("a" * 3000) + " = 1"]
)
def test_what_no_reader_of_toml_can_take_is_one_short_line(line, tmp_path):
    (tmp_path / "odd.toml").write_text(f"[training]\n{line}\n")
    for source, overrides in [(tmp_path / "odd.toml", []), (None, [f"training.{line}"])]:
        with pytest.raises(UserError) as refused:
            load_config(source, overrides)
        assert all(len(problem) < 16_000 for problem in refused.value.problems)


def test_a_prompt_that_is_no_unicode():
    with pytest.raises(UserError, match=r"sampling.prompts = .*should be valid Unicode"):
        load_config({"sampling": {"prompts": ["Ana", "a\ud800"]}})


def test_text_takes_the_place_of_a_download():
    assert load_config("imdb", text=["a.txt"]).data == FilesConfig(
        paths=["a.txt"], val_fraction=0.02
    )


def test_downloads_have_the_published_checksums():
    data = load_config({"data": {"source": "imdb"}}).data
    assert isinstance(data, ImdbConfig)
    assert Path(data.url).name == "aclImdb_v1.tar.gz"
    assert len(data.sha256) == 64


PAIRS = {
    "data": {"source": "pairs", "paths": ["a.tsv"]},
    "model": {"kind": "encoder_decoder", "block": "post_norm"},
}


def test_text_keeps_a_source_of_pairs():
    data = load_config(PAIRS, text=["b.tsv", "c.tsv"]).data
    assert (data.source, data.paths) == ("pairs", ["b.tsv", "c.tsv"])


def test_pairs_and_encoder_decoder_belong_together():
    assert problems_of({"data": PAIRS["data"]}) == [
        "model.kind = 'gpt': should be 'encoder_decoder' for data.source = 'pairs'"
    ]
    assert problems_of({"model": PAIRS["model"]}) == [
        "model.kind = 'encoder_decoder': should be 'gpt' for data.source = 'stories'"
    ]


def test_what_pairs_cannot_have_is_reported_together():
    found = problems_of(
        {
            "data": {"source": "pairs", "document_separator": "x", "val_pairs": 0},
            "model": {"kind": "encoder_decoder", "block": "none"},
        },
        ["training.label_smoothing=1.5"],
    )
    for line in [
        "data.paths = []: should name at least one file",
        "data.document_separator = 'x': belongs to data.source = 'files' or 'shakespeare', not 'pairs'",
        "data.val_pairs = 0: should be greater than or equal to 1",
        "model.block = 'none': should be 'post_norm', 'pre_norm' or 'modern'",
        "training.label_smoothing = 1.5: should be less than 1",
    ]:
        assert line in found
    assert len(found) == 5


def test_what_only_pairs_can_have():
    assert problems_of({"data": {"val_pairs": 3}}) == [
        "data.val_pairs = 3: belongs to data.source = 'pairs', not 'stories'"
    ]
    assert problems_of(None, ["training.label_smoothing=0.1"]) == [
        "training.label_smoothing = 0.1: should be 0 for data.source = 'stories'"
    ]


@pytest.mark.parametrize(
    ("source", "setting"),
    [
        ("pairs", "sampling.temperature=0.5"),
        ("pairs", "sampling.stop=['.']"),
        ("pairs", "training.sequence_length=8"),
        ("stories", "sampling.translations=3"),
    ],
)
def test_settings_without_effect_are_refused(source, setting):
    given: dict = {"data": {"source": source}}
    if source == "pairs":
        given = {
            "data": {"source": source, "paths": ["x"]},
            "model": {"kind": "encoder_decoder", "block": "post_norm"},
        }
    (problem,) = problems_of(given, [setting])
    assert setting.split("=")[0] in problem and "has no effect" in problem


@pytest.mark.parametrize("source", [5, ["default"], b"default"])
def test_a_source_of_another_type(source):
    assert "should be a path" in problems_of(source)[0]


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


def test_a_later_format_is_refused_in_one_line(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("format = 3\n[tokenizer]\nkind = 'unigram'\n")
    with pytest.raises(UserError, match="later version of minigpt") as caught:
        load_config(file)
    (line,) = caught.value.problems
    assert line.startswith(f"{file}: format = ")


@pytest.mark.parametrize("number", ["2", 0, True, 1.5])
def test_a_format_that_is_not_a_number_is_refused(number):
    with pytest.raises(UserError, match="should be a number from 1 to 2"):
        load_config({"format": number})
