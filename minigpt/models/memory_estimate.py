"""How much memory a model needs at least, before any of it is taken."""

import os
import resource
from pathlib import Path

from minigpt.config import Config, TransformerConfig
from minigpt.errors import UserError

_CGROUP = Path("/sys/fs/cgroup/memory.max")
# Arrays of a weight's size that an optimizer keeps.
_SLOTS = {"adam": 2, "adamw": 2, "muon": 1, "sgd": 1}


def matrix_weights(config: TransformerConfig, vocab_size: int) -> int:
    """Numbers in a model's tables and matrices: all of its weights but gains and biases."""
    tables = vocab_size * (1 if config.tie_embeddings else 2)
    if config.position == "learned":
        tables += config.max_len
    return tables * config.embed_dim + block_weights(config)


def block_weights(config: TransformerConfig) -> int:
    """Numbers in the matrices of all blocks."""
    sizes = config.resolved()
    assert sizes.head_dim and sizes.value_dim and sizes.ff_dim  # Resolved.
    width = sizes.embed_dim
    attention = 2 * width * sizes.num_heads * (sizes.head_dim + sizes.value_dim)
    feed_forward = 2 * width * sizes.ff_dim
    # A block that encodes, and one that decodes and looks at the source too.
    pair = 3 * attention + 2 * feed_forward
    block = pair if sizes.kind == "encoder_decoder" else attention + feed_forward
    return sizes.num_layers * block


def training_bytes(config: Config, vocab_size: int) -> tuple[int, int]:
    """What a training needs at least: for weights, gradients and optimizer; for one batch."""
    training, sizes = config.training, config.model.resolved()
    assert sizes.ff_dim  # Resolved.
    copies = 1
    if training.lora_rank is None:
        copies += 1 + _SLOTS[training.optimizer] + (training.accumulate_steps > 1)
    tokens = training.batch_size * config.sequence_length
    # Kept for the way back of every block: what goes in, and the inner layer.
    number = 4 if training.precision == "float32" else 2
    kept = number * sizes.num_layers * (sizes.embed_dim + sizes.ff_dim)
    return 4 * copies * matrix_weights(config.model, vocab_size), tokens * kept


def machine_bytes() -> int:
    """The memory that this process can have at most."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    if _CGROUP.is_file() and (text := _CGROUP.read_text().strip()).isdecimal():
        limits.append(int(text))
    return min(limits)


def check_model_fits(config: TransformerConfig, vocab_size: int) -> None:
    """Raises a `UserError` for a model whose weights alone this machine cannot hold."""
    weights = matrix_weights(config, vocab_size)
    if 4 * weights > (there := machine_bytes()):
        raise UserError(
            f"{_sizes(config, vocab_size)}: {weights:,} weights need {_gigabytes(4 * weights)}; this "
            f"machine has {_gigabytes(there)}"
        )


def check_training_fits(config: Config, vocab_size: int) -> None:
    """Raises a `UserError` for a training that needs more than this machine has."""
    if sum(training_bytes(config, vocab_size)) > machine_bytes():
        raise UserError(needed_to_train(config, vocab_size))


def needed_to_train(config: Config, vocab_size: int) -> str:
    """The estimate in words, and which setting to lower."""
    state, batch = training_bytes(config, vocab_size)
    training, model = config.training, config.model
    lower = (
        f"training.batch_size = {training.batch_size} or model.max_len = {model.max_len}"
        if batch > state
        else f"model.embed_dim = {model.embed_dim} or model.num_layers = {model.num_layers}"
    )
    return (
        f"{_sizes(model, vocab_size)}: {matrix_weights(model, vocab_size):,} weights with gradients and "
        f"optimizer need at least {_gigabytes(state)}, a batch of {training.batch_size} x "
        f"{config.sequence_length} tokens {_gigabytes(batch)}; this machine has "
        f"{_gigabytes(machine_bytes())}; lower {lower}"
    )


def _sizes(config: TransformerConfig, vocab_size: int) -> str:
    sizes = config.resolved()
    return (
        f"model.embed_dim = {sizes.embed_dim}, ff_dim = {sizes.ff_dim}, num_layers = "
        f"{sizes.num_layers}, vocabulary of {vocab_size:,}"
    )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
