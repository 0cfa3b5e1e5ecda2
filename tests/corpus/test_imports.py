"""Reading text imports no TensorFlow."""

import os
import subprocess
import sys

MODULES = [
    "batches",
    "documents",
    "downloaded",
    "pair_batches",
    "pair_files",
    "sizes",
    "sources",
    "split",
    "stories",
    "text_files",
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
    modules = imported_by("import " + ", ".join(f"minigpt.corpus.{name}" for name in MODULES))
    assert not {"tensorflow", "keras", "tensorflow_text"} & modules
    assert {f"minigpt.corpus.{name}" for name in MODULES} <= modules
    assert "tensorflow" in imported_by("import minigpt.corpus.datasets")
