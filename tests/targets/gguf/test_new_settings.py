"""A setting of the model that the portable file does not have: TensorFlow is used in its place."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import minigpt
from minigpt.config import GPTConfig
from minigpt.targets.gguf.writing import portable_problem
from tests.targets.gguf.models import GPT_SHAPES, build

PACKAGE = Path(minigpt.__file__).parent
# A contributor's setting, in a copy of the package: file → a text and its replacement.
CHANGES = {
    "config/model.py": (
        '    activation: Activation = "silu"\n    tie_embeddings: TieEmbeddings = False\n',
        '    activation: Activation = "silu"\n    tie_embeddings: TieEmbeddings = False\n'
        '    attention_gain: float = Field(1.0, description="factor of the scores")\n',
    ),
    "models/layers/attention.py": (
        "return key if self.key_norm is None else self.key_norm(key)",
        "return self.config.attention_gain * self.key_norm(key)",
    ),
}
# Runs in the copy.
CODE = """
import contextlib, io, sys
from pathlib import Path
import pytest
from rich.console import Console
import minigpt
from minigpt.cli.opening import OpenedModel
from minigpt.errors import UserError
from minigpt.targets.gguf.writing import write_portable
from tests.cli.running import called, refused
from tests.conftest import nothing_compiled, tiny_settings

assert Path(minigpt.__file__).is_relative_to(Path.cwd()), minigpt.__file__
uncompiled = contextlib.ExitStack()
uncompiled.enter_context(nothing_compiled())
model = {"attention_gain": -3.0, "num_layers": 1}
training = {"epochs": 1, "keep_epochs": True, "steps_per_epoch": 120}
sampling = {"prompts": [], "temperature": 0.0}
settings = tiny_settings(Path(sys.argv[1]), model=model, training=training, sampling=sampling)
out = io.StringIO()
run = minigpt.train(settings, "run", console=Console(file=out, width=200))
problem = "model.attention_gain = -3.0: has no form in a portable file"
said = [line.rstrip() for line in out.getvalue().splitlines() if problem in line]
assert said == [f"model.gguf will not be written: {problem}"], out.getvalue()
(done,) = [line for line in out.getvalue().splitlines() if line.startswith("Done: ")]
assert "model.gguf" not in done and "--format html" not in out.getvalue()
assert not run.portable_file.exists() and not run.epoch_files()
expected = "Ana sat" + minigpt.load(run).generate("Ana sat", 12, temperature=0)[0] + "\\n"
done = called("sample", "run", "--prompt=Ana sat", "--max-new-tokens=12")
assert (done.returncode, done.stdout, done.stderr) == (0, expected, ""), done
refusal = refused("export", "run", "--format=gguf", "--output=a.gguf", cwd=".")
assert refusal == [f"minigpt: --format gguf: {problem}"], refusal
with pytest.raises(UserError, match="attention_gain"):
    OpenedModel(run.path, "gpt").portable_file(Path.cwd())  # That of `minigpt serve`.
# With its default, the setting changes nothing, and the file is written.
section = run.config.model.model_copy(update={"attention_gain": 1.0})
config = run.config.model_copy(update={"model": section})
write_portable(Path("b.gguf"), config, run.load_tokenizer(), run.load_model().get_weights())
other = "Ana sat" + minigpt.load_portable("b.gguf").generate("Ana sat", 12, temperature=0)[0] + "\\n"
assert other != expected
print("done")
"""


def test_a_setting_that_the_engine_does_not_know(tiny_file, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "minigpt", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, after) in CHANGES.items():
        file = tmp_path / "minigpt" / name
        text = file.read_text(encoding="utf-8")
        assert text.count(before) == 1, name
        file.write_text(text.replace(before, after), encoding="utf-8")
    # The package is the copy; `tests` are those here.
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{PACKAGE.parent}"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, tiny_file],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-3000:]


def test_names_that_the_engine_does_not_know():
    """A new activation is a value, not a setting; a new default is none."""
    tokenizer = build(GPT_SHAPES["modern"]).tokenizer
    assert portable_problem(GPTConfig(), tokenizer) is None
    for name in ("kind", "block", "position", "activation"):
        config = GPTConfig().model_copy(update={name: "new"})
        expected = f"model.{name} = 'new': has no form in a portable file"
        assert portable_problem(config, tokenizer) == expected
