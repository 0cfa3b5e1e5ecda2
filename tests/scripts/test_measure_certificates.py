"""scripts/measure_certificates.py: its table and its texts, with a tiny model."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import measure_certificates

from minigpt.config import shipped_configs
from minigpt.targets.targets import TARGETS, target_named
from tests.insight.report.report_runs import CERTIFICATE
from tests.targets.test_certificate import SMALL


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_six_configurations_and_all_formats():
    configurations = set(measure_certificates.CONFIGURATIONS)
    assert len(configurations) == 6 and configurations <= shipped_configs().keys()
    kinds = [kind.split(":") for kind in measure_certificates.EXPORTS]
    assert {format for format, *_ in kinds} == TARGETS.keys()
    assert all(
        weights in target_named(format).weights for format, *rest in kinds for weights in rest
    )


def test_the_table(tiny_run, monkeypatch, capsys):
    for name, value in SMALL.items():
        monkeypatch.setattr(f"minigpt.targets.material.{name}", value)
    monkeypatch.setattr(measure_certificates, "train", lambda *_: tiny_run)
    # The tiny model has no shape that transformers reads.
    arguments = ["default", "--formats", "gguf", "huggingface", "gguf:int8"]
    monkeypatch.setattr(sys, "argv", ["measure_certificates.py", *arguments])
    measure_certificates.main()
    printed = capsys.readouterr()
    head, _, *rows = (cells_of(line) for line in printed.out.splitlines() if line.startswith("|"))
    assert head == list(measure_certificates.COLUMNS)
    found = [dict(zip(head, row, strict=True)) for row in rows]
    kinds = [(row["format"], row["weights"]) for row in found if row["format"] == "gguf"]
    assert kinds == [("gguf", "float32"), ("gguf", "int8")]
    assert all(row["within tolerance"] == "yes" for row in found)
    assert len(found) + printed.err.count("format = ") == 3


def test_values_outside_the_tolerance_or_missing():
    certificate = {**CERTIFICATE, "logits": None, "bits_per_byte": None, "problems": ["a", "b"]}
    assert measure_certificates.cells(certificate) == [
        "gguf",
        "int8",
        "2.9",
        "–",
        "41 of 50",
        "–",
        "–",
        "2,000 of 2,000",
        "1,716",
        "a; b",
    ]


@pytest.mark.parametrize("pairs", [False, True])
def test_the_texts(pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(measure_certificates, "NUM_STORIES", 3)
    path = Path(measure_certificates.text_path(tmp_path, pairs))
    if not pairs:
        assert len(list(path.iterdir())) == 3
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        source, target = line.split("\t")
        assert source.split() == target.split()[::-1]


def test_random_weights_are_not_those_of_the_initializer(tmp_path, monkeypatch):
    monkeypatch.setattr(measure_certificates, "NUM_STORIES", 3)
    small = ["model.num_layers=1", "model.embed_dim=16", "model.num_heads=2", "model.max_len=8"]
    run = measure_certificates.train("shakespeare_character", 0, small, tmp_path)
    logits = run.load_model()(np.zeros([1, 4], np.int32)).numpy()
    # The modern head is zeros at first.
    assert np.abs(logits).max() > 1e-3 and np.unique(logits[0, -1]).size > 10
