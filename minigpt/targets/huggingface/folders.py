"""Folders for `from_pretrained` of Hugging Face's `transformers`, written and imported."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from minigpt.config import Config, GPTConfig, SamplingConfig, load_config
from minigpt.config.sampling import SETTINGS
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.models import GPT
from minigpt.notices import LOGGER
from minigpt.runs.checkpoints import write_tensors
from minigpt.runs.layout import check_new_run
from minigpt.runs.records import mapping
from minigpt.runs.run import Run
from minigpt.targets.huggingface.architectures import (
    ARCHITECTURES,
    HEAD,
    Architecture,
    architecture_of_model,
    read_json_object,
)
from minigpt.targets.huggingface.chat_template import with_template
from minigpt.targets.huggingface.tokenizer_export import PADDING, tokenizer_files
from minigpt.targets.model_documents import TOKENIZER_FOLDER
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.huggingface import read_gpt2

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
MAX_PROBLEMS = 10  # In the wrong file, every tensor differs.


def write_folder(
    model: GPT, tokenizer: Tokenizer, folder: Path, sampling: SamplingConfig | None = None
) -> None:
    """Writes `config.json`, `generation_config.json`, `model.safetensors` and the tokenizer's files.

    A model with modern blocks is written for `Qwen3ForCausalLM`, others for `GPT2LMHeadModel`; the
    tokenizer is written for `AutoTokenizer`. Equal models give equal bytes.
    The model has no `export_problems`, and the folder is empty.
    """
    for name, content in described_files(model, tokenizer, sampling).items():
        # newline="" keeps carriage returns of the vocabulary.
        (folder / name).write_text(content, encoding="utf-8", newline="")
    if not isinstance(tokenizer, GPT2Tokenizer):
        tokenizer.save(folder / TOKENIZER_FOLDER)
    # transformers writes and expects the format "pt".
    tensors = architecture_of_model(model.config).tensors(model)
    write_tensors(folder / WEIGHTS, tensors, {"format": "pt"})


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
    """Returns the content of generation_config.json, with the settings of the run that change a text.

    It has no `max_length`: transformers would warn each time that a program passes `max_new_tokens`.
    """
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    content: dict[str, Any] = dict.fromkeys(names, tokenizer.end_id)
    if never := sorted(tokenizer.never_sampled_ids):
        content["suppress_tokens"] = never
    for setting in SETTINGS if sampling else ():
        value = getattr(sampling, setting.name)
        if "huggingface" in setting.formats and setting.takes_effect(value):
            content[setting.name] = value
    return content


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

    `level` is that of the message before the weights are read. Raises a `UserError` as `import_run`.
    """
    path = folder / "config.json"
    if not path.is_file():
        problem = "contains no config.json" if folder.is_dir() else "does not exist"
        problem += "; expected a Hugging Face folder of a GPT-2 or a Qwen3"
        raise UserError(ArgumentProblem("folder", folder, problem))
    content = read_json_object(path)
    kind = content.get("model_type")
    architecture = next((a for a in ARCHITECTURES if a.model_type == kind), None)
    if architecture is None:
        known = " or ".join(repr(a.model_type) for a in ARCHITECTURES)
        raise UserError(f"{path}: model_type = {kind!r}: should be {known}")
    described, vocab_size, end_id = architecture.read_config(content, path)
    tokenizer = read_tokenizer(folder, vocab_size, end_id)
    layout = architecture.layout(described, vocab_size).items()
    shapes = {name: shape for name, (shape, _) in layout}
    with open_weights(folder, architecture, shapes, described.tie_embeddings) as read:
        LOGGER.log(level, "reading %s", folder)
        model = GPT(described, vocab_size)
        architecture.assign(model, read)
    return model, tokenizer, described


def read_tokenizer(folder: Path, vocab_size: int, end_id: int | None) -> Tokenizer:
    """Reads the tokenizer of a Hugging Face folder.

    Args:
      vocab_size: the vocabulary size in config.json. Ids without a token are never drawn.
      end_id: the id of the end token in config.json; None means that of `<|endoftext|>`.
    """
    if (own := folder / TOKENIZER_FOLDER).is_dir():
        tokenizer = Tokenizer.load(own)
        if (size := tokenizer.vocab_size) != vocab_size:
            raise UserError(f"{own}: has {size} tokens; config.json says {vocab_size}")
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


@contextmanager
def open_weights(
    folder: Path, architecture: Architecture, expected: Mapping[str, tuple[int, ...]], tied: bool
) -> Iterator[Callable[[str], np.ndarray]]:
    """Opens the weights of a folder, and compares names and shapes with those that config.json implies.

    Args:
      architecture: names omit its prefix; its buffers are left out.
      expected: the shape of every tensor.
      tied: whether the head is the token table. The files may then contain an equal head.
    Yields:
      A function that reads the tensor with a name as float32, whatever its type in the file.
    """
    with ExitStack() as stack:
        tensors: dict[str, Any] = {}
        for path in _files(folder):
            try:
                file: Any = stack.enter_context(safe_open(path, framework="numpy"))
                tensors |= {n: file.get_slice(n) for n in file.keys()}  # noqa: SIM118  # no dictionary
            except (SafetensorError, OSError) as error:
                problem = f"{path}: cannot be read: {error}"
                if not path.is_file():
                    problem += "; transformers converts other files: AutoModelForCausalLM"
                    problem += ".from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)"
                raise UserError(problem) from None
        tensors = {name.removeprefix(architecture.prefix): each for name, each in tensors.items()}
        if buffers := architecture.buffers:
            tensors = {n: each for n, each in tensors.items() if not buffers.fullmatch(n)}

        def read(name: str) -> np.ndarray:
            return np.asarray(tensors[name][:], "float32")

        shapes = dict(expected)
        if tied and HEAD in tensors:
            shapes[HEAD] = shapes[architecture.tokens]
        found = {name: tuple(each.get_shape()) for name, each in tensors.items()}
        problems = [
            f"{folder}: {name}: has the shape {found.get(name)}; should be {shapes.get(name)}"
            for name in sorted(shapes.keys() | found.keys())
            if shapes.get(name) != found.get(name)
        ]
        if problems:
            raise UserError(*problems[:MAX_PROBLEMS])
        if HEAD in shapes.keys() - expected.keys():
            tokens = architecture.tokens
            if not np.array_equal(read(HEAD), read(tokens)):
                raise UserError(f"{folder}: {HEAD}: differs from {tokens}, to which it is tied")
        yield read


def _files(folder: Path) -> list[Path]:
    """Returns the file, or those that an index names, which are in its folder."""
    if not (index := folder / INDEX).is_file() or (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    names = mapping(read_json_object(index).get("weight_map")).values()
    if not names or any(not isinstance(name, str) or Path(name).name != name for name in names):
        raise UserError(f"{index}: damaged; should have a weight_map to names of files")
    return sorted({folder / name for name in names})
