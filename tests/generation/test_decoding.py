"""Decoding: cached steps against a naive loop, end tokens, rows of different lengths."""

import numpy as np
import pytest
import tensorflow as tf

from minigpt.generation import Decoder, SamplingSettings
from minigpt.generation.loop import new_ids
from tests.models.test_gpt import KINDS, VOCAB_SIZE, small_gpt

END = 1


def arguments(prompts, new=6, seeds=None, banned=(), **settings):
    """The arguments of `Decoder.generate`, from lists of ids."""
    lengths = [len(prompt) for prompt in prompts]
    padded = np.full((len(prompts), max(lengths, default=0)), 7, "int32")
    for row, prompt in zip(padded, prompts, strict=True):
        row[: len(prompt)] = prompt
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


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    """Shared by most tests: tracing and compiling take seconds."""
    return Decoder(small_gpt(), END, [0])


def naive_greedy(model, prompt, new, undrawable=()):
    """Greedy decoding with a full pass over the newest max_len tokens for every token."""
    ids = list(prompt) or [END]
    for _ in range(new):
        logits = model(np.array([ids[-model.max_len :]], "int32")).numpy()[0, -1]
        logits[list(undrawable)] = -np.inf
        if logits.argmax() == END:
            break
        ids.append(int(logits.argmax()))
    return ids[len(prompt) or 1 :]


# XLA compiles each length past the context separately; the slow tests run all kinds.
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] if number % 3 else [])
        for number, kind in enumerate(KINDS)
    ],
    ids=lambda kind: "-".join(map(str, kind.values())),
)
def test_greedy_equals_a_naive_loop_even_past_the_context(kind):
    model = small_gpt(seed=3, **kind)
    prompts = [[3, 4, 5], [6], [], [2, 9, 4, 11, 12, 2, 3, 8, 5, 10, 4]]
    # With and without the end token; without it, all rows extend far past the context.
    for undrawable in ([0], [0, END]):
        decoder = Decoder(model, END, undrawable)
        expected = [naive_greedy(model, prompt, 12, undrawable) for prompt in prompts]
        assert continuation(decoder, prompts, 12, top_k=1) == expected
        assert continuation(decoder, prompts, 12, temperature=0.0) == expected
    assert [len(ids) for ids in expected] == [12] * 4


def naive_drawn(model, prompt, new, seed, top_k, temperature, undrawable):
    """Sampling by inverse transform, with TensorFlow's own random numbers, without XLA."""
    ids = list(prompt) or [END]
    for step in range(new):
        logits = model(np.array([ids[-model.max_len :]], "int32")).numpy()[0, -1].astype("float64")
        logits[list(undrawable)] = -np.inf
        likeliest = np.argsort(-logits, kind="stable")[: top_k or None]
        shares = np.exp((logits[likeliest] - logits.max()) / temperature)
        noise = tf.random.stateless_uniform([], [seed, step], alg="philox").numpy()
        place = np.searchsorted(np.cumsum(shares), noise * shares.sum(), side="right")
        ids.append(int(likeliest[place]))
    return ids[len(prompt) or 1 :]


@pytest.mark.parametrize("top_k", [0, 10])
def test_drawn_tokens_are_those_of_a_naive_loop_even_past_the_context(top_k):
    model = small_gpt(seed=3)
    prompts, seeds = [[3, 4, 5], [6], [], [2, 9, 4, 11, 12, 2, 3, 8, 5, 10, 4]], [5, 6, 7, 8]
    how = {"top_k": top_k, "temperature": 0.7}
    expected = [
        naive_drawn(model, prompt, 12, seed, **how, undrawable=[0, END])
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]
    decoder = Decoder(model, END, [0, END])
    assert continuation(decoder, prompts, 12, seeds=seeds, **how) == expected
    assert expected != [naive_greedy(model, prompt, 12, [0, END]) for prompt in prompts]


