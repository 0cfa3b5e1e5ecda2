"""The doctor's rules, on curves made for them; `test_doctor_trainings.py` has real runs."""

import re
from dataclasses import replace

import numpy as np
import pytest

from minigpt.insight.analysis import TITLES
from minigpt.insight.doctor import diagnose
from tests.insight.histories import UNIGRAM, constant, history, power_law, saturating


def ids(*args, **kwargs) -> list[str]:
    return [verdict.id for verdict in diagnose(history(*args, **kwargs))]


def test_a_good_training_gets_no_verdict():
    assert ids(saturating(1.6), lambda share: 0.1 * share) == []


def test_every_verdict_names_figures_and_an_action():
    found = [
        *diagnose(history(lambda step: 2.0 + np.maximum(0, step - 500) / 200)),
        *diagnose(history(constant(3.31))),
        *diagnose(history(power_law(0.0, 0.15))),
        *diagnose(history(saturating(1.0), lambda share: 2 * share, parameters=90_000_000)),
        *diagnose(history(saturating(2.4), parameters=3000)),
        *diagnose(history(saturating(1.6), analysis={"text": [{"evidence": "9% are copies."}]})),
        *(diagnose(sweep({1e-3: 1.0, 4e-3: 3.0})) + diagnose(sweep({0.064: 1.0, 4e-3: 3.0}))),
        *diagnose(sweep({1e-4: 1.0, 4e-3: 3.0})),
        *diagnose(history(saturating(1.6), analysis={"held_out": OTHER_LANGUAGE})),
        *diagnose(history(saturating(1.6), analysis={"baselines": {"ngram": 1.5}})),
    ]
    assert {verdict.id for verdict in found} == set(TITLES)
    for verdict in found:
        assert verdict.evidence.endswith(".") and verdict.action.endswith(".")
        assert any(character.isdigit() for character in verdict.evidence)
        assert list(verdict.as_dict()) == ["id", "evidence", "action"]


@pytest.mark.parametrize("rise", [0.1, 0.5])
def test_a_training_loss_that_rises_again_is_diverging(rise):
    lowest = 2.0
    learned = UNIGRAM - lowest
    curve = lambda step: np.where(step < 500, lowest, lowest + rise * learned)  # noqa: E731
    found = ids(curve)
    assert ("diverging" in found) == (rise > 0.25) and "memorized" not in found


def test_a_loss_that_became_nan_is_diverging_even_without_an_epoch():
    assert ids(saturating(1.6), has_failed=True) == ["diverging"]
    failed = replace(history(saturating(1.6), has_failed=True), epochs=[])
    assert [verdict.id for verdict in diagnose(failed)] == ["diverging"]


def test_a_validation_loss_that_rises_alone_is_no_divergence():
    found = ids(saturating(0.5, 200), lambda share: 2.0 * share)
    assert "memorized" in found and "diverging" not in found


def test_the_unigram_loss_is_not_learning():
    assert ids(constant(UNIGRAM)) == ["not_learning"]
    assert ids(constant(0.9 * UNIGRAM)) == []
    assert ids(constant(1.5 * UNIGRAM)) == ["not_learning"]
    # Still on the way from the uniform distribution: too short, no more can be said.
    assert ids(lambda step: 5.5 - step / 500) == ["too_short"]


def test_too_short_says_what_twice_the_steps_would_give():
    (verdict,) = diagnose(history(power_law(0.0, 0.15), settings={"max_minutes": "none"}))
    assert verdict.id == "too_short"
    # The law is known: 5.5 · 2000^-0.15 = 1.759 in place of 5.5 · 1000^-0.15 = 1.951.
    assert "about 1.76" in verdict.evidence and "1.951" in verdict.evidence
    assert verdict.action.endswith("`minigpt train --resume RUN --set training.epochs=20`.")
    limited = {"max_minutes": 1.5, "step_limits": [[500, 1000]]}
    (verdict,) = diagnose(history(power_law(0.0, 0.15), settings=limited))
    assert verdict.action.endswith("`minigpt train --resume RUN --set training.max_minutes=3`.")
    (verdict,) = diagnose(history(power_law(0.0, 0.15), settings={"max_minutes": 1.5}))
    assert verdict.action.endswith("--set training.epochs=20 --set training.max_minutes=3`.")


