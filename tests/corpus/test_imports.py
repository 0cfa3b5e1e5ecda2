"""Reading and tokenizing text imports no TensorFlow."""

import os
import subprocess
import sys
from pathlib import Path

import minigpt

MODULES = [
    f"minigpt.{name}.{path.stem}"
    for name in ("corpus", "tokenizers")
    for path in Path(minigpt.__file__).parent.joinpath(name).glob("*.py")
    if path.stem not in ("__init__", "datasets")
]


def imported_by(statement: str) -> set[str]:
    """Returns the modules loaded in a new process after a statement."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_only_datasets_imports_tensorflow():
    modules = imported_by("import " + ", ".join(MODULES))
    assert not {"tensorflow", "keras", "tensorflow_text"} & modules
    assert set(MODULES) <= modules and len(MODULES) > 20


def test_runs_and_scores_import_no_tensorflow():
    modules = imported_by("import minigpt.generation.run_scores, minigpt.runs.run")
    assert not {"tensorflow", "keras", "tensorflow_text"} & modules
