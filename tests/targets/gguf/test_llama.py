"""Portable files in llama.cpp: the same tokens, the same probabilities.

llama.cpp runs as the server of the package xllamacpp: `pip install -e '.[parity]'`, then `make test-slow`.
"""

import json
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
import pytest

import minigpt
from minigpt.config import Config, GPTConfig
from minigpt.models import build_model
from minigpt.targets.gguf.instance import Engine
from minigpt.targets.gguf.writing import write_portable
from minigpt.targets.huggingface.folders import import_run
from minigpt.targets.targets import WeightsType
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from tests.mixed_lines import code, scraps
from tests.targets.gguf.models import gpt2_tokenizer
from tests.targets.huggingface.test_chat_template import CHATML, TURNS, folder_with

pytestmark = pytest.mark.slow
xllamacpp = pytest.importorskip("xllamacpp", reason="needs xllamacpp, of the extra parity")

CONTEXT = 96
TEXT = "\n".join([*scraps(800, 3), *code(800, 4)])
LINES = [*scraps(400, 1), *code(150, 2), "", " ", "   ", "\n", "\0", "a\0b", "<end>", "'", " '"]
TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "gpt2": gpt2_tokenizer,
    "byte_pair": lambda: BytePairTokenizer.learn([TEXT], 600, False),
    "character": lambda: CharacterTokenizer.learn([TEXT], 60, False),
}
# Texts with these characters are encoded in another way: minigpt escapes them, or llama.cpp writes a space.
ESCAPED = {"gpt2": "", "byte_pair": "\u2581\x10", "character": "\u2581"}
SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {"block": "pre_norm"},
    "gpt2_without_bias": {"block": "pre_norm", "qkv_bias": False, "norm_epsilon": 1e-3},
    "gpt2_untied": {"block": "pre_norm", "tie_embeddings": False, "head_bias": False},
    "qwen3": {
        **{"block": "modern", "num_heads": 4, "num_kv_heads": 2, "head_dim": 16},
        **{"rotary_base": 1e6, "tie_embeddings": False, "ff_dim": 96},
    },
    "qwen3_tied": {"block": "modern", "num_kv_heads": 1, "tie_embeddings": True},
}
CASES = [
    *(("gpt2", tokenizer) for tokenizer in TOKENIZERS),
    ("gpt2_without_bias", "gpt2"),
    ("gpt2_untied", "gpt2"),
    *(("qwen3", tokenizer) for tokenizer in TOKENIZERS),
    ("qwen3_tied", "byte_pair"),
]


class Llama:
    """llama.cpp with an open file. Its server has one slot, and nothing is rounded to float16."""

    def __init__(self, path: Path) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel, params.warmup, params.verbosity = CONTEXT, 1, False, 0
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        types = xllamacpp.llama_flash_attn_type
        params.flash_attn_type = types.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._server = xllamacpp.Server(params)
        self.meta: dict[str, Any] = self._ask("/v1/models")["data"][0]["meta"]

    def _ask(self, route: str, **content: Any) -> dict[str, Any]:
        data = json.dumps(content).encode() if content else None
        address = f"{self._server.listening_address}{route}"
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            result: dict[str, Any] = json.load(answer)
        return result

    def encode(self, text: str) -> list[int]:
        options = {"add_special": False, "parse_special": False}
        tokens: list[int] = self._ask("/tokenize", content=text, **options)["tokens"]
        return tokens

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._ask("/detokenize", tokens=list(ids))["content"]
        return text

    def ends_with(self, token: int) -> bool:
        """Returns whether a text ends, without text, if this token is drawn."""
        answer = self._ask("/completion", prompt=[3], n_predict=2, logit_bias=[[token, 1e4]])
        return answer["stop_type"] == "eos" and answer["content"] == ""

    def log_probabilities(self, ids: Sequence[int]) -> np.ndarray:
        """Returns float64[V], of the next token."""
        # Probabilities are those before the bias. The biased token is "a": the server tells them only
        # together with a whole character.
        options = {"n_probs": self.meta["n_vocab"], "logit_bias": [[self.encode("a")[0], 1e4]]}
        answer = self._ask("/completion", prompt=list(ids), n_predict=1, temperature=0, **options)
        result = np.full(self.meta["n_vocab"], np.nan)
        for entry in answer["completion_probabilities"][0]["top_logprobs"]:
            result[entry["id"]] = entry["logprob"]
        assert not np.isnan(result).any()
        return result


