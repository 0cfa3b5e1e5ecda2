"""The first cells of the notebooks: badges, and the installation of minigpt."""

import importlib.util
import json
from importlib.machinery import ModuleSpec

import pytest
from IPython.core.interactiveshell import InteractiveShell

from scripts import make_notebook_heads as heads

NOTEBOOKS = sorted(heads.EXAMPLES.glob("*.ipynb"))


def test_notebooks_and_their_readme_have_the_address_of_pyproject():
    written = heads.written()
    readme, pyproject = heads.EXAMPLES / "README.md", heads.ROOT / "pyproject.toml"
    assert list(written) == [*NOTEBOOKS, readme, pyproject]
    for path, content in written.items():
        assert path.read_text(encoding="utf-8") == content, "run scripts/make_notebook_heads.py"
        colab = "colab.research.google.com/github/OWNER/minigpt/blob/main/examples/"
        assert path == pyproject or colab in content


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_committed_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    assert path.stat().st_size < 50_000


def test_the_first_cell_installs_a_wheel_a_checkout_or_the_repository(
    tmp_path, monkeypatch, capsys
):
    install = heads.INSTALL.format(repository="https://example.org/minigpt")
    shell, installed = InteractiveShell(), []
    shell.register_magic_function(installed.append, magic_name="pip")

    def run():
        shell.run_cell(install).raise_error()
        return installed[-1].split()[-1] if installed else None

    folder = tmp_path / "examples"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert run() is None and capsys.readouterr().out == ""
    find_spec = importlib.util.find_spec
    found = [ModuleSpec("minigpt", None, is_package=True)]  # As of a folder with that name.
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: found[0] if name == "minigpt" else find_spec(name)
    )
    assert run() == "git+https://example.org/minigpt"
    found[0], installed[:] = None, []
    assert run() == "git+https://example.org/minigpt"
    assert "about 700 MB to download" in capsys.readouterr().out
    (folder / "minigpt_keras-0.2.0-py3-none-any.whl").touch()
    assert run() == "minigpt_keras-0.2.0-py3-none-any.whl"
    (tmp_path / "minigpt").mkdir()
    (tmp_path / "minigpt/__init__.py").touch()
    assert run() == ".."
