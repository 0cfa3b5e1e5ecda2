"""TranslationModel: an encoder-decoder together with its tokenizer."""

import reprlib
import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from minigpt.corpus.documents import Piece, ingest
from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.token_ids import encode_texts
from minigpt.errors import UserError
from minigpt.evaluation import PairEvaluation
from minigpt.evaluation.pairs import evaluate_pairs
from minigpt.generation.arguments import check_search, translation_limit
from minigpt.generation.prompts import WHITE_SPACE, as_list, as_texts, check_prompt, describe
from minigpt.generation.translation import Translator, translate_ids
from minigpt.models import EncoderDecoder
from minigpt.tokenizers import Tokenizer


class TranslationModel:
    """A trained encoder-decoder with its tokenizer.

    Args:
      model: the encoder-decoder.
      tokenizer: the tokenizer it was trained with.
    """

    def __init__(self, model: EncoderDecoder, tokenizer: Tokenizer) -> None:
        self.model = model
        self.tokenizer = tokenizer

    def __repr__(self) -> str:
        return f"TranslationModel({describe(self.model, self.tokenizer)})"

    @cached_property
    def _translator(self) -> Translator:
        tokenizer = self.tokenizer
        return Translator(
            self.model, tokenizer.end_id, tokenizer.never_sampled_ids, tokenizer.start_id
        )

    def translate(
        self,
        texts: str | Sequence[str],
        beams: int = 1,
        length_penalty: float = 1.0,
        max_new_tokens: int | None = None,
    ) -> list[str]:
        """Translates sentences.

        A source that is longer than max_len is cut, with a `UserWarning`.

        Args:
          texts: one or more sentences; surrounding white space is ignored, and a sentence of white space
            gives "".
          beams: width of the beam search; 1 is greedy.
          length_penalty: the score of a beam is the sum of its log-probabilities divided by its length to
            this power; larger values favor longer translations.
          max_new_tokens: maximum number of tokens of a translation; the model's max_len if None.
        Raises:
          UserError: a text is not valid Unicode.
          TypeError: an argument has the wrong type.
          ValueError: a number is out of range.
        """
        check_search(beams, length_penalty)
        limit = translation_limit(max_new_tokens, self.model.max_len)
        texts = as_texts("texts", texts)
        for text in texts:
            check_prompt(text, "texts")
        sources = self._sources(texts)
        max_len = self.model.max_len
        for index, source in enumerate(sources):
            if len(source) > max_len:
                warnings.warn(
                    f"source {index + 1} has {len(source)} tokens, end token included: "
                    f"only the first {max_len - 1} are translated, because model.max_len = {max_len}",
                    stacklevel=2,
                )
                sources[index] = np.append(source[: max_len - 1], source[-1:])
        # A source of only the end token has no translation.
        nonempty = [index for index, source in enumerate(sources) if len(source) > 1]
        targets = translate_ids(
            self._translator,
            [sources[index] for index in nonempty],
            limit,
            beams,
            length_penalty,
        )
        translations = [""] * len(texts)
        for index, ids in zip(nonempty, targets, strict=True):
            translations[index] = self.tokenizer.decode(ids)
        return translations

    def _sources(self, texts: Sequence[str]) -> list[np.ndarray]:
        """int32[S] each, end token included."""
        encoded = self.tokenizer.encode_many([text.strip(WHITE_SPACE) for text in texts])
        return [np.append(ids, self.tokenizer.end_id).astype(np.int32) for ids in encoded]

    def source_tokens(self, text: str) -> int:
        """Returns the number of tokens of a source, end token included; at most max_len are read."""
        check_prompt(text, "text")
        return len(self._sources([text])[0])

    def unknown_tokens(self, text: str) -> int:
        """Returns the number of words or characters of a text that the vocabulary does not contain."""
        check_prompt(text, "text")
        return self.tokenizer.count_unknown(text.strip(WHITE_SPACE))

    def evaluate(
        self, pairs: Sequence[tuple[str, str]], beams: int = 1, length_penalty: float = 1.0
    ) -> PairEvaluation:
        """Computes loss and BLEU on pairs of source and reference.

        Raises:
          UserError: there is no pair, or a sentence is empty or not valid Unicode.
          TypeError: an argument has the wrong type.
          ValueError: a number is out of range.
        """
        check_search(beams, length_penalty)
        sentences = [sentence.strip(WHITE_SPACE) for sentence in _sentences(pairs)]
        if not sentences or not all(sentences):
            raise UserError("pairs: expected at least one pair, without empty sentences")
        part = encode_texts(
            ingest(Piece(sentence.encode(), True) for sentence in sentences), self.tokenizer
        )
        tokenizer = self.tokenizer
        encoded = Pairs(part.ids, tokenizer.end_id, self.model.max_len, tokenizer.start_id)
        return evaluate_pairs(self.model, self.tokenizer, encoded, 32, beams, length_penalty)


def _sentences(pairs: Any) -> list[str]:
    """Returns the sentences of all pairs, source and reference in turn."""
    pairs = as_list(pairs)
    sentences = []
    for pair in pairs if isinstance(pairs, list) else [pairs]:
        both = as_list(pair)
        if not isinstance(both, list) or [isinstance(s, str) for s in both] != [True, True]:
            raise TypeError(
                "`pairs` must be a list of pairs of source and reference. "
                f"Received: {reprlib.repr(pair)}"
            )
        for sentence in both:
            check_prompt(sentence, "pairs")
        sentences += both
    return sentences
