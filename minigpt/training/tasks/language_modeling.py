"""The task of a GPT: to predict the next token of a text."""

import shlex
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from minigpt.config import Config
from minigpt.corpus.batches import check_fills_batch, windows_in_pass
from minigpt.corpus.datasets import batch_dataset
from minigpt.corpus.sources import source_name
from minigpt.corpus.store_files import Corpus
from minigpt.evaluation import baselines, score
from minigpt.evaluation.text import Evaluator
from minigpt.inference.prompts import unknown_tokens_message
from minigpt.models import GPT
from minigpt.runs.run import Run
from minigpt.training.callbacks.display import Display
from minigpt.training.callbacks.text_generator import TextGenerator
from minigpt.training.tasks.task import Task


class LanguageModeling(Task):
    """Windows of a text, each predicting itself moved on by one."""

    def __init__(self, config: Config, corpus: Corpus) -> None:
        super().__init__(config, corpus)
        training, length = config.training, config.sequence_length
        check_fills_batch(
            corpus.train.tokens,
            length,
            training.batch_size,
            length_setting=(
                "training.sequence_length" if training.sequence_length else "model.max_len"
            ),
            text=source_name(config.data),
        )
        self.batches_in_pass = windows_in_pass(corpus.train.tokens, length) // training.batch_size
        self.tokens_per_batch = training.batch_size * length
        self.sequence = f"{length} tokens"

    def batches(self, first: int, count: int) -> tf.data.Dataset:
        training = self.config.training
        return batch_dataset(
            self.corpus.train.ids,
            self.config.sequence_length,
            training.batch_size,
            training.seed,
            first,
            count,
        )

    def objective(self) -> dict[str, Any]:
        return {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}

    def watch(self, model: GPT) -> None:
        self.evaluator = Evaluator(model, self.config.training.batch_size)

    def describe(self) -> dict[str, str]:
        train, val, tokenizer = self.corpus.train, self.corpus.val, self.corpus.tokenizer
        split = f"{train.documents:,} documents to learn from, {val.documents:,} held out"
        if train.documents + val.documents <= 10:
            split = f"{train.bytes:,} bytes to learn from, {val.bytes:,} held out"
        guesses = []
        for what, loss in zip(
            ("uniform guessing", "plain token frequencies"),
            baselines(val, self.corpus.token_counts),
            strict=True,
        ):
            bits = score(loss, val, tokenizer.lossless).bits_per_byte
            guesses.append(
                f"{what} {loss:.3f}" + ("" if bits is None else f" ({bits:.3f} bits per byte)")
            )
        unknown = train.unknown_tokens / train.tokens
        prompts = [
            unknown_tokens_message(repr(prompt), count)
            for prompt in self.config.sampling.prompts
            if (count := tokenizer.count_unknown(prompt))
        ]
        return {
            "Text": split,
            "Tokens": f"{train.tokens:,} and {val.tokens:,}; {tokenizer.kind} vocabulary of "
            f"{tokenizer.vocab_size:,}, {train.bytes / train.tokens:.2f} bytes a token"
            + (f"; {unknown:.2%} of them [UNK]" if unknown else ""),
            **({"Prompts": "; ".join(prompts)} if prompts else {}),
            "To beat": "a validation loss, in nats per token, of " + " and ".join(guesses),
        }

    def scores(self) -> dict[str, float | None]:
        val = self.corpus.val
        scored = score(self.evaluator.loss(val.ids), val, self.corpus.tokenizer.lossless)
        return {
            "val_loss": scored.loss,
            "val_perplexity": scored.perplexity,
            "val_bits_per_byte": scored.bits_per_byte,
        }

    def samples(
        self, display: Display, record: Callable[[dict[str, Any]], None]
    ) -> keras.callbacks.Callback:
        sampling = self.config.sampling.model_dump()
        return TextGenerator(
            self.corpus.tokenizer, show=display.show_sample, record=record, **sampling
        )

    def command(self, program: str, run: Run) -> str:
        prompt = next((p for p in self.config.sampling.prompts if p), "")
        option = f" --prompt {shlex.quote(prompt)}" if prompt else ""
        return f"Sample from it with: {program} sample {run.path}{option}"
