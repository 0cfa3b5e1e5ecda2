"""The loop: cached decoding against a naive one, stopping, rows of different lengths."""

import numpy as np
import pytest
import tensorflow as tf

from minigpt.generation import Decoder
from tests.models.test_gpt import KINDS, VOCAB_SIZE, small_gpt

END = 1


def continuation(decoder, prompts, new=6, temperature=1.0, top_k=0, top_p=1.0, seeds=None):
    """Lists of ids in, lists of ids out."""
    lengths = [len(prompt) for prompt in prompts]
    padded = np.full((len(prompts), max(lengths, default=0)), 7, "int32")
    for row, prompt in zip(padded, prompts, strict=True):
        row[: len(prompt)] = prompt
    ids, counts = decoder.continuation(
        tf.constant(padded),
        tf.constant(lengths, tf.int32),
        tf.constant(new),
        tf.constant(temperature),
        tf.constant(top_k),
        tf.constant(top_p),
        tf.constant(seeds or [0] * len(prompts), tf.int32),
    )
    return [row[:count].tolist() for row, count in zip(ids.numpy(), counts.numpy(), strict=True)]


def naive_greedy(model, prompt, new, undrawable=()):
    """A whole pass over the newest max_len tokens for every token."""
    ids = list(prompt) or [END]
    for _ in range(new):
        logits = model(np.array([ids[-model.max_len :]], "int32")).numpy()[0, -1]
        logits[list(undrawable)] = -np.inf
        if logits.argmax() == END:
            break
        ids.append(int(logits.argmax()))
    return ids[len(prompt) or 1 :]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_greedy_equals_a_naive_loop_even_past_the_context(kind):
    model = small_gpt(seed=3, **kind)
    prompts = [[3, 4, 5], [6], [], [2, 9, 4, 11, 12, 2, 3, 8, 5, 10, 4]]
    # Once with the end token drawable, once without, so that all rows go far past the context.
    for undrawable in ([0], [0, END]):
        decoder = Decoder(model, END, undrawable)
        expected = [naive_greedy(model, prompt, 20, undrawable) for prompt in prompts]
        assert continuation(decoder, prompts, 20, top_k=1) == expected
        assert continuation(decoder, prompts, 20, temperature=0.0) == expected
    assert [len(ids) for ids in expected] == [20] * 4


def test_each_row_is_what_it_would_be_alone():
    decoder = Decoder(small_gpt(), END, [0])
    prompts = [[3, 4, 5], [6], [], [2, 9, 4, 11, 12, 2, 3, 8, 5, 10, 4], [6]]
    together = continuation(decoder, prompts, 12, seeds=[5, 6, 7, 8, 6])
    alone = [
        continuation(decoder, [prompt], 12, seeds=[seed])[0]
        for prompt, seed in zip(prompts, [5, 6, 7, 8, 6], strict=True)
    ]
    assert together == alone
    assert together[1] == together[4]


def test_stops_at_the_end_token():
    model = small_gpt(tie_embeddings=False)
    bias = model.head.bias
    bias.assign(tf.one_hot(END, VOCAB_SIZE) * 100)
    assert continuation(Decoder(model, END), [[3], [4, 5]]) == [[], []]


def test_undrawable_tokens_never_come():
    model = small_gpt(tie_embeddings=False)
    model.head.bias.assign(
        tf.one_hot([0, 4], VOCAB_SIZE, on_value=100.0)[0] + tf.one_hot(4, VOCAB_SIZE) * 90
    )
    assert 0 in continuation(Decoder(model, END), [[3]])[0]
    assert set(continuation(Decoder(model, END, [0]), [[3]])[0]) == {4}


@pytest.mark.parametrize("new", [0, -5])
def test_nothing_to_add(new):
    assert continuation(Decoder(small_gpt(), END), [[3], []], new) == [[], []]


def test_no_rows():
    assert continuation(Decoder(small_gpt(), END), []) == []


def test_settings_and_lengths_trace_nothing_anew():
    decoder = Decoder(small_gpt(), END)
    continuation(decoder, [[3]])
    before = decoder.continuation.experimental_get_tracing_count()
    continuation(decoder, [[3, 4], [5, 6]], 9, 0.5, 3, 0.9, [1, 2])
    assert decoder.continuation.experimental_get_tracing_count() == before == 1


def test_follows_the_weights():
    model = small_gpt()
    decoder = Decoder(model, END)
    continuation(decoder, [[3]], top_k=1)
    model.set_weights(small_gpt(seed=9).get_weights())
    assert continuation(decoder, [[3]], 20, top_k=1) == [naive_greedy(model, [3], 20)]
