"""The examples of docs/adding-to-the-model.md, applied to a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import minigpt
from minigpt.config import GPTConfig
from minigpt.models.layers.activations import ACTIVATIONS
from minigpt.models.layers.positions import POSITIONS
from minigpt.models.layers.transformer_block import BLOCKS

PACKAGE = Path(minigpt.__file__).parent
DOCUMENT = PACKAGE.parent / "docs" / "adding-to-the-model.md"

# Runs in the copy: each example is built, trained for a step, decoded with a cache, saved and reloaded.
CODE = """
import keras
import numpy as np
import minigpt
from pathlib import Path
from minigpt.config import dump_config, load_config
from minigpt.targets.huggingface.architectures import architecture_of_model
from minigpt.models import build_model

assert Path(minigpt.__file__).is_relative_to(Path.cwd()), minigpt.__file__
SIZES = {"block": "pre_norm", "max_len": 8, "embed_dim": 8, "num_heads": 2, "num_layers": 1}
PAIRS = {"kind": "encoder_decoder", **SIZES}
ids = np.random.default_rng(0).integers(0, 13, (3, 8)).astype("int32")
lengths = np.array([8, 3, 1], "int32")

def outputs_of(settings, inputs):
    source = "pairs" if "kind" in settings else "files"
    config = load_config({"data": {"source": source, "paths": ["x"]}, "model": settings})
    Path("config.toml").write_text(dump_config(config))
    assert load_config("config.toml").model == config.model.resolved()
    keras.utils.set_random_seed(1)
    model = build_model(config.model, 13)
    model.set_weights([w + 0.3 * np.sin(np.arange(w.size).reshape(w.shape)) for w in model.get_weights()])
    model.save("model.keras")
    again = keras.models.load_model("model.keras")
    np.testing.assert_array_equal(again(inputs), model(inputs))
    return model, model(inputs).numpy()

for setting, value in [
    ("activation", "mish"), ("position", "rotary_half"), ("norm_kind", "layer_without_bias")
]:
    model, changed = outputs_of({**SIZES, setting: value}, ids)
    _, default = outputs_of(SIZES, ids)
    assert np.abs(changed - default).max() > 1e-3, setting
    _, pairs_changed = outputs_of({**PAIRS, setting: value}, (ids, lengths, ids))
    _, pairs_default = outputs_of(PAIRS, (ids, lengths, ids))
    assert np.abs(pairs_changed - pairs_default).max() > 1e-3, setting

    latents, caches = model.call_with_cache(ids[:, :3], model.empty_caches(3), np.zeros(3, "int32"))
    steps = [model.logits(latents)]
    for t in range(3, 8):
        latents, caches = model.call_with_cache(ids[:, t : t + 1], caches, np.full(3, t, "int32"))
        steps.append(model.logits(latents))
    np.testing.assert_allclose(np.concatenate(steps, 1), changed, atol=1e-5)

    (problem,) = architecture_of_model(model.config).export_problems(model.config)
    assert problem.startswith(f"model.{setting} = {value!r}"), problem
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss=loss, jit_compile=False)
    assert np.isfinite(model.train_on_batch(ids[:, :-1], ids[:, 1:]))
print("done")
"""


def test_each_example_changes_two_files_and_works(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "minigpt", ignore=shutil.ignore_patterns("__pycache__"))
    if (configs := PACKAGE.parent / "configs").is_dir():
        shutil.copytree(configs, tmp_path / "configs")
    examples = re.findall(r"```diff\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 3
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "GIT_CEILING_DIRECTORIES": "/"}
    for example in examples:
        files = re.findall(r"^\+\+\+ b/(.*)$", example, re.MULTILINE)
        assert len(files) == 2 and files[0] == "minigpt/config/model.py"
        command = ["git", "apply", "-"]
        subprocess.run(command, input=example, text=True, cwd=tmp_path, env=environment, check=True)
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-3000:]


def test_allowed_names_are_those_that_are_built():
    fields = GPTConfig.model_fields
    assert set(get_args(fields["activation"].annotation)) == set(ACTIVATIONS)
    assert set(get_args(fields["position"].annotation)) == set(POSITIONS)
    assert set(get_args(fields["block"].annotation)) == set(BLOCKS)
