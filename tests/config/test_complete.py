"""Sizes and steps that are chosen for the size of a text."""

import pytest

from minigpt.config import load_config
from minigpt.config.complete import REFERENCE_SPEED, TextSize, complete
from minigpt.errors import UserError
from tests.config.fitting import chosen_for, passes_of, steps_of

SIZES = (200, 5_000, 20_000, 100_000, 500_000, 2_000_000, 10_000_000, 60_000_000, 10**9)


@pytest.mark.parametrize("minutes", [0.5, 1, 3, 10, 60])
@pytest.mark.parametrize("size", SIZES)
def test_every_choice_is_a_configuration_within_its_limits(size, minutes):
    config = chosen_for(size, f"training.max_minutes={minutes}")
    training, steps = config.training, steps_of(config)
    assert 0 < config.data.val_fraction * size <= 200_000
    assert steps >= 10
    assert 1 <= training.warmup_steps <= steps / 10
    assert training.max_minutes == minutes
    assert passes_of(config, size) < (26 if training.r_drop else 13)
    if size <= 100_000:
        # As many as were measured to be best, unless the steps are few and large.
        assert passes_of(config, size) > (11 if size > 200 else 10)
        assert (training.weight_decay, config.model.dropout_rate) == (1.0, 0.2)
    if size >= 60_000_000:
        assert (training.weight_decay, config.model.dropout_rate) == (0.1, 0.0)
    assert training.early_stopping_patience == (5 if training.r_drop else 3)


@pytest.mark.parametrize("size", SIZES)
def test_more_time_never_chooses_a_narrower_model(size):
    widths = [
        chosen_for(size, f"training.max_minutes={minutes}").model.embed_dim
        for minutes in (1, 3, 10, 60)
    ]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1] or size < 300_000


def test_a_long_text_is_planned_for_a_machine_of_twice_the_speed():
    # Measured with this choice: 12,600 tokens per second. The clock shortens a plan, and never extends it.
    config = chosen_for(10**8)
    assert (config.model.embed_dim, config.tokenizer.vocab_size) == (192, 4096)
    tokens = steps_of(config) * config.training.batch_size * config.sequence_length
    assert 1.2 < tokens / (12_600 * 600) < 2


@pytest.mark.parametrize(
    "given",
    [
        ["training.batch_size=64"],
        ["model.max_len=16"],
        ["training.sequence_length=16"],
        ["training.accumulate_steps=4"],
        ["training.epochs=1"],
        ["training.epochs=3", "model.embed_dim=16"],
        ["data.val_fraction=0.5"],
        ["tokenizer.kind=word"],
        ["tokenizer.kind=byte_pair", "tokenizer.vocab_size=300"],
    ],
    ids=" ".join,
)
def test_the_steps_suit_what_the_user_sets(given):
    config = chosen_for(50_000, *given)
    # The steps of an epoch are rounded.
    planned = 24 if config.training.r_drop else 12
    assert passes_of(config, 50_000) == pytest.approx(planned, rel=0.08)
    assert config.training.warmup_steps <= steps_of(config) / 10
    assert config.training.weight_decay == (0.1 if "model.embed_dim=16" in given else 1.0)


@pytest.mark.parametrize(("position", "max_len"), [("learned", 16), ("rotary", 64)])
def test_a_table_of_positions_is_as_long_as_the_sequences_that_train_it(position, max_len):
    given = [f"model.position={position}", "training.sequence_length=16"]
    assert chosen_for(50_000, *given).model.max_len == max_len


def test_later_positions_of_a_table_would_not_be_trained():
    given = ["training.sequence_length=16", "model.max_len=48"]
    assert chosen_for(50_000, *given).model.max_len == 48
    with pytest.raises(UserError, match=r"training.sequence_length"):
        chosen_for(50_000, *given, "model.position=learned")
    # It was trained in another run.
    chosen_for(50_000, *given, "model.position=learned", "training.init_from=runs/a")


def test_the_origin_of_a_setting_is_known():
    text = TextSize(50_000, 50_000, 80)
    given = load_config(None, ["model.embed_dim=16"], text=["book.txt"])
    found = complete(given, text)
    assert found.origins["model.embed_dim"] == found.origins["data.paths"] == "given"
    assert found.origins["model.num_layers"] == "chosen for 50,000 bytes of text"
    assert "training.optimizer" not in found.origins
    lines = found.in_words()
    assert "50,000 bytes" in lines[0] and any("model.num_layers = 3" in line for line in lines)
    assert not any("embed_dim" in line for line in lines)
    overrides = ["training.init_from=runs/a", "model.dropout_rate=0.3"]
    tuned = complete(load_config(None, overrides, text=["book.txt"]), text, source=found.config)
    assert tuned.config.model.embed_dim == 16 and tuned.config.model.dropout_rate == 0.3
    assert tuned.origins["model.embed_dim"] == tuned.origins["tokenizer.kind"]
    assert tuned.origins["model.embed_dim"].startswith("of the run") and "runs/a" in str(
        tuned.origins
    )
    assert tuned.origins["model.dropout_rate"] == "given"
    # The defaults of the stories are nobody's.
    assert complete(load_config({"training": {"epochs": 1}})).origins == {
        "training.epochs": "given"
    }
    assert tuned.origins["training.learning_rate"].startswith("chosen")
    contradiction = load_config(None, [*overrides, "model.embed_dim=32"], text=["book.txt"])
    with pytest.raises(UserError, match=r"model.embed_dim"):
        complete(contradiction, text, source=found.config)