class Opened(NamedTuple):
    """A file in the engine and in llama.cpp."""

    path: Path
    engine: Engine
    llama: Llama
    tokenizer: Tokenizer

    def scores(self, ids: Sequence[int]) -> np.ndarray:
        """Returns float64[T, V], the logits of every next token."""
        return self.engine.score(ids, self.tokenizer.vocab_size).astype("float64")


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[WeightsType], Opened]:
    """Opens a model in each form of its weights."""
    shape, kind = request.param
    tokenizer = TOKENIZERS[kind]()
    sizes = {"max_len": CONTEXT, "embed_dim": 32, "num_heads": 2, "num_layers": 2, **SHAPES[shape]}
    config = Config(model=GPTConfig(**sizes))
    weights = random_weights(build_model(config.model, tokenizer.vocab_size))
    folder = tmp_path_factory.mktemp("files")
    files: dict[str, Opened] = {}

    def open_once(weights_type: WeightsType) -> Opened:
        if weights_type not in files:
            path = folder / f"{weights_type}.gguf"
            write_portable(path, config, tokenizer, weights, weights_type=weights_type)
            files[weights_type] = Opened(path, Engine(path), Llama(path), tokenizer)
        return files[weights_type]

    return open_once


def random_weights(model: Any) -> list[np.ndarray]:
    """Returns weights of which all change the logits, with gains near 1."""
    draw = np.random.default_rng(7)
    weights = []
    for weight in model.weights:
        noise = draw.standard_normal(weight.shape, "float32")
        if weight.name in ("gamma", "scale"):
            weights.append(1 + 0.1 * noise)
        elif len(weight.shape) == 1 or weight.name == "position_embedding":
            weights.append(0.1 * noise)
        else:
            weights.append(0.35 * noise)
    return weights


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.mark.parametrize("weights_type", ["float32", "float16", "int8"])
def test_llama_opens_the_file_as_its_architecture(opened, weights_type, request):
    file = opened(weights_type)
    reader = gguf.GGUFReader(file.path)
    field = reader.fields["general.architecture"]
    shape = request.node.callspec.params["opened"][0]
    assert field.contents() == shape.split("_")[0]
    expected = {
        "n_vocab": file.tokenizer.vocab_size,
        "n_ctx_train": CONTEXT,
        "n_embd": 32,
        "n_params": sum(int(tensor.n_elements) for tensor in reader.tensors),
    }
    assert {name: file.llama.meta[name] for name in expected} == expected


def test_the_tokenizer_of_llama_gives_the_same_ids_and_text(opened):
    file = opened("float32")
    lines = [line for line in LINES if not set(line) & set(ESCAPED[file.tokenizer.kind])]
    assert len(lines) > 400
    differences = []
    for line in lines:
        ours, theirs = file.tokenizer.encode(line).tolist(), file.llama.encode(line)
        text = file.llama.decode(ours)
        if (ours, line) != (theirs, text):
            differences.append(f"{line!r}: {ours}, in llama.cpp {theirs}, decoded {text!r}")
    assert not differences, "\n".join(differences)


def test_llama_knows_the_end_token(opened):
    file = opened("float32")
    assert file.llama.ends_with(file.tokenizer.end_id)
    assert not file.llama.ends_with(file.llama.encode("a")[0])


def test_llama_computes_the_same_probabilities(opened, request):
    """With float16, llama.cpp also rounds what the weights are multiplied with."""
    is_gpt2 = request.node.callspec.params["opened"][0].startswith("gpt2")
    # llama.cpp computes GELU from a table of float16.
    tolerances = {"float32": 1e-3 if is_gpt2 else 3e-6, "float16": 5e-3}
    ids = np.random.default_rng(0).integers(3, 200, 60).tolist()
    for weights_type, tolerance in tolerances.items():
        file = opened(weights_type)
        right = log_softmax(file.scores(ids))
        found = np.stack([file.llama.log_probabilities(ids[:t]) for t in range(1, len(ids) + 1)])
        difference = np.abs(found - right).max() / np.abs(right).max()
        print(weights_type, difference)
        assert difference < tolerance, weights_type


def test_the_server_answers_with_the_template_of_the_file(tmp_path):
    run = import_run(folder_with(CHATML, tmp_path / "folder"), tmp_path / "run")
    minigpt.export_run(run, "gguf", tmp_path / "model.gguf")
    ours, llama = minigpt.load(run), Llama(tmp_path / "model.gguf")
    for messages in (TURNS[:2], [*TURNS[1:3], *TURNS[1:2]]):
        options = {"messages": messages, "max_tokens": 8, "temperature": 0}
        found = llama._ask("/v1/chat/completions", **options)
        (ids,) = ours.tokenizer.encode_dialogues([messages])
        assert found["usage"]["prompt_tokens"] == len(ids)
        assert found["choices"][0]["message"]["content"] == ours.chat(messages, 8, temperature=0.0)
