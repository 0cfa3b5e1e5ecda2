"""`open_model`: which program runs a model, and what a model of the engine says to what it lacks."""

import pytest

import minigpt
from minigpt.errors import UserError
from minigpt.targets.html.file_page import write_file_page
from minigpt.targets.open_model import ModelSource


def test_the_engine_runs_what_it_can(tiny_run, opened_without_xla):
    expected = opened_without_xla.generate("Ana sat", 8, temperature=0)
    for source in (tiny_run, str(tiny_run.path), tiny_run.portable_file):
        model = minigpt.open_model(source, temperature=0.0)
        assert isinstance(model, minigpt.PortableTextModel)
        assert model.generate("Ana sat", 8, temperature=0) == expected
    with pytest.raises(UserError, match=r"^beams = 2: has no effect"):
        model.generate("Ana", beams=2)


def test_tensorflow_runs_the_rest(pair_run):
    model = minigpt.open_model(pair_run)
    assert isinstance(model, minigpt.PortableTranslationModel)
    with pytest.raises(UserError, match=r"^beams = 2: .*minigpt\.load"):
        model.translate("a b c", beams=2)
    model = minigpt.open_model(pair_run, beams=2)
    assert isinstance(model, minigpt.TranslationModel)
    assert model.translate("a b c", beams=2)


def test_what_cannot_be_opened(tiny_run, pair_run, tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        minigpt.open_model(tmp_path / "none")
    with pytest.raises(UserError, match="top_k = -1"):
        minigpt.open_model(tiny_run, top_k=-1)
    with pytest.raises(UserError, match="beams = 2: has no effect"):
        minigpt.open_model(tiny_run, beams=2)
    with pytest.raises(UserError, match=r"beams = 2: .*but its run has"):
        minigpt.open_model(pair_run.portable_file, beams=2)
    with pytest.raises(TypeError):
        minigpt.open_model(5)


def test_the_file_in_a_page(tiny_run, tmp_path):
    """Which the server needs, to write the page anew."""
    write_file_page(tiny_run.portable_file, tmp_path / "page.html")
    file = ModelSource(tmp_path / "page.html").portable_file(tmp_path)
    assert file.read_bytes() == tiny_run.portable_file.read_bytes()
