"""The task of a GPT: to predict the next token of a text."""

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from minigpt.corpus.batches import check_fills_batch, windows_in_pass
from minigpt.corpus.datasets import batch_dataset
from minigpt.corpus.sources import source_name
from minigpt.corpus.store_files import Part
from minigpt.evaluation import Evaluation, baselines, score
from minigpt.evaluation.text import Evaluator
from minigpt.models import GPT
from minigpt.tokenizers import Tokenizer
from minigpt.training.callbacks.display import Display
from minigpt.training.callbacks.text_generator import TextGenerator, check_banned_tokens
from minigpt.training.tasks.task import Record, Task


@dataclass(frozen=True)
class TextFigures:
    """Figures of a text and its tokenizer.

    Attributes:
      train: the part to train on.
      val: the part that is held out.
      tokenizer: the tokenizer.
      unknown_in_prompts: prompt → number of its unknown tokens, for prompts that have any.
      uniform: held-out scores of a uniform distribution.
      unigram: held-out scores of the tokens' frequencies in the training text.
    """

    train: Part
    val: Part
    tokenizer: Tokenizer
    unknown_in_prompts: dict[str, int]
    uniform: Evaluation
    unigram: Evaluation


class LanguageModeling(Task):
    """Windows of a text; the target of every token is the token after it."""

    def prepare(self) -> None:
        training = self.config.training
        banned = self.config.sampling.banned_tokens
        check_banned_tokens(banned, self.corpus.tokenizer, "sampling.banned_tokens")
        length = self.sequence_length = self.config.sequence_length
        check_fills_batch(
            self.corpus.train.tokens,
            length,
            training.batch_size,
            length_setting=(
                "training.sequence_length" if training.sequence_length else "model.max_len"
            ),
            text=source_name(self.config.data),
        )
        windows = windows_in_pass(self.corpus.train.tokens, length)
        self.batches_in_pass = windows // training.batch_size
        self.tokens_per_batch = training.batch_size * length

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

    def set_model(self, model: GPT) -> None:
        self.evaluator = Evaluator(model, self.config.training.batch_size)

    def describe(self) -> TextFigures:
        train, val, tokenizer = self.corpus.train, self.corpus.val, self.corpus.tokenizer
        uniform, unigram = (
            score(loss, val, tokenizer.lossless)
            for loss in baselines(val, self.corpus.token_counts)
        )
        unknown = {
            prompt: count
            for prompt in self.config.sampling.prompts
            if (count := tokenizer.count_unknown(prompt))
        }
        return TextFigures(train, val, tokenizer, unknown, uniform, unigram)

    def scores(self) -> dict[str, float | None]:
        val = self.corpus.val
        scored = score(self.evaluator.loss(val.ids), val, self.corpus.tokenizer.lossless)
        return {
            "val_loss": scored.loss,
            "val_perplexity": scored.perplexity,
            "val_bits_per_byte": scored.bits_per_byte,
        }

    def samples(self, display: Display, record: Record) -> TextGenerator:
        sampling = self.config.sampling.model_dump()
        return TextGenerator(
            self.corpus.tokenizer, show=display.show_sample, record=record, **sampling
        )
