"""transformers_js: a folder for `pipeline("text-generation", folder)` of `@huggingface/transformers`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from minigpt.environment import hide_tensorflow_log
from minigpt.models import GPT
from minigpt.models.layers.attention import CausalSelfAttention, attend
from minigpt.models.layers.positions import POSITIONS
from minigpt.targets.huggingface.folders import as_json, described_files
from minigpt.targets.model_documents import SETTINGS_FILE, documents
from minigpt.targets.onnx.graphs import converted, rename, store_weights
from minigpt.targets.opened_model import in_float32
from minigpt.targets.targets import ExportSource, WeightsType

# transformers.js creates the empty cache from the names of its axes.
BATCH, NEW, PAST, ALL = (
    "batch_size",
    "sequence_length",
    "past_sequence_length",
    "total_sequence_length",
)


def write_transformers_js(
    source: ExportSource, folder: Path, weights: WeightsType, dtype: str, model_file: str
) -> None:
    """Writes the model, the settings and the tokenizer; see docs/onnx.md.

    Args:
      source: the run.
      folder: an empty folder.
      weights: how matrices are stored. They are read as float32.
      dtype, model_file: what transformers.js calls that, and its file.
    Raises:
      OSError: a file cannot be written.
    """
    import onnx

    assert isinstance(source.model, GPT)
    files = described_files(source.model, source.tokenizer, source.run.config.sampling)
    settings_file = documents(source, weights)[SETTINGS_FILE]
    # Otherwise the dtype would have to be named in browsers, where the default is another one.
    config = json.loads(files["config.json"]) | {"transformers.js_config": {"dtype": dtype}}
    settings = json.loads(files["tokenizer_config.json"])
    # Several prompts at once need a token for padding. The attention mask hides it.
    settings.setdefault("pad_token", settings["eos_token"])
    files |= {"config.json": as_json(config), "tokenizer_config.json": as_json(settings)}
    with hide_tensorflow_log():
        graph = build_graph(in_float32(source.model), source.tokenizer.end_id)
        graph = store_weights(graph, weights)
    onnx.helper.set_model_props(graph, {"minigpt": settings_file.decode()})
    onnx.checker.check_model(graph)
    (folder / "onnx").mkdir()
    onnx.save(graph, folder / "onnx" / model_file)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8", newline="")


def build_graph(model: GPT, end_id: int) -> Any:
    """Builds the graph of a GPT whose cache grows with the text; B, T and P are any numbers.

    Inputs: `input_ids` int64[B, T], the new tokens; `attention_mask` int64[B, P + T], 0 for padding, which
    is on the left; and for each block i `past_key_values.i.key` and `.value`, float32[B, G, P, K], the
    keys and values of the P tokens before. Outputs: `logits` float32[B, T, V]; `present.i.key` and
    `.value`, float32[B, G, P + T, K].

    After `max_len` tokens, a text can only end: transformers.js does not know `max_len`.

    Args:
      model: a GPT that computes in float32.
      end_id: the id of the end token.
    Returns:
      A `ModelProto`.
    """
    from onnx import TensorProto, helper

    parts = [f"{i}.{part}" for i in range(len(model.blocks)) for part in ("key", "value")]
    # TensorFlow has no dots in names.
    plain = [part.replace(".", "_") for part in parts]
    renamed = [(f"past_{a}", f"past_key_values.{b}") for a, b in zip(plain, parts, strict=True)]
    renamed += [(f"present_{a}", f"present.{b}") for a, b in zip(plain, parts, strict=True)]

    def step(input_ids: Any, attention_mask: Any, *past: Any) -> dict[str, Any]:
        logits, present = _step(model, end_id, input_ids, attention_mask, past)
        return {"logits": logits} | {f"present_{a}": x for a, x in zip(plain, present, strict=True)}

    heads = [[cache.shape[1], cache.shape[3]] for cache in tf.nest.flatten(model.empty_caches(1))]
    inputs = [tf.TensorSpec([None, None], tf.int64, n) for n in ("input_ids", "attention_mask")]
    for name, (number, width) in zip(plain, heads, strict=True):
        inputs += [tf.TensorSpec([None, number, None, width], tf.float32, f"past_{name}")]
    graph = converted(step, inputs)
    rename(graph.graph, dict(renamed))
    shapes: dict[str, tuple[int, list[Any]]] = {
        "input_ids": (TensorProto.INT64, [BATCH, NEW]),
        "attention_mask": (TensorProto.INT64, [BATCH, ALL]),
        "logits": (TensorProto.FLOAT, [BATCH, NEW, model.vocab_size]),
    }
    for part, (number, width) in zip(parts, heads, strict=True):
        for name, length in ((f"past_key_values.{part}", PAST), (f"present.{part}", ALL)):
            shapes[name] = (TensorProto.FLOAT, [BATCH, number, length, width])
    for each in (*graph.graph.input, *graph.graph.output):
        each.CopyFrom(helper.make_tensor_value_info(each.name, *shapes[each.name]))
    return graph


def _step(
    model: GPT, end_id: int, token_ids: Any, mask: Any, past: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Computes what `model(token_ids)` computes, with left padding and caches that grow."""
    before = tf.shape(past[0])[2]
    real = mask > 0
    # Padding has no position; the first token after it has position 0.
    positions = tf.maximum(tf.cumsum(tf.cast(real, tf.int32), axis=1) - 1, 0)[:, before:]
    new, slots = tf.range(before, tf.shape(mask)[1])[:, None], tf.range(tf.shape(mask)[1])
    # Padding attends to itself: the softmax over an empty set is NaN, which would spread.
    visible = ((slots <= new) & real[:, None, None, :]) | (slots == new)

    x = model.embedding.token_embedding(token_ids)
    table = POSITIONS[model.config.position].table(model.embedding)
    if table is not None:
        x = x + tf.gather(table, tf.minimum(positions, model.max_len - 1))
    present: list[Any] = []
    for i, block in enumerate(model.blocks):
        attention: CausalSelfAttention = block.attention
        query, key, value = attention.project_input(block.sublayer_input(x, block.norm1), positions)
        key = tf.concat([past[2 * i], key], axis=2)
        value = tf.concat([past[2 * i + 1], value], axis=2)
        present += [key, value]
        attended = attend(query, key, value, visible, attention.dropout)
        x = block.residual(x, attention.project_output(attended), block.norm1)
        output = block.feed_forward(block.sublayer_input(x, block.norm2))
        x = block.residual(x, output, block.norm2)
    if model.final_norm is not None:
        x = model.final_norm(x)
    end = tf.where(tf.range(model.vocab_size) == end_id, 0.0, -1e9)
    return tf.where(positions[:, :, None] < model.max_len, model.logits(x), end), present
