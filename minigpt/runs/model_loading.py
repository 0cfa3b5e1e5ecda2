"""The weights of a file or a checkpoint of a run; `Run.load_model` uses them. Imports TensorFlow."""

from pathlib import Path

from minigpt.config import TransformerConfig
from minigpt.errors import UserError
from minigpt.models import GPT, EncoderDecoder, build_gpt
from minigpt.models.lora import enable_lora
from minigpt.models.state import assign, group_of
from minigpt.runs.checkpoints import Checkpoint
from minigpt.tokenizers import Tokenizer


def assign_file(model: GPT | EncoderDecoder, file: Path) -> None:
    """Gives a model the weights of a `.keras` file.

    Raises:
      UserError: the file cannot be read.
    """
    # Only the weights are read: the file may come from someone else and describe other layers.
    try:
        model.load_weights(file)
    # zipfile, HDF5 and Keras raise many kinds of exceptions for a damaged file.
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{file}: not a readable model: {reason}") from None


def assign_checkpoint(model: GPT | EncoderDecoder, checkpoint: Checkpoint) -> None:
    """Gives a model, perhaps with LoRA, the weights of a checkpoint.

    Raises:
      UserError: the arrays do not fit the model.
    """
    try:
        assign(model.weights, group_of(checkpoint.arrays))
    except ValueError:
        file = checkpoint.path.parents[1] / "config.toml"
        raise UserError(f"{checkpoint.path}: its arrays do not fit the model of {file}") from None


def adapted_model(
    config: TransformerConfig, tokenizer: Tokenizer, rank: int, checkpoint: Checkpoint
) -> GPT:
    """Returns the model of a checkpoint with LoRA, in float32 for any training precision.

    Raises:
      UserError: the arrays do not fit the model.
    """
    model = build_gpt(config, tokenizer.vocab_size)
    enable_lora(model, rank, tokenizer.dialogue_tokens)
    assign_checkpoint(model, checkpoint)
    return model
