"""Samples after an epoch: continued prompts, or translated sentences."""

import inspect
import reprlib
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, get_overloads, overload

import keras
import numpy as np

from minigpt.config.sampling import TextSettings, settings_of
from minigpt.errors import UserError
from minigpt.evaluation.pairs import PairEvaluator
from minigpt.generation.base_models import as_list
from minigpt.generation.decoding import Decoder
from minigpt.generation.given_models import build_decoder
from minigpt.generation.given_tokenizers import GivenTokenizer, as_prompts, as_tokenizer
from minigpt.generation.sampler import Sampler
from minigpt.tokenizers.vocabulary import Vocabulary
from minigpt.training.console import new_console, show

Show = Callable[[str, str], None]
Record = Callable[[dict[str, Any]], None]

# The Keras tutorial's names of arguments, and ours.
TUTORIAL_NAMES = {
    "max_tokens": "max_new_tokens",
    "start_tokens": "prompts",
    "index_to_word": "tokenizer",
}


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
        `TextVectorization` layer; a `minigpt.Tokenizer`; or any object with the methods `encode`, text to
        token ids, and `decode`, token ids to text. With a list of words, text is split at white space.
      top_k: draw from the k most likely tokens; 0 for no limit.
      print_every: epochs between two calls.
      temperature: 0 is greedy.
      seed: seed of every prompt's draws.
      show: called with (prompt, continuation); prints by default.
      record: called with a dictionary (epoch, prompt, text, seed, temperature, top_k).
      max_len: the context of a model without a fixed one; see `build_decoder`.
      output: the logits of a model with several outputs, as an index or a name; by default the first
        output whose last axis is at least as long as the vocabulary.
      **settings: other settings of `[sampling]`, such as top_p, with the defaults of their table,
        `minigpt.config.sampling.SETTINGS` and docs/settings.md.
    Raises:
      TypeError: an argument is missing or has the wrong type.
      ValueError: a prompt is not in the vocabulary, or the vocabulary has no words. In `fit`: the model
        does not map token ids to logits.
      UserError: a setting cannot be used.
    """

    @overload
    def __init__(
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
        output: int | str | None = None,
        **settings: Any,
    ) -> None: ...

    @overload
    def __init__(
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
        output: int | str | None = None,
        **settings: Any,
    ) -> None: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        is_tutorial = _is_tutorial_call(args, kwargs)
        for theirs, ours in TUTORIAL_NAMES.items():
            name, other = (theirs, ours) if is_tutorial else (ours, theirs)
            if other in kwargs:
                raise TypeError(f"TextGenerator: {other!r} should be {name!r} in this call")
        given = _bound(_CALLS[0 if is_tutorial else 1], args, kwargs)
        # Our name of an argument → its name in the call.
        called = {ours: name for name, ours in TUTORIAL_NAMES.items()} if is_tutorial else {}

        def argument(name: str) -> Any:
            return given.pop(called.get(name, name))

        tokenizer = called.get("tokenizer", "tokenizer")
        self.tokenizer: Vocabulary = as_tokenizer(tokenizer, argument("tokenizer"))
        prompts = as_list(argument("prompts"))
        # The tutorial's argument is one list of ids, ours is a list of prompts.
        prompts = [[]] if is_tutorial and prompts == [] else prompts
        self.prompts = as_prompts(called.get("prompts", "prompts"), prompts, self.tokenizer)
        self.show = argument("show") or (_print_text if is_tutorial else _print)
        self.record: Record | None = argument("record")
        self.max_len: int | None = argument("max_len")
        self.output: int | str | None = argument("output")
        self.sampling = _sampling({TUTORIAL_NAMES.get(n, n): v for n, v in given.items()}, called)
        self.seed = self.sampling.seed
        self.print_every = self.sampling.print_every
        self._decoder: Decoder | None = None
        self._decoded_model: keras.Model | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # An unsuitable model is refused before the first step.
        self._build_decoder()

    def _build_decoder(self) -> Decoder:
        if self._decoder is None or self._decoded_model is not self.model:
            self._decoder = build_decoder(self.model, self.tokenizer, self.max_len, self.output)
            if isinstance(self.tokenizer, GivenTokenizer):
                self.tokenizer.fit_size(self._decoder.model.vocab_size)
            check_banned_tokens(self.sampling.banned_tokens, self.tokenizer)
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
        sampler = Sampler(self._build_decoder(), self.tokenizer, self.sampling)
        samples = list(sampler.samples(self.prompts, [self.seed] * len(self.prompts)))
        for sample in samples:
            self.show(sample.prompt, sample.text)
        return [
            {
                "epoch": epoch,
                "prompt": sample.prompt,
                "text": sample.text,
                "seed": sample.seed,
                "temperature": self.sampling.temperature,
                "top_k": self.sampling.top_k,
            }
            for sample in samples
        ]


# The tutorial's call, and ours.
_CALLS = [inspect.signature(call) for call in get_overloads(TextGenerator.__init__)]
# For `help`, which cannot show both: the docstring does.
TextGenerator.__init__.__signature__ = _CALLS[0]  # type: ignore[attr-defined]


def check_banned_tokens(
    banned_tokens: Sequence[int], tokenizer: Vocabulary, name: str = "banned_tokens"
) -> None:
    """Raises a `UserError` for banned tokens that do not exist, or that leave no token to draw.

    Args:
      banned_tokens: token ids.
      tokenizer: the tokenizer.
      name: name of the setting, for the message.
    """
    vocab_size = tokenizer.vocab_size
    if unknown := sorted(token for token in banned_tokens if token >= vocab_size):
        raise UserError(
            f"{name}: {', '.join(map(str, unknown))}: should be ids from 0 to {vocab_size - 1}"
        )
    if len({*banned_tokens, *tokenizer.never_sampled_ids}) == vocab_size:
        raise UserError(
            f"{name}: bans all {vocab_size:,} tokens of the vocabulary; should leave at least one"
        )


def _is_tutorial_call(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    if not args:
        return not TUTORIAL_NAMES.keys().isdisjoint(kwargs)
    if isinstance(args[0], (float, str, type(None))):
        raise TypeError(
            "The first argument of TextGenerator must be the number of tokens, as in TextGenerator("
            "max_tokens, start_tokens, index_to_word), or a tokenizer, as in TextGenerator(tokenizer, "
            f"prompts). Received: {reprlib.repr(args[0])}"
        )
    return isinstance(args[0], Integral)


def _bound(call: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns all arguments of the call by name, with defaults; TypeError if one is missing."""
    try:
        bound = call.bind(None, *args, **kwargs)
    except TypeError as error:
        names = [p.name for p in call.parameters.values() if p.default is p.empty][1:-1]
        raise TypeError(f"TextGenerator({', '.join(names)}): {error}") from None
    bound.apply_defaults()
    _, *named, settings = bound.arguments.items()
    return dict(named) | settings[1]


