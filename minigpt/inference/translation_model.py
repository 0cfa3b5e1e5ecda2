"""A model that translates together with its tokenizer: sentences in, sentences out."""

import warnings
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from minigpt.corpus.documents import Piece, ingest
from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.token_ids import encode_texts
from minigpt.errors import UserError
from minigpt.evaluation import PairEvaluation
from minigpt.evaluation.pairs import evaluate_pairs
from minigpt.generation import Translator, translate_ids
from minigpt.inference.prompts import check_prompt
from minigpt.models import EncoderDecoder
from minigpt.tokenizers import Tokenizer

# What is stripped from a sentence, here, in pair files and in the exported graph.
WHITE_SPACE = " \t\n\v\f\r"


class TranslationModel:
    """A trained encoder-decoder with its tokenizer.

    Args:
      model: the encoder-decoder.
      tokenizer: the one it was trained with.
    """

    def __init__(self, model: EncoderDecoder, tokenizer: Tokenizer) -> None:
        self.model = model
        self.tokenizer = tokenizer

    @cached_property
    def _translator(self) -> Translator:
        return Translator(self.model, self.tokenizer.end_id, self.tokenizer.undrawable_ids)

    def translate(
        self,
        texts: str | Sequence[str],
        beams: int = 1,
        length_penalty: float = 1.0,
        max_new_tokens: int | None = None,
    ) -> list[str]:
        """Translates sentences.

        Of a source that is longer than the model takes, only the first tokens are read, and a
        `UserWarning` says so.

        Args:
          texts: one or more sentences; white space around them does not count, and one of nothing else
            gives "".
          beams: translations followed at once; 1 is greedy.
          length_penalty: a beam's score is the sum of its log-probabilities over its length to this
            power; more favours longer translations.
          max_new_tokens: tokens of a translation at most; the model's max_len if None.
        Raises:
          UserError: a text is not valid Unicode.
          ValueError: beams is less than 1, or max_new_tokens less than 0.
        """
        if beams < 1 or (max_new_tokens or 0) < 0:
            raise ValueError(
                "`beams` must be at least 1 and `max_new_tokens` 0. "
                f"Received: beams={beams}, max_new_tokens={max_new_tokens}"
            )
        texts = [texts] if isinstance(texts, str) else list(texts)
        for text in texts:
            check_prompt(text)
        sources = self._sources(texts)
        most = self.model.max_len
        for number, source in enumerate(sources):
            if len(source) > most:
                warnings.warn(
                    f"source {number + 1} has {len(source)} tokens, its end token included: "
                    f"only the first {most - 1} are translated, as model.max_len = {most}",
                    stacklevel=2,
                )
                sources[number] = np.append(source[: most - 1], source[-1:])
        # A source of nothing but its end token has no translation.
        asked = [number for number, source in enumerate(sources) if len(source) > 1]
        found = translate_ids(
            self._translator,
            [sources[number] for number in asked],
            most if max_new_tokens is None else max_new_tokens,
            beams,
            length_penalty,
        )
        translations = [""] * len(texts)
        for number, ids in zip(asked, found, strict=True):
            translations[number] = self.tokenizer.decode(ids)
        return translations

    def _sources(self, texts: Sequence[str]) -> list[np.ndarray]:
        """int32[S] each, the end token included."""
        encoded = self.tokenizer.encode_many([text.strip(WHITE_SPACE) for text in texts])
        return [np.append(ids, self.tokenizer.end_id).astype(np.int32) for ids in encoded]

    def source_tokens(self, text: str) -> int:
        """Tokens of a source, its end token included; max_len is the most that is read."""
        return len(self._sources([text])[0])

    def unknown_tokens(self, text: str) -> int:
        """How many of the text's tokens the tokenizer has never seen and reads as `[UNK]`."""
        if self.tokenizer.unknown_id is None:
            return 0
        return int((self._sources([text])[0] == self.tokenizer.unknown_id).sum())

    def evaluate(
        self, pairs: Sequence[tuple[str, str]], beams: int = 1, length_penalty: float = 1.0
    ) -> PairEvaluation:
        """Loss and BLEU on pairs of source and reference.

        Raises:
          UserError: there is no pair, or an empty sentence in one.
        """
        sentences = [sentence.strip(WHITE_SPACE) for pair in pairs for sentence in pair]
        if not sentences or not all(sentences):
            raise UserError("pairs: should be at least one, and no sentence of them empty")
        part = encode_texts(
            ingest(Piece(sentence.encode(), True) for sentence in sentences), self.tokenizer
        )
        numbered = Pairs(part.ids, self.tokenizer.end_id, self.model.max_len)
        return evaluate_pairs(self.model, self.tokenizer, numbered, 32, beams, length_penalty)
