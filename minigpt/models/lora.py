"""Low-rank adaptation: a small product of two matrices is trained beside each large one, which stays.

Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models"; the layers are Keras' own.
"""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np

from minigpt.models.gpt import GPT

# Beside Keras' own files in a checkpoint, which is a zip.
_MEMBER = "lora.npz"


def enable_lora(model: GPT, rank: int) -> None:
    """Adds factors of this rank to the blocks' four matrices; from now on nothing else is trained.

    Not to the tables: a token's vector is trained by so few steps that a low rank saves nothing, and
    the sum would have to be made anew, V x D, in every step. The second factor starts at zero: at first
    the model computes what it did.
    """
    for layer in (model.embedding, model.final_norm, model.head):
        if layer is not None:
            layer.trainable = False
    for block in model.blocks:
        block.norm1.trainable = block.norm2.trainable = False
    for _, dense in _matrices(model):
        dense.enable_lora(rank)
        if dense.bias is not None:
            dense.bias.trainable = False


def add_factors(model: keras.Model, checkpoint: Path) -> None:
    """Puts the factors, and the matrices without them, into a `.keras` file of the same model.

    Keras writes the sums alone, and zeroes both factors when it reads them: so much is enough to use a
    model, but with both at zero no gradient ever reaches them again. Nothing is done without LoRA.
    """
    kept = {
        f"{name}/{weight.name}": weight.numpy()
        for name, dense in _matrices(model)
        if dense.lora_enabled
        for weight in dense.weights
        if weight.name != "bias"
    }
    if kept:
        data = io.BytesIO()
        np.savez(data, allow_pickle=False, **kept)
        with zipfile.ZipFile(checkpoint, "a") as archive:
            # A name without a date: the same state gives the same bytes.
            archive.writestr(zipfile.ZipInfo(_MEMBER), data.getvalue())


def restore_factors(model: keras.Model, checkpoint: Path) -> None:
    """The inverse of `add_factors`, for a model of which `enable_lora` was called with the same rank.

    Raises:
      ValueError: the checkpoint is of another model, or of one without LoRA.
    """
    matrices = {name: dense for name, dense in _matrices(model) if dense.lora_enabled}
    if not matrices:
        return
    with zipfile.ZipFile(checkpoint) as archive:
        if _MEMBER not in archive.namelist():
            raise ValueError(f"{checkpoint} should hold LoRA factors. Received: none")
        kept = np.load(io.BytesIO(archive.read(_MEMBER)), allow_pickle=False)
    for name, dense in matrices.items():
        for weight in dense.weights:
            if weight.name != "bias":
                weight.assign(kept[f"{name}/{weight.name}"])


def _matrices(model: keras.Model) -> Iterator[tuple[str, keras.layers.Dense]]:
    """The four of each block."""
    if isinstance(model, GPT):
        for number, block in enumerate(model.blocks):
            yield f"{number}/qkv", block.attention.qkv
            yield f"{number}/output", block.attention.output_projection
            yield f"{number}/expand", block.expand
            yield f"{number}/contract", block.contract
