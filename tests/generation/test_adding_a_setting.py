"""The example of docs/adding-a-sampling-setting.md, applied to a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import minigpt

PACKAGE = Path(minigpt.__file__).parent
DOCUMENT = PACKAGE.parent / "docs" / "adding-a-sampling-setting.md"
# Runs in the copy.
CODE = """
import contextlib, io, sys
from pathlib import Path
import pytest
import tensorflow as tf
from rich.console import Console
import minigpt
from minigpt.errors import UserError
from tests.cli.running import called
from tests.conftest import nothing_compiled, tiny_settings

assert Path(minigpt.__file__).is_relative_to(Path.cwd()), minigpt.__file__
uncompiled = contextlib.ExitStack()
uncompiled.enter_context(nothing_compiled())
sizes = {"block": "pre_norm", "max_len": 16, "embed_dim": 16, "num_heads": 2, "num_layers": 1}
settings = tiny_settings(
    Path(sys.argv[1]),
    model=sizes,
    training={"epochs": 1, "steps_per_epoch": 30},
    sampling={"prompts": ["Ana"], "top_k": 0, "epsilon_cutoff": 0.05},
)
out = io.StringIO()
run = minigpt.train(settings, "run", console=Console(file=out, width=200))
ignored = "sampling.epsilon_cutoff = 0.05 has no effect: a portable file has no epsilon_cutoff"
assert out.getvalue().count(ignored) == 1 and f"model.gguf: {ignored}" in out.getvalue()
assert "epsilon_cutoff = 0.05" in (run.path / "config.toml").read_text()
model = minigpt.load(run)
text = model.generate("Ana", 12, top_k=0, epsilon_cutoff=0.05)[0]
assert text != model.generate("Ana", 12, top_k=0)[0]
arguments = ("sample", "run", "--prompt=Ana", "--max-new-tokens=12", "--verbose")
done = called(*arguments)
assert (done.returncode, done.stdout) == (0, "Ana" + text + chr(10)), done
assert "Running on TensorFlow: epsilon_cutoff." in done.stderr, done.stderr
portable = minigpt.load_portable("run/model.gguf")
with pytest.raises(UserError, match="epsilon_cutoff = 0.05: should be 0.0: a portable file has no"):
    portable.generate("Ana", epsilon_cutoff=0.05)
done = called("export", "run", "--format=saved_model", "--output=exported")
assert (done.returncode, done.stderr) == (0, ""), done
sample = tf.saved_model.load("exported").signatures["sample"]
names = sample.structured_input_signature[1]
assert "epsilon_cutoff" in names
print("done")
"""


@pytest.mark.slow
def test_a_filter_is_two_files_and_is_trained_sampled_and_exported(tiny_file, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "minigpt", ignore=shutil.ignore_patterns("__pycache__"))
    (example,) = re.findall(r"```diff\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    files = re.findall(r"^\+\+\+ b/(.*)$", example, re.MULTILINE)
    assert files == ["minigpt/config/sampling.py", "minigpt/generation/sampling.py"]
    # The package is the copy; `tests` are those here.
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{PACKAGE.parent}"}
    environment["GIT_CEILING_DIRECTORIES"] = "/"
    command = ["git", "apply", "-"]
    subprocess.run(command, input=example, text=True, cwd=tmp_path, env=environment, check=True)
    command = [sys.executable, "-c", CODE, str(tiny_file)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-3000:]
