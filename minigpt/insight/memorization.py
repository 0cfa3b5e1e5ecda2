"""The memorization meter: how much of what a model writes is copied from its training text."""

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import minigpt
from minigpt.config import Config, SamplingConfig
from minigpt.config.sampling import DISTRIBUTION
from minigpt.corpus.token_store import Corpus
from minigpt.errors import ArgumentProblem, UserError, as_integer
from minigpt.insight.verbatim import TokenBytes, find_copies
from minigpt.runs.analysis import MeasuredSample, Memorization
from minigpt.runs.checkpoints import newest_checkpoint
from minigpt.runs.layout import run_error
from minigpt.runs.run import Run, as_run, open_run_corpus
from minigpt.targets.open_model import why_tensorflow

_PROMPT_TOKENS = 16
# A sample ends at the end of the context: beyond it, every token takes as long as the whole context. But in
# fewer than the least tokens there is no passage to find.
_LEAST_TOKENS, _MOST_TOKENS = 64, 200
# With fewer documents, held-out text is taken from everywhere and not from their beginnings.
_FEW_DOCUMENTS = 32
_SETTINGS = {setting.name for setting in DISTRIBUTION} | {"banned_tokens"}
# The fractional parts of its multiples are evenly spread, however many there are.
_GOLDEN_RATIO = (5**0.5 - 1) / 2


class Draw:
    """A text after a prompt or other tokens, in the bytes of its tokens.

    Attributes:
      data: uint8[N], the bytes of what is before, and of the text.
      begin: where the text begins in `data`.
      last_bytes: int64[T], the last byte of each token of the text; end tokens are left out.
      prompt, text: the prompt and its continuation; "" for held-out text.
    """

    def __init__(
        self,
        token_bytes: TokenBytes,
        prompt_ids: np.ndarray,
        ids: np.ndarray,
        prompt: str = "",
        text: str = "",
    ) -> None:
        tokenizer = token_bytes.tokenizer
        self.prompt, self.text = prompt, text
        self.begin = len(token_bytes.join(prompt_ids))
        self.data = token_bytes.join(np.concatenate([prompt_ids, ids]).astype(np.int64))
        ends = self.begin + token_bytes.ends(ids)
        # A separator follows the last word of a passage.
        ends = ends[np.asarray(ids) != tokenizer.end_id]
        self.last_bytes = ends - len(tokenizer.separator) - 1


