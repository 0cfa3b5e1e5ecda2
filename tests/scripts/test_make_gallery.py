"""The gallery: two tiny models from the text to the index, what is kept, and what is skipped."""

import re
import sys

import pytest

import minigpt
from scripts import make_gallery

pytestmark = pytest.mark.usefixtures("own_bases")
TINY = (
    "training.epochs=1",
    "training.steps_per_epoch=4",
    "model.embed_dim=16",
    "model.num_layers=1",
)


def gallery(monkeypatch, folder, *arguments: str) -> None:
    places = ["--output", str(folder / "gallery"), "--runs", str(folder / "runs")]
    monkeypatch.setattr(sys, "argv", ["make_gallery.py", *places, *arguments])
    make_gallery.main()


@pytest.mark.slow
def test_two_models_and_what_is_kept(tmp_path, monkeypatch, capsys, without_xla):
    monkeypatch.setattr(make_gallery, "LARGEST_PAGE", 1)  # No state of training fits.
    options = [part for setting in TINY for part in ("--set", setting)]
    options += ["--only", "recipes", "--only", "chess", "--examples", "30"]
    gallery(monkeypatch, tmp_path, *options)
    index = (tmp_path / "gallery" / "index.html").read_text()
    assert re.findall(r'<h2><a href="(\w+)\.html">', index) == ["english", "recipes", "chess"]
    assert re.findall(r"https?:", index) == []
    assert "e2e4 e7e5 " in index
    assert re.search(r"<p>[\d.]+% of its moves are legal · [\d,]+ parameters · trained for ", index)
    assert re.search(r"<p>[\d.]+ bits per byte · ", index)
    page = tmp_path / "gallery" / "recipes.html"
    assert f"{page.stat().st_size / 1e6:.1f} MB</p>" in index
    # The weights in the page are rounded; the run keeps its own.
    assert minigpt.load_portable(page).config["model"]["embed_dim"] == 16
    assert list((tmp_path / "runs" / "recipes" / "snapshots").iterdir())
    capsys.readouterr()
    # Nothing is trained again, and a page that is missing is written.
    monkeypatch.setattr(minigpt, "train", None)
    page.unlink()
    gallery(monkeypatch, tmp_path, *options)
    assert "recipes: kept" not in (shown := capsys.readouterr().out) and "chess: kept\n" in shown
    assert page.is_file()


@pytest.mark.parametrize(
    ("name", "option"), [("shakespeare", "shakespeare"), ("translation", "pairs")]
)
def test_a_text_that_is_missing(name, option, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(f"MINIGPT_{option.upper()}", raising=False)
    gallery(monkeypatch, tmp_path, "--only", name)
    assert f"{name}: skipped: it needs a text: --{option} FILE\n" in capsys.readouterr().out
    monkeypatch.setenv(f"MINIGPT_{option.upper()}", str(tmp_path / "none.txt"))
    gallery(monkeypatch, tmp_path, "--only", name)
    assert f"{name}: skipped: " in (shown := capsys.readouterr().out) and "none.txt" in shown
