"""Loading the model of a run. Imports TensorFlow."""

import zipfile

from minigpt.errors import UserError
from minigpt.models import GPT, EncoderDecoder, build_gpt, build_model
from minigpt.models.lora import enable_lora, merged_weights
from minigpt.models.memory_estimate import check_model_fits
from minigpt.models.state import assign, weight_arrays
from minigpt.runs.checkpoints import Checkpoint
from minigpt.runs.run import Run


def load_model(run: Run) -> GPT | EncoderDecoder:
    """Loads the best model of a run; see `Run.load_model`.

    Raises:
      UserError: there is no checkpoint, or it cannot be read.
    """
    if not run.model_file.is_file():
        return model_of_checkpoint(run, run.best_checkpoint())
    if not zipfile.is_zipfile(run.model_file):
        raise UserError(f"{run.model_file}: damaged, not a complete .keras file")
    # Only the weights are read: the file may come from someone else and describe other layers.
    model = _new_model(run)
    try:
        model.load_weights(run.model_file)
    except (
        Exception
    ) as error:  # zipfile, HDF5 and Keras raise many kinds of exceptions for a damaged file.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{run.model_file}: not a readable model: {reason}") from None
    return model


def _new_model(run: Run) -> GPT | EncoderDecoder:
    config, vocab_size = run.config, run.load_tokenizer().vocab_size
    check_model_fits(config.model, vocab_size)
    return build_model(config.model, vocab_size, config.training.precision)


def model_of_checkpoint(run: Run, checkpoint: Checkpoint) -> GPT | EncoderDecoder:
    """Builds the model of a run with the weights of a checkpoint; low-rank products are merged.

    Raises:
      UserError: the arrays do not fit the model.
    """
    config, model = run.config, _new_model(run)
    lora_rank = config.training.lora_rank
    values = weight_arrays(checkpoint.arrays)
    try:
        if lora_rank:
            assert isinstance(model, GPT)
            # In float32 for any training precision, so that the merged weights are not rounded again.
            adapted = build_gpt(config.model, model.vocab_size)
            enable_lora(adapted, lora_rank)
            assign(adapted.weights, values)
            values = merged_weights(adapted)
        assign(model.weights, values)
    except ValueError:
        raise UserError(
            f"{checkpoint.path}: its arrays do not fit the model of {run.config_file}"
        ) from None
    return model
