"""The samples after an epoch."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from minigpt.generation import Decoder
from minigpt.text_model import generate
from minigpt.tokenizers import Tokenizer


class TextGenerator(keras.callbacks.Callback):
    """Shows what the model writes, at the end of every `print_every` epochs.

    The same seeds are used every time, so what changes from epoch to epoch is the model alone. From the
    Keras example "Text generation with a miniature GPT".

    Args:
      tokenizer: turns prompts into ids and ids into text.
      prompts: texts to continue; "" starts a document.
      max_new_tokens: tokens to add at most.
      top_k: draw from the k likeliest tokens; 0: no limit.
      temperature: 0 is greedy.
      seed: of every prompt's draws.
      print_every: epochs between two looks.
      show: called with (prompt, continuation); prints by default.
      record: called with a dictionary (epoch, prompt, text, seed, temperature, top_k).
      top_p: draw from the fewest tokens with this much probability; 1: no limit.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompts: Sequence[str],
        max_new_tokens: int = 40,
        top_k: int = 10,
        temperature: float = 1.0,
        seed: int = 0,
        print_every: int = 1,
        show: Callable[[str, str], None] | None = None,
        record: Callable[[dict[str, Any]], None] | None = None,
        top_p: float = 1.0,
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.prompts = list(prompts)
        self.max_new_tokens = max_new_tokens
        self.top_k = top_k
        self.temperature = temperature
        self.seed = seed
        self.print_every = print_every
        self.show = show or (lambda prompt, text: print(f"[{prompt}]{text}"))
        self.record = record
        self.top_p = top_p
        self._decoder: Decoder | None = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if (epoch + 1) % self.print_every or not self.prompts:
            return
        if self._decoder is None:
            self._decoder = Decoder(
                self.model, self.tokenizer.end_id, self.tokenizer.undrawable_ids
            )
        samples = generate(
            self._decoder,
            self.tokenizer,
            self.prompts,
            self.max_new_tokens,
            self.temperature,
            self.top_k,
            self.top_p,
            [self.seed] * len(self.prompts),
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
                        "temperature": self.temperature,
                        "top_k": self.top_k,
                    }
                )