@pytest.mark.parametrize("tied", [False, True])
def test_a_large_head_gives_the_same(monkeypatch, tied):
    """A large head is multiplied in another way, on all cores."""
    monkeypatch.setattr("minigpt.generation.step_models.LARGE_BYTES", 0)
    model, prompts = small_gpt(seed=3, tie_embeddings=tied), [[3, 4, 5], [6]]
    expected = [naive_greedy(model, prompt, 3, [0, END]) for prompt in prompts]
    assert continuation(Decoder(model, END, [0, END]), prompts, 3, top_k=1) == expected
    # Ban the tokens that were generated.
    banned = sorted({token for row in expected for token in row})
    others = [naive_greedy(model, prompt, 3, [*banned, END]) for prompt in prompts]
    assert others != expected
    assert continuation(Decoder(model, END, [END]), prompts, 3, top_k=1, banned=banned) == others


def test_a_row_does_not_depend_on_its_batch(decoder):
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


def test_undrawable_tokens_are_never_generated():
    model = small_gpt(tie_embeddings=False)
    model.head.bias.assign(
        tf.one_hot([0, 4], VOCAB_SIZE, on_value=100.0)[0] + tf.one_hot(4, VOCAB_SIZE) * 90
    )
    assert 0 in continuation(Decoder(model, END), [[3]])[0]
    assert set(continuation(Decoder(model, END, [0]), [[3]])[0]) == {4}


@pytest.mark.parametrize("new", [0, -5])
def test_nothing_to_add(new, decoder):
    assert continuation(decoder, [[3], []], new) == [[], []]


def test_no_rows(decoder):
    assert continuation(decoder, []) == []


def test_settings_and_lengths_do_not_retrace(decoder):
    continuation(decoder, [[3]])
    before = decoder.generate.experimental_get_tracing_count()
    continuation(
        decoder, [[3, 4], [5, 6]], 9, temperature=0.5, top_k=3, top_p=0.9, seeds=[1, 2], banned=[4]
    )
    assert decoder.generate.experimental_get_tracing_count() == before == 1


def test_the_current_weights_are_used():
    model = small_gpt()
    decoder = Decoder(model, END)
    continuation(decoder, [[3]], top_k=1)
    model.set_weights(small_gpt(seed=9).get_weights())
    assert continuation(decoder, [[3]], 20, top_k=1) == [naive_greedy(model, [3], 20)]


def generated(state):
    return rows(new_ids(state), state.new_lengths)


def test_the_tokens_do_not_depend_on_the_number_of_calls(decoder):
    how = arguments([[3, 4, 5], [6], [], list(range(2, 12))], 13, [1, 2, 3, 4])
    whole = rows(*decoder.generate(*how))
    for strides in ([1] * 13, [5, 5, 5], [0, 40]):
        state = decoder.prefill(*how[:3])
        for stride in strides:
            state = decoder.extend(state, stride, *how[3:])
        assert generated(state) == whole
        assert int(state.step) <= 13
    assert decoder.extend.experimental_get_tracing_count() == 1


def test_lengths_end_before_the_first_end_token(decoder):
    how = arguments([[3, 4, 5], [6], [], [7], [8]], 30, [1, 2, 3, 4, 5])
    state = decoder.extend(decoder.prefill(*how[:3]), 30, *how[3:])
    ids = new_ids(state).numpy().tolist()
    expected = [row.index(END) if END in row else len(row) for row in ids]
    assert state.new_lengths.numpy().tolist() == expected
    assert len(set(expected)) > 1


def test_extend_in_context_does_the_same_as_extend(decoder):
    how = arguments([[3, 4, 5], [6], []], 5, [1, 2, 3])
    before = decoder.prefill(*how[:3])
    extended = [
        generated(extend(before, 5, *how[3:]))
        for extend in (decoder.extend, decoder.extend_in_context)
    ]
    assert extended[0] == extended[1]


