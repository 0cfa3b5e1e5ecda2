"""A Hugging Face GPT-2 folder becomes a run."""

import json
from collections.abc import Callable
from pathlib import Path

from minigpt.config import Config, SamplingConfig, load_config
from minigpt.errors import UserError
from minigpt.huggingface.shape import read_shape
from minigpt.huggingface.tensors import HEAD, tensor_shapes, variables
from minigpt.huggingface.tokenizer_files import read_tokenizer
from minigpt.huggingface.weights import Weights, open_weights
from minigpt.models import GPT, build_gpt
from minigpt.runs.paths import refuse_taken
from minigpt.runs.run import Run
from minigpt.tokenizers.tokenizer_file import read_file


def import_run(
    folder: str | Path, run: str | Path, report: Callable[[str], None] = lambda line: None
) -> Run:
    """Reads `config.json`, the weights and the tokenizer of a folder into a new run directory.

    The run has no text of its own: it is evaluated on files that are named, and trained on
    with `training.init_from`.

    Args:
      folder: as `GPT2LMHeadModel.save_pretrained` and the tokenizer's `save_pretrained` make it.
      run: the run directory, new or empty.
      report: gets a line about what takes time.
    Raises:
      UserError: the folder is not a GPT-2's, a file is missing or damaged, a tensor is missing, too
        many or of another shape; the directory cannot be written. Nothing is left behind.
    """
    folder, run = Path(folder), Path(run)
    refuse_taken(run)
    path = folder / "config.json"
    if not path.is_file():
        what = "holds no config.json" if folder.is_dir() else "does not exist"
        raise UserError(f"FOLDER {folder}: {what}; should be a Hugging Face GPT-2 folder")
    try:
        content = json.loads(read_file(path))
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: should be a JSON object")
    shape = read_shape(content, str(path))
    tokenizer = read_tokenizer(folder, shape.vocab_size, shape.end_id)
    with open_weights(folder) as weights:
        weights.check(tensor_shapes(shape.model, shape.vocab_size), shape.model.tie_embeddings)
        report(f"reading {folder}")
        model = build_gpt(shape.model, shape.vocab_size)
        _fill(model, weights)
    settings = {"kind": tokenizer.kind, "vocab_size": shape.vocab_size}
    config = Config(
        tokenizer=load_config({"tokenizer": settings}).tokenizer,
        model=shape.model,
        # Not the prompts that suit the bundled stories.
        sampling=SamplingConfig(),
    )
    return Run.create(run, config, tokenizer, None, model)


def _fill(model: GPT, weights: Weights) -> None:
    """Copies the tensors into the model, one at a time."""
    for name, variable in variables(model).items():
        value = weights.read(name)
        variable.assign(value.T if name == HEAD else value)
    if model.head is not None:
        model.head.bias.assign([0.0] * model.vocab_size)
