"""Decoding: cached steps against a naive loop, end tokens, rows of different lengths.

XLA compiles the loops again for each number of rows, of banned tokens, and capacity, which takes seconds.
So tests share a decoder, and decode PROMPTS by 12 tokens.
"""

import numpy as np
import pytest
import tensorflow as tf

from minigpt.generation import step_models
from minigpt.generation.decoding import Decoder
from minigpt.generation.decoding_loop import new_ids
from minigpt.generation.sampling import SamplingSettings
from minigpt.generation.step_models import CachedGPT
from tests.generation.naive import END, naive_drawn, naive_greedy, naive_penalized
from tests.models.test_gpt import KINDS, VOCAB_SIZE, small_gpt

PROMPTS = [[3, 4, 5], [6], [], [2, 9, 4, 11, 12, 2, 3, 8, 5, 10, 4]]
NO_TOKEN = -1


def arguments(prompts, new=6, seeds=None, banned=(), all_bans=True, **settings):
    """The arguments of `Decoder.generate`, from lists of ids.

    `all_bans`: always as many banned tokens, most of which do not exist.
    """
    lengths = [len(prompt) for prompt in prompts]
    padded = np.full((len(prompts), max(lengths, default=0)), 7, "int32")
    for row, prompt in zip(padded, prompts, strict=True):
        row[: len(prompt)] = prompt
    if all_bans:
        banned = [*banned, *[NO_TOKEN] * (VOCAB_SIZE - len(banned))]
    return (
        tf.constant(padded),
        tf.constant(lengths, tf.int32),
        tf.constant(new),
        SamplingSettings(**settings).as_tensors(),
        tf.constant(seeds or [0] * len(prompts), tf.int32),
        tf.constant(banned, tf.int32),
    )


def rows(ids, counts):
    return [row[:count].tolist() for row, count in zip(ids.numpy(), counts.numpy(), strict=True)]


def continuation(decoder, prompts, new=6, **settings):
    """Lists of ids in, lists of ids out."""
    return rows(*decoder.generate(*arguments(prompts, new, **settings)))


# Its head has a bias, which some tests change.
SHARED_KIND = {"block": "pre_norm", "position": "sinusoidal", "tie_embeddings": False}


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    """Shared by most tests."""
    return Decoder(small_gpt(seed=3, **SHARED_KIND), END, [0])


@pytest.fixture(scope="module")
def model(decoder):
    return decoder.model.model


def without_xla(model, never_sampled=()) -> Decoder:
    """A decoder that takes any shape without being compiled again."""
    steps = CachedGPT(model)
    steps.jit_compile = False
    return Decoder(steps, END, never_sampled)


@pytest.fixture(scope="module")
def plain_decoder(model) -> Decoder:
    return without_xla(model, [0])


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] * (kind != SHARED_KIND)) for kind in KINDS],
    ids=lambda kind: "-".join(map(str, kind.values())),
)
def test_greedy_equals_a_naive_loop_even_past_the_context(kind, decoder):
    """With XLA for one kind."""
    if kind != SHARED_KIND:
        decoder = without_xla(small_gpt(seed=3, **kind), [0])
    # With and without the end token; without it, all rows extend far past the context.
    for banned in ([], [END]):
        expected = [
            naive_greedy(decoder.model.model, prompt, 12, [0, *banned]) for prompt in PROMPTS
        ]
        assert continuation(decoder, PROMPTS, 12, top_k=1, banned=banned) == expected
    assert [len(ids) for ids in expected] == [12] * 4


@pytest.mark.parametrize("top_k", [0, 10])
def test_drawn_tokens_are_those_of_a_naive_loop_even_past_the_context(top_k, decoder, model):
    seeds = [5, 6, 7, 8]
    how = {"top_k": top_k, "temperature": 0.7}
    expected = [
        naive_drawn(model, prompt, 12, seed, **how, never_sampled=[0, END])
        for prompt, seed in zip(PROMPTS, seeds, strict=True)
    ]
    assert continuation(decoder, PROMPTS, 12, seeds=seeds, banned=[END], **how) == expected
    assert expected != [naive_greedy(model, prompt, 12, [0, END]) for prompt in PROMPTS]