@pytest.mark.parametrize("size", [200, 50_000, 10**8])
def test_a_text_gets_the_parts_that_read_the_last_tokens(size):
    model = chosen_for(size).model
    assert (model.value_residual, model.convolution, model.ngrams) == (True, 4, [])
    standard = chosen_for(size, "model.standard_parts=true").model
    assert (standard.value_residual, standard.convolution) == (False, 0)
    assert chosen_for(size, "model.convolution=0").model.convolution == 0


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (50_000, ("character", 64, 8)),
        (500_000, ("byte_pair", 256, 4)),
        (2_000_000, ("byte_pair", 512, 4)),
    ],
)
def test_the_tokenizer_and_the_batch_of_a_length(size, expected):
    config = chosen_for(size)
    found = config.tokenizer.kind, config.model.max_len, config.training.batch_size
    assert found == expected


@pytest.mark.parametrize(
    ("size", "gpus", "rows"),
    [(500_000, 1, 4), (10**6, 1, 4), (10**7, 1, 16), (10**8, 1, 32), (10**8, 8, 256)],
)
def test_the_batch_grows_with_the_gpus_while_enough_updates_are_left(size, gpus, rows):
    text = load_config(None, text=["book.txt"])
    size_of_text = TextSize(size, size)
    config = complete(text, size_of_text, gpus * 100 * REFERENCE_SPEED, gpus).config
    assert config.training.batch_size == rows
    if rows > 4:
        assert steps_of(config) >= 2000
    given = load_config(None, ["training.batch_size=8"], text=["book.txt"])
    assert complete(given, size_of_text, REFERENCE_SPEED, gpus).config.training.batch_size == 8


def test_a_wide_model_makes_fewer_steps_in_the_same_time():
    narrow, wide = (steps_of(chosen_for(10**9, f"model.embed_dim={d}")) for d in (192, 768))
    assert wide < narrow / 8


@pytest.mark.parametrize(
    ("steps", "recipe"), [(1, (0.1, 0.0)), (4, (0.1, 0.1)), (9, (1.0, 0.2)), ("none", (1.0, 0.2))]
)
def test_the_recipe_suits_the_passes_that_the_user_sets(steps, recipe):
    # Six epochs of 512 characters a step. "none": six passes.
    config = chosen_for(5_000, f"training.steps_per_epoch={steps}", "training.epochs=6")
    training = config.training
    assert (training.weight_decay, config.model.dropout_rate) == recipe
    assert training.early_stopping_patience == 3
    patient = chosen_for(5_000, "training.early_stopping_patience=none").training
    assert (patient.weight_decay, patient.early_stopping_patience) == (1.0, None)


def test_a_text_with_more_tokens_than_the_model_has_weights_needs_no_dropout():
    for size, recipe in ((10**9, (0.1, 0.0)), (2_000_000, (1.0, 0.2))):
        config = chosen_for(
            size, "training.max_minutes=10000", "model.embed_dim=256", "model.num_layers=4"
        )
        assert passes_of(config, size) > 11
        assert (config.training.weight_decay, config.model.dropout_rate) == recipe


@pytest.mark.parametrize(
    ("size", "given", "r_drop", "passes"),
    [
        (20_000, [], 4.0, 24),
        (500_000, ["training.max_minutes=10"], 4.0, 24),
        (500_000, ["training.max_minutes=3"], 0.0, 12),
        (60_000_000, [], 0.0, 0.5),
        (20_000, ["training.r_drop=0.5"], 0.5, 24),
        (20_000, ["training.r_drop=0"], 0.0, 12),
        # One pass, no dropout, and no pairs.
        (20_000, ["training.epochs=1", "training.steps_per_epoch=30"], 0.0, 1),
        (20_000, ["model.dropout_rate=0.0"], 0.0, 12),
        (20_000, ["training.batch_size=1"], 0.0, 12),
    ],
)
def test_r_drop_is_for_short_texts(size, given, r_drop, passes):
    config = chosen_for(size, *given)
    assert config.training.r_drop == r_drop
    assert passes_of(config, size) == pytest.approx(passes, rel=0.3)


