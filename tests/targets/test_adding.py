"""The example of docs/adding-an-export.md, applied to a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import minigpt

PACKAGE = Path(minigpt.__file__).parent
DOCUMENT = PACKAGE.parent / "docs" / "adding-an-export.md"
# Runs in the copy.
CODE = """
import sys
from pathlib import Path
import numpy as np
import minigpt
from minigpt.config import dump_config
from tests.cli.running import called
from tests.conftest import tiny_settings

assert Path(minigpt.__file__).is_relative_to(Path.cwd()), minigpt.__file__
training = {"epochs": 1, "jit_compile": False}
config = minigpt.Config.model_validate(tiny_settings(Path(sys.argv[1]), training=training))
Path("tiny.toml").write_text(dump_config(config))
done = called("train", "--config=tiny.toml", "--run=run")
assert done.returncode == 0, done
done = called("sample", "run", "--prompt=Ana", "--temperature=0")
assert done.returncode == 0 and done.stdout.startswith("Ana"), done
assert "npz" in called("export", "--help").stdout
done = called("export", "run", "--format=npz", "--output=model.npz")
assert done.returncode == 0 and "Wrote model.npz" in done.stdout, done
with np.load("model.npz") as arrays:
    weights = minigpt.Run("run").load_model().get_weights()
    np.testing.assert_array_equal(arrays["weights/0"], weights[0])
done = called("verify", "model.npz", "--against=run")
assert done.returncode == 0 and "differ by at most 0 " in done.stdout, done
print("done")
"""


def test_the_example_trains_samples_exports_and_verifies(tiny_file, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "minigpt", ignore=shutil.ignore_patterns("__pycache__"))
    (example,) = re.findall(r"```diff\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    # One folder, and one line of the registry.
    added = re.findall(r"^\+\+\+ b/(.*)$", example, re.MULTILINE)
    assert added[-1] == "minigpt/targets/targets.py"
    assert all(name.startswith("minigpt/targets/npz/") for name in added[:-1])
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": "/"}
    command = ["git", "apply", "-"]
    subprocess.run(command, input=example, text=True, cwd=tmp_path, env=environment, check=True)
    # The package is the copy; `tests` are those here.
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{PACKAGE.parent}"
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tiny_file)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-3000:]
