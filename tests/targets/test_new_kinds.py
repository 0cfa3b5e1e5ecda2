"""A tokenizer, an activation, a position and a norm that a contributor adds, and what the targets say."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import minigpt

PACKAGE = Path(minigpt.__file__).parent
# In a copy of the package: file → texts and their replacements.
CHANGES = {
    "config/model.py": [
        ('"silu", "relu_squared"]', '"silu", "relu_squared", "mish"]'),
        ('"sinusoidal", "rotary"]', '"sinusoidal", "rotary", "none"]'),
        (
            "    qkv_bias: QkvBias = False\n    scale_embeddings: ScaleEmbeddings = False\n",
            "    qkv_bias: QkvBias = False\n    scale_embeddings: ScaleEmbeddings = False\n"
            '    norm_kind: Literal["layer", "no_bias"] = Field("layer", description="the norm")\n',
        ),
    ],
    "models/layers/activations.py": [
        ('"relu_squared": relu_squared,', '"relu_squared": relu_squared, "mish": keras.ops.tanh,')
    ],
    "models/layers/positions.py": [
        (
            '"rotary": RotaryPositions(),',
            '"rotary": RotaryPositions(), "none": type("No", (PositionEncoding,), {})(),',
        )
    ],
    "models/layers/norms.py": [
        (
            "LayerNormalization(epsilon=config.norm_epsilon, dtype=dtype",
            'LayerNormalization(center=config.norm_kind == "layer", '
            "epsilon=config.norm_epsilon, dtype=dtype",
        )
    ],
    "config/tokenizer.py": [
        (
            "class GPT2Config",
            'class BytesConfig(LearnedConfig):\n    kind: Literal["bytes"] = "bytes"\n'
            '    vocab_size: int = Field(258, description="all bytes")\n\n\nclass GPT2Config',
        ),
        (
            '| Annotated[GPT2Config, Tag("gpt2")]',
            '| Annotated[GPT2Config, Tag("gpt2")] | Annotated[BytesConfig, Tag("bytes")]',
        ),
    ],
    "tokenizers/kinds.py": [
        (
            "from minigpt.tokenizers.word import",
            "from minigpt.tokenizers.bytes_only import BytesTokenizer\n"
            "from minigpt.tokenizers.word import",
        ),
        ("BytePairTokenizer, GPT2Tokenizer)", "BytePairTokenizer, GPT2Tokenizer, BytesTokenizer)"),
    ],
    "tokenizers/graph/__init__.py": [
        (
            "from minigpt.tokenizers.character import",
            "from minigpt.tokenizers.bytes_graph import BytesGraph\n"
            "from minigpt.tokenizers.bytes_only import BytesTokenizer\n"
            "from minigpt.tokenizers.character import",
        ),
        (
            "    WordTokenizer: WordGraph,",
            "    BytesTokenizer: BytesGraph,\n    WordTokenizer: WordGraph,",
        ),
    ],
}
TOKENIZER = '''
import numpy as np
from minigpt.tokenizers.base import Tokenizer


class BytesTokenizer(Tokenizer):
    """One token for each byte."""

    kind = "bytes"
    end_id, unknown_id, never_sampled_ids = 1, None, (0,)

    def __init__(self):
        super().__init__([b"", b"", *(bytes([byte]) for byte in range(256))], False)

    @classmethod
    def learn(cls, texts, vocab_size, lowercase):
        return cls()

    def _encode_group(self, texts):
        return [np.frombuffer(text.encode(), np.uint8).astype(np.int32) + 2 for text in texts]

    def _settings(self):
        return {}

    @classmethod
    def _from_settings(cls, settings, folder):
        return cls()
'''
GRAPH = '''
import tensorflow as tf
from minigpt.tokenizers.graph.base import GraphTokenizer


class BytesGraph(GraphTokenizer):
    """One token for each byte."""

    def _ids(self, texts):
        found = tf.strings.bytes_split(texts)
        values = tf.cast(tf.io.decode_raw(found.flat_values, tf.uint8), tf.int32)[:, 0]
        return found.with_flat_values(values + 2)
'''
# Runs in the copy.
CODE = """
import contextlib, io, sys
from pathlib import Path
import pytest
from rich.console import Console
import minigpt
from minigpt.config import GPTConfig, load_config
from minigpt.errors import UserError
from minigpt.targets.targets import TARGETS, target_named
from minigpt.tokenizers import learn_tokenizer
from tests.cli.running import called
from tests.conftest import nothing_compiled, tiny_settings