def test_a_rate_of_n_grams_that_a_model_does_not_have_is_no_dropout():
    none = ["model.dropout_rate=0.0", "model.ngram_dropout_rate=0.3", "training.r_drop=2"]
    with pytest.raises(UserError, match=r"training.r_drop = 2: has no effect without dropout"):
        chosen_for(20_000, *none)
    assert chosen_for(20_000, *none, "model.ngrams=[2]").training.r_drop == 2


def test_r_drop_needs_dropout():
    with pytest.raises(UserError, match=r"training.r_drop = 2: has no effect without dropout"):
        chosen_for(20_000, "training.r_drop=2", "model.dropout_rate=0.0")


def test_r_drop_needs_two_rows():
    with pytest.raises(UserError, match=r"training.r_drop = 2.*training.batch_size = 1"):
        chosen_for(20_000, "training.r_drop=2", "training.batch_size=1")


@pytest.mark.parametrize(
    ("kind", "vocab_size"),
    [("word", 20_000), ("byte_pair", 2048), ("gpt2", 50_257), ("character", 512)],
)
def test_a_kind_that_the_user_sets_has_a_vocabulary_of_its_own(kind, vocab_size):
    assert chosen_for(20_000, f"tokenizer.kind={kind}").tokenizer.vocab_size == vocab_size
    sampling = chosen_for(20_000, f"tokenizer.kind={kind}").sampling
    assert (sampling.max_new_tokens, sampling.temperature) == (120, 0.7)
    assert (
        chosen_for(200_000, "tokenizer.kind=byte_pair").tokenizer == chosen_for(200_000).tokenizer
    )


def test_what_is_chosen_for_fine_tuning_depends_on_the_size_of_the_model():
    gpt2 = load_config(
        {"model": {"embed_dim": 768, "num_layers": 12}, "tokenizer": {"kind": "gpt2"}}
    )
    training = chosen_for(50_000, "training.init_from=runs/a", source=gpt2).training
    assert (training.optimizer, training.learning_rate) == ("adamw", 1e-4)
    assert (training.batch_size, training.sequence_length) == (4, 128)
    short = chosen_for(1_000, "training.init_from=runs/a", source=gpt2).training
    assert (short.batch_size + 1) * short.sequence_length < 0.9 * 1_000 / 3

    small = load_config({"model": {"embed_dim": 256, "num_layers": 5, "max_len": 256}})
    chosen = chosen_for(400_000, "training.init_from=runs/a", source=small)
    assert (chosen.training.optimizer, chosen.model.embed_dim) == ("muon", 256)
    assert chosen.training.learning_rate > training.learning_rate
    # About 3 bytes a token.
    assert 3 < steps_of(chosen) * chosen.training.batch_size * 256 / (0.9 * 400_000 / 3) < 8
    # Validations do not take most of a short time.
    hurried = ["training.init_from=a", "training.max_minutes=0.5"]
    assert chosen_for(4_000_000, *hurried, source=small).training.epochs < chosen.training.epochs
    # The markers of a dialogue are new to a model that knows its words.
    dialogues = ["training.init_from=a", "data.source=dialogues"]
    steps = [
        steps_of(chosen_for(400_000, *given, source=small, bits=0.5))
        for given in (dialogues, ["training.init_from=a"])
    ]
    assert steps[0] > 2 * steps[1]
    one = chosen_for(50_000, "training.init_from=a", "training.epochs=1", source=small)
    assert one.training.warmup_steps >= 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], (256, 8)),
        (["model.max_len=256"], (256, 8)),
        (["model.max_len=512"], (512, 4)),
        (["model.max_len=4096"], (4096, 1)),
        (["model.max_len=64"], (64, 32)),
        (["training.sequence_length=128"], (128, 8)),
        (["model.max_len=64", "training.sequence_length=256"], (64, 32)),
    ],
)
def test_another_context_has_as_many_tokens_in_a_step(given, expected):
    small = load_config({"model": {"embed_dim": 256, "num_layers": 5, "max_len": 256}})
    chosen = chosen_for(500_000, "training.init_from=a", *given, source=small)
    assert (chosen.sequence_length, chosen.training.batch_size) == expected
    planned = chosen_for(500_000, "training.init_from=a", source=small)
    tokens = (steps_of(each) * each.training.batch_size for each in (chosen, planned))
    assert next(tokens) * expected[0] == pytest.approx(next(tokens) * 256, rel=0.1)


def test_turns_are_not_cut_because_a_chat_is_short():
    small = load_config({"model": {"embed_dim": 256, "num_layers": 5, "max_len": 256}})
    given = ["training.init_from=a", "data.source=dialogues"]
    assert chosen_for(1_500, *given, source=small, bits=2.0).sequence_length == 256
    assert chosen_for(1_500, *given[:1], source=small, bits=2.0).sequence_length < 256
