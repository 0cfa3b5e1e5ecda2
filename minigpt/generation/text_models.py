"""TextModel and TranslationModel: the model of a run together with its tokenizer, in TensorFlow."""

import reprlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.config.sampling import own_settings, settings_of
from minigpt.corpus.documents import Piece, ingest
from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.token_ids import encode_texts
from minigpt.errors import UserError
from minigpt.evaluation.pairs import PairEvaluator
from minigpt.evaluation.scores import Evaluation, PairEvaluation, score
from minigpt.evaluation.text import Evaluator
from minigpt.generation.base_models import (
    WHITE_SPACE,
    BaseTextModel,
    BaseTranslationModel,
    Prompt,
    Sample,
    as_texts,
    as_token_ids,
)
from minigpt.generation.decoding import Decoder
from minigpt.generation.given_models import build_decoder
from minigpt.generation.sampler import Sampler
from minigpt.generation.translator import Translator
from minigpt.models import GPT, EncoderDecoder
from minigpt.runs.base_file import run_or_file
from minigpt.runs.run import Run
from minigpt.tokenizers.base import Tokenizer


class TextModel(BaseTextModel):
    """A trained GPT with its tokenizer."""

    def __init__(self, model: GPT, tokenizer: Tokenizer) -> None:
        self.model = model
        self.tokenizer: Tokenizer = tokenizer
        self.max_len, self.vocab_size = model.max_len, model.vocab_size

    @cached_property
    def _decoder(self) -> Decoder:
        return build_decoder(self.model, self.tokenizer)

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self.model)

    def _samples(
        self, prompts: list[Prompt], seeds: list[int], settings: Any, number: int, controls: Any
    ) -> Iterator[Sample]:
        sampler = Sampler(self._decoder, self.tokenizer, settings, controls)
        return sampler.samples(prompts, seeds, number)

    def _pieces(self, prompt: Prompt, seed: int, settings: Any, controls: Any) -> Iterator[str]:
        return Sampler(self._decoder, self.tokenizer, settings, controls).pieces(prompt, seed)

    def _logits(self, token_ids: np.ndarray) -> np.ndarray:
        return self.model(token_ids).numpy()

    def _mean_latent(self, ids: np.ndarray) -> np.ndarray:
        return self.latents(ids[None])[0].mean(0)

    def latents(self, token_ids: Any) -> np.ndarray:
        """Computes the latents, the input of the head: int[B, T], T ≤ max_len → float32[B, T, D]."""
        token_ids = as_token_ids(token_ids, self.max_len, self.vocab_size)
        return tf.cast(self.model.latents(token_ids), tf.float32).numpy()

    def evaluate(self, texts: str | Sequence[str], *, stride: int | None = None) -> Evaluation:
        """Scores the model on texts, each one document; `stride` is as for `evaluate_run`.

        Raises:
          UserError: all texts are empty, one is not valid Unicode, or the stride is out of range.
          TypeError: `texts` contains something other than strings.
        """
        documents = as_texts("texts", texts)
        if not any(documents):
            raise UserError("texts: empty; expected at least one character")
        part = encode_texts(documents, self.tokenizer)
        loss = self._evaluator.loss(part.ids, stride=stride)
        return score(loss, part, self.tokenizer.lossless)


class TranslationModel(BaseTranslationModel):
    """A trained encoder-decoder with its tokenizer."""

    def __init__(self, model: EncoderDecoder, tokenizer: Tokenizer) -> None:
        self.model = model
        self.tokenizer: Tokenizer = tokenizer
        self.max_len, self.vocab_size = model.max_len, model.vocab_size

    @cached_property
    def _translator(self) -> Translator:
        return Translator(self.model, self.tokenizer)

    def _targets(
        self, sources: list[np.ndarray], max_new_tokens: int, beams: int, length_penalty: float
    ) -> list[np.ndarray]:
        return self._translator.translate_all(sources, max_new_tokens, beams, length_penalty)

    def evaluate(
        self, pairs: Sequence[tuple[str, str]], beams: int = 1, length_penalty: float = 1.0
    ) -> PairEvaluation:
        """Computes loss and BLEU on pairs of source and reference.

        Raises:
          UserError: there is no pair, a sentence is empty or not valid Unicode, or a number is wrong.
          TypeError: `pairs` has the wrong type.
        """
        settings_of({"beams": beams, "length_penalty": length_penalty})
        try:
            flat = [sentence for source, reference in pairs for sentence in (source, reference)]
        except (TypeError, ValueError):
            expected = "`pairs` must be a list of pairs of source and reference"
            raise TypeError(f"{expected}. Received: {reprlib.repr(pairs)}") from None
        sentences = [sentence.strip(WHITE_SPACE) for sentence in as_texts("pairs", flat)]
        if not sentences or not all(sentences):
            raise UserError("pairs: expected at least one pair, without empty sentences")
        part = encode_texts(
            ingest(Piece(sentence.encode(), True) for sentence in sentences), self.tokenizer
        )
        tokenizer = self.tokenizer
        encoded = Pairs(part.ids, tokenizer.end_id, self.model.max_len, tokenizer.start_id)
        translate = self._translator.translate_all
        evaluator = PairEvaluator(self.model, tokenizer, encoded, 32, translate)
        return evaluator.evaluate(beams, length_penalty)


def load(run: Run | str | Path) -> TextModel | TranslationModel:
    """Opens a run's best model in TensorFlow: a `TextModel`, or a `TranslationModel` if trained on pairs.

    For text alone, `minigpt.open_model` starts faster: it uses the engine where that is possible.

    Damaged checkpoints, and the one that is used instead, are logged as warnings.

    Args:
      run: a run, its directory, a portable file that minigpt wrote, or the name of a base ("english").
    Raises:
      UserError: the run does not exist, it has no finished checkpoint, or the file cannot be read.
      TypeError: `run` is neither.
    """
    source = run_or_file(run)
    model, tokenizer = source.load_model(), source.load_tokenizer()
    if isinstance(model, EncoderDecoder):
        return TranslationModel(model, tokenizer)
    opened = TextModel(model, tokenizer)
    opened.defaults = own_settings(source.config.sampling.model_dump())
    return opened
