"""How well a base predicts a text before training, and how well an n-gram of the text itself does.

The model is computed with NumPy: the settings that decide which devices TensorFlow uses depend on the
scores.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from minigpt.config import GPTConfig, TransformerConfig
from minigpt.corpus.dialogues import Dialogues, contents
from minigpt.corpus.documents import PIECE_BYTES
from minigpt.corpus.sources import Text
from minigpt.corpus.token_store import even_sample
from minigpt.evaluation.baselines import ngram_loss
from minigpt.generation.base_models import target_log_probabilities
from minigpt.runs.base_file import BaseFile
from minigpt.runs.run import Run
from minigpt.runs.tensors import named_tensors

# The base reads at most so many pieces of a text, of so many bytes, or more that are shorter. The n-gram is
# counted on the others.
_PIECES, _PIECE_BYTES = 16, 1000
_MOST_READ = 250_000
# The settings of the models that `_logits` computes.
_COMPUTED = {
    **{"kind": "gpt", "block": "modern", "position": "rotary", "activation": "silu", "ngrams": []},
    **{"qkv_bias": False, "head_bias": False, "scale_embeddings": False},
}


def bits_before_training(base: Run | BaseFile, text: Text) -> tuple[float, float] | None:
    """Returns the bits per byte of a base, and of a 7-gram of bytes, on pieces of a text.

    A run is read from its best checkpoint.

    The n-gram is counted on the other pieces. At most 250 KB of the text are read, spread evenly.

    Returns:
      None for a model that is not computed with NumPy, or whose tokenizer loses part of a text.
    Raises:
      UserError: the run has no checkpoint, or the tokenizer cannot be read.
    """
    model, tokenizer = base.config.model.resolved(), base.load_tokenizer()
    pieces = _pieces(text)
    if model.model_dump() | _COMPUTED != model.model_dump() or not tokenizer.lossless:
        return None
    count = min(
        _PIECES * _PIECE_BYTES * len(pieces) // max(1, sum(map(len, pieces))), len(pieces) // 4
    )
    if not count or (isinstance(base, Run) and base.config.training.lora_rank):
        return None
    if isinstance(base, BaseFile):
        tensors = base.tensors
    else:
        tensors = dict(named_tensors(model, base.best_checkpoint().weights))
    chosen = set(np.linspace(0, len(pieces) - 1, count).astype(int).tolist())
    sample = [piece for number, piece in enumerate(pieces) if number in chosen]
    rest = "".join(piece for number, piece in enumerate(pieces) if number not in chosen).encode()
    ids = [each[: model.max_len + 1] for each in tokenizer.encode_many(sample)]
    # The first token of a piece is only a context.
    sizes = np.array([len(piece) for piece in tokenizer.pieces])
    size = sum(int(sizes[each[1:]].sum()) for each in ids)
    nats = _total_loss(model, tensors, ids)
    both = np.frombuffer(rest + "".join(sample).encode(), np.uint8)
    of_counts = ngram_loss(both[: len(rest)], both[len(rest) - 1 :], 256)
    return nats / max(1, size) / math.log(2), of_counts / math.log(2)


def _pieces(text: Text) -> list[str]:
    """Returns pieces of a text, or of the messages of dialogues; not of the user's validation text."""
    assert text.documents is not None, "The documents are kept until they are tokenized."
    documents = text.documents.select(text.documents.spans[:, 0] >= text.start)
    size = max(20, min(_PIECE_BYTES, documents.bytes // 8))
    if isinstance(text.source, Dialogues):
        messages = "\n".join(contents(even_sample(documents, _MOST_READ, PIECE_BYTES)))
        return [messages[start : start + size] for start in range(0, len(messages), size)]
    return list(even_sample(documents, _MOST_READ, size))


def _total_loss(
    model: TransformerConfig, tensors: Mapping[str, np.ndarray], texts: Sequence[np.ndarray]
) -> float:
    """Returns the loss in nats of all tokens of texts, except the first of each."""
    assert isinstance(model, GPTConfig)
    total, ordered = 0.0, sorted(texts, key=len)
    # Texts of like lengths need little padding.
    for start in range(0, len(ordered), _PIECES):
        group = ordered[start : start + _PIECES]
        padded = np.zeros((len(group), len(group[-1])), np.int64)
        for row, ids in zip(padded, group, strict=True):
            row[: len(ids)] = ids
        for row, ids in zip(_logits(model, tensors, padded[:, :-1]), group, strict=True):
            total -= float(target_log_probabilities(row[: len(ids) - 1], ids[1:]).sum())
    return total


def _logits(model: GPTConfig, tensors: Mapping[str, np.ndarray], ids: np.ndarray) -> np.ndarray:
    """int[B, T] → float32[B, T, V]: the forward pass of a modern GPT (models/gpt.py)."""
    (rows, length), half = ids.shape, model.head_sizes[0] // 2
    groups = model.num_kv_heads or model.num_heads
    angles = np.arange(length)[:, None] * model.rotary_base ** (-np.arange(half) / half)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    hidden = np.where(np.tri(length, dtype=bool), np.float32(0), np.float32(-np.inf))

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        mean = np.mean(x * x, -1, keepdims=True)
        return x / np.sqrt(mean + np.float32(model.norm_epsilon)) * tensors[f"{name}.weight"]

    def product(x: np.ndarray, name: str) -> np.ndarray:
        return x @ tensors[f"{name}.weight"].T

    def convolved(x: np.ndarray, name: str) -> np.ndarray:
        total = x
        if model.convolution:
            kernel = tensors[f"{name}_conv.weight"].reshape(model.convolution, -1)
            padded = np.pad(x, [(0, 0), (len(kernel) - 1, 0), (0, 0)])
            for k, weights in enumerate(kernel):
                start = len(kernel) - 1 - k
                total = total + weights * padded[:, start : start + length]
        return total

    def heads(x: np.ndarray, count: int) -> np.ndarray:
        return x.reshape(rows, length, count, -1).transpose(0, 2, 1, 3)

    def rotated(x: np.ndarray) -> np.ndarray:
        first, second = x[..., :half], x[..., half:]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)

    x, first_value = tensors["token_embd.weight"][ids], None
    for layer in range(model.num_layers):
        block = f"blk.{layer}"
        inputs = convolved(norm(x, f"{block}.attn_norm"), f"{block}.attn")
        parts = [product(inputs, f"{block}.attn_{name}") for name in "qkv"]
        query, key, value = map(heads, parts, (model.num_heads, groups, groups))
        query = rotated(norm(query, f"{block}.attn_q_norm"))
        key = rotated(norm(key, f"{block}.attn_k_norm"))
        if first_value is None:
            first_value = value
        elif model.value_residual:
            value = value + tensors[f"{block}.attn_v_mix.weight"] * (first_value - value)
        key, value = (np.repeat(part, model.num_heads // groups, 1) for part in (key, value))
        scores = query @ key.swapaxes(-1, -2) / np.float32(math.sqrt(2 * half)) + hidden
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        attended = weights / weights.sum(-1, keepdims=True) @ value
        attended = attended.transpose(0, 2, 1, 3).reshape(rows, length, -1)
        x = x + product(attended, f"{block}.attn_output")
        inputs = convolved(norm(x, f"{block}.ffn_norm"), f"{block}.ffn")
        gate = product(inputs, f"{block}.ffn_gate")
        gated = gate / (1 + np.exp(-gate)) * product(inputs, f"{block}.ffn_up")
        x = x + product(gated, f"{block}.ffn_down")
    head = tensors.get("output.weight", tensors["token_embd.weight"])
    logits: np.ndarray = norm(x, "output_norm") @ head.T
    return logits
