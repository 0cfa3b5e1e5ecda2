"""The scores of a run on its own held-out text or on another text."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from minigpt.config.loading import check_strings
from minigpt.corpus.dialogues import Dialogues, PackedDialogues, encode_documents
from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.sources import text_files
from minigpt.corpus.text_files import PairFiles
from minigpt.corpus.token_ids import SUFFIXES, Part, encode_texts, read_ids
from minigpt.errors import ArgumentProblem, UserError
from minigpt.evaluation.scores import Evaluation, PairEvaluation, score
from minigpt.runs.base_file import BaseFile, run_or_file
from minigpt.runs.run import Run, open_run_corpus
from minigpt.tokenizers.base import Tokenizer


def evaluate_run(
    run: Run | str | Path, paths: Sequence[str] | None = None, *, stride: int | None = None
) -> Evaluation | PairEvaluation:
    """Scores a run's best model on files, or on the text held out from its training.

    Args:
      run: a run, its directory, a portable file, or the name of a base; the last two need `paths`.
      paths: files, folders and globs; for a translation model, of pairs; for a model of token ids, texts or
        files of ids. None for the held-out text.
      stride: tokens between the beginnings of two windows of the text, 1 to `max_len`. Windows then
        overlap, and every token is predicted from at least `max_len - stride` tokens, except at the
        beginning. None for adjacent windows.
    Returns:
      an `Evaluation`, or a `PairEvaluation` for a translation model.
    Raises:
      UserError: the text cannot be read, the run has no held-out text, or its text has changed since; or
        the stride is out of range, or given for a translation model.
      TypeError: `paths` is no sequence of paths.
    """
    opened = run_or_file(run)
    if paths is not None:
        part = _read(opened, paths, opened.load_tokenizer())
    elif isinstance(opened, Run):
        part = open_run_corpus(opened).val
    else:
        problem = "is a file, without a held-out text; needs --text"
        raise UserError(ArgumentProblem("run", run, problem))
    tokenizer = opened.load_tokenizer()
    source, training = opened.config.data.source, opened.config.training
    if stride is not None and source in ("pairs", "dialogues"):
        raise UserError(ArgumentProblem("stride", stride, f"is for texts, not for {source}"))
    model = opened.load_model()
    # Imported here because they import TensorFlow.
    from minigpt.evaluation.pairs import PairEvaluator
    from minigpt.evaluation.text import Evaluator, evaluate_dialogues
    from minigpt.generation.translator import Translator
    from minigpt.models import EncoderDecoder

    if isinstance(model, EncoderDecoder):
        sampling, translate = opened.config.sampling, Translator(model, tokenizer).translate_all
        pairs = Pairs(part.ids, tokenizer.end_id, model.max_len, tokenizer.start_id)
        found = PairEvaluator(model, tokenizer, pairs, training.batch_size, translate)
        return found.evaluate(sampling.beams, sampling.length_penalty)
    evaluator = Evaluator(model)
    if source == "dialogues":
        rows = PackedDialogues(part.ids, tokenizer, model.max_len, training.loss_on)
        return evaluate_dialogues(evaluator, tokenizer, rows)
    return score(evaluator.loss(part.ids, stride=stride), part, tokenizer.lossless)


def _read(run: Run | BaseFile, paths: Sequence[str], tokenizer: Tokenizer) -> Part:
    data = run.config.data
    check_strings("paths", paths)
    ids = [path for path in paths if Path(path).suffix in SUFFIXES]
    if ids and data.source == "ids":
        return read_ids(paths, tokenizer)
    if found := [path for path in ids if Path(path).is_file()]:
        problem = "token ids can be scored only by a run that was trained on token ids"
        raise UserError(*(f"{path}: {problem}" for path in found))
    if data.source == "pairs":
        return encode_texts(PairFiles(paths).read(), tokenizer)
    if data.source == "dialogues":
        encode = partial(encode_documents, tokenizer)
        return encode_texts(Dialogues(paths, me=data.me).read(), tokenizer, encode)
    return encode_texts(text_files(paths, data).read(), tokenizer)
