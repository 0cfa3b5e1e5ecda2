"""Where a model's loss is high: by position, by frequency of the token, and in which passages."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from minigpt.runs.analysis import Group, Passage
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.vocabulary import ContinuationText

# Passages of each kind, and their tokens. A pair of sentences with fewer target tokens is left out: most of
# the shortest ones would be among the easiest or the hardest.
PASSAGES, PASSAGE_TOKENS, MIN_TARGET_TOKENS = 4, 64, 5


class _Passage:
    """Token ids int32[n], their losses float32[n] in nats, and the ids of the source of a pair."""

    def __init__(
        self, tokens: np.ndarray, losses: np.ndarray, source: np.ndarray | None = None
    ) -> None:
        # Copies, because the batch is not kept.
        self.tokens, self.losses = tokens.copy(), losses.copy()
        self.source = None if source is None else source.copy()
        self.loss = float(losses.mean())


class LossBreakdown:
    """Sums the losses of held-out tokens by position, by frequency and by passage.

    Args:
      tokenizer: decodes the passages.
      token_counts: int64[V], how often each token is a target in the training text.
    """

    def __init__(self, tokenizer: Tokenizer, token_counts: np.ndarray) -> None:
        self._tokenizer = tokenizer
        # 0 for tokens that the training text does not contain, then one group for every power of ten.
        digits = np.floor(np.log10(np.maximum(token_counts, 1))).astype(np.int64)
        self._groups = np.where(token_counts > 0, digits + 1, 0)
        size = int(self._groups.max()) + 1
        self._by_group = np.zeros((2, size))
        self._by_position = np.zeros((2, 0))
        self._hardest: list[_Passage] = []
        self._easiest: list[_Passage] = []

    def add(
        self, inputs: Any, targets: np.ndarray, weights: np.ndarray, losses: np.ndarray
    ) -> None:
        """Adds a batch.

        Args:
          inputs: of a language model int32[B, T]; of one that learns dialogues (ids int32[B, T], starts
            int32[B, T]); of a translation model (source_ids int32[B, S], source_lengths int32[B],
            target_ids int32[B, T]).
          targets: int32[B, T].
          weights: float32[B, T], 1 for tokens that count and 0 for padding.
          losses: float32[B, T], nats.
        """
        if isinstance(inputs, tuple) and len(inputs) == 2:
            # Where each token is in its dialogue.
            places = (np.arange(targets.shape[1]) - inputs[1]).ravel()
            of_each = (losses * weights).ravel(), weights.ravel()
            sums = np.stack([np.bincount(places, values) for values in of_each])
        else:
            sums = np.stack([(losses * weights).sum(0, np.float64), weights.sum(0, np.float64)])
        missing = sums.shape[1] - self._by_position.shape[1]
        if missing > 0:
            self._by_position = np.pad(self._by_position, ((0, 0), (0, missing)))
        self._by_position[:, : sums.shape[1]] += sums
        groups = self._groups[targets].ravel()
        size = self._by_group.shape[1]
        self._by_group[0] += np.bincount(groups, (losses * weights).ravel(), size)
        self._by_group[1] += np.bincount(groups, weights.ravel(), size)
        number = 1 if isinstance(inputs, np.ndarray) else len(inputs)
        passages = {1: _windows, 2: _answers, 3: _sentences}[number]
        found = list(passages(inputs, targets, weights, losses))
        self._hardest = sorted([*self._hardest, *found], key=lambda each: -each.loss)[:PASSAGES]
        self._easiest = sorted([*self._easiest, *found], key=lambda each: each.loss)[:PASSAGES]

    def results(self) -> dict[str, Any]:
        """Returns `positions`, `frequencies` and `passages` of `runs.analysis.Analysis`."""
        return {
            "positions": _position_groups(self._by_position),
            "frequencies": [
                {"from": 10 ** (group - 1) if group else 0, "to": 10**group} | _mean(total, tokens)
                for group, (total, tokens) in enumerate(self._by_group.T)
                if tokens
            ],
            "passages": {
                "hardest": [self._described(passage) for passage in self._hardest],
                "easiest": [self._described(passage) for passage in self._easiest],
            },
        }

    def _described(self, passage: _Passage) -> Passage:
        texts = ContinuationText(self._tokenizer, [])
        end_id = self._tokenizer.end_id
        tokens = [
            ("<end>" if token == end_id else texts.push([token]), round(float(loss), 4))
            for token, loss in zip(passage.tokens.tolist(), passage.losses, strict=True)
        ]
        if (ids := passage.source) is not None:
            # A line for each turn of a dialogue: the tokens between them have no text.
            pieces = self._tokenizer.pieces
            turns = np.split(ids, [n for n, token in enumerate(ids) if not pieces[token]])
            texts_of_turns = filter(None, map(self._tokenizer.decode, turns))
            return Passage(round(passage.loss, 4), tokens, "\n".join(texts_of_turns))
        # It was cut anywhere.
        tokens = _from_a_word(tokens)
        return Passage(round(float(np.mean([loss for _, loss in tokens])), 4), tokens)


def _from_a_word(tokens: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Returns a passage from its first word; all of it if none begins in its first half."""
    before = ""
    for at, (token, _) in enumerate(tokens[: (len(tokens) + 1) // 2]):
        follows = token[:1].isspace() or before[-1:].isspace() or before == "<end>"
        if token == "<end>" or (follows and token.strip()):
            return tokens[at:]
        before = token
    return tokens


def _mean(total: float, tokens: float) -> Group:
    return {"tokens": round(tokens), "loss": round(total / tokens, 4)}


def _position_groups(sums: np.ndarray) -> list[Group]:
    """Groups positions 0, 1, 2–3, 4–7, and so on: the loss changes most at the beginning."""
    groups: list[Group] = []
    begin = 0
    while begin < sums.shape[1]:
        end = min(max(1, 2 * begin), sums.shape[1])
        total, tokens = sums[:, begin:end].sum(1)
        if tokens:
            groups.append({"from": begin, "to": end} | _mean(total, tokens))
        begin = end
    return groups


def _windows(
    inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray, losses: np.ndarray
) -> Iterator[_Passage]:
    """Yields the candidates of a batch: windows of adjacent tokens in the second half of the context.

    In the first half, a window could be hard only because the model sees little text before it.
    """
    length = targets.shape[1]
    size = min(PASSAGE_TOKENS, max(1, length // 2))
    begins = range(length - size * max(1, (length // 2) // size), length, size)
    for begin in begins:
        columns = slice(begin, begin + size)
        rows = np.flatnonzero(weights[:, columns].all(axis=1))
        # Most batches have many windows, and copying takes time.
        order = rows[np.argsort(losses[rows, columns].mean(axis=1))].tolist()
        for row in {*order[:PASSAGES], *order[-PASSAGES:]}:
            yield _Passage(targets[row, columns], losses[row, columns])


def _answers(
    inputs: Any, targets: np.ndarray, weights: np.ndarray, losses: np.ndarray
) -> Iterator[_Passage]:
    """Yields the candidates of a batch of dialogues: answers, with what precedes them."""
    ids, starts = inputs
    edges = np.diff(np.pad(weights, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, begins = np.nonzero(edges > 0)
    ends = np.nonzero(edges < 0)[1]
    for row, begin, end in zip(rows, begins, ends, strict=True):
        if end - begin >= MIN_TARGET_TOKENS:
            source = ids[row, starts[row, begin] : begin + 1]
            yield _Passage(targets[row, begin:end], losses[row, begin:end], source)


def _sentences(
    inputs: Any, targets: np.ndarray, weights: np.ndarray, losses: np.ndarray
) -> Iterator[_Passage]:
    """Yields the candidates of a batch of pairs: whole targets."""
    source_ids, source_lengths, _ = inputs
    lengths = weights.sum(axis=1).astype(np.int64)
    for row in np.flatnonzero(lengths >= MIN_TARGET_TOKENS):
        length, source = lengths[row], source_ids[row, : source_lengths[row] - 1]
        yield _Passage(targets[row, :length], losses[row, :length], source)
