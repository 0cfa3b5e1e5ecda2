"""The example of docs/adding-a-sampling-setting.md, applied to a copy of the package."""

import pytest

from tests.extending import ExtendedPackage

# Runs in the copy.
CODE = """
import io
import tensorflow as tf
import pytest
from rich.console import Console
from minigpt.errors import UserError
from tests.conftest import tiny_settings, tiny_text

Path("text.txt").write_text(tiny_text(), encoding="utf-8")
sizes = {"block": "pre_norm", "max_len": 16, "embed_dim": 16, "num_heads": 2, "num_layers": 1}
settings = tiny_settings(
    Path("text.txt"),
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
text = model.generate("Ana", 12, seed=0, top_k=0, epsilon_cutoff=0.05)[0]
assert text != model.generate("Ana", 12, seed=0, top_k=0)[0]
arguments = ("sample", "run", "--prompt=Ana", "--max-new-tokens=12", "--seed=0", "--verbose")
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
"""


@pytest.mark.slow
def test_a_filter_is_two_files_and_is_trained_sampled_and_exported(tmp_path):
    package = ExtendedPackage(tmp_path)
    (files,) = package.apply("adding-a-sampling-setting.md")
    assert files == ["minigpt/config/sampling.py", "minigpt/generation/sampling.py"]
    package.python(CODE)
