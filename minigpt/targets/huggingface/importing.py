"""Importing a Hugging Face folder as a run."""

import logging
from pathlib import Path

from minigpt.config import Config, SamplingConfig, load_config
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.models import build_gpt
from minigpt.runs.layout import check_new_run
from minigpt.runs.run import Run
from minigpt.targets.huggingface.architectures import architecture_of_folder
from minigpt.targets.huggingface.config_reader import ConfigReader, read_json_object
from minigpt.targets.huggingface.tokenizer_import import read_tokenizer
from minigpt.targets.huggingface.weights import open_weights

logger = logging.getLogger(__name__)


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
    path = folder / "config.json"
    if not path.is_file():
        problem = "contains no config.json" if folder.is_dir() else "does not exist"
        problem += "; expected a Hugging Face folder of a GPT-2 or a Qwen3"
        raise UserError(ArgumentProblem("folder", folder, problem))
    content = read_json_object(path)
    architecture = architecture_of_folder(content, str(path))
    described = architecture.read_settings(ConfigReader(content, str(path)))
    tokenizer = read_tokenizer(folder, described.vocab_size, described.end_id, architecture)
    with open_weights(folder, architecture) as weights:
        shapes = architecture.tensor_shapes(described.model, described.vocab_size)
        weights.check(shapes, described.model.tie_embeddings)
        logger.info("reading %s", folder)
        model = build_gpt(described.model, described.vocab_size)
        architecture.assign(model, weights.read)
    settings = {"kind": tokenizer.kind, "vocab_size": described.vocab_size}
    config = Config(
        tokenizer=load_config({"tokenizer": settings}).tokenizer,
        model=described.model,
        # Not the default prompts, which suit the bundled stories.
        sampling=SamplingConfig(),
    )
    return Run.create(run, config, tokenizer, None, model)
