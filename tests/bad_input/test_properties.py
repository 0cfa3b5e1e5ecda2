"""Properties of the readers of untrusted input."""

from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from minigpt.config import SECTIONS
from minigpt.config.schema import variants
from tests.bad_input.targets import TARGETS

MOST = 30
# Divisors for expensive targets.
FEWER = {"tokenizer_folder": 5, "run_folder": 3}


def _names() -> st.SearchStrategy[tuple[str, str]]:
    """Sections and keys of all variants; every source and kind has keys of its own."""
    return st.sampled_from(
        [
            (section, key)
            for section in SECTIONS
            for key in dict.fromkeys(
                key for variant in variants(section).values() for key in variant.model_fields
            )
        ]
    )


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**40), 2**40),
        st.integers(-3, 40),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["pairs", "gpt2", "muon", "pre", "word", "encoder_decoder", "cpu"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@st.composite
def tomls(draw: st.DrawFn) -> bytes:
    """Existing settings, with values that may be valid."""
    content: dict[str, dict[str, Any]] = {}
    for (section, key), value in draw(st.dictionaries(_names(), VALUES, max_size=4)).items():
        content.setdefault(section, {})[key] = value
    text = tomli_w.dumps(content).encode("utf-8", "surrogatepass")
    return draw(st.just(text) | changed(text))


def changed(right: bytes) -> st.SearchStrategy[bytes]:
    """`right` with one part replaced."""
    position = st.integers(0, len(right))
    return st.builds(
        lambda a, b, new: right[: min(a, b)] + new + right[max(a, b) :],
        position,
        position,
        st.binary(max_size=6),
    )


def overrides() -> st.SearchStrategy[bytes]:
    right = st.builds(
        lambda name, value: f"{name[0]}.{name[1]}={value}".encode("utf-8", "replace"),
        _names(),
        VALUES | st.text(max_size=6),
    )
    return st.lists(right | st.binary(max_size=8), max_size=3).map(b"\n".join)


TEXT = st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))
DAMAGE = st.builds(bytes.__add__, st.binary(min_size=6, max_size=6), st.binary(max_size=40) | TEXT)
LINES = st.lists(TEXT | st.just(b"\t") | st.just(b"a\tb"), max_size=6).map(b"\n".join)
INPUTS: dict[str, st.SearchStrategy[bytes]] = {
    "config_file": tomls() | st.binary(max_size=30) | TEXT,
    "override": overrides() | TEXT,
    "text_file": st.builds(
        bytes.__add__, st.binary(min_size=1, max_size=1), st.binary(max_size=40) | LINES
    ),
    "pair_file": LINES | st.binary(max_size=40),
    "prompt": TEXT | st.binary(max_size=40),
    "run_folder": DAMAGE,
    "tokenizer_folder": DAMAGE,
}


@pytest.mark.parametrize("name", TARGETS)
def test_some_inputs(name: str):
    @seed(0)
    @settings(
        max_examples=max(10, MOST // FEWER.get(name, 1)),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(INPUTS[name])
    def check(data: bytes) -> None:
        TARGETS[name](data)

    check()
