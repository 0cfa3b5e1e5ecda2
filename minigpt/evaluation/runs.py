"""The scores of a run, on its own held-out text or on another."""

from collections.abc import Callable, Sequence

from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.token_store import (
    Corpus,
    Part,
    encode_texts,
    open_corpus,
    read_pairs,
    read_texts,
)
from minigpt.errors import UserError
from minigpt.evaluation.pairs import PairEvaluation, evaluate_pairs
from minigpt.evaluation.text import Evaluation, Evaluator, score
from minigpt.models import EncoderDecoder
from minigpt.runs.run import Run
from minigpt.tokenizers import Tokenizer


def evaluate_run(
    run: Run,
    paths: Sequence[str] | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> Evaluation | PairEvaluation:
    """Scores a run's best model on files, or on the text that was held out from its training.

    Args:
      run: the run.
      paths: files, folders, globs; of pairs for a model that translates. None for the held-out text.
      report: gets a line about everything that takes time, and about checkpoints that are broken.
    Raises:
      UserError: if the text cannot be read, or is not the one that the run held text out from.
    """
    config = run.config
    model, tokenizer = run.load_model(report), run.load_tokenizer()
    part = _held_out(run, report) if not paths else _read(run, paths, tokenizer, report)
    if isinstance(model, EncoderDecoder):
        pairs = Pairs(part.ids, tokenizer.end_id, model.max_len)
        sampling = config.sampling
        return evaluate_pairs(
            model,
            tokenizer,
            pairs,
            config.training.batch_size,
            sampling.beams,
            sampling.length_penalty,
            report,
        )
    loss = Evaluator(model).loss(part.ids)
    return score(loss, part, tokenizer.lossless)


def _read(
    run: Run, paths: Sequence[str], tokenizer: Tokenizer, report: Callable[[str], None]
) -> Part:
    data = run.config.data
    if data.source == "pairs":
        return encode_texts(read_pairs(paths, report), tokenizer)
    separator = getattr(data, "document_separator", None)
    return encode_texts(read_texts(paths, separator), tokenizer)


def _held_out(run: Run, report: Callable[[str], None]) -> Part:
    config = run.config
    if not run.corpus_file.is_file():
        raise UserError(
            f"RUN {run.path}: was imported and has no held-out text; name a text with --text"
        )
    corpus = corpus_of(run, report)
    if corpus is None:
        raise UserError(
            f"RUN {run.path}: its text (data.source = {config.data.source!r}) has changed since "
            "the training, and with it what was held out; name a text with --text"
        )
    return corpus.val


def corpus_of(run: Run, report: Callable[[str], None] = lambda line: None) -> Corpus | None:
    """The token ids a run is trained on; None if its text has changed since.

    Raises:
      UserError: the text cannot be read, or corpus.json is damaged.
    """
    config = run.config
    # A tokenizer that was not learned from the text is the run's own: nothing is fetched again.
    learned = config.training.init_from is None and config.tokenizer.kind != "gpt2"
    corpus = open_corpus(
        config.data, config.tokenizer, report, None if learned else run.load_tokenizer()
    )
    return corpus if corpus.fingerprint == run.corpus["fingerprint"] else None