def draw_samples(
    model: Any, token_bytes: TokenBytes, held_out: np.ndarray, sampling: SamplingConfig, tokens: int
) -> Iterator[tuple[Draw, Draw]]:
    """Draws samples until there are enough tokens, and takes held-out text of the same length.

    Of four samples, two continue the beginning of a held-out text, one continues a prompt of the run, and
    one has no prompt. Sample n has the seed n. Temperature, filters, penalty and bans are those of the run;
    there are no stop strings. If sampling is greedy, every prompt is continued once. There may
    be fewer tokens if the model ends its texts early.

    Yields:
      a sample and a held-out text.
    """
    tokenizer = token_bytes.tokenizer
    prompt_tokens = min(_PROMPT_TOKENS, model.max_len // 2)
    length = min(max(model.max_len - prompt_tokens, _LEAST_TOKENS), _MOST_TOKENS)
    places = _places(held_out, tokenizer.end_id, prompt_tokens + length)
    settings = sampling.model_dump(include=_SETTINGS)
    run_prompts, seen = sampling.prompts or [""], set()
    # A model that ends its texts at once would never reach the number of tokens.
    for number in range(4 * (tokens // length + 4)):
        place = places[int(number * _GOLDEN_RATIO % 1 * len(places))]
        prompt = ("", run_prompts[number // 4 % len(run_prompts)])[number % 4 // 2]
        if number % 2:
            beginning = held_out[place : place + prompt_tokens]
            ends = np.flatnonzero(beginning == tokenizer.end_id)
            prompt = tokenizer.decode(beginning[: ends[0]] if len(ends) else beginning)
        if tokens <= 0 or (sampling.temperature == 0 and prompt in seen):
            continue
        seen.add(prompt)
        limit = min(tokens, length)
        (sample,) = model.samples(prompt, limit, seed=number, **settings)
        tokens -= len(sample.tokens)
        prompt_ids, ids = tokenizer.encode(prompt), np.array(sample.tokens, np.int64)
        begin = place + len(prompt_ids)
        before, after = held_out[place:begin], held_out[begin : begin + len(ids)]
        yield (
            Draw(token_bytes, prompt_ids, ids, prompt, sample.text),
            Draw(token_bytes, before, after),
        )


def _places(held_out: np.ndarray, end_id: int, tokens: int) -> np.ndarray:
    """Returns where texts of `tokens` tokens can begin, int64[P]: at documents, if there are enough."""
    # The last end token begins no document.
    places = np.flatnonzero(held_out[:-1] == end_id) + 1
    if len(places) < _FEW_DOCUMENTS:
        places = np.arange(1, len(held_out), max(1, min(tokens, len(held_out) // _FEW_DOCUMENTS)))
    complete = places[places + tokens <= len(held_out)]
    return complete if len(complete) else places[:1]


def open_state(run: Run, state: str) -> tuple[Any, int | None, int | None]:
    """Opens the "best" model of a run by validation loss, or the "last", of the newest checkpoint.

    Returns:
      The model, and the epoch and the step of its state; None if they are not known.
    Raises:
      UserError: the run has no such model, or it cannot be read.
    """
    # Importing the library that writes the file takes as long as a small model needs for a sample.
    from minigpt.targets.gguf.run_file import best_facts, write_checkpoint_file

    settings = run.config.sampling.model_dump(include=_SETTINGS)
    if state == "best":
        facts = best_facts(run)
        return minigpt.open_model(run, **settings), facts["epoch"], facts["step"]
    if (checkpoint := newest_checkpoint(run.checkpoints_folder)) is None:
        raise run_error(run.path, "has no checkpoint; its last state is unknown")
    place = checkpoint.progress.epoch, checkpoint.progress.step
    if why_tensorflow(run, settings):
        model: Any = minigpt.load(run)
        model.model.set_weights(run.load_model(checkpoint).get_weights())
        return model, *place
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.gguf"
        write_checkpoint_file(run, file, checkpoint)
        return minigpt.load_portable(file), *place


def measure_memorization(
    run: Run | str | Path,
    state: str = "best",
    *,
    tokens: int = 12_800,
    corpus: Corpus | None = None,
) -> Memorization:
    """Measures how much of a model's samples is copied verbatim from its training text.

    The result depends only on the run and the arguments.

    Args:
      run: a run, or its directory.
      state: "best" for the best model by validation loss, "last" for the newest checkpoint.
      corpus: the text of the run, if it is open.
    Raises:
      UserError: the run has no such model, was imported or trained on pairs or dialogues, or its text has
        changed since training.
      TypeError, ValueError: `tokens` is not a positive integer.
    """
    run = as_run(run)
    if state not in ("best", "last"):
        raise UserError(ArgumentProblem("state", state, "should be best or last"))
    tokens = as_integer("tokens", tokens, 1)
    if not is_measurable(run.config):
        problem = f"was trained on {run.config.data.source}; memorization is measured for texts"
        raise run_error(run.path, problem)
    corpus = corpus or open_run_corpus(run)
    token_bytes = TokenBytes(corpus.tokenizer)
    held_out, sampling = np.asarray(corpus.val.ids), run.config.sampling
    model, epoch, step = open_state(run, state)
    with warnings.catch_warnings():
        # The texts are the run's own: nothing can be done about their characters.
        warnings.filterwarnings("ignore", ".* unknown to the tokenizer and are read as")
        draws = list(draw_samples(model, token_bytes, held_out, sampling, tokens))
    samples, others = [sample for sample, _ in draws], [other for _, other in draws]
    texts = [draw.data for draw in samples + others]
    copied = find_copies(token_bytes.blocks(corpus.train.ids), texts)
    return Memorization(
        state=state,
        epoch=epoch,
        step=step,
        tokens=sum(len(sample.last_bytes) for sample in samples),
        words=sum(len(sample.data[sample.begin :].tobytes().split()) for sample in samples),
        share=_share(samples, copied[: len(samples)]),
        held_out_share=_share(others, copied[len(samples) :]),
        samples=[
            MeasuredSample(sample.prompt, sample.text, _copied(sample, token_bytes, inside))
            for sample, inside in zip(samples, copied, strict=False)
        ],
    )


def is_measurable(config: Config) -> bool:
    """Returns whether the memorization of a run is measured: samples of dialogues would need questions."""
    return config.data.source not in ("pairs", "dialogues")


def _share(draws: Sequence[Draw], copied: Sequence[np.ndarray]) -> float:
    """Returns the share of tokens that end inside copied passages; 0 if there are no tokens."""
    ends = [inside[draw.last_bytes] for draw, inside in zip(draws, copied, strict=True)]
    return sum(int(each.sum()) for each in ends) / max(1, sum(map(len, ends)))


def _copied(draw: Draw, token_bytes: TokenBytes, inside: np.ndarray) -> list[tuple[int, int]]:
    """Returns the copied passages of the draw's text, (begin, end) in code points."""
    separator = len(token_bytes.tokenizer.separator)
    prompt = len(token_bytes.decode(draw.data)) - separator - len(draw.text)
    edges = np.flatnonzero(np.diff(inside[draw.begin :], prepend=False, append=False))
    at = [max(0, len(token_bytes.decode(draw.data[: draw.begin + e])) - prompt) for e in edges]
    return list(zip(at[::2], at[1::2], strict=True))
