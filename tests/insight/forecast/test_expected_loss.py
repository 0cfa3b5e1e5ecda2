"""The expected loss: the formulas against values computed by hand, and against the records."""

import lzma
import math
from dataclasses import replace

import pytest

from minigpt.insight.forecast import expected_loss
from minigpt.insight.forecast.expected_loss import (
    STORIES,
    Curve,
    Size,
    bits_on,
    compressed_bits,
    expected_bits,
    unique_equivalent,
)


def test_repeated_text_counts_less():
    # Read once or less.
    assert unique_equivalent(100, 40, 15) == 40
    assert unique_equivalent(100, 100, 15) == 100
    # Muennighoff et al. 2023, equation 5: U + U R* (1 - exp(-R / R*)), three repetitions.
    assert unique_equivalent(100, 400, 15) == pytest.approx(100 + 1500 * (1 - math.exp(-0.2)))
    assert unique_equivalent(100, 1e9, 15) == pytest.approx(1600)


def test_the_form_of_the_curve():
    curve = Curve(floor=1.0, per_size=0.5, per_data=2.0, beta=0.5, reuse=15, error=0.1)
    size = Size(weights=1e6, unique=1e9, trained=4e6)
    assert bits_on(curve, size) == pytest.approx(1.0 + 0.5 + 2.0 / 2)
    wide = Size(weights=8e6, unique=1e9, trained=4e6)
    assert bits_on(curve, wide) == pytest.approx(1.0 + 0.5 / 8**0.34 + 1.0)


def test_the_size_of_a_text_when_compressed():
    parts = [b"abc" * 20, b"abd" * 30]
    whole = b"".join(parts)
    compressed = len(lzma.compress(whole, preset=9 | lzma.PRESET_EXTREME))
    assert compressed_bits(parts) == pytest.approx(8 * compressed / 150)


def test_what_is_not_covered_has_a_wider_range():
    size = Size(weights=0.8e6, unique=5e6, trained=5e6)
    known = expected_bits(size, None)
    low, high = known.bits_per_byte
    assert math.log(high / low) == pytest.approx(2 * STORIES.error)
    assert low < bits_on(STORIES, size) < high
    assert known.basis == "estimated from short training runs on these stories"
    large = Size(weights=9e6, unique=5e6, trained=5e6)
    unknown = expected_bits(large, None, ["Greek"])
    low, high = unknown.bits_per_byte
    assert math.log(high / low) == pytest.approx(2 * STORIES.error * expected_loss.WIDER**2)


def test_the_words_about_a_range():
    """Numbers are written in full, and a range that is too wide is not given."""
    one = expected_bits(Size(weights=9e6, unique=5e6, trained=5e6), 3.0)
    assert one.basis == (
        "estimated from short training runs on English text and Python code; less certain, because "
        "9,000,000 weights in the blocks are more than those runs had (140,000 to 1,800,000)"
    )
    low, high = one.bits_per_byte
    assert one.as_dict()["expected_bits_per_byte"] == {"low": round(low, 4), "high": round(high, 4)}
    two = replace(
        expected_bits(Size(weights=10_240, unique=9012, trained=9512), 3.0), loss=(1.7, 5.65)
    )
    assert two.as_dict() == {
        "expected_loss": None,
        "expected_bits_per_byte": None,
        "expected_from": two.basis,
    }
    assert two.basis == (
        "the range would be too wide (a factor of 3.3), because the text is short and may be unlike its "
        "held-out part, and 10,000 weights in the blocks are fewer than those runs had (140,000 to "
        "1,800,000), and 9,500 bytes that are trained on are fewer than those runs had (50,000 to "
        "32,000,000)"
    )
    assert two.in_words == f"no forecast: {two.basis}"
    assert replace(one, loss=(2.0, 4.0)).in_words.startswith("2.00 to 4.00 nats per token, ")


def test_a_range_is_a_forecast_if_its_error_was_measured():
    size = Size(weights=0.8e6, unique=1e6, trained=5e6)
    for covered in (size, replace(size, unique=1e5)):
        assert expected_bits(covered, 3.0).is_forecast and expected_bits(covered, None).is_forecast
    assert not expected_bits(replace(size, trained=2e4), None).is_forecast
    assert not expected_bits(replace(size, unique=1e5), 3.0, ["Greek"]).is_forecast
    assert not expected_bits(size, 3.0, ["Greek", "Latin"]).is_forecast


def test_a_text_that_compresses_worse_is_harder():
    size = Size(weights=0.8e6, unique=1e6, trained=1e6)
    easy, hard = (expected_bits(size, bits).bits_per_byte[0] for bits in (2.0, 3.0))
    assert hard == pytest.approx(1.5 * easy)


def test_a_short_text_has_a_wider_range():
    found = expected_bits(Size(weights=0.8e6, unique=1e5, trained=1e6), 3.0)
    low, high = found.bits_per_byte
    assert math.log(high / low) == pytest.approx(2 * expected_loss.SHORT_ERROR)
    assert "the text is short" in found.basis