def test_an_interrupted_training_is_resumed_and_one_that_runs_is_not_short():
    (verdict,) = diagnose(history(power_law(0.0, 0.15), analysis={"state": "interrupted"}))
    assert verdict.id == "too_short" and "`minigpt train --resume RUN`" in verdict.action
    assert ids(power_law(0.0, 0.15), analysis={"state": "training"}) == []


def test_after_a_sweep_the_doctor_does_not_ask_for_another_one():
    (before,) = diagnose(history(constant(UNIGRAM)))
    entries = [{"learning_rate": rate, "loss": UNIGRAM} for rate in (1e-3, 4e-3, 16e-3)]
    (after,) = diagnose(history(constant(UNIGRAM), analysis={"sweep": entries}))
    assert "minigpt doctor" in before.action and "minigpt doctor" not in after.action
    entries.append({"learning_rate": 0.064, "loss": 1.5})
    found = diagnose(
        history(constant(UNIGRAM), settings={"learning_rate": 4e-3}, analysis={"sweep": entries})
    )
    assert [verdict.id for verdict in found] == ["not_learning", "learning_rate_low"]
    assert found[0].action == found[1].action


def test_a_text_that_is_easy_to_predict_is_judged_by_its_loss():
    """Twice the steps lower the loss to 2^-0.6 = 0.66 of it, but add little to what was learned."""
    assert ids(power_law(0.0, 0.6)) == ["too_short"]
    assert ids(power_law(0.0, 0.4)) == []


def test_a_decayed_learning_rate_does_not_hide_that_training_was_too_short():
    """The loss depends on the sum of the learning rates, which hardly grows at the end."""
    rates = 0.5 * (1 + np.cos(np.pi * np.arange(1000) / 1000))
    sums = np.cumsum(rates)
    assert ids(lambda step: 5.5 * sums**-0.15, learning_rates=rates) == ["too_short"]


def test_more_training_does_not_help_if_it_does_not_reach_the_held_out_text():
    # The training loss still falls, the validation loss has not for half of the training.
    train = power_law(0.0, 0.15)
    level = 5.5 * 500**-0.15
    gap = lambda share: max(0.0, level - 5.5 * (1000 * share) ** -0.15)  # noqa: E731
    assert "too_short" not in ids(train, gap)


def test_a_last_epoch_of_a_step_says_nothing_about_the_held_out_text():
    """A time limit may end an epoch after its first step."""
    found = history(power_law(0.0, 0.15), epochs=2)
    first, last = found.epochs
    ends = [replace(first, step=999, val_loss=last.val_loss), last]
    assert [verdict.id for verdict in diagnose(replace(found, epochs=ends))] == ["too_short"]


def test_after_a_few_updates_nothing_else_can_be_said():
    """As seen when compiling took the whole time limit."""
    assert ids(constant(5.4), steps=1, epochs=1) == ["too_short"]


def test_a_large_gap_is_memorized_even_if_the_validation_loss_falls():
    falling = lambda step: 2.5 - 1.5 * step / 1000  # noqa: E731
    assert "memorized" in ids(falling, lambda share: 0.75 * share)
    assert "memorized" not in ids(falling, lambda share: 0.5 * share)


def test_losses_that_rise_together_are_not_memorized():
    curve = lambda step: np.where(step < 500, 2.8, 2.9)  # noqa: E731
    assert "memorized" not in ids(curve, lambda share: 0.02 + 0.13 * share)


def test_what_was_measured_before_training_was_resumed_does_not_count():
    for epoch, expected in ((10, ["memorized"]), (4, [])):
        measured = {"last": {"share": 0.9, "held_out_share": 0.1, "epoch": epoch}}
        assert ids(saturating(1.6), analysis={"memorization": measured}) == expected


def test_with_a_learning_rate_that_is_too_high_the_length_is_not_judged():
    entries = [{"learning_rate": 4e-3, "loss": 4.0}, {"learning_rate": 25e-5, "loss": 2.2}]
    settings, analysis = {"learning_rate": 4e-3}, {"sweep": entries}
    found = ids(power_law(0.0, 0.15), settings=settings, analysis=analysis)
    assert found == ["learning_rate_high"]


def test_memorized_by_the_gap_or_by_what_it_copies():
    assert ids(saturating(1.0), lambda share: 1.0 * share) == ["memorized"]
    copies = {"memorization": {"last": {"share": 0.5, "held_out_share": 0.1}}}
    assert ids(saturating(1.6), analysis=copies) == ["memorized"]
    common = {"memorization": {"last": {"share": 0.5, "held_out_share": 0.45}}}
    assert ids(saturating(1.6), analysis=common) == []
    # The best state has copied, the last one has not.
    best = {"memorization": {"best": {"share": 0.5, "held_out_share": 0.1}}}
    assert ids(saturating(1.6), analysis=best) == []