def penalized(model, prompt, new, penalty):
    """Greedy decoding with Keskar's penalty, by a full pass for every token."""
    ids = list(prompt) or [END]
    start = len(ids)
    for _ in range(new):
        logits = model(np.array([ids[-model.max_len :]], "int32")).numpy()[0, -1]
        for token in set(ids[0 if prompt else 1 :]):
            logits[token] = (
                logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
            )
        logits[[0, END]] = -np.inf
        ids.append(int(logits.argmax()))
    return ids[start:]


def test_repetition_is_penalized_in_prompt_and_continuation():
    model = small_gpt(seed=5)
    decoder = Decoder(model, END, [0, END])
    prompts = [[3, 4, 5], [], [2, 9, 4, 11, 12, 2, 3, 8, 5, 10, 4]]
    expected = [penalized(model, prompt, 12, 3.0) for prompt in prompts]
    found = continuation(decoder, prompts, 12, temperature=0.0, repetition_penalty=3.0)
    assert found == expected
    assert found != continuation(decoder, prompts, 12, temperature=0.0)


def test_banned_tokens_are_never_generated(decoder):
    free = continuation(decoder, [[3], [4]], 30, seeds=[1, 2])
    banned = [END, free[0][0], free[1][0]]
    held = continuation(decoder, [[3], [4]], 30, seeds=[1, 2], banned=banned)
    assert [len(ids) for ids in held] == [30, 30]
    assert not set(banned) & {token for ids in held for token in ids}
    assert continuation(decoder, [[3]], 5, banned=list(range(VOCAB_SIZE))) == [[]]


def log_probabilities(model, ids, banned):
    logits = model(np.array([ids[-model.max_len :]], "int32")).numpy()[0, -1].astype("float64")
    logits[list(banned)] = -np.inf
    return logits - np.log(np.exp(logits).sum())


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_beam_search_finds_the_most_probable_two_tokens(length_penalty):
    model = small_gpt(seed=3)
    decoder = Decoder(model, END, [0])
    prompts = [[3, 4, 5], [], [2, 9, 4, 11, 12, 2, 3, 8, 5, 10, 4]]
    ids, lengths, *_ = arguments(prompts)
    # With as many beams as tokens, no partial continuation is dropped.
    found = decoder.beam_search(ids, lengths, 2, VOCAB_SIZE, length_penalty, 1.0, [5])
    for prompt, of_row, row_lengths in zip(prompts, *(x.numpy() for x in found), strict=True):
        prompt = prompt or [END]
        first = log_probabilities(model, prompt, [0, 5])
        scores = {(): first[END]}
        for token in set(range(VOCAB_SIZE)) - {0, 5, END}:
            second = log_probabilities(model, [*prompt, token], [0, 5])
            scores[(token,)] = (first[token] + second[END]) / 2**length_penalty
            for other in set(range(VOCAB_SIZE)) - {0, 5, END}:
                scores[(token, other)] = (first[token] + second[other]) / 2**length_penalty
        expected = sorted(scores, key=scores.get, reverse=True)[:5]
        assert rows(*map(tf.constant, (of_row, row_lengths)))[:5] == [list(e) for e in expected]


def test_beam_search_past_the_context():
    model = small_gpt(seed=3)
    decoder = Decoder(model, END, [0, END])
    ids, lengths, *_ = arguments([[3, 4]])
    ids, lengths = decoder.beam_search(ids, lengths, 12, 3, 1.0, 1.0, [])
    assert lengths.numpy().tolist() == [[12] * 3]

    # The best of three is likelier than what greedy finds.
    def likelihood(new):
        whole = [3, 4, *new]
        return sum(log_probabilities(model, whole[: 2 + i], [0, END])[t] for i, t in enumerate(new))

    best = likelihood(ids.numpy()[0, 0].tolist())
    assert best >= likelihood(naive_greedy(model, [3, 4], 12, [0, END]))
