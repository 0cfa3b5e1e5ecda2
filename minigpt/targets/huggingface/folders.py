"""Folders for `from_pretrained` of Hugging Face's `transformers`, written and imported."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minigpt.config import Config, GPTConfig, SamplingConfig, TransformerConfig, load_config
from minigpt.config.sampling import SETTINGS
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.models import GPT, build_gpt
from minigpt.notices import LOGGER
from minigpt.runs.checkpoints import write_tensors
from minigpt.runs.layout import check_new_run
from minigpt.runs.run import Run
from minigpt.targets.huggingface.architecture import Architecture, read_json_object
from minigpt.targets.huggingface.chat_template import with_template
from minigpt.targets.huggingface.gpt2_architecture import GPT2
from minigpt.targets.huggingface.qwen3_architecture import Qwen3
from minigpt.targets.huggingface.tokenizer_export import PADDING, tokenizer_files
from minigpt.targets.huggingface.weights import open_weights
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.huggingface import read_gpt2

# A saved tokenizer of minigpt, which is written next to tokenizer.json.
OWN_FOLDER = "minigpt_tokenizer"
# To add one, write a subclass of `Architecture` in a new file. A model is exported as the architecture with
# its block; the first is the one with which a model of no known architecture is compared.
ARCHITECTURES: tuple[Architecture, ...] = (GPT2(), Qwen3())


def architecture_of_model(config: TransformerConfig) -> Architecture:
    """Returns the architecture that a model is exported as, or with which it is compared."""
    return next((a for a in ARCHITECTURES if a.block == config.block), ARCHITECTURES[0])


def write_folder(
    model: GPT, tokenizer: Tokenizer, folder: Path, sampling: SamplingConfig | None = None
) -> None:
    """Writes `config.json`, `generation_config.json`, `model.safetensors` and the tokenizer's files.

    A model with modern blocks is written for `Qwen3ForCausalLM`, others for `GPT2LMHeadModel`; the
    tokenizer is written for `AutoTokenizer`. Equal models give equal bytes.

    Args:
      model: a GPT without `export_problems`.
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
    files = tokenizer_files(tokenizer, model.max_len)
    added = json.loads(files["tokenizer.json"])["added_tokens"]
    padding = next((token["id"] for token in added if token["content"] == PADDING), None)
    generation = _generation_settings(tokenizer, sampling)
    if padding is not None:
        generation["pad_token_id"] = padding
    return {"config.json": as_json(config), "generation_config.json": as_json(generation), **files}


def _generation_settings(tokenizer: Tokenizer, sampling: SamplingConfig | None) -> dict[str, Any]:
    """Returns the content of generation_config.json.

    It has the settings of the run whose `formats` name it, unless they change nothing.
    It has no `max_length`: transformers would warn each time that a program passes `max_new_tokens`.
    """
    never = sorted(tokenizer.never_sampled_ids)
    given = {} if sampling is None else sampling.model_dump()
    return {
        "bos_token_id": tokenizer.end_id,
        "eos_token_id": tokenizer.end_id,
        "pad_token_id": tokenizer.end_id,
        **({"suppress_tokens": never} if never else {}),
        **{
            setting.name: given[setting.name]
            for setting in SETTINGS
            if given
            and "huggingface" in setting.formats
            and setting.takes_effect(given[setting.name])
        },
    }


def as_json(content: Mapping[str, object]) -> str:
    """Returns the text of a file in the folder."""
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def import_run(folder: str | Path, run: str | Path) -> Run:
    """Copies `config.json`, the weights and the tokenizer of a folder into a new run directory.

    The run has no text. It can be evaluated on named files, and fine-tuned with `training.init_from`.

    Args:
      folder: a folder written by `save_pretrained` of `GPT2LMHeadModel` or `Qwen3ForCausalLM`, and of
        the tokenizer.
      run: the run directory, new or empty.
    Returns:
      The new run.
    Raises:
      UserError: the folder contains neither a GPT-2 nor a Qwen3; a file is missing or damaged; a tensor is
        missing, unexpected or has a different shape; the run directory cannot be written. No run is
        created.
      TypeError: `folder` or `run` is not a path.
    """
    folder, run = as_path("folder", folder), as_path("run", run)
    check_new_run(run)
    model, tokenizer, described = read_folder(folder, logging.INFO)
    settings = {"kind": tokenizer.kind, "vocab_size": model.vocab_size}
    config = Config(
        tokenizer=load_config({"tokenizer": settings}).tokenizer,
        model=described,
        # Not the default prompts, which suit the bundled stories.
        sampling=SamplingConfig(),
    )
    return Run.create(run, config, tokenizer, None, model)


def read_folder(folder: Path, level: int = logging.DEBUG) -> tuple[GPT, Tokenizer, GPTConfig]:
    """Returns the model and the tokenizer of a folder, and the description in config.json.

    Args:
      folder: the folder.
      level: that of the message before the weights are read.
    Raises:
      UserError: see `import_run`.
    """
    path = folder / "config.json"
    if not path.is_file():
        problem = "contains no config.json" if folder.is_dir() else "does not exist"
        problem += "; expected a Hugging Face folder of a GPT-2 or a Qwen3"
        raise UserError(ArgumentProblem("folder", folder, problem))
    content = read_json_object(path)
    architecture = _architecture_of_folder(content, path)
    described, vocab_size, end_id = architecture.read_config(content, path)
    tokenizer = read_tokenizer(folder, vocab_size, end_id)
    shapes = architecture.tensor_shapes(described, vocab_size)
    with open_weights(folder, architecture, shapes, described.tie_embeddings) as read:
        LOGGER.log(level, "reading %s", folder)
        model = build_gpt(described, vocab_size)
        architecture.assign(model, read)
    return model, tokenizer, described


def _architecture_of_folder(content: Mapping[str, Any], path: Path) -> Architecture:
    """Returns the architecture that a config.json names; a `UserError` if that is another one."""
    kind = content.get("model_type")
    found = next((a for a in ARCHITECTURES if a.model_type == kind), None)
    if found is None:
        known = " or ".join(repr(a.model_type) for a in ARCHITECTURES)
        raise UserError(f"{path}: model_type = {kind!r}: should be {known}")
    return found


def read_tokenizer(folder: Path, vocab_size: int, end_id: int | None) -> Tokenizer:
    """Reads the tokenizer of a Hugging Face folder.

    Args:
      folder: the folder.
      vocab_size: the vocabulary size in config.json. Ids without a token are never drawn.
      end_id: the id of the end token in config.json; None means that of `<|endoftext|>`.
    Raises:
      UserError: there is no tokenizer.json, it is neither of GPT-2's nor of Qwen3's kind, or it is damaged.
    """
    if (own := folder / OWN_FOLDER).is_dir():
        tokenizer = Tokenizer.load(own)
        if tokenizer.vocab_size != vocab_size:
            problem = (
                f"has {tokenizer.vocab_size} tokens; should have {vocab_size}, as in config.json"
            )
            raise UserError(f"{own}: {problem}")
        return tokenizer
    path, settings_path = folder / "tokenizer.json", folder / "tokenizer_config.json"
    if not path.is_file():
        raise UserError(
            f"{folder}: contains no {path.name}; transformers converts other files: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)"
        )
    described = read_json_object(path)
    settings = read_json_object(settings_path) if settings_path.is_file() else {}
    if settings.get("add_prefix_space"):
        raise UserError(f"{settings_path}: add_prefix_space = true: should be false, as in GPT-2")
    found = read_gpt2(path, described, end_id, vocab_size)
    return with_template(found, folder, settings)