# As measured in tiny Shakespeare that ends in German, and in tiny Shakespeare.
OTHER_LANGUAGE = {"unigram": [3.447, 3.241, 3.28, 3.327], "bigram": [3.21, 2.444, 2.463, 2.478]}
SAME_LANGUAGE = {"unigram": [3.341, 3.276, 3.34, 3.414], "bigram": [2.482, 2.466, 2.484, 2.523]}


def test_held_out_text_that_is_unlike_the_training_text():
    (verdict,) = diagnose(history(saturating(1.6), analysis={"held_out": OTHER_LANGUAGE}))
    assert verdict.id == "unlike" and "data.document_separator" in verdict.action
    for figure in ("3.210", "2.444 to 2.478", "3.447", "3.241 to 3.327"):
        assert figure in verdict.evidence
    assert ids(saturating(1.6), analysis={"held_out": SAME_LANGUAGE}) == []
    # The gap has another reason than memory.
    gap = lambda share: 1.0 * share  # noqa: E731
    assert ids(saturating(1.0), gap, analysis={"held_out": OTHER_LANGUAGE}) == ["unlike"]
    assert ids(saturating(1.0), gap, analysis={"held_out": SAME_LANGUAGE}) == ["memorized"]
    copies = {"last": {"share": 0.5, "held_out_share": 0.1}}
    both = {"held_out": OTHER_LANGUAGE, "memorization": copies}
    assert ids(saturating(1.0), gap, analysis=both) == ["unlike", "memorized"]
    # Parts of a text that repeats itself predict each other.
    repeated = [{"kind": "repeated_text", "evidence": "50% is repeated."}]
    analysis = {"held_out": OTHER_LANGUAGE, "text": repeated}
    assert ids(saturating(1.6), analysis=analysis) == ["suspicious_text"]


@pytest.mark.parametrize(
    ("ngram", "byte_ngram", "words"),
    [
        (1.5, 3.0, "A 7-gram of tokens, counted once .* 1.500 nats per token; .* has 1.600"),
        (1.7, 0.9, "A 7-gram of bytes, .* 0.900 bits per byte; .* has 1.000"),
        (1.7, 1.1, None),
        (1.5, None, "A 7-gram of tokens"),
        (None, None, None),
    ],
)
def test_a_model_that_does_not_beat_counts(ngram, byte_ngram, words):
    baselines = {"ngram": ngram, "byte_ngram_bits_per_byte": byte_ngram}
    verdicts = diagnose(history(saturating(1.6), analysis={"baselines": baselines}))
    assert [verdict.id for verdict in verdicts] == (["below_ngram"] if words else [])
    if words:
        assert re.search(words, verdicts[0].evidence) and "train --resume" in verdicts[0].action
    during = {"baselines": baselines, "state": "training"}
    assert diagnose(history(saturating(1.6), analysis=during)) == []


def test_a_model_that_memorized_is_not_trained_for_longer():
    baselines = {"ngram": 1.0, "byte_ngram_bits_per_byte": 0.5}
    found = diagnose(
        history(saturating(1.0), lambda share: 2 * share, analysis={"baselines": baselines})
    )
    below, memorized = found
    assert (below.id, memorized.id) == ("below_ngram", "memorized")
    assert below.action == memorized.action


def test_what_was_read_once_is_not_memorized():
    short = power_law(0.0, 0.15)
    gap = lambda share: 1.0 * share  # noqa: E731
    assert ids(short, gap, train_tokens=900_000) == ["memorized"]
    assert "memorized" not in ids(short, gap, train_tokens=1_100_000)
    # A gap that has always been there.
    unlike = ids(short, lambda share: 1.0, train_tokens=4_000_000)
    assert unlike == ["too_short"]


@pytest.mark.parametrize(
    "measured, expected",
    [
        ({"tokens": 1280, "words": 250}, []),
        # A language without spaces, or too few words: no passage could be found.
        ({"tokens": 1280, "words": 30}, ["memorized"]),
        ({"tokens": 12800, "words": 500}, ["memorized"]),
        ({}, ["memorized"]),
    ],
)
def test_samples_without_a_copied_passage_are_no_sign_of_memory(measured, expected):
    last = {"share": 0.0, "held_out_share": 0.0, **measured}
    found = ids(
        saturating(1.0), lambda share: 1.0 * share, analysis={"memorization": {"last": last}}
    )
    assert found == expected


