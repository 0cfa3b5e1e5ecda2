"""Overrides that select another source or kind, and unset values."""

import pytest

from minigpt.config import load_config
from minigpt.errors import UserError


def test_another_source_drops_the_settings_of_the_former_source():
    data = load_config("shakespeare_character", ["data.source=imdb"]).data
    assert data == load_config({"data": {"source": "imdb", "val_fraction": 0.1}}).data
    assert load_config("imdb", ["data.source=python"]).data.val_fraction == 0.02


def test_another_tokenizer_drops_the_settings_of_the_former_tokenizer():
    found = load_config("imdb_keras_example", ["tokenizer.kind=byte_pair"]).tokenizer
    assert (found.kind, found.vocab_size, found.lowercase) == ("byte_pair", 2048, True)
    assert load_config("python", ["tokenizer.kind=gpt2"]).tokenizer.vocab_size == 50257


def test_another_model_drops_the_settings_of_the_former_model():
    settings = {"model": {"block": "pre_norm", "activation": "silu", "embed_dim": 32}}
    overrides = ["model.kind=encoder_decoder", "data.source=pairs", "data.paths=['a']"]
    model = load_config(settings, overrides).model
    assert (model.block, model.activation, model.embed_dim) == ("post_norm", "relu", 32)


def test_files_instead_of_pairs_give_a_gpt():
    overrides = ["data.source=files", 'data.paths=["book.txt"]']
    for order in (overrides, overrides[::-1], [*overrides, "model.kind=gpt"]):
        config = load_config("vaswani_eng_deu", order)
        assert config.data == load_config(None, overrides).data
        assert (config.model.kind, config.model.block, config.model.embed_dim) == (
            "gpt",
            "modern",
            192,
        )
        assert (config.training.label_smoothing, config.training.batch_size) == (0.0, 128)
        assert config.sampling == load_config(None, overrides).sampling


def test_pairs_instead_of_files_give_an_encoder_decoder():
    settings = {
        "data": {"source": "files", "paths": ["a"], "document_separator": "x"},
        "model": {"kind": "gpt", "block": "pre_norm"},
        "training": {"sequence_length": 8, "epochs": 2},
        "sampling": {"prompts": ["x"], "temperature": 0.5, "beams": 2},
    }
    config = load_config(settings, ["data.source=pairs"])
    assert (config.data.paths, config.model.block, config.model.activation) == (
        ["a"],
        "post_norm",
        "relu",
    )
    assert (config.training.sequence_length, config.training.epochs) == (None, 2)
    assert (config.sampling.prompts, config.sampling.beams) == ([""], 2)


def test_another_override_of_the_former_kind_is_kept_and_reported():
    overrides = ["training.label_smoothing=0.2", "data.source=stories", "sampling.seed=3"]
    with pytest.raises(UserError) as caught:
        load_config("vaswani_eng_deu", overrides)
    (line,) = caught.value.problems
    assert "training.label_smoothing = 0.2" in line and "should be 0" in line
    assert load_config("vaswani_eng_deu", overrides[1:]).sampling.seed == 3


def test_another_source_of_continuous_text_keeps_the_other_sections():
    settings = {"sampling": {"seed": 3}, "training": {"sequence_length": 8}}
    config = load_config(settings, ["data.source=python"])
    assert (config.sampling.seed, config.training.sequence_length) == (3, 8)


def test_what_another_override_sets_is_kept_in_any_order():
    for overrides in (
        ["tokenizer.kind=word", "tokenizer.vocab_size=99"],
        ["tokenizer.vocab_size=99", "tokenizer.kind=word"],
    ):
        assert load_config("imdb", overrides).tokenizer.vocab_size == 99


def test_the_same_kind_drops_nothing():
    assert load_config("imdb", ["tokenizer.kind=byte_pair"]).tokenizer.vocab_size == 4096


def test_none_unsets_a_value(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[training]\nclip_norm = "none"\nmax_minutes = "none"\n')
    for config in (
        load_config(file),
        load_config(None, ["training.clip_norm=none", "training.max_minutes='none'"]),
        load_config({"training": {"clip_norm": None, "max_minutes": None}}),
    ):
        assert config.training.clip_norm is config.training.max_minutes is None
    with pytest.raises(UserError, match=r"training\.epochs = 'none'.*should be a valid integer"):
        load_config(None, ["training.epochs=none"])
