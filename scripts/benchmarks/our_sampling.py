"""Measures sampling with minigpt: `load(run).generate`, the callback, the exported model."""

import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.measuring import Context, Outcome
from benchmarks.sizes import DEFAULT, GPT2_124M, SMALL, WORDS, Sizes

MODELS = {"small": SMALL, "124m": GPT2_124M, "words": WORDS, "default": DEFAULT}
PROMPT = "Once upon a time"


def run_folder(context: Context, model: str) -> Path:
    return context.work / f"run-{model}"


def prepare(context: Context, model: str) -> Outcome:
    """Creates a run with an untrained model; sampling from it costs the same."""
    import minigpt
    from minigpt.config import Config
    from minigpt.models import build_gpt
    from minigpt.runs.run import Run

    sizes, path = MODELS[model], run_folder(context, model)
    if path.exists():
        return {"value": 0}
    if model == "default":
        tokenizer, config = _default_tokenizer(), minigpt.load_config("default")
    else:
        tokenizer, config = _words(sizes), Config.model_validate(model_settings(sizes))
    gpt = build_gpt(config.model, tokenizer.vocab_size)
    Run.create(path, config, tokenizer, None, gpt)
    return {"value": gpt.count_params()}


def _default_tokenizer() -> Any:
    import minigpt
    from minigpt.corpus.token_store import open_corpus

    config = minigpt.load_config("default")
    return open_corpus(config.data, config.tokenizer).tokenizer


def _words(sizes: Sizes) -> Any:
    """Returns a tokenizer of artificial words and the words of the prompt."""
    from benchmarks.texts import vocabulary
    from minigpt.tokenizers.word import SPECIAL_TOKENS, WordTokenizer

    words = [*PROMPT.split(), *vocabulary(sizes.vocab_size)]
    words = list(dict.fromkeys(words))[: sizes.vocab_size - SPECIAL_TOKENS]
    return WordTokenizer([word.encode() for word in words], lowercase=False)


def model_settings(sizes: Sizes) -> dict[str, Any]:
    """Returns the configuration of a GPT-2, or of the miniature GPT, with a vocabulary of words."""
    post = sizes is WORDS
    return {
        "tokenizer": {"kind": "word", "vocab_size": sizes.vocab_size},
        "model": {
            "max_len": sizes.context,
            "embed_dim": sizes.embed_dim,
            "num_heads": sizes.num_heads,
            "head_dim": sizes.head_dim,
            "ff_dim": sizes.ff_dim,
            "num_layers": sizes.num_layers,
            "block": "post_norm" if post else "pre_norm",
            "activation": "relu" if post else "gelu_tanh",
            "tie_embeddings": not post,
        },
    }


def generation(context: Context, model: str, rows: int, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second of `generate`, without the first call."""
    import minigpt

    opened: Any = minigpt.load(run_folder(context, model))
    # Without the ban, a text might end early.
    end = [opened.tokenizer.end_id]
    taken = []
    for call in range(1 + calls):
        began = time.perf_counter()
        samples = opened.samples(
            [PROMPT] * rows,
            new_tokens,
            top_k=10,
            seed=list(range(rows * call, rows * (call + 1))),
            banned_tokens=end,
        )
        taken.append(time.perf_counter() - began)
        if any(len(sample.tokens) != new_tokens for sample in samples):
            raise ValueError("a text ended early")
    return {"value": rows * new_tokens / statistics.median(taken[1:]), "first": taken[0]}


def callback(context: Context, new_tokens: int, epochs: int) -> Outcome:
    """Measures the seconds of an epoch's sample by `TextGenerator` in `model.fit` of the miniature GPT."""
    import keras
    import numpy as np

    import minigpt

    opened: Any = minigpt.load(run_folder(context, "words"))
    taken = []
    lengths = []

    class Timed(minigpt.TextGenerator):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            began = time.perf_counter()
            super().on_epoch_end(epoch, logs)
            taken.append(time.perf_counter() - began)

    writer = Timed(
        opened.tokenizer,
        [PROMPT],
        max_new_tokens=new_tokens,
        top_k=10,
        banned_tokens=[opened.tokenizer.end_id],
        show=lambda prompt, text: lengths.append(len(text.split())),
    )
    opened.model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs = np.ones((1, WORDS.length), np.int32)
    opened.model.fit(inputs, inputs, epochs=epochs, verbose=0, callbacks=[writer])
    if set(lengths) != {new_tokens}:
        raise ValueError(f"texts of {lengths} words; should be {new_tokens}")
    # The first sample includes tracing.
    return {"value": statistics.median(taken[1:]), "first": taken[0]}


def export(context: Context) -> Outcome:
    """Exports the default configuration's model as a SavedModel."""
    import minigpt
    from minigpt.targets.saved_model.modules import build_text_module

    folder = context.work / "exported"
    if not folder.exists():
        opened: Any = minigpt.load(run_folder(context, "default"))
        build_text_module(opened.model, opened.tokenizer).save(folder)
    return {"value": sum(file.stat().st_size for file in folder.rglob("*"))}


def in_process(context: Context, new_tokens: int, calls: int) -> Outcome:
    """Measures the seconds of one `generate` call with minigpt; call i uses seed i."""
    import minigpt

    opened: Any = minigpt.load(run_folder(context, "default"))
    return _timed(
        lambda seed: opened.generate(PROMPT, new_tokens, top_k=10, temperature=1.0, seed=seed)[0],
        calls,
    )


def exported(context: Context, new_tokens: int, calls: int) -> Outcome:
    """Measures the seconds of one call of the exported signature, without minigpt."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    loaded = tf.saved_model.load(str(context.work / "exported"))
    serve = loaded.signatures["serving_default"]

    def call(seed: int) -> str:
        answer = serve(
            prompt=tf.constant([PROMPT]),
            max_new_tokens=tf.constant(new_tokens),
            temperature=tf.constant(1.0),
            top_k=tf.constant(10),
            top_p=tf.constant(1.0),
            seed=tf.constant(seed),
        )
        return answer["text"].numpy()[0].decode()

    return _timed(call, calls)


def _timed(call: Any, calls: int) -> Outcome:
    taken, texts = [], []
    for seed in range(1 + calls):
        began = time.perf_counter()
        texts.append(call(seed))
        taken.append(time.perf_counter() - began)
    return {"value": statistics.median(taken[1:]), "first": taken[0], "text": "\n".join(texts)}
