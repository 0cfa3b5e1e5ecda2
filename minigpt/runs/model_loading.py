"""The weights of a file or a checkpoint of a run; `Run.load_model` uses them. Imports TensorFlow."""

import zipfile
from pathlib import Path

from minigpt.errors import UserError
from minigpt.models import GPT, EncoderDecoder, build_gpt
from minigpt.models.lora import enable_lora, merged_weights
from minigpt.models.state import assign, weight_arrays
from minigpt.runs.checkpoints import Checkpoint


def assign_file(model: GPT | EncoderDecoder, file: Path) -> None:
    """Gives a model the weights of a `.keras` file.

    Raises:
      UserError: the file cannot be read.
    """
    if not zipfile.is_zipfile(file):
        raise UserError(f"{file}: damaged, not a complete .keras file")
    # Only the weights are read: the file may come from someone else and describe other layers.
    try:
        model.load_weights(file)
    # zipfile, HDF5 and Keras raise many kinds of exceptions for a damaged file.
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{file}: not a readable model: {reason}") from None


def assign_checkpoint(
    model: GPT | EncoderDecoder, checkpoint: Checkpoint, lora_rank: int | None
) -> None:
    """Gives a model the weights of a checkpoint; low-rank products are merged.

    Raises:
      UserError: the arrays do not fit the model.
    """
    values = weight_arrays(checkpoint.arrays)
    try:
        if lora_rank:
            assert isinstance(model, GPT)
            # In float32 for any training precision, so that the merged weights are not rounded again.
            adapted = build_gpt(model.config, model.vocab_size)
            enable_lora(adapted, lora_rank)
            assign(adapted.weights, values)
            values = merged_weights(adapted)
        assign(model.weights, values)
    except ValueError:
        file = checkpoint.path.parents[1] / "config.toml"
        raise UserError(f"{checkpoint.path}: its arrays do not fit the model of {file}") from None
