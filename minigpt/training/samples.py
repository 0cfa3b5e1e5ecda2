"""Samples after an epoch: continued prompts."""

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import keras
import numpy as np

from minigpt.config.sampling import settings_of
from minigpt.corpus.token_ids import decode_documents
from minigpt.generation.base_models import BaseTextModel, as_list, whole_sentences
from minigpt.generation.decoding import Decoder
from minigpt.generation.given_models import build_decoder
from minigpt.generation.given_tokenizers import GivenTokenizer, as_prompts, as_tokenizer
from minigpt.generation.sampler import Sampler
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.vocabulary import Vocabulary
from minigpt.training.console import new_console, show

# A prompt is the beginning of a paragraph, of at most so many characters. It is taken from the beginning of
# the held-out text.
_PROMPT_CHARACTERS, _PARAGRAPH_CHARACTERS, _TOKENS_READ = 24, 30, 50_000
Show = Callable[[str, str], None]
Record = Callable[[dict[str, Any]], None]


def held_out_prompts(
    ids: np.ndarray, tokenizer: Tokenizer, seed: int, count: int = 2, max_len: int = 0
) -> list[str]:
    """Returns beginnings of paragraphs of the held-out text; of documents or lines if it has too few.

    Args:
      ids: int[n], the held-out text.
      seed: decides which ones are drawn.
      count: the most to return.
      max_len: the context. The first prompt is "", which begins a document, if they are shorter on average.
    Returns:
      Different prompts without unknown characters; [""], which begins a new text, if there are none.
    """
    texts = list(decode_documents(ids[:_TOKENS_READ], tokenizer))
    found: list[str] = []
    for separator in (r"\n\s*\n", r"\n"):
        parts = [part for text in texts for part in re.split(separator, text)]
        beginnings = {
            _beginning(part) for part in parts if len(part.strip()) >= _PARAGRAPH_CHARACTERS
        }
        found = sorted(b for b in beginnings if b and not tokenizer.count_unknown(b)) or found
        if len(found) >= count:
            break
    order = np.argsort(np.random.PCG64(seed).random_raw(len(found)), kind="stable")
    # One document may be the end of a longer one.
    fit = len(texts) > 1 and len(texts) * max_len > len(ids[:_TOKENS_READ])
    starts = [""] if fit else []
    return [*starts, *(found[place] for place in order)][:count] or [""]


