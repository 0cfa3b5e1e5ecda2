"""Trains GPT-2s of our default's sizes on the stories: keras-hub's layers, and transformers in PyTorch.

Both use AdamW, and a cosine to a tenth of the highest rate that ends with the time limit.
"""

from contextlib import suppress
from typing import Any

from benchmarks.measuring import Context, Outcome
from benchmarks.quality import TimedEvaluation, cosine
from benchmarks.quality_texts import held_out_stories, read_ids
from benchmarks.sizes import Sizes
from benchmarks.watching import Finished, watch

WARMUP, HIGHEST, LOWEST = 50, 3e-3, 3e-4


def pytorch(context: Context, seconds: float) -> Outcome:
    """Trains for a number of seconds from the start of the process."""
    import torch

    from benchmarks.torch_fit import fit, nats_of, parameter_groups, random_windows
    from benchmarks.torch_gpt2 import build

    train, val, facts = read_ids(context, "stories")
    sizes = Sizes(**facts["sizes"])
    torch.manual_seed(0)
    model = build(sizes).train()

    def logits(ids: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = model(ids, use_cache=False).logits
        return result

    held_out = held_out_stories(val, facts)
    evaluation = TimedEvaluation(context, held_out, nats_of(logits), ends=(seconds,))
    fit(
        model,
        logits,
        parameter_groups(model),
        random_windows(train, sizes.length, sizes.batch_size),
        evaluation,
        lambda step: cosine(step, evaluation.share, HIGHEST, LOWEST, WARMUP),
        fused=True,
    )
    return evaluation.outcome()


def keras_hub(context: Context, seconds: float) -> Outcome:
    """Trains for a number of seconds from the start of the process."""
    import keras
    import tensorflow as tf

    from benchmarks.keras_fit import nats_of
    from benchmarks.keras_hub_gpt import build

    train, val, facts = read_ids(context, "stories")
    sizes = Sizes(**facts["sizes"])
    evaluation: TimedEvaluation

    def observe(model: Any, step: int, event: str) -> None:
        nonlocal evaluation
        if event == "begin":
            held_out = held_out_stories(val, facts)
            evaluation = TimedEvaluation(context, held_out, nats_of(model), ends=(seconds,))
        else:
            evaluation.evaluate_if_due(step)
        if evaluation.is_over:
            raise Finished
        rate = cosine(step, evaluation.share, HIGHEST, LOWEST, WARMUP)
        model.optimizer.learning_rate = rate

    watch(observe)
    keras.utils.set_random_seed(0)
    ids = tf.constant(train)

    def windows(number: Any) -> tuple[Any, Any]:
        starts = tf.random.stateless_uniform(
            [sizes.batch_size, 1], [0, number], 0, len(train) - sizes.length, tf.int64
        )
        rows = tf.gather(ids, starts + tf.range(sizes.length + 1, dtype=tf.int64))
        return rows[:, :-1], rows[:, 1:]

    dataset = tf.data.Dataset.range(10**9).map(windows).prefetch(2)
    with suppress(Finished):
        build(sizes, jit=False).fit(dataset, epochs=1, verbose=0)
    return evaluation.outcome()
