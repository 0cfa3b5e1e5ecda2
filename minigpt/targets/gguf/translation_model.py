"""PortableTranslationModel: a portable file that translates."""

import warnings
from collections.abc import Sequence

import numpy as np

from minigpt.errors import ArgumentProblem, UserError
from minigpt.generation.arguments import check_search, translation_limit
from minigpt.generation.prompts import WHITE_SPACE, as_texts, check_prompt
from minigpt.targets.gguf.text_model import PortableModel


class PortableTranslationModel(PortableModel):
    """An encoder-decoder in a portable file. `translate` is that of `minigpt.TranslationModel`."""

    def translate(
        self,
        texts: str | Sequence[str],
        beams: int = 1,
        length_penalty: float = 1.0,
        max_new_tokens: int | None = None,
    ) -> list[str]:
        """Translates sentences greedily; see `minigpt.TranslationModel.translate`.

        Raises:
          UserError: a text is not valid Unicode, or there are several beams.
          TypeError: an argument has the wrong type.
          ValueError: a number is out of range.
        """
        check_search(beams, length_penalty)
        limit = translation_limit(max_new_tokens, self.max_len)
        if beams > 1:
            problem = "should be 1: a portable file has no beam search; minigpt.load has"
            raise UserError(ArgumentProblem("beams", beams, problem))
        texts = as_texts("texts", texts)
        for text in texts:
            check_prompt(text, "texts")
        return [self._translate(text, number, limit) for number, text in enumerate(texts, 1)]

    def _translate(self, text: str, number: int, max_new_tokens: int) -> str:
        source = self.tokenizer.encode(text.strip(WHITE_SPACE))
        if not len(source):
            return ""
        if len(source) >= self.max_len:
            warnings.warn(
                f"source {number} has {len(source) + 1} tokens, end token included: only the first "
                f"{self.max_len - 1} are translated, because model.max_len = {self.max_len}",
                stacklevel=4,
            )
        source = np.append(source[: self.max_len - 1], self.tokenizer.end_id)
        with self._lock:
            self._engine.start_translation(source, max_new_tokens)
            return self.tokenizer.decode(self._engine.add_tokens(self.max_len))
