"""The programs of docs/litert.md and docs/onnx.md, in processes without minigpt."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import minigpt
from minigpt.config import Config, SamplingConfig, load_config
from minigpt.models import GPT
from minigpt.runs.run import Run
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.conftest import tiny_text
from tests.settings import tokenizer_config

pytestmark = pytest.mark.slow
DOCS = Path(__file__).resolve().parents[2] / "docs"
PROMPT = "Once upon a time"
SIZES = {"max_len": 48, "embed_dim": 16, "num_heads": 2, "num_layers": 2}
BLOCKS = {
    "modern": {"block": "modern", "num_kv_heads": 1},
    "gpt2": {"block": "pre_norm", "activation": "gelu_tanh"},
}


@pytest.fixture(scope="module", params=BLOCKS)
def run(request, tmp_path_factory) -> Run:
    """A run whose model was not trained, with large weights: the most probable tokens are far apart."""
    tokenizer = learn_tokenizer(
        [tiny_text(50), PROMPT], tokenizer_config(kind="word", vocab_size=300)
    )
    settings = load_config({"model": {**SIZES, **BLOCKS[request.param]}})
    keras.utils.set_random_seed(1)
    model = GPT(settings.model, tokenizer.vocab_size)
    draw = np.random.default_rng(0)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(draw.standard_normal(variable.shape) / variable.shape[0] ** 0.5 * 2)
    config = Config(
        tokenizer=tokenizer_config(kind="word", vocab_size=300),
        model=settings.model,
        sampling=SamplingConfig(),
    )
    return Run.create(
        tmp_path_factory.mktemp("runs") / request.param, config, tokenizer, None, model
    )


def program_of(page: str, language: str, section: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8").partition(f"\n## {section}\n")[2]
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1]


def expected(run: Run) -> str:
    return PROMPT + minigpt.load(run).generate(PROMPT, SIZES["max_len"], temperature=0.0)[0]


def check(run: Run, text: str) -> None:
    # The loops end with the context; minigpt goes on.
    assert len(text) > len(PROMPT) + 20
    assert expected(run).startswith(text)


def answer(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("format", "name", "section"),
    [("litert", "stories.tflite", "Python"), ("onnx", "stories", "The loop in Python")],
    ids=["litert", "onnx"],
)
def test_python(run, tmp_path, format, name, section):
    minigpt.export_run(run, format, tmp_path / name)
    # In place of what users do not have, whoever imports it fails.
    for package in ("minigpt", "tensorflow", "keras"):
        (tmp_path / f"{package}.py").write_text("raise ImportError", encoding="utf-8")
    program = program_of(f"{format}.md", "python", section)
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    check(run, answer(tmp_path, sys.executable, "program.py"))


def installed(folder: Path, *packages: str) -> Path:
    """Installs packages for Node into a folder."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    command = ["npm", "install", "--ignore-scripts", *packages]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"npm cannot install {packages[0]}: {done.stderr.splitlines()[-1]}")
    return folder


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """A folder with onnxruntime for Node."""
    folder = tmp_path_factory.mktemp("node")
    return installed(folder, "onnxruntime-node@1", "@huggingface/tokenizers@0")


@pytest.fixture(scope="module")
def transformers_js(tmp_path_factory) -> Path:
    """A folder with transformers.js."""
    return installed(tmp_path_factory.mktemp("transformers_js"), "@huggingface/transformers@4")


def test_javascript(run, packages):
    folder = packages / run.path.name
    folder.mkdir()
    minigpt.export_run(run, "onnx", folder / "stories")
    program = program_of("onnx.md", "javascript", "The loop in JavaScript")
    (folder / "program.mjs").write_text(program, encoding="utf-8")
    check(run, answer(folder, "node", "program.mjs"))


# After the program of the documentation: several prompts at once, which are padded on the left.
MORE = """
const prompts = JSON.parse(process.argv[2]);
const options = { max_new_tokens: 20, return_full_text: false };
const texts = (await generator(prompts, options)).map(([found]) => found.generated_text);
console.log(JSON.stringify(texts));
const [{ generated_text: whole }] = await generator("Once upon a time");
console.log(whole);
"""


def test_transformers_js(run, transformers_js):
    folder = transformers_js / run.path.name
    folder.mkdir()
    minigpt.export_run(run, "transformers_js", folder / "stories")
    program = program_of("onnx.md", "javascript", "transformers.js")
    (folder / "program.mjs").write_text(program + MORE, encoding="utf-8")
    prompts = ["Once", PROMPT, "a cat and a dog sat on a wall ."]
    text, more, whole = answer(folder, "node", "program.mjs", json.dumps(prompts)).splitlines()
    model = minigpt.load(run)
    assert text == PROMPT + model.generate(PROMPT, 40, temperature=0.0)[0]
    assert json.loads(more) == model.generate(prompts, 20, temperature=0.0)
    # The pipeline asks for 256 tokens, and the text ends with the context. minigpt goes on.
    count = SIZES["max_len"] + 1 - len(model.tokenizer.encode(PROMPT))
    assert whole == PROMPT + model.generate(PROMPT, count, temperature=0.0)[0]
