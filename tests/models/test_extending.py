"""The examples of docs/adding-to-the-model.md, applied to a copy of the package."""

from typing import get_args

import pytest

from minigpt.config import GPTConfig
from minigpt.models.layers.transformer_block import BLOCKS
from minigpt.models.layers.variants import ACTIVATIONS, POSITIONS
from tests.extending import ExtendedPackage

# Runs in the copy: each example is built, decoded with a cache, saved and reloaded; then all are trained.
CODE = """
import io
import keras
import numpy as np
from rich.console import Console
from minigpt.config import dump_config, load_config
from minigpt.targets.huggingface.folders import architecture_of_model
from minigpt.targets.targets import target_named
from minigpt.tokenizers.kinds import learn_tokenizer
from minigpt.models import build_model
from tests.conftest import tiny_settings

SIZES = {"block": "pre_norm", "max_len": 8, "embed_dim": 8, "num_heads": 2, "num_layers": 1}
PAIRS = {"kind": "encoder_decoder", **SIZES}
ids = np.random.default_rng(0).integers(0, 13, (3, 8)).astype("int32")
lengths = np.array([8, 3, 1], "int32")
EXAMPLES = {"position": "rotary_half", "activation": "mish", "norm_kind": "layer_without_bias"}
known = learn_tokenizer(["a"], load_config({"tokenizer": {"kind": "byte_pair"}}).tokenizer)

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

def check_steps(first, later, empty, logits, expected):
    # The first three tokens at once, the others one by one.
    outputs, caches = first(ids[:, :3], empty, np.zeros(3, "int32"))
    steps = [logits(outputs)]
    for t in range(3, 8):
        outputs, caches = later(ids[:, t : t + 1], caches, np.full(3, t, "int32"))
        steps.append(logits(outputs))
    np.testing.assert_allclose(np.concatenate(steps, 1), expected, atol=1e-5)

default = outputs_of(SIZES, ids)[1]
pairs_default = outputs_of(PAIRS, (ids, lengths, ids))[1]
for setting, value in EXAMPLES.items():
    model, changed = outputs_of({**SIZES, setting: value}, ids)
    assert np.abs(changed - default).max() > 1e-3, setting
    step = model.call_with_cache
    check_steps(step, step, model.empty_caches(3), model.logits, changed)
    (problem,) = architecture_of_model(model.config).export_problems(model.config)
    assert problem.startswith(f"model.{setting} = {value!r}"), problem

    pairs, changed = outputs_of({**PAIRS, setting: value}, (ids, lengths, ids))
    assert np.abs(changed - pairs_default).max() > 1e-3, setting
    source = pairs.encode(ids, lengths)
    step = lambda target, *cache: pairs.call_with_cache(target, source, *cache)
    check_steps(step, step, pairs.empty_caches(3), pairs.logits, changed)

    problem = target_named("gguf").problem(model.config, known)
    assert problem == f"model.{setting} = {value!r}: has no form in a portable file", problem

settings = tiny_settings(
    Path("text.txt"),
    model={**SIZES, **EXAMPLES},
    training={"epochs": 1, "steps_per_epoch": 30},
    sampling={"prompts": []},
)
out = io.StringIO()
run = minigpt.train(settings, "run", console=Console(file=out, width=200))
problem = target_named("gguf").problem(run.config.model, known)
said = [line for line in out.getvalue().splitlines() if line.endswith(problem)]
assert len(said) == 1 and said[0].startswith("model.gguf will not be written"), out.getvalue()
assert minigpt.load(run).generate("Ana sat", 12, temperature=0)[0]
"""


@pytest.mark.slow
def test_each_example_changes_two_files_and_works(tmp_path):
    package = ExtendedPackage(tmp_path)
    examples = package.apply("adding-to-the-model.md")
    assert len(examples) == 3
    for files in examples:
        assert len(files) == 2 and files[0] == "minigpt/config/model.py"
    package.python(CODE)


def test_allowed_names_are_those_that_are_built():
    fields = GPTConfig.model_fields
    assert set(get_args(fields["activation"].annotation)) == set(ACTIVATIONS)
    assert set(get_args(fields["position"].annotation)) == set(POSITIONS)
    assert set(get_args(fields["block"].annotation)) == set(BLOCKS)
