"""The memorization meter: how much of what a model writes is copied from its training text."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.corpus.sources import open_source
from minigpt.corpus.store_files import Corpus
from minigpt.corpus.text_files import TextFiles
from minigpt.errors import ArgumentProblem, UserError, as_integer
from minigpt.insight.draws import Draw, draw_samples, draw_translations
from minigpt.insight.state_model import State, as_state, open_state
from minigpt.insight.token_bytes import TokenBytes, TokenText
from minigpt.insight.verbatim import find_copies
from minigpt.runs.corpus import open_run_corpus
from minigpt.runs.run import Run, as_run


@dataclass(frozen=True)
class Passage:
    """A passage of a sample that is in the training text.

    Attributes:
      text: the passage.
      words, characters: its length.
      document: the number of its document in the training text, from 0.
      line: its line in the document, from 1; None if the tokenizer does not keep line breaks.
      description: where it is, in words.
    """

    text: str
    words: int
    characters: int
    document: int
    line: int | None
    description: str


@dataclass(frozen=True)
class MeasuredSample:
    """A sample.

    Attributes:
      prompt: the prompt; the source of a translation.
      text: what the model added.
      copied: the parts of `text` that are in verbatim passages, (begin, end) in code points.
    """

    prompt: str
    text: str
    copied: list[tuple[int, int]]


@dataclass(frozen=True)
class Memorization:
    """How much of a model's samples is copied from its training text.

    A passage counts if at least 8 words and 50 characters of it occur in one document of the training
    text, with exactly the same characters; see `analysis.verbatim`.

    Attributes:
      state: "best" or "last".
      epoch, step: after which the model is in this state; None if unknown.
      tokens, words: the size of the samples.
      share: the share of their tokens that are in such passages.
      held_out_share: the same for as much held-out text: what is common language, no memory.
      longest: the longest passage; None if there is none.
      samples: the samples.
    """

    state: State
    epoch: int | None
    step: int | None
    tokens: int
    words: int
    share: float
    held_out_share: float
    longest: Passage | None
    samples: list[MeasuredSample]

    def as_dict(self) -> dict[str, Any]:
        """Returns the attributes as JSON types."""
        return asdict(self)


def measure_memorization(
    run: Run | str | Path,
    state: str = "best",
    *,
    tokens: int = 12_800,
    corpus: Corpus | None = None,
    weights: Sequence[np.ndarray] | None = None,
) -> Memorization:
    """Measures how much of a model's samples is copied verbatim from its training text.

    The result depends only on the run and the arguments. Of a run on pairs, translations of held-out
    sources are compared with the training targets, and beside them the held-out references. Most sentences
    have less than 8 words, so that their share is 0.

    Args:
      run: a run, or its directory.
      state: "best" for the best model by validation loss, "last" for the newest checkpoint.
      tokens: the number of tokens to draw.
      corpus: the text of the run, if it is open.
      weights: the values of `model.weights` in this state, without LoRA, if they are at hand.
    Raises:
      UserError: the run has no such model, was imported, or its text has changed since training.
      TypeError, ValueError: `tokens` is not a positive integer.
    """
    run = as_run(run)
    state = as_state(state)
    tokens = as_integer("tokens", tokens, 1)
    corpus = corpus or _corpus(run)
    token_bytes = TokenBytes(corpus.tokenizer)
    is_pairs = run.config.data.source == "pairs"
    held_out = np.asarray(corpus.val.ids)
    with open_state(run, state, weights) as (model, epoch, step), warnings.catch_warnings():
        # The texts are the run's own: nothing can be done about their characters.
        warnings.filterwarnings("ignore", ".* unknown to the tokenizer and are read as")
        if is_pairs:
            draws = list(draw_translations(model, token_bytes, held_out, tokens))
        else:
            sampling = run.config.sampling
            draws = list(draw_samples(model, token_bytes, held_out, sampling, tokens))
    samples, others = [sample for sample, _ in draws], [other for _, other in draws]
    training = TokenText(corpus.train.ids, token_bytes, targets_only=is_pairs)
    texts = [draw.as_text(is_ranked=True) for draw in samples]
    texts += [draw.as_text(is_ranked=False) for draw in others]
    copies = find_copies(training, texts, token_bytes)
    spans = copies.spans[: len(samples)]
    longest = None
    if copies.longest is not None:
        number, begin, end = copies.longest
        data = samples[number].data[begin:end]
        longest = _passage(run, training, token_bytes, data, copies.offset)
    return Memorization(
        state=state,
        epoch=epoch,
        step=step,
        tokens=sum(len(sample.last_bytes) for sample in samples),
        words=sum(len(sample.data[sample.begin :].tobytes().split()) for sample in samples),
        share=_share(samples, spans),
        held_out_share=_share(others, copies.spans[len(samples) :]),
        longest=longest,
        samples=[
            MeasuredSample(sample.prompt, sample.text, _copied(sample, token_bytes, found))
            for sample, found in zip(samples, spans, strict=True)
        ],
    )


def _corpus(run: Run) -> Corpus:
    if not run.corpus_file.is_file():
        raise UserError(
            ArgumentProblem("run", run.path, "was imported; its training text is unknown")
        )
    corpus = open_run_corpus(run)
    if corpus is None:
        raise UserError(
            ArgumentProblem(
                "run",
                run.path,
                f"its text (data.source = {run.config.data.source!r}) has changed since training; "
                "what is copied from it cannot be found",
            )
        )
    return corpus


def _share(draws: Sequence[Draw], spans: Sequence[list[tuple[int, int]]]) -> float:
    """Returns the share of tokens inside spans; 0 if there are no tokens."""
    inside = sum(draw.inside(found) for draw, found in zip(draws, spans, strict=True))
    return inside / max(1, sum(len(draw.last_bytes) for draw in draws))


def _passage(
    run: Run, training: TokenText, token_bytes: TokenBytes, data: np.ndarray, offset: int
) -> Passage:
    """Describes a passage, the bytes `data` of the training text from `offset` on."""
    document, characters, lines = training.place(offset)
    keeps_lines = not token_bytes.tokenizer.separator
    text = token_bytes.decode(data.tobytes())
    place = f"document {document + 1:,} of the training text, at character {characters + 1:,}"
    return Passage(
        text=text,
        words=len(data.tobytes().split()),
        characters=int(token_bytes.is_character(data).sum()),
        document=document,
        line=lines + 1 if keeps_lines else None,
        description=place + _file(run, text),
    )


def _file(run: Run, text: str) -> str:
    """Returns the name of the first file of the user that contains a text, and the line."""
    source = open_source(run.config.data)
    try:
        found = source.find(text.encode()) if isinstance(source, TextFiles) else None
    except UserError:
        return ""  # It has been removed since. The token ids are in the cache.
    return f" ({found[0].name}, line {found[1]:,})" if found else ""


def _copied(
    draw: Draw, token_bytes: TokenBytes, spans: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Returns spans of bytes as spans of code points of the draw's text."""
    separator = len(token_bytes.tokenizer.separator)
    prompt = len(token_bytes.decode(draw.data.tobytes())) - separator - len(draw.text)

    def position(byte: int) -> int:
        return max(0, len(token_bytes.decode(draw.data[:byte].tobytes())) - prompt)

    return [(position(begin), position(end)) for begin, end in spans]
