"""Lower bounds of the memory that a model and its training need, computed before it is allocated."""

import os
import resource
from pathlib import Path

from minigpt.config import Config, GPTConfig, TransformerConfig
from minigpt.errors import UserError

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
# Arrays of the size of the weights that an optimizer keeps.
_OPTIMIZER_SLOTS = {"adam": 2, "adamw": 2, "muon": 1, "sgd": 1}


def matrix_weights(config: TransformerConfig, vocab_size: int) -> int:
    """Returns the number of weights in tables and matrices: all except gains and biases."""
    rows = vocab_size * (1 if config.tie_embeddings else 2)
    if config.position == "learned":
        rows += config.max_len
    if isinstance(config, GPTConfig):
        rows += len(config.ngrams) * config.ngram_rows + 2 * config.num_layers * config.convolution
    return rows * config.embed_dim + block_weights(config)


def block_weights(config: TransformerConfig) -> int:
    """Returns the number of weights in the matrices of all blocks."""
    # Queries and the output projection have H heads, keys and values G.
    heads = config.num_heads + (config.num_kv_heads or config.num_heads)
    attention = config.embed_dim * heads * sum(config.head_sizes)
    feed_forward = (3 if config.is_modern else 2) * config.embed_dim * config.ff_size
    if config.kind == "encoder_decoder":
        # An encoder block, and a decoder block with two attention layers.
        return config.num_layers * (3 * attention + 2 * feed_forward)
    return config.num_layers * (attention + feed_forward)


def training_bytes(config: Config, vocab_size: int) -> tuple[int, int]:
    """Returns lower bounds of the bytes that training needs.

    Returns:
      Bytes for weights, gradients and optimizer; bytes for the activations of one batch.
    """
    training, model = config.training, config.model
    copies = 1
    if training.lora_rank is None:
        copies += 1 + _OPTIMIZER_SLOTS[training.optimizer] + (training.accumulate_steps > 1)
    if training.devices != "auto":
        copies *= training.devices
    # Each block keeps its input and the inner layer for the backward pass.
    bytes_per_number = 4 if training.precision == "float32" else 2
    bytes_per_token = bytes_per_number * model.num_layers * (model.embed_dim + model.ff_size)
    if training.r_drop:
        # The logits, their log-softmax and their gradients.
        bytes_per_token += 3 * 4 * vocab_size
    batch_bytes = training.batch_size * config.sequence_length * bytes_per_token
    return 4 * copies * matrix_weights(model, vocab_size), batch_bytes


def machine_bytes() -> int:
    """Returns the number of bytes of memory that this process can use at most."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    soft_limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft_limit != resource.RLIM_INFINITY:
        limits.append(soft_limit)
    if _CGROUP_LIMIT.is_file() and (text := _CGROUP_LIMIT.read_text().strip()).isdecimal():
        limits.append(int(text))
    return min(limits)


def check_model_fits(config: TransformerConfig, vocab_size: int) -> None:
    """Raises a `UserError` if the weights alone exceed the memory of this machine.

    The file of a model may come from anybody.
    """
    size = 4 * matrix_weights(config, vocab_size)
    if size > (available := machine_bytes()):
        raise UserError(
            f"model.embed_dim = {config.embed_dim}, num_layers = {config.num_layers}: the weights need "
            f"{_gigabytes(size)}; this machine has {_gigabytes(available)}"
        )


def needed_to_train(config: Config, vocab_size: int) -> str:
    """Returns a message with the estimate and the settings to lower."""
    state_bytes, batch_bytes = training_bytes(config, vocab_size)
    training, model = config.training, config.model
    to_lower = f"model.embed_dim = {model.embed_dim} or model.num_layers = {model.num_layers}"
    if batch_bytes > state_bytes:
        to_lower = f"training.batch_size = {training.batch_size} or training.sequence_length"
    return (
        f"model.embed_dim = {model.embed_dim}, num_layers = {model.num_layers}, vocabulary of "
        f"{vocab_size:,}: weights, gradients and optimizer need at least {_gigabytes(state_bytes)}, a "
        f"batch {_gigabytes(batch_bytes)}; this machine has {_gigabytes(machine_bytes())}; lower {to_lower}"
    )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
