"""A folder for `from_pretrained` of Hugging Face's `transformers`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minigpt.config import SamplingConfig
from minigpt.config.sampling import SETTINGS
from minigpt.models import GPT
from minigpt.runs.checkpoints import write_tensors
from minigpt.targets.huggingface.architectures import architecture_of_model
from minigpt.targets.huggingface.tokenizer_export import padding_id, tokenizer_files
from minigpt.targets.huggingface.tokenizer_import import OWN_FOLDER
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer


def write_folder(
    model: GPT, tokenizer: Tokenizer, folder: Path, sampling: SamplingConfig | None = None
) -> None:
    """Writes a folder for `transformers`.

    A model with modern blocks is written for `Qwen3ForCausalLM`, others for `GPT2LMHeadModel`; the
    tokenizer is written for `AutoTokenizer`.

    It holds `config.json`, `generation_config.json`, `model.safetensors` and the tokenizer's files. Equal
    models give equal bytes. `minigpt.import_run` reads the folder.

    Args:
      model: a GPT that the target "huggingface" has.
      tokenizer: its tokenizer.
      folder: an empty folder.
      sampling: the settings of its run.
    """
    for name, content in described_files(model, tokenizer, sampling).items():
        # newline="" keeps carriage returns of the vocabulary.
        (folder / name).write_text(content, encoding="utf-8", newline="")
    if not isinstance(tokenizer, GPT2Tokenizer):
        tokenizer.save(folder / OWN_FOLDER)
    # transformers writes and expects the format "pt".
    tensors = architecture_of_model(model.config).tensors(model)
    write_tensors(folder / "model.safetensors", tensors, {"format": "pt"})


def described_files(
    model: GPT, tokenizer: Tokenizer, sampling: SamplingConfig | None = None
) -> dict[str, str]:
    """Returns the files of a folder that describe a model and hold its tokenizer, name → content."""
    architecture = architecture_of_model(model.config)
    config = architecture.config_json(model.config, model.vocab_size, tokenizer.end_id)
    return {
        "config.json": as_json(config),
        "generation_config.json": as_json(_generation_settings(tokenizer, sampling)),
        **tokenizer_files(tokenizer, model.max_len),
    }


def _generation_settings(tokenizer: Tokenizer, sampling: SamplingConfig | None) -> dict[str, Any]:
    """Returns the content of generation_config.json.

    It has the settings of the run whose `formats` name it, unless they change nothing.
    It has no `max_length`: transformers would warn each time that a program passes `max_new_tokens`.
    """
    padding = padding_id(tokenizer)
    never = sorted(tokenizer.never_sampled_ids)
    return {
        "bos_token_id": tokenizer.end_id,
        "eos_token_id": tokenizer.end_id,
        "pad_token_id": tokenizer.end_id if padding is None else padding,
        **({"suppress_tokens": never} if never else {}),
        **{
            setting.name: getattr(sampling, setting.name)
            for setting in SETTINGS
            if sampling is not None
            and "huggingface" in setting.formats
            and setting.takes_effect(getattr(sampling, setting.name))
        },
    }


def as_json(content: Mapping[str, object]) -> str:
    """Returns the text of a file in the folder."""
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
