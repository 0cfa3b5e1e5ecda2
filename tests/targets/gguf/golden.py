"""What TensorFlow writes with small models: tests/fixtures/parity.json, of make_parity_fixtures.py."""

import json
from pathlib import Path
from typing import Any

from tests.targets.gguf.models import GPT_SHAPES, PAIR_SHAPES, Built, build

FILE = Path(__file__).parents[2] / "fixtures" / "parity.json"


def golden(kind: str) -> list[Any]:
    """Returns the cases of a kind, "texts" or "translations"."""
    return json.loads(FILE.read_text(encoding="utf-8"))[kind]


def name_of(case: dict[str, Any]) -> str:
    return "-".join(
        str(case[name]) for name in ("shape", "tokenizer", "has_loud_start") if name in case
    )


def built_of(case: dict[str, Any]) -> Built:
    """Returns the model of a case."""
    if "tokenizer" in case:
        return build(GPT_SHAPES[case["shape"]], case["tokenizer"])
    # With smaller weights, a model repeats the same token for every source.
    built = build({"kind": "encoder_decoder", **PAIR_SHAPES[case["shape"]]}, spread=0.7)
    if case["has_loud_start"]:
        # Which token is first hardly matters to random weights, unless it is unlike all others.
        table = built.model.embedding.weights[0].numpy()
        table[built.tokenizer.start_id] *= 20
        built.model.embedding.weights[0].assign(table)
    return built