def _sampling(settings: dict[str, Any], called: dict[str, str]) -> TextSettings:
    """Checks the settings; `called` has the names of arguments in the call, for messages."""
    if "translations" in settings:  # A setting of the section `[sampling]`, of pairs only.
        raise TypeError("TextGenerator() got an unexpected keyword argument 'translations'")
    try:
        return settings_of(settings)
    except UserError as error:
        lines = [line.partition(" = ") for line in error.problems]
        raise UserError(*(called.get(name, name) + eq + rest for name, eq, rest in lines)) from None


def _print(prompt: str, text: str) -> None:
    show(new_console(), f"[{prompt}]{text}")


def _print_text(prompt: str, text: str) -> None:
    # On a new line: the progress bar of `fit` does not end its line.
    show(new_console(), f"\ngenerated text:\n{prompt}{text}")


# Source, reference, translation.
Row = tuple[str, str, str]


class TranslationSamples:
    """Greedy translations of sentences, the same ones each time, spread evenly over the held-out text.

    Args:
      evaluator: translates the held-out pairs.
      count: number of sentences.
      show: called with the rows of a table: source, reference, translation.
    """

    def __init__(
        self, evaluator: PairEvaluator, count: int, show: Callable[[Sequence[Row]], None]
    ) -> None:
        self.evaluator, self.show = evaluator, show
        fitting = evaluator.indices
        # The middles of `count` equal parts.
        places = (np.arange(count) + 0.5) * len(fitting) / max(1, count)
        self.indices = fitting[np.unique(places.astype(np.int64))]

    def write(self, epoch: float) -> list[dict[str, Any]]:
        """Translates after this number of epochs, and shows the sentences; returns the records."""
        if not len(self.indices):
            return []
        sources, references, texts = (
            translate(self.indices)
            for translate in (
                self.evaluator.sources,
                self.evaluator.references,
                self.evaluator.translations,
            )
        )
        rows = list(zip(sources, references, texts, strict=True))
        self.show(rows)
        return [
            {"epoch": epoch, "source": source, "reference": reference, "text": text}
            for source, reference, text in rows
        ]
