"""The example of docs/adding-an-export.md, applied to a copy of the package."""

import shutil

from tests.extending import ExtendedPackage

# Runs in the copy.
CODE = """
import numpy as np

assert "npz" in command("export", "--help")
assert "Wrote model.npz" in command("export", "run", "--format=npz", "--output=model.npz")
with np.load("model.npz") as arrays:
    weights = minigpt.Run("run").load_model().get_weights()
    np.testing.assert_array_equal(arrays["weights/0"], weights[0])
assert "differ by at most 0 " in command("verify", "model.npz", "--against=run")
"""


def test_the_example_exports_and_verifies(tiny_run, tmp_path):
    package = ExtendedPackage(tmp_path)
    # One folder, and one line of the registry.
    (names,) = package.apply("adding-an-export.md")
    assert names[-1] == "minigpt/targets/targets.py"
    assert all(name.startswith("minigpt/targets/npz/") for name in names[:-1])
    shutil.copytree(tiny_run.path, tmp_path / "run")
    package.python(CODE)