def test_single_losses_at_the_beginning_are_not_compared():
    """Losses of single updates differ by more than 3%; little has been learned."""
    noisy = lambda step: 5.0 - 0.02 * step + 0.3 * (step % 2)  # noqa: E731
    for steps in (2, 12, 19):
        assert ids(noisy, steps=steps, epochs=1) == ["too_short"]
    for steps in (21, 40):
        assert "diverging" not in ids(noisy, steps=steps, epochs=1)


def test_too_large_for_the_text():
    short = {"train_bytes": 20_000, "train_tokens": 18_000}
    assert ids(saturating(1.6), parameters=10_000_000, **short) == ["too_large"]
    assert ids(saturating(1.6), parameters=700_000, **short) == []
    assert ids(saturating(1.6), parameters=10_000_000) == []
    found = ids(saturating(1.0), lambda share: share, parameters=3_000_000, **short)
    assert found == ["memorized", "too_large"]
    other = {"init_from": "runs/base"}
    assert ids(saturating(1.6), parameters=10_000_000, settings=other, **short) == []


def test_too_small_for_the_text():
    assert ids(saturating(2.4), parameters=5_000) == ["too_small"]
    # It still falls, it is far below its validation loss, or the text is short.
    assert "too_small" not in ids(power_law(0.0, 0.15), parameters=5_000)
    assert ids(saturating(2.0), lambda share: 0.1, parameters=5_000) == []
    assert ids(saturating(2.4), parameters=5_000, train_tokens=50_000, train_bytes=50_000) == []


def sweep(losses: dict[float, float | None], **changes):
    entries = [{"learning_rate": rate, "loss": loss} for rate, loss in losses.items()]
    return history(
        changes.pop("train", power_law(0.0, 0.15)),
        settings={"learning_rate": 4e-3},
        analysis={"sweep": entries, "sweep_steps": 100},
        **changes,
    )


@pytest.mark.parametrize(
    "losses, expected",
    [
        ({4e-3: 2.2, 16e-3: 2.3, 1e-3: 2.5}, None),
        ({4e-3: 4.0, 16e-3: 3.0, 64e-3: 2.2}, "learning_rate_low"),
        # Four times the learning rate is no reason to worry.
        ({4e-3: 2.9, 16e-3: 2.2, 64e-3: 3.0}, None),
        ({4e-3: 4.0, 1e-3: 3.0, 25e-5: 2.2}, "learning_rate_high"),
        ({4e-3: None, 1e-3: None, 25e-5: 2.2}, "learning_rate_high"),
        # Hardly better.
        ({4e-3: 2.3, 64e-3: 2.2}, None),
        ({4e-3: None, 1e-3: None}, None),
        ({}, None),
    ],
)
def test_learning_rates_of_a_sweep(losses, expected):
    found = [verdict for verdict in diagnose(sweep(losses)) if "learning_rate" in verdict.id]
    assert [verdict.id for verdict in found] == ([expected] if expected else [])
    for verdict in found:
        assert "100 steps" in verdict.evidence and "0.004" in verdict.evidence


def test_a_low_learning_rate_does_no_harm_if_training_was_long_enough():
    losses = {4e-3: 4.0, 64e-3: 2.2}
    assert diagnose(sweep(losses, train=saturating(1.6))) == []


def test_hostile_analysis_is_ignored():
    for analysis in (
        {"text": 3, "sweep": "x", "memorization": [1]},
        {"text": [3, {"evidence": 5}], "sweep": [{"learning_rate": "a"}, 7, {}]},
        {"memorization": {"last": {"share": "x", "held_out_share": None}}, "sweep_steps": "a"},
        {"held_out": {"unigram": [1, 2, 3], "bigram": "x"}},
        {"held_out": {"unigram": [9, 1, 1, 1], "bigram": [9, 1, None, 1]}},
    ):
        assert ids(saturating(1.6), analysis=analysis) == []


def test_nothing_to_judge():
    assert diagnose(replace(history(saturating(1.6)), epochs=[])) == []
    assert ids(saturating(1.6), uniform=float("nan"), unigram=float("nan")) == []
