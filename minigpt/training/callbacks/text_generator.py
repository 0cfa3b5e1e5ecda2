"""The samples after an epoch."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from minigpt.generation import Decoder
from minigpt.inference.decoders import build_decoder
from minigpt.inference.samples import generate
from minigpt.inference.text_model import sampling_settings
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
      **settings: top_p, min_p, repetition_penalty, beams, length_penalty, stop and banned_tokens, as in
        a configuration's `[sampling]`.
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
        **settings: Any,
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.prompts = list(prompts)
        self.sampling = sampling_settings(
            max_new_tokens=max_new_tokens, top_k=top_k, temperature=temperature, **settings
        )
        self.seed = seed
        self.print_every = print_every
        self.show = show or (lambda prompt, text: print(f"[{prompt}]{text}"))
        self.record = record
        self._decoder: Decoder | None = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if (epoch + 1) % self.print_every or not self.prompts:
            return
        if self._decoder is None:
            self._decoder = build_decoder(self.model, self.tokenizer)
        samples = generate(
            self._decoder,
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
