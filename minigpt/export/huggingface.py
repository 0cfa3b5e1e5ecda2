"""The folder that `from_pretrained` of Hugging Face's `transformers` loads."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from minigpt.errors import UserError
from minigpt.huggingface.shape import differences, write_shape
from minigpt.huggingface.tensors import values
from minigpt.huggingface.tokenizer_files import OWN_FOLDER
from minigpt.huggingface.tokenizer_json import tokenizer_files, why_not
from minigpt.models import GPT
from minigpt.storage.folder import new_folder
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer


def export_huggingface(model: GPT, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes a folder for `GPT2LMHeadModel` and `AutoTokenizer`, whole or not at all.

    `config.json`, `generation_config.json`, `model.safetensors` and the tokenizer's files; the same
    model gives the same bytes. `minigpt import` reads the folder back.

    Raises:
      UserError: the model is no GPT-2, with a line for everything that differs; there is something at
        `folder` already, or it cannot be written.
    """
    if not isinstance(model, GPT):
        kind = type(model).__name__
        raise UserError(f"--format huggingface: the model is a {kind}: GPT-2 is a decoder alone")
    problems = differences(model.config)
    if model.head is not None and np.any(model.head.bias.numpy()):
        problems.append("model.tie_embeddings = false: the head has a bias: GPT-2 has none")
    if reason := why_not(tokenizer):
        problems.append(reason)
    if problems:
        raise UserError(*(f"--format huggingface: {problem}" for problem in problems))
    generation = {"bos_token_id": tokenizer.end_id, "eos_token_id": tokenizer.end_id}
    files = {
        "config.json": _json(write_shape(model.config, model.vocab_size, tokenizer.end_id)),
        "generation_config.json": _json(generation),
        **tokenizer_files(tokenizer, model.max_len),
    }
    with new_folder(folder) as unfinished:
        for name, content in files.items():
            # newline: a carriage return of the vocabulary stays one.
            (unfinished / name).write_text(content, encoding="utf-8", newline="")
        if not isinstance(tokenizer, GPT2Tokenizer):
            tokenizer.save(unfinished / OWN_FOLDER)
        # "pt" is what transformers looks for, and writes itself.
        try:
            save_file(values(model), unfinished / "model.safetensors", {"format": "pt"})
        except SafetensorError as error:
            raise UserError(f"--output {folder}: cannot be written: {error}") from None


def _json(content: Mapping[str, object]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
