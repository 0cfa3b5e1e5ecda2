"""The naive loop that decoders are compared with: a full pass over the newest tokens for every token."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from minigpt.models import GPT

END = 1


@functools.lru_cache(maxsize=4)
def forward(model: GPT) -> Callable[[np.ndarray], tf.Tensor]:
    """The model in a graph, without XLA and without padding: an eager pass takes ten times longer."""
    return tf.function(
        lambda ids: model(ids, training=False),
        input_signature=[tf.TensorSpec([1, None], tf.int32)],
        autograph=False,
    )


def newest_logits(model: GPT, ids: Sequence[int], banned: Sequence[int] = ()) -> np.ndarray:
    """float64[V]: the logits after the newest max_len tokens, -inf for banned tokens."""
    window = np.array([ids[-model.max_len :]], "int32")
    logits = forward(model)(window).numpy()[0, -1].astype("float64")
    logits[list(banned)] = -np.inf
    return logits


def naive(prompt: Sequence[int], new: int, choose: Callable[[list[int], int], int]) -> list[int]:
    """Adds the tokens that `choose(ids, step)` returns, until the end token."""
    ids = list(prompt) or [END]
    for step in range(new):
        chosen = choose(ids, step)
        if chosen == END:
            break
        ids.append(chosen)
    return ids[len(prompt) or 1 :]


def naive_greedy(model, prompt, new, never_sampled=()):
    def choose(ids, step):
        return int(newest_logits(model, ids, never_sampled).argmax())

    return naive(prompt, new, choose)


def naive_drawn(model, prompt, new, seed, top_k, temperature, never_sampled):
    """Sampling by inverse transform, with TensorFlow's own random numbers, without XLA."""

    def choose(ids, step):
        logits = newest_logits(model, ids, never_sampled)
        likeliest = np.argsort(-logits, kind="stable")[: top_k or None]
        shares = np.exp((logits[likeliest] - logits.max()) / temperature)
        noise = tf.random.stateless_uniform([], [seed, step], alg="philox").numpy()
        return int(likeliest[np.searchsorted(np.cumsum(shares), noise * shares.sum(), "right")])

    return naive(prompt, new, choose)


def naive_penalized(model, prompt, new, penalty):
    """Greedy decoding with Keskar's penalty, by a full pass for every token."""

    def choose(ids, step):
        logits = newest_logits(model, ids)
        for token in set(ids[0 if prompt else 1 :]):
            logits[token] = (
                logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
            )
        logits[[0, END]] = -np.inf
        return int(logits.argmax())

    return naive(prompt, new, choose)
