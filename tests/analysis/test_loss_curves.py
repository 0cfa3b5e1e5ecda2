"""The expected loss: the formulas against values computed by hand, and against the records."""

import importlib.util
import lzma
import math
import sys
from pathlib import Path

import pytest

from minigpt.analysis import loss_curves
from minigpt.analysis.loss_curves import (
    STORIES,
    TEXTS,
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
    assert "wider range" not in known.basis
    large = Size(weights=9e6, unique=5e6, trained=5e6)
    unknown = expected_bits(large, None, ["Greek"])
    low, high = unknown.bits_per_byte
    assert math.log(high / low) == pytest.approx(2 * STORIES.error * loss_curves.WIDER**2)
    assert "wider range" in unknown.basis and "9e+06 weights" in unknown.basis
    assert "Greek" in unknown.basis


def test_a_text_that_compresses_worse_is_harder():
    size = Size(weights=0.8e6, unique=1e6, trained=1e6)
    easy, hard = (expected_bits(size, bits).bits_per_byte[0] for bits in (2.0, 3.0))
    assert hard == pytest.approx(1.5 * easy)


def test_a_short_text_has_a_wider_range():
    found = expected_bits(Size(weights=0.8e6, unique=1e5, trained=1e6), 3.0)
    low, high = found.bits_per_byte
    assert math.log(high / low) == pytest.approx(2 * loss_curves.SHORT_ERROR)
    assert "a short text" in found.basis


def fitting():
    path = Path(__file__).resolve().parents[2] / "scripts/fit_loss_curves.py"
    spec = importlib.util.spec_from_file_location("fit_loss_curves", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fit_loss_curves"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["STORIES", "TEXTS"])
def test_the_constants_are_those_of_the_fit(name):
    module, curve = fitting(), {"STORIES": STORIES, "TEXTS": TEXTS}[name]
    records = getattr(module, name)
    floor = curve.floor if name == "STORIES" else None
    import numpy as np

    e, a, b, beta, reuse = np.exp(module.fit(records, floor, name == "TEXTS"))
    found = (floor or e, a, b, beta, reuse)
    constants = (curve.floor, curve.per_size, curve.per_data, curve.beta, curve.reuse)
    assert found == pytest.approx(constants, rel=0.02)
    for record in [*records, *(module.SHORT if name == "TEXTS" else ())]:
        size = Size(1e6 * record.weights, 1e6 * record.unique, 1e6 * record.trained)
        low, high = expected_bits(size, record.xz if name == "TEXTS" else None).bits_per_byte
        assert low < record.bits < high, record.name
