"""The memorization meter: how much of what a model writes is copied from its training text."""

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import minigpt
from minigpt.config import SamplingConfig
from minigpt.config.sampling import DISTRIBUTION
from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.sources import open_source
from minigpt.corpus.text_files import TextFiles
from minigpt.corpus.token_store import Corpus
from minigpt.environment import printable
from minigpt.errors import ArgumentProblem, UserError, as_integer
from minigpt.insight.verbatim import Text, TokenBytes, TokenText, find_copies
from minigpt.runs.analysis import CopiedPassage, MeasuredSample, Memorization
from minigpt.runs.checkpoints import newest_checkpoint
from minigpt.runs.layout import LARGE_BYTES, run_error
from minigpt.runs.run import Run, as_run, known_run_corpus
from minigpt.tokenizers import Tokenizer

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
    """A text with or without a prompt before it, in the bytes of its tokens.

    Args:
      token_bytes: the bytes of the tokens.
      prompt_ids, ids: integers[P] and [T], the tokens before the text and those of the text.
      prompt: the prompt, or the source of a translation; "" for held-out text.
      text: what follows it; "" for held-out text.
    Attributes:
      data: uint8[N], the bytes of the prompt and the text.
      begin: where the text begins in `data`.
      last_bytes: int64[T], the last byte of each token of the text; end tokens are left out.
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
    there are no stop strings and no beams. If sampling is greedy, every prompt is continued once.

    Args:
      model: a `PortableTextModel` or a `TextModel`.
      token_bytes: the bytes of its tokens.
      held_out: the held-out ids, integers[n].
      sampling: the settings of the run.
      tokens: the number of tokens to draw; there may be fewer if the model ends its texts early.
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
            prompt = _first_document(held_out[place : place + prompt_tokens], tokenizer)
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


def draw_translations(
    model: Any, token_bytes: TokenBytes, held_out: np.ndarray, tokens: int
) -> Iterator[tuple[Draw, Draw]]:
    """Translates held-out sentences greedily, until there are enough tokens.

    Args:
      model: a `PortableTranslationModel` or a `TranslationModel`.
      token_bytes: the bytes of its tokens.
      held_out: the held-out ids of sources and targets in turn, integers[n].
      tokens: the number of target tokens.
    Yields:
      a translation, whose prompt is the source, and the reference.
    """
    tokenizer = token_bytes.tokenizer
    pairs = Pairs(held_out, tokenizer.end_id, model.max_len)
    fitting, nothing = np.flatnonzero(pairs.fits), np.zeros(0, np.int64)
    seen: set[int] = set()
    for number in range(len(fitting)):
        index = int(fitting[int(number * _GOLDEN_RATIO % 1 * len(fitting))])
        if tokens <= 0 or index in seen:
            continue
        seen.add(index)
        source = tokenizer.decode(pairs.source(index))
        (translation,) = model.translate([source])
        ids, reference = tokenizer.encode(translation), pairs.target(index)
        tokens -= max(1, len(ids))
        yield (
            Draw(token_bytes, nothing, ids, source, translation),
            Draw(token_bytes, nothing, reference),
        )


def _places(held_out: np.ndarray, end_id: int, tokens: int) -> np.ndarray:
    """Returns where texts of `tokens` tokens can begin, int64[P]: at documents, if there are enough."""
    # The last end token begins no document.
    places = np.flatnonzero(held_out[:-1] == end_id) + 1
    if len(places) < _FEW_DOCUMENTS:
        places = np.arange(1, len(held_out), max(1, min(tokens, len(held_out) // _FEW_DOCUMENTS)))
    complete = places[places + tokens <= len(held_out)]
    return complete if len(complete) else places[:1]


def _first_document(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    """Returns the text of token ids before the first end token."""
    ends = np.flatnonzero(ids == tokenizer.end_id)
    return tokenizer.decode(ids[: ends[0]] if len(ends) else ids)


@contextmanager
def open_state(run: Run, state: str) -> Iterator[tuple[Any, int | None, int | None]]:
    """Opens the model of a run, for the engine if that can run it.

    Args:
      run: the run.
      state: "best" by validation loss, or "last": the newest checkpoint.
    Yields:
      The model, and the epoch and the step of its state; None if they are not known.
    Raises:
      UserError: the run has no such model, or it cannot be read.
    """
    # Importing the library that writes the file takes as long as a small model needs for a sample.
    from minigpt.targets.gguf.run_file import best_facts, write_checkpoint_file, write_run_file
    from minigpt.targets.gguf.settings import engine_problems
    from minigpt.targets.gguf.writing import portable_problem

    checkpoint = newest_checkpoint(run.checkpoints_folder) if state == "last" else None
    if state == "last" and checkpoint is None:
        raise run_error(run.path, "has no checkpoint; its last state is unknown")
    facts = checkpoint.progress.model_dump() if checkpoint else best_facts(run)
    # No text is generated with beams here.
    settings = run.config.sampling.model_dump(exclude={"beams"})
    if portable_problem(run.config.model, run.load_tokenizer()) or engine_problems(settings, ""):
        model: Any = minigpt.load(run)
        if checkpoint:
            model.model.set_weights(run.load_model(checkpoint).get_weights())
        yield model, facts["epoch"], facts["step"]
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.gguf"
        if checkpoint:
            write_checkpoint_file(run, file, checkpoint)
        else:
            write_run_file(run, file)
        is_large = state == "best" and file.stat().st_size > LARGE_BYTES
        model = minigpt.load(run) if is_large else minigpt.load_portable(file)
        # The engine has read the file.
        file.unlink()
        yield model, facts["epoch"], facts["step"]


def measure_memorization(
    run: Run | str | Path,
    state: str = "best",
    *,
    tokens: int = 12_800,
    corpus: Corpus | None = None,
) -> Memorization:
    """Measures how much of a model's samples is copied verbatim from its training text.

    The result depends only on the run and the arguments. For a run on pairs, translations of held-out
    sources, and the held-out references, are compared with the training targets. Most sentences have fewer
    than 8 words, so their share is 0.

    Args:
      run: a run, or its directory.
      state: "best" for the best model by validation loss, "last" for the newest checkpoint.
      tokens: the number of tokens to draw.
      corpus: the text of the run, if it is open.
    Raises:
      UserError: the run has no such model, was imported, or its text has changed since training.
      TypeError, ValueError: `tokens` is not a positive integer.
    """
    run = as_run(run)
    if state not in ("best", "last"):
        raise UserError(ArgumentProblem("state", state, "should be best or last"))
    tokens = as_integer("tokens", tokens, 1)
    if run.config.data.source == "dialogues":
        raise run_error(run.path, "was trained on dialogues; memorization is measured for texts")
    corpus = corpus or known_run_corpus(run)
    token_bytes = TokenBytes(corpus.tokenizer)
    is_pairs = run.config.data.source == "pairs"
    held_out = np.asarray(corpus.val.ids)
    with open_state(run, state) as (model, epoch, step), warnings.catch_warnings():
        # The texts are the run's own: nothing can be done about their characters.
        warnings.filterwarnings("ignore", ".* unknown to the tokenizer and are read as")
        if is_pairs:
            draws = list(draw_translations(model, token_bytes, held_out, tokens))
        else:
            sampling = run.config.sampling
            draws = list(draw_samples(model, token_bytes, held_out, sampling, tokens))
    samples, others = [sample for sample, _ in draws], [other for _, other in draws]
    training = TokenText(corpus.train.ids, token_bytes, targets_only=is_pairs)
    texts = [Text(draw.data, draw.begin) for draw in samples]
    texts += [Text(draw.data, draw.begin, is_ranked=False) for draw in others]
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


def _share(draws: Sequence[Draw], spans: Sequence[list[tuple[int, int]]]) -> float:
    """Returns the share of tokens that end inside spans of bytes; 0 if there are no tokens."""
    inside = 0
    for draw, found in zip(draws, spans, strict=True):
        is_inside = np.zeros(len(draw.data), bool)
        for begin, end in found:
            is_inside[begin:end] = True
        inside += int(is_inside[draw.last_bytes].sum())
    return inside / max(1, sum(len(draw.last_bytes) for draw in draws))


def _passage(
    run: Run, training: TokenText, token_bytes: TokenBytes, data: np.ndarray, offset: int
) -> CopiedPassage:
    """Describes a passage, the bytes `data` of the training text from `offset` on."""
    document, characters, lines = training.place(offset)
    keeps_lines = not token_bytes.tokenizer.separator
    text = token_bytes.decode(data.tobytes())
    place = f"document {document + 1:,} of the training text, at character {characters + 1:,}"
    return CopiedPassage(
        text=text,
        words=len(data.tobytes().split()),
        characters=int(token_bytes.is_character(data).sum()),
        document=document,
        line=lines + 1 if keeps_lines else None,
        description=place + _file(run, text),
    )


def _file(run: Run, text: str) -> str:
    """Returns the name of the first file of the user that contains a text, and the line or row."""
    source = open_source(run.config.data)
    try:
        found = source.find(text.encode()) if isinstance(source, TextFiles) else None
    except UserError:
        return ""  # It has been removed since. The token ids are in the cache.
    # A file's name may have bytes that are no UTF-8.
    return printable(f" ({found[0].name}, {found[1]})") if found else ""


def _copied(
    draw: Draw, token_bytes: TokenBytes, spans: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Returns spans of bytes as spans of code points of the draw's text."""
    separator = len(token_bytes.tokenizer.separator)
    prompt = len(token_bytes.decode(draw.data.tobytes())) - separator - len(draw.text)

    def position(byte: int) -> int:
        return max(0, len(token_bytes.decode(draw.data[:byte].tobytes())) - prompt)

    return [(position(begin), position(end)) for begin, end in spans]
