"""Generates samples after an epoch."""

from collections.abc import Callable, Sequence
from typing import Any

from minigpt.config import sampling_config
from minigpt.errors import UserError
from minigpt.generation import Decoder
from minigpt.inference.decoders import build_decoder
from minigpt.inference.prompts import as_texts
from minigpt.inference.samples import generate
from minigpt.tokenizers import Tokenizer
from minigpt.training.callbacks.callback import Callback
from minigpt.training.console import new_console, show


class TextGenerator(Callback):
    """Continues prompts with the model at the end of every `print_every` epochs.

    It works in the `fit` of any Keras model that maps token ids int[B, T] to logits float[B, T, V], each
    a function of the tokens up to its position. The same seeds are used every time, so that epochs can
    be compared. After the Keras example "Text generation with a miniature GPT".

    Args:
      tokenizer: the model's tokenizer.
      prompts: texts to continue; "" starts a document.
      max_new_tokens: maximum number of tokens to add.
      top_k: draw from the k most likely tokens; 0 for no limit.
      temperature: 0 is greedy.
      seed: seed of every prompt's draws.
      print_every: epochs between two calls.
      show: called with (prompt, continuation); prints by default.
      record: called with a dictionary (epoch, prompt, text, seed, temperature, top_k).
      max_len: the context of a model without a fixed one; see `build_decoder`.
      **settings: top_p, min_p, repetition_penalty, beams, length_penalty, stop and banned_tokens, as in
        the section `[sampling]` of a configuration.
    Raises:
      TypeError: the tokenizer or the prompts have the wrong type.
      UserError: a setting cannot be used.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompts: str | Sequence[str],
        max_new_tokens: int = 40,
        top_k: int = 10,
        temperature: float = 1.0,
        seed: int = 0,
        print_every: int = 1,
        show: Callable[[str, str], None] | None = None,
        record: Callable[[dict[str, Any]], None] | None = None,
        *,
        max_len: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(
                "`tokenizer` must be a tokenizer of minigpt, such as run.load_tokenizer(). "
                f"Received: {tokenizer!r}"
            )
        self.tokenizer = tokenizer
        self.prompts = as_texts("prompts", prompts)
        self.sampling = sampling_config(
            max_new_tokens=max_new_tokens,
            top_k=top_k,
            temperature=temperature,
            print_every=print_every,
            **settings,
        )
        self.seed = seed
        self.print_every = print_every
        self.show = show or _print
        self.record = record
        self.max_len = max_len
        self._decoder: Decoder | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # An unsuitable model is refused before the first step.
        self._build_decoder()

    def _build_decoder(self) -> Decoder:
        if self._decoder is None:
            check_banned_tokens(self.sampling.banned_tokens, self.tokenizer)
            self._decoder = build_decoder(self.model, self.tokenizer, self.max_len)
        return self._decoder

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if (epoch + 1) % self.print_every or not self.prompts:
            return
        samples = generate(
            self._build_decoder(),
            self.tokenizer,
            self.prompts,
            [self.seed] * len(self.prompts),
            self.sampling,
        )
        for sample in samples:
            self.show(sample.prompt, sample.text)
            if self.record is not None:
                self.record(
                    {
                        "epoch": epoch + 1,
                        "prompt": sample.prompt,
                        "text": sample.text,
                        "seed": sample.seed,
                        "temperature": self.sampling.temperature,
                        "top_k": self.sampling.top_k,
                    }
                )


def check_banned_tokens(
    banned_tokens: Sequence[int], tokenizer: Tokenizer, name: str = "banned_tokens"
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
    if len({*banned_tokens, *tokenizer.undrawable_ids}) == vocab_size:
        raise UserError(
            f"{name}: bans all {vocab_size:,} tokens of the vocabulary; should leave at least one"
        )


def _print(prompt: str, text: str) -> None:
    show(new_console(), f"[{prompt}]{text}")