def _beginning(text: str) -> str:
    """Returns the first words of the first line of a text; characters if it has no spaces."""
    line = text.strip().partition("\n")[0][: _PROMPT_CHARACTERS + 1]
    words = line.rpartition(" ")[0] if len(line) > _PROMPT_CHARACTERS else line
    return words.rstrip() or line[: _PROMPT_CHARACTERS // 2]


class TextGenerator(keras.callbacks.Callback):
    """Continues prompts with the model at the end of every `print_every` epochs.

    It is called in one of two ways; the type of the first argument decides. A number of tokens comes
    first in the Keras tutorial "Text generation with a miniature GPT":

        TextGenerator(max_tokens, start_tokens, index_to_word, top_k=10, print_every=1)

    A tokenizer comes first otherwise:

        TextGenerator(tokenizer, prompts, max_new_tokens=40, top_k=10, temperature=1.0, seed=0,
                      print_every=1, show=None, record=None)

    It works in the `fit` of any Keras model that maps token ids int[B, T] to logits float[B, T, V], each
    a function of the tokens up to its position. The newest tokens are read if the text is longer than the
    model's context. Padding, "[UNK]" and ids without a word are never drawn. The same seeds are used
    every time, so that epochs can be compared.

    Args:
      max_tokens, max_new_tokens: maximum number of tokens to add to each prompt.
      start_tokens, prompts: what to continue: token ids, several sequences of them, a text or several
        texts. If it is empty, a new text starts.
      index_to_word, tokenizer: the model's vocabulary: a list of words, as
        `TextVectorization.get_vocabulary()` returns it; a dictionary from ids to words; a
        `minigpt.Tokenizer`; or any object with the methods `encode`, text to token ids, and `decode`, token
        ids to text. With a list of words, text is split at white space.
      top_k: draw from the k most likely tokens; 0 for no limit.
      print_every: epochs between two calls.
      temperature: 0 is greedy.
      seed: seed of every prompt's draws.
      show: called with (prompt, continuation); prints by default.
      record: called with a dictionary (epoch, prompt, text, seed, temperature, top_k).
      max_len: the context of a model without a fixed one; see `build_decoder`.
      **settings: other settings of `[sampling]`, such as top_p, with the defaults of their table,
        `minigpt.config.sampling.SETTINGS` and docs/settings.md.
    Raises:
      TypeError: an argument is missing or has the wrong type.
      ValueError: a prompt is not in the vocabulary, or the vocabulary has no words. In `fit`: the model
        does not map token ids to logits.
      UserError: a setting cannot be used.
    """

    # See `minigpt.training.tasks.task.Task`.
    open_state: Callable[[], BaseTextModel] | None = None
    # Whether a text that `max_new_tokens` has cut is shown up to the end of its last sentence.
    in_sentences = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        names = {"max_tokens", "start_tokens", "index_to_word"}
        is_tutorial = isinstance(args[0], Integral) if args else not names.isdisjoint(kwargs)
        (self._from_tutorial if is_tutorial else self._from_tokenizer)(*args, **kwargs)

    def _from_tokenizer(
        self,
        tokenizer: Any,
        prompts: Any,
        max_new_tokens: int = 40,
        top_k: int = 10,
        temperature: float = 1.0,
        seed: int = 0,
        print_every: int = 1,
        show: Show | None = None,
        record: Record | None = None,
        *,
        max_len: int | None = None,
        **settings: Any,
    ) -> None:
        self.tokenizer: Vocabulary = as_tokenizer("tokenizer", tokenizer)
        self.prompts = as_prompts("prompts", prompts, self.tokenizer)
        named = {"max_new_tokens": max_new_tokens, "top_k": top_k, "temperature": temperature}
        named |= {"seed": seed, "print_every": print_every}
        self.sampling = settings_of({**named, **settings})
        self.seed, self.print_every = self.sampling.seed, self.sampling.print_every
        self.show, self.record = show or _print, record
        self.max_len = max_len
        self._decoder: Decoder | None = None
        self._decoded_model: keras.Model | None = None

    def _from_tutorial(
        self,
        max_tokens: int,
        start_tokens: Any,
        index_to_word: Any,
        top_k: int = 10,
        print_every: int = 1,
        *,
        temperature: float = 1.0,
        seed: int = 0,
        show: Show | None = None,
        record: Record | None = None,
        max_len: int | None = None,
        **settings: Any,
    ) -> None:
        tokenizer = as_tokenizer("index_to_word", index_to_word)
        # The tutorial's argument is one list of ids, ours is a list of prompts.
        prompts = as_list(start_tokens)
        prompts = as_prompts("start_tokens", [[]] if prompts == [] else prompts, tokenizer)
        how: dict[str, Any] = {"max_len": max_len, "record": record}
        how |= {"temperature": temperature, "seed": seed, "print_every": print_every, **settings}
        show = show or _print_text
        self._from_tokenizer(tokenizer, prompts, max_tokens, top_k, show=show, **how)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # An unsuitable model is refused before the first step.
        self._build_decoder()

    def _build_decoder(self) -> Decoder:
        if self._decoder is None or self._decoded_model is not self.model:
            self._decoder = build_decoder(self.model, self.tokenizer, self.max_len)
            if isinstance(self.tokenizer, GivenTokenizer):
                self.tokenizer.fit_size(self._decoder.model.vocab_size)
            self.tokenizer.check_banned(self.sampling.banned_tokens)
            self._decoded_model = self.model
        return self._decoder

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if (epoch + 1) % self.print_every == 0:
            for record in self.write(epoch + 1):
                if self.record is not None:
                    self.record(record)

    def write(self, epoch: float) -> list[dict[str, Any]]:
        """Continues the prompts after this number of epochs, and shows them; returns the records."""
        if not self.prompts:
            return []
        seeds = [self.seed] * len(self.prompts)
        if self.open_state:
            texts = [prompt.text for prompt in self.prompts]
            how: dict[str, Any] = {"seed": seeds, "sampling": self.sampling}
            with warnings.catch_warnings():
                # The summary of the task has said which characters are unknown.
                warnings.simplefilter("ignore")
                samples = self.open_state().samples(texts, self.sampling.max_new_tokens, **how)
        else:
            sampler = Sampler(self._build_decoder(), self.tokenizer, self.sampling)
            samples = list(sampler.samples(self.prompts, seeds))
        if self.in_sentences:
            most = self.sampling.max_new_tokens
            samples = [replace(each, text=whole_sentences(each, most)) for each in samples]
        for sample in samples:
            self.show(sample.prompt, sample.text)
        drawn = {"temperature": self.sampling.temperature, "top_k": self.sampling.top_k}
        return [
            {"epoch": epoch, "prompt": each.prompt, "text": each.text, "seed": each.seed, **drawn}
            for each in samples
        ]


def _print(prompt: str, text: str) -> None:
    show(new_console(), f"[{prompt}]{text}")


def _print_text(prompt: str, text: str) -> None:
    # On a new line: the progress bar of `fit` does not end its line.
    show(new_console(), f"\ngenerated text:\n{prompt}{text}")
