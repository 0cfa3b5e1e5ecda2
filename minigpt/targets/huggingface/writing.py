"""A folder for `from_pretrained` of Hugging Face's `transformers`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minigpt.errors import ArgumentProblem, UserError
from minigpt.models import GPT, EncoderDecoder
from minigpt.storage.tensor_file import write_tensors
from minigpt.targets.huggingface.architectures import architecture_of_model, export_problems
from minigpt.targets.huggingface.tokenizer_export import padding_id, tokenizer_files
from minigpt.targets.huggingface.tokenizer_import import OWN_FOLDER
from minigpt.targets.output import output_folder
from minigpt.targets.source import ExportSource
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
    for name, content in described_files(model, tokenizer, "huggingface").items():
        # newline="" keeps carriage returns of the vocabulary.
        (folder / name).write_text(content, encoding="utf-8", newline="")
    assert isinstance(model, GPT)
    if not isinstance(tokenizer, GPT2Tokenizer):
        tokenizer.save(folder / OWN_FOLDER)
    # transformers writes and expects the format "pt".
    tensors = architecture_of_model(model.config).tensors(model)
    write_tensors(folder / "model.safetensors", tensors, {"format": "pt"})


def described_files(
    model: GPT | EncoderDecoder, tokenizer: Tokenizer, format: str
) -> dict[str, str]:
    """Returns the files of a folder that describe a model and hold its tokenizer, name → content.

    Raises:
      UserError: the model is neither a GPT-2 nor a Qwen3, or `transformers` does not have the tokenizer;
        one problem per difference, of the format with this name.
    """
    if not isinstance(model, GPT):
        kind = type(model).__name__
        problems = [f"the model is a {kind}; GPT-2 is a decoder without an encoder"]
    else:
        problems = export_problems(model.config, tokenizer)
    if problems:
        raise UserError(*(ArgumentProblem("format", format, problem) for problem in problems))
    assert isinstance(model, GPT)
    architecture = architecture_of_model(model.config)
    config = architecture.config_json(model.config, model.vocab_size, tokenizer.end_id)
    return {
        "config.json": as_json(config),
        "generation_config.json": as_json(_generation_settings(tokenizer)),
        **tokenizer_files(tokenizer, model.max_len),
    }


def _generation_settings(tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns the content of generation_config.json.

    It has no `max_length`: transformers would warn each time that a program passes `max_new_tokens`.
    """
    padding = padding_id(tokenizer)
    never = sorted(tokenizer.never_sampled_ids)
    return {
        "bos_token_id": tokenizer.end_id,
        "eos_token_id": tokenizer.end_id,
        "pad_token_id": tokenizer.end_id if padding is None else padding,
        **({"suppress_tokens": never} if never else {}),
    }


def as_json(content: Mapping[str, object]) -> str:
    """Returns the text of a file in the folder."""
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
