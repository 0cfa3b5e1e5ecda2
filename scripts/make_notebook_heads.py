"""Writes the repository's address: in notebooks, in their README, and for links of README.md.

    python scripts/make_notebook_heads.py

The notebooks in examples/ get badges and their first code cell. The address is `project.urls.Repository` in
pyproject.toml, and is written in no other file.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
INSTALL = """\
# Does nothing where minigpt is installed. Otherwise it installs a wheel or a checkout that is beside this
# notebook, or the repository. pip downloads about 700 MB, most of it TensorFlow and what it needs.
import importlib.util
from pathlib import Path

spec = importlib.util.find_spec("minigpt")
if spec is None or spec.origin is None:  # A folder with that name has no origin.
    wheels = sorted(Path().glob("minigpt_keras-*.whl"))
    checkouts = [Path("..")] if Path("../minigpt/__init__.py").exists() else []
    source = [*checkouts, *wheels, "git+{repository}"][0]
    print(f"Installing minigpt from {{source}}: about 700 MB to download.")
    %pip install --quiet {{source}}"""


def written() -> dict[Path, str]:
    """Returns the contents of the notebooks, of their README, and of pyproject.toml."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    repository: str = tomllib.loads(pyproject)["project"]["urls"]["Repository"]
    pyproject = re.sub(r"https://\S+(?=/(?:blob|raw)/main/'$)", repository, pyproject, flags=re.M)
    contents = {}
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        badges = _badges(repository, path.name)
        head = [_cell("badges", "markdown", badges)]
        head.append(_cell("install", "code", INSTALL.format(repository=repository)))
        rest = [cell for cell in notebook["cells"] if cell["id"] not in ("badges", "install")]
        notebook["cells"] = head + rest
        contents[path] = json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
        row = rf"^(\| \[`{path.name}`\]\({path.name}\)).*? \|"
        readme = re.sub(row, f"\\1 {badges} |", readme, flags=re.M)
    return {**contents, EXAMPLES / "README.md": readme, ROOT / "pyproject.toml": pyproject}


def _badges(repository: str, name: str) -> str:
    page = f"{repository}/blob/main/examples/{name}"
    return (
        "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
        f"({page.replace('https://github.com/', 'https://colab.research.google.com/github/')}) "
        "[![Open in Kaggle](https://kaggle.com/static/images/open-in-kaggle.svg)]"
        f"(https://kaggle.com/kernels/welcome?src={page})"
    )


def _cell(name: str, kind: str, source: str) -> dict[str, Any]:
    cell = {"cell_type": kind, "id": name, "metadata": {}, "source": source.splitlines(True)}
    return cell if kind == "markdown" else cell | {"execution_count": None, "outputs": []}


if __name__ == "__main__":
    for path, content in written().items():
        path.write_text(content, encoding="utf-8")
