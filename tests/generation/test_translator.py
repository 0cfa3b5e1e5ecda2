"""Translator: source ids to target ids."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from minigpt.generation.translator import Translator
from tests.models.test_encoder_decoder import VOCAB_SIZE, small_model

START, END = 1, 2
SOURCES = [np.array(ids, np.int32) for ids in ([3, 5, END], [4, END], [7, 8, 9, 3, 10, END])]


@pytest.fixture(scope="module")
def model():
    # Weights for which greedy translations differ in length and beam search finds better ones.
    model = small_model(tie_embeddings=False, scale_embeddings=False, activation="gelu_tanh")
    draw = np.random.default_rng(0)
    for weight in model.weights:
        gain = np.full(weight.shape, weight.name == "gamma")
        weight.assign(draw.normal(size=weight.shape) if len(weight.shape) > 1 else gain)
    return model


@pytest.fixture(scope="module")
def translator(model):
    ids = SimpleNamespace(end_id=END, never_sampled_ids=(0, START), start_id=START)
    return Translator(model, ids)


def log_probabilities(model, source, targets):
    """float64[N, T, V]: of every next token, given the start token and the targets int[N, T]."""
    targets = np.asarray(targets, np.int32)
    shifted = np.pad(targets, ((0, 0), (1, 0)), constant_values=START)[:, :-1]
    sources = np.repeat(source[None], len(shifted), axis=0)
    lengths = np.full(len(shifted), len(source), np.int32)
    logits = model((sources, lengths, shifted)).numpy().astype(np.float64)
    logits[:, :, [0, 1]] = -np.inf
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def greedy_by_full_passes(model, source, most):
    """Greedy decoding with a full pass over all previous tokens for every token."""
    target = []
    for _ in range(most):
        token = int(log_probabilities(model, source, [[*target, END]])[0, -1].argmax())
        if token == END:
            break
        target.append(token)
    return target


def test_greedy_equals_full_passes(model, translator):
    found = translator.translate_all(SOURCES, 6)
    expected = [greedy_by_full_passes(model, source, 6) for source in SOURCES]
    assert [ids.tolist() for ids in found] == expected
    assert any(expected) and len({len(ids) for ids in expected}) > 1


def test_a_sentence_does_not_depend_on_its_batch(translator):
    for beams in (1, 3):
        together = translator.translate_all(SOURCES, 6, beams)
        for source, ids in zip(SOURCES, together, strict=True):
            (alone,) = translator.translate_all([source], 6, beams)
            assert alone.tolist() == ids.tolist()


def test_enough_beams_find_the_best_of_all(model, translator):
    """Against all targets of at most 3 tokens, enumerated; longer ones are cut."""
    drawable = [token for token in range(VOCAB_SIZE) if token not in (0, 1, END)]
    all_of = np.array(list(itertools.product(drawable, repeat=3)))
    found = translator.translate_all(SOURCES, 3, 150, 1.0)
    for source, ids in zip(SOURCES, found, strict=True):
        scores = log_probabilities(model, source, all_of)
        chosen = np.take_along_axis(scores, all_of[:, :, None], axis=2)[:, :, 0].cumsum(axis=1)
        candidates = {
            tuple(target): total / 3 for target, total in zip(all_of, chosen[:, 2], strict=True)
        }
        candidates[()] = scores[0, 0, END]
        for length in (1, 2):
            totals = chosen[:, length - 1] + scores[:, length, END]
            for target, total in zip(all_of[:, :length], totals, strict=True):
                candidates[tuple(target)] = total / (length + 1)
        assert tuple(ids) == max(candidates, key=candidates.__getitem__)


def test_no_sources_and_no_tokens(translator):
    assert translator.translate_all([], 5) == []
    for beams in (1, 2):
        (found,) = translator.translate_all(SOURCES[:1], 0, beams)
        assert found.tolist() == []
