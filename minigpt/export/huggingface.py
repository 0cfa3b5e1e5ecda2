"""A folder for `from_pretrained` of Hugging Face's `transformers`."""

import json
from collections.abc import Mapping
from pathlib import Path

from minigpt.errors import ArgumentProblem, UserError
from minigpt.export.output import output_folder
from minigpt.export.source import ExportSource
from minigpt.huggingface.architectures import architecture_of_model, export_problems
from minigpt.huggingface.tokenizer_export import tokenizer_files
from minigpt.huggingface.tokenizer_import import OWN_FOLDER
from minigpt.models import GPT, EncoderDecoder
from minigpt.storage.tensor_file import write_tensors
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer


def write_huggingface(source: ExportSource, folder: Path, weights: str) -> None:
    """Writes the files into an empty folder; see `export_huggingface`."""
    _write(source.model, source.tokenizer, folder)


def export_huggingface(model: GPT, tokenizer: Tokenizer, output: Path) -> None:
    """Writes a folder for `transformers`, whole or not at all.

    A model with modern blocks is written for `Qwen3ForCausalLM`, others for `GPT2LMHeadModel`; the
    tokenizer is written for `AutoTokenizer`.

    It holds `config.json`, `generation_config.json`, `model.safetensors` and the tokenizer's files. Equal
    models give equal bytes. `minigpt.import_run` reads the folder.

    Raises:
      UserError: the model is neither a GPT-2 nor a Qwen3, with one problem per difference; `output` is
        not empty, or cannot be written.
    """
    with output_folder(output) as folder:
        _write(model, tokenizer, folder)


def _write(model: GPT | EncoderDecoder, tokenizer: Tokenizer, folder: Path) -> None:
    if not isinstance(model, GPT):
        kind = type(model).__name__
        raise UserError(_problem(f"the model is a {kind}; GPT-2 is a decoder without an encoder"))
    if problems := export_problems(model.config, tokenizer):
        raise UserError(*map(_problem, problems))
    architecture = architecture_of_model(model.config)
    generation = {"bos_token_id": tokenizer.end_id, "eos_token_id": tokenizer.end_id}
    config = architecture.config_json(model.config, model.vocab_size, tokenizer.end_id)
    files = {
        "config.json": _json(config),
        "generation_config.json": _json(generation),
        **tokenizer_files(tokenizer, model.max_len),
    }
    for name, content in files.items():
        # newline="" keeps carriage returns of the vocabulary.
        (folder / name).write_text(content, encoding="utf-8", newline="")
    if not isinstance(tokenizer, GPT2Tokenizer):
        tokenizer.save(folder / OWN_FOLDER)
    # transformers writes and expects the format "pt".
    write_tensors(folder / "model.safetensors", architecture.tensors(model), {"format": "pt"})


def _problem(problem: str) -> ArgumentProblem:
    return ArgumentProblem("format", "huggingface", problem)


def _json(content: Mapping[str, object]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
