"""Where the loss is high, against sums over single tokens."""

import math

import numpy as np
import pytest

from minigpt.corpus.batches import eval_windows
from minigpt.evaluation.breakdown import PASSAGE_TOKENS, PASSAGES, LossBreakdown, _from_a_word
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.chat_format import answers

TEXT = "Ana sat on the hill and ate figs. Béla did not. " * 60
MAX_LEN = 128


@pytest.fixture(scope="module")
def tokenizer():
    return CharacterTokenizer.learn([TEXT], vocab_size=64, lowercase=False)


@pytest.fixture(scope="module")
def scored(tokenizer):
    """Held-out ids, a loss for each target, how often tokens are in training, and their breakdown."""
    ids = np.concatenate([[tokenizer.end_id], tokenizer.encode(TEXT)]).astype(np.uint16)
    losses = np.random.default_rng(0).gamma(2.0, 1.0, len(ids) - 1).astype(np.float32)
    counts = np.random.default_rng(1).integers(0, 2000, tokenizer.vocab_size)
    counts[:5] = 0
    breakdown, done = LossBreakdown(tokenizer, counts), 0
    for inputs, targets, weights in eval_windows(ids, MAX_LEN, 4):
        count = int(weights.sum())
        of_batch = np.full(targets.size, 99.0, np.float32)  # Padding, which has no weight.
        of_batch[:count] = losses[done : done + count]
        breakdown.add(inputs, targets, weights, of_batch.reshape(targets.shape))
        done += count
    return ids, losses, counts, breakdown.results()


def test_positions(scored):
    _, losses, _, found = scored
    groups = found["positions"]
    assert [(group["from"], group["to"]) for group in groups] == [
        (0, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64), (64, 128),
    ]  # fmt: skip
    for group in groups:
        inside = [
            loss
            for at, loss in enumerate(losses.tolist())
            if group["from"] <= at % MAX_LEN < group["to"]
        ]
        assert group["tokens"] == len(inside)
        assert group["loss"] == pytest.approx(sum(inside) / len(inside), abs=1e-3)
    assert sum(group["tokens"] for group in groups) == len(losses)


def test_frequencies(scored):
    ids, losses, counts, found = scored
    expected: dict[int, list[float]] = {}
    for token, loss in zip(ids[1:].tolist(), losses.tolist(), strict=True):
        count = int(counts[token])
        expected.setdefault(10 ** int(math.log10(count)) if count else 0, []).append(loss)
    groups = found["frequencies"]
    assert [group["from"] for group in groups] == sorted(expected)
    for group in groups:
        inside = expected[group["from"]]
        assert group["to"] == (10 * group["from"] or 1)
        assert group["tokens"] == len(inside)
        assert group["loss"] == pytest.approx(sum(inside) / len(inside), abs=1e-3)


def test_passages_are_the_extremes_of_all_windows_in_second_halves(scored, tokenizer):
    ids, losses, _, found = scored
    begins = range(MAX_LEN - PASSAGE_TOKENS, len(losses) - PASSAGE_TOKENS + 1, MAX_LEN)
    windows = sorted((float(losses[at : at + PASSAGE_TOKENS].mean()), at) for at in begins)
    assert len(windows) > 2 * PASSAGES
    expected = {"easiest": windows[:PASSAGES], "hardest": windows[::-1][:PASSAGES]}
    for kind, passages in found["passages"].items():
        for passage, (_, at) in zip(passages, expected[kind], strict=True):
            pieces = [piece for piece, _ in passage.tokens]
            whole = tokenizer.decode(ids[at + 1 : at + 1 + PASSAGE_TOKENS])
            assert whole.endswith("".join(pieces))
            shown = losses[at + PASSAGE_TOKENS - len(pieces) : at + PASSAGE_TOKENS]
            assert [loss for _, loss in passage.tokens] == pytest.approx(shown.tolist(), abs=1e-3)
            assert passage.loss == pytest.approx(shown.mean(), abs=1e-3)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["ox", " sat", " on", "."], " sat on."),
        (["o", "x", "\n", "On", " a", " hill", "."], "On a hill."),
        (["ox", ".", "<end>", "On", " a", " hill"], "<end>On a hill"),
        (["一", "二", "三", "四", " ", "五"], "一二三四 五"),
        (["ox"], "ox"),
    ],
)
def test_passages_begin_at_a_word(tokens, expected):
    shown = _from_a_word([(token, 1.0) for token in tokens])
    assert "".join(token for token, _ in shown) == expected


def test_pairs_of_sentences(tokenizer):
    """Whole targets with their sources; short ones are left out, and padding does not count."""
    sentences = [("Ana sat", "Béla did not"), ("figs", "no"), ("the hill", "on the hill")]
    targets = [np.append(tokenizer.encode(target), tokenizer.end_id) for _, target in sentences]
    sources = [np.append(tokenizer.encode(source), tokenizer.end_id) for source, _ in sentences]

    def padded(rows):
        length = max(map(len, rows))
        return np.stack([np.pad(row, (0, length - len(row))) for row in rows]).astype(np.int32)

    weights = padded([np.ones_like(target) for target in targets]).astype(np.float32)
    losses = np.arange(weights.size, dtype=np.float32).reshape(weights.shape)
    inputs = (padded(sources), np.array([len(source) for source in sources]), padded(targets))
    breakdown = LossBreakdown(tokenizer, np.ones(tokenizer.vocab_size, np.int64))
    breakdown.add(inputs, padded(targets), weights, losses)
    found = breakdown.results()
    hardest = found["passages"]["hardest"]
    assert [passage.source for passage in hardest] == ["the hill", "Ana sat"]
    assert [piece for piece, _ in hardest[0].tokens] == [*"on the hill", "<end>"]
    assert hardest[0].loss == pytest.approx(losses[2, : len(targets[2])].mean(), abs=1e-3)
    assert found["positions"][0] == {"from": 0, "to": 1, "tokens": 3, "loss": losses[:, 0].mean()}
    assert sum(group["tokens"] for group in found["frequencies"]) == weights.sum()


def test_a_line_for_each_turn_before_an_answer(tokenizer):
    """Two dialogues in a row of a batch; the second one has two answers."""
    dialogues = [["Ana sat", "on the hill"], ["Ana?", "Béla did not", "Is it so", "Ana sat so"]]
    chat = tokenizer.with_chat()
    roles = ["user", "assistant"] * 2
    messages = [
        [{"role": r, "content": c} for r, c in zip(roles, turns, strict=False)]
        for turns in dialogues
    ]
    ids = chat.encode_dialogues(messages)
    starts = np.repeat([0, len(ids[0])], [len(each) for each in ids])[None, :-1].astype(np.int32)
    row = np.concatenate(ids)[None].astype(np.int32)
    weights = np.zeros(row.shape, np.float32)
    for begin, end in zip(*answers(row[0], chat.chat), strict=True):
        weights[0, begin:end] = 1
    losses = np.linspace(1, 2, row.size - 1, dtype=np.float32)[None]
    breakdown = LossBreakdown(chat, np.ones(chat.vocab_size, np.int64))
    breakdown.add((row[:, :-1], starts), row[:, 1:], weights[:, 1:], losses)
    hardest = breakdown.results()["passages"]["hardest"]
    assert [passage.source for passage in hardest] == [
        "Ana?\nBéla did not\nIs it so",
        "Ana?",
        "Ana sat",
    ]
