"""A function that is called when a module is imported."""

import importlib
import importlib.util
import sys

import pytest

from minigpt.environment import when_imported


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Returns the name of a module that is not imported yet."""
    (tmp_path / "a_new_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield "a_new_module"
    sys.modules.pop("a_new_module", None)


def test_called_once_after_the_import(module):
    values = []
    when_imported(module, lambda imported: values.append(imported.value))
    assert values == []
    imported = importlib.import_module(module)
    assert values == [1]
    importlib.reload(imported)
    assert values == [1]


def test_called_at_once_for_an_imported_module(module):
    importlib.import_module(module)
    values = []
    when_imported(module, lambda imported: values.append(imported.value))
    assert values == [1]


def test_a_module_that_is_installed_later(module, tmp_path):
    values = []
    when_imported("a_later_module", lambda imported: values.append(imported.value))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("a_later_module")
    (tmp_path / "a_later_module.py").write_text("value = 2\n")
    importlib.invalidate_caches()
    importlib.import_module("a_later_module")
    assert values == [2]
    del sys.modules["a_later_module"]


def test_an_error_of_the_module_is_not_hidden(module, tmp_path):
    (tmp_path / f"{module}.py").write_text("raise RuntimeError('a reason')\n")
    when_imported(module, lambda imported: None)
    with pytest.raises(RuntimeError, match="a reason"):
        importlib.import_module(module)


def test_a_program_that_looks_for_the_module_first(module):
    values = []
    when_imported(module, lambda imported: values.append(imported.value))
    assert importlib.util.find_spec(module) is not None
    assert values == []
    importlib.import_module(module)
    assert values == [1]
