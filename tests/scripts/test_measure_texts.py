"""The table of the scores of `--text`."""

import pytest

from scripts.measure_texts import COLUMNS, main


@pytest.mark.slow
def test_every_size_and_time_limit_is_a_row(tiny_file, capsys):
    size = tiny_file.stat().st_size
    tiny = ["model.embed_dim=16", "model.num_layers=1", "training.steps_per_epoch=2"]
    settings = [argument for setting in tiny for argument in ("--set", setting)]
    sizes = ["--bytes", "8000", "--bytes", "12000", "--bytes", str(size + 1)]
    assert main([str(tiny_file), *sizes, "--minutes", "0.05", *settings]) == 0
    header, _, *rows = [line[2:-2].split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert tuple(header) == COLUMNS
    assert [row[:3] for row in rows] == [["tiny", "8,000", "0.05"], ["tiny", "12,000", "0.05"]]
    assert all("1 x 16" in row[3] for row in rows)
    assert all(0 < float(score) < 9 for row in rows for score in row[5:])
