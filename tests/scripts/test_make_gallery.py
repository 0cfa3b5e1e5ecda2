"""The gallery: two tiny models from the text to the index, what is kept, and what is skipped."""

import random
import re
import sys
from pathlib import Path

import pytest

import minigpt
from scripts import make_gallery
from tests.browser.programs import browser_path

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


def test_two_models_and_what_is_kept(tmp_path, monkeypatch, capsys, without_xla):
    monkeypatch.setattr(make_gallery, "pictures", lambda page: None)
    monkeypatch.setattr(make_gallery, "LARGEST_PAGE", 1)  # No state of training fits.
    options = [part for setting in TINY for part in ("--set", setting)]
    options += ["--only", "recipes", "--only", "chess", "--examples", "30"]
    gallery(monkeypatch, tmp_path, *options)
    index = (tmp_path / "gallery" / "index.html").read_text()
    assert re.findall(r'<h2><a href="(\w+)\.html">', index) == ["recipes", "chess"]
    assert re.findall(r"https?:", index) == []
    assert index.count("<svg") == 2 and "e2e4 e7e5 " in index
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


def test_the_curve_of_one_point_is_a_dot_and_its_label_fits():
    assert "<circle" in make_gallery.curve([2.0]) and "<circle" not in make_gallery.curve([3, 2])
    drawn = make_gallery.curve([10.0, 9.0])
    size, label = re.search(r'font-size="(\d+)">(.*)</text>', drawn).groups()
    width = int(re.search(r'viewBox="0 0 (\d+) ', drawn)[1])
    # Half the size of the font is a usual mean width of a character in a sans-serif font.
    assert 10 + len(label) * int(size) * 0.5 < width


def test_help_names_the_models(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        gallery(monkeypatch, tmp_path, "--help")
    shown = capsys.readouterr().out
    assert all(name in shown for name in make_gallery.ENTRIES)
    # Each option has a description, in its line or in the next.
    options = re.findall(r"^  -.*", re.sub(r"\n {9,}", "  ", shown), re.M)
    assert options and all(re.search(r"\w {2,}\w", option) for option in options)


def test_training_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "config.toml").touch()
    monkeypatch.setattr(minigpt, "resume", lambda path: path)
    assert make_gallery.trained("python", tmp_path, None) == tmp_path / "python"


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


def test_too_large_a_gallery_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(make_gallery, "TOTAL", 100)
    with pytest.raises(SystemExit, match="MB are more than"):
        gallery(monkeypatch, tmp_path, "--only", "shakespeare")


def test_a_recipe_uses_its_ingredients():
    recipes = [make_gallery.recipe(random.Random(seed)) for seed in range(50)]
    assert len(set(recipes)) == 50
    for text in recipes:
        steps = text.partition("\n1. ")[2]
        named = re.findall(r"^- \d+ (?:g of )?(\w+)$", text, re.MULTILINE)
        assert len(named) == 3 and all(f"the {name}" in steps for name in named)
        assert text.lower().startswith(named[0][:-1])


@pytest.mark.browser
def test_pictures_of_a_page(tmp_path, monkeypatch):
    browser_path("chromium")
    pytest.importorskip("playwright", reason="needs playwright: pip install -e '.[browser]'")
    monkeypatch.chdir(tmp_path)
    Path("page.html").write_text("<script>minigpt = { ready: true }</script>A page.")
    found = make_gallery.pictures(Path("page.html"))
    assert found is not None
    light, dark = re.findall(r'="(data:image/jpeg;base64,[^"]+)"', found)
    assert light and dark
    monkeypatch.setattr(make_gallery.shutil, "which", lambda name: None)
    assert make_gallery.pictures(Path("page.html")) is None