@pytest.mark.parametrize(
    "kind",
    [{"block": "modern", "tie_embeddings": True}, {"block": "pre_norm", "tie_embeddings": False}],
    ids=["tied", "with bias"],
)
def test_a_large_head_gives_the_same(monkeypatch, kind):
    """A large head is multiplied in another way, on all cores."""
    monkeypatch.setattr("minigpt.generation.step_models.LARGE_HEAD_BYTES", 0)
    model, ids = small_gpt(seed=3, **kind), tf.constant([PROMPTS[3][:8]])
    steps, is_banned = CachedGPT(model, jit_compile=False), np.arange(VOCAB_SIZE) == 5
    logits, _ = steps.step(ids, tf.constant([8]), steps.prefill(ids, 8), is_banned)
    expected = np.where(is_banned, -np.inf, model(ids)[:, -1])
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize("longest", [0, 256], ids=["without caches", "with caches"])
def test_both_ways_to_read_a_window_score_the_newest_token(monkeypatch, model, longest):
    monkeypatch.setattr("minigpt.generation.step_models.LONG_WINDOW", longest)
    steps, ids = CachedGPT(model, jit_compile=False), tf.range(3, 3 + model.max_len + 2)[None] % 9
    logits, _ = steps.step_past_context(ids, tf.shape(ids)[1:], (), np.zeros(VOCAB_SIZE, bool))
    expected = model(ids[:, -model.max_len :])[:, -1]
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_nothing_to_add_and_no_rows(plain_decoder):
    for new in (0, -5):
        assert continuation(plain_decoder, [[3], []], new) == [[], []]
    assert continuation(plain_decoder, []) == []


def test_settings_and_lengths_do_not_retrace(plain_decoder):
    decoder = plain_decoder
    continuation(decoder, [[3]], all_bans=False)
    before = decoder.generate.experimental_get_tracing_count()
    how = {"temperature": 0.5, "top_k": 3, "top_p": 0.9, "seeds": [1, 2], "banned": [4]}
    continuation(decoder, [[3, 4], [5, 6]], 9, all_bans=False, **how)
    assert decoder.generate.experimental_get_tracing_count() == before == 1


def test_the_current_weights_are_used(decoder, model):
    before, other = model.get_weights(), small_gpt(seed=9, **SHARED_KIND)
    first = continuation(decoder, PROMPTS, 12, top_k=1)
    try:
        model.set_weights(other.get_weights())
        found = continuation(decoder, PROMPTS, 12, top_k=1)
    finally:
        model.set_weights(before)
    assert found == [naive_greedy(other, prompt, 12, [0]) for prompt in PROMPTS] != first


def generated(state):
    return rows(new_ids(state), state.new_lengths)


def test_the_tokens_do_not_depend_on_the_number_of_calls(decoder):
    how = arguments(PROMPTS, 13, [1, 2, 3, 4])
    whole = rows(*decoder.generate(*how))
    for strides in ([1] * 13, [5, 0, 40]):
        state = decoder.prefill(*how[:3])
        for stride in strides:
            state = decoder.extend(state, stride, *how[3:])
        assert generated(state) == whole
        assert int(state.step) <= 13
    assert decoder.extend.experimental_get_tracing_count() == 1
    ids = new_ids(state).numpy().tolist()
    expected = [row.index(END) if END in row else len(row) for row in ids]
    assert state.new_lengths.numpy().tolist() == expected
    assert len(set(expected)) > 1


def test_repetition_is_penalized_in_prompt_and_continuation(decoder, model):
    expected = [naive_penalized(model, prompt, 12, 3.0) for prompt in PROMPTS]
    how = {"temperature": 0.0, "banned": [END]}
    found = continuation(decoder, PROMPTS, 12, repetition_penalty=3.0, **how)
    assert found == expected
    assert found != continuation(decoder, PROMPTS, 12, **how)


def test_caches_have_the_length_that_is_asked_for(monkeypatch, model, plain_decoder):
    """Of a long context, a part: with it the same tokens, also where the capacity grows and ends."""
    max_len, whole = model.max_len, plain_decoder
    shared = CachedGPT(model)
    shared.max_len = 40_960
    found = [int(shared.capacity(n)) for n in (1, 256, 257, 4000, 32_769, 40_960, 40_961)]
    assert found == [256, 256, 512, 4096, 40_960, 40_960, 81_920]
    # A row needs memory for its capacity.
    assert shared.row_bytes(300) < 2.1 * shared.row_bytes(200)
    assert shared.row_bytes(40_960) > 50 * shared.row_bytes(200)

    prefilled = whole.prefill(*arguments(PROMPTS, 1)[:3])
    assert {cache.shape[2] for cache in tf.nest.flatten(prefilled.caches)} == {max_len}
    expected = {new: continuation(whole, PROMPTS, new, seeds=[1, 2, 3, 4]) for new in (1, 20)}
    monkeypatch.setattr(step_models, "MIN_CAPACITY", 3)
    short = without_xla(model, [0])
    for new, right in expected.items():
        state = short.prefill(*arguments(PROMPTS[:1], new)[:3])
        lengths = {cache.shape[2] for cache in tf.nest.flatten(state.caches)}
        assert lengths == {min(int(short.model.capacity(3 + new)), max_len)}
        assert continuation(short, PROMPTS, new, seeds=[1, 2, 3, 4]) == right
    assert int(short.model.capacity(4)) == 6 < max_len
