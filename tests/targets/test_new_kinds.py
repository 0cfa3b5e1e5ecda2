"""A tokenizer, an activation, a position and a norm that a contributor adds, and what the targets say."""

import pytest

from tests.extending import ExtendedPackage

# Runs in a copy of the package with the examples of the documents.
CODE = """
import pytest
from minigpt.config import GPTConfig, load_config
from minigpt.errors import UserError
from minigpt.targets.targets import TARGETS, target_named
from minigpt.tokenizers.kinds import learn_tokenizer

no_form = "has no form in a portable file"
known = learn_tokenizer(["a"], load_config({"tokenizer": {"kind": "byte_pair"}}).tokenizer)
sizes = {"block": "pre_norm", "max_len": 16, "embed_dim": 16, "num_heads": 2, "num_layers": 1}
new = {"activation": "mish", "position": "rotary_half", "norm_kind": "layer_without_bias"}
# Each by itself: one line, or nothing.
for name, value in new.items():
    config = GPTConfig(**sizes, **{name: value})
    found = {each: target_named(each).problem(config, known) for each in TARGETS}
    assert found["gguf"] == found["html"] == f"model.{name} = {value!r}: {no_form}"
    assert found["huggingface"] == found["transformers_js"]
    assert f"model.{name} = {value!r}" in found["huggingface"]
    assert not any(found[each] for each in ("saved_model", "keras", "litert", "onnx"))
    assert not any("\\n" in problem for problem in found.values() if problem)

settings = [f"model.{name}={value}" for name, value in (sizes | new).items()]
out = train(
    "tokenizer.kind=unigram",
    *settings,
    "training.keep_snapshots=true",
    "training.steps_per_epoch=60",
    "sampling.prompts=['Ana']",
    "sampling.temperature=0.0",
)
run = minigpt.Run("run")
said = [line for line in out.splitlines() if no_form in line]
assert said and run.model_file.is_file() and run.saved_model_folder.is_dir(), out
assert not run.portable_file.exists() and list(run.checkpoints_folder.iterdir())
expected = "Ana sat" + minigpt.load(run).generate("Ana sat", 12, temperature=0)[0] + "\\n"
done = called("sample", "run", "--prompt=Ana sat", "--max-new-tokens=12", "--seed=0")
assert (done.returncode, done.stdout, done.stderr) == (0, expected, ""), done
tokenizer = run.load_tokenizer()
problem = target_named("gguf").problem(GPTConfig(), tokenizer)
assert problem == f"tokenizer.kind = 'unigram': {no_form}"
for each in TARGETS:
    problem = target_named(each).problem(run.config.model, tokenizer)
    if problem:
        with pytest.raises(UserError) as caught:
            minigpt.export_run(run, each, f"exported-{each}")
        assert caught.value.problems == (f"format = {each!r}: {problem}",)
    elif each in ("saved_model", "keras"):
        minigpt.export_run(run, each, f"exported-{each}")
        assert minigpt.verify(f"exported-{each}", run)["problems"] == []
"""


@pytest.mark.slow
def test_new_kinds_have_one_line_and_train_sample_and_export(tmp_path):
    package = ExtendedPackage(tmp_path)
    package.apply("adding-to-the-model.md")
    package.apply("adding-a-tokenizer.md")
    package.python(CODE)