assert Path(minigpt.__file__).is_relative_to(Path.cwd()), minigpt.__file__
uncompiled = contextlib.ExitStack()
uncompiled.enter_context(nothing_compiled())
no_form = "has no form in a portable file"
known = learn_tokenizer(["a"], load_config({"tokenizer": {"kind": "byte_pair"}}).tokenizer)
sizes = {"block": "pre_norm", "max_len": 16, "embed_dim": 16, "num_heads": 2, "num_layers": 1}
# Each by itself: one line, or nothing.
for name, value in (("activation", "mish"), ("position", "none"), ("norm_kind", "no_bias")):
    config = GPTConfig(**sizes, **{name: value})
    found = {each: target_named(each).problem(config, known) for each in TARGETS}
    assert found["gguf"] == found["html"] == f"model.{name} = {value!r}: {no_form}"
    assert found["huggingface"] == found["transformers_js"]
    assert f"model.{name} = {value!r}" in found["huggingface"]
    assert {each for each, problem in found.items() if problem is None} == {
        "saved_model", "keras", "litert", "onnx"
    }
    assert not any("\\n" in problem for problem in found.values() if problem)

settings = tiny_settings(
    Path(sys.argv[1]),
    tokenizer={"kind": "bytes", "vocab_size": 258},
    model={**sizes, "position": "none", "norm_kind": "no_bias", "activation": "mish"},
    training={"epochs": 1, "keep_epochs": True, "steps_per_epoch": 60},
    sampling={"prompts": ["Ana"], "temperature": 0.0},
)
out = io.StringIO()
run = minigpt.train(settings, "run", console=Console(file=out, width=250))
said = [line for line in out.getvalue().splitlines() if no_form in line]
assert said and run.model_file.is_file() and run.saved_model_folder.is_dir(), out.getvalue()
assert not run.portable_file.exists() and list(run.checkpoints_folder.iterdir())
expected = "Ana sat" + minigpt.load(run).generate("Ana sat", 12, temperature=0)[0] + "\\n"
done = called("sample", "run", "--prompt=Ana sat", "--max-new-tokens=12")
assert (done.returncode, done.stdout, done.stderr) == (0, expected, ""), done
tokenizer = run.load_tokenizer()
assert target_named("gguf").problem(GPTConfig(), tokenizer) == f"tokenizer.kind = 'bytes': {no_form}"
for each in TARGETS:
    problem = target_named(each).problem(run.config.model, tokenizer)
    if problem:
        with pytest.raises(UserError) as caught:
            minigpt.export_run(run, each, f"exported-{each}")
        assert caught.value.problems == (f"format = {each!r}: {problem}",)
    elif each in ("saved_model", "keras"):
        minigpt.export_run(run, each, f"exported-{each}")
        assert minigpt.verify(f"exported-{each}", run)["problems"] == []
print("done")
"""


def test_new_kinds_have_one_line_and_train_sample_and_export(tiny_file, tmp_path):
    copy = tmp_path / "minigpt"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, changes in CHANGES.items():
        text = (copy / name).read_text(encoding="utf-8")
        for before, after in changes:
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, after)
        (copy / name).write_text(text, encoding="utf-8")
    (copy / "tokenizers" / "bytes_only.py").write_text(TOKENIZER)
    (copy / "tokenizers" / "bytes_graph.py").write_text(GRAPH)
    # The package is the copy; `tests` are those here.
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{PACKAGE.parent}"}
    command = [sys.executable, "-c", CODE, str(tiny_file)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-3000:]
