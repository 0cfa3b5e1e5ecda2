"""The task of a GPT that answers: to predict the next token of the answers of dialogues."""

from functools import cached_property
from typing import Any

import keras
import numpy as np

from minigpt.corpus.dialogues import PackedDialogues, check_dialogues_fill_batch
from minigpt.corpus.sources import source_name
from minigpt.corpus.token_ids import Part
from minigpt.evaluation.scores import Evaluation, count_baselines
from minigpt.evaluation.text import evaluate_dialogues
from minigpt.models import GPT
from minigpt.training.console import counted
from minigpt.training.progress import Display
from minigpt.training.samples import TextGenerator
from minigpt.training.tasks.language_modeling import LanguageModeling
from minigpt.training.tasks.task import Batch, Samples

# Held-out questions that are answered after an epoch, if no prompts are set.
QUESTIONS = 3


class Dialogue(LanguageModeling):
    """Packed dialogues; the targets with a weight are the tokens of the answers, or all."""

    def prepare(self) -> None:
        config, training = self.config, self.config.training
        self.sequence_length = config.sequence_length
        self.train, self.val = map(self._packed, (self.corpus.train, self.corpus.val))
        check_dialogues_fill_batch(self.train, training.batch_size, source_name(config.data))
        check_dialogues_fill_batch(self.val, 1, f"the held-out part of {source_name(config.data)}")
        vocab_size = self.corpus.tokenizer.vocab_size
        self.train_counts = self.train.target_counts(vocab_size)
        self.val_counts = self.val.target_counts(vocab_size)
        self.batches_in_pass = len(self.train.rows) // training.batch_size
        tokens = np.diff(self.train.spans).sum() - len(self.train.spans)
        self.tokens_per_batch = training.batch_size * float(tokens) / len(self.train.rows)

    def _packed(self, part: Part) -> PackedDialogues:
        config = self.config
        described = config.sequence_length, config.training.loss_on
        return PackedDialogues(part.ids, self.corpus.tokenizer, *described)

    def batch(self, number: int) -> Batch:
        training = self.config.training
        return self.train.training_batch(training.batch_size, training.seed, number)

    def objective(self) -> dict[str, Any]:
        mean = "mean_with_sample_weight"
        return {
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=mean)
        }

    @property
    def split(self) -> str:
        train, val = self.corpus.train.documents, self.corpus.val.documents
        return f"{counted(train, 'dialogue')} for training, {val:,} held out"

    @cached_property
    def baselines(self) -> tuple[float, float]:
        return count_baselines(self.val_counts, self.train_counts)

    def describe(self) -> dict[str, str]:
        train, tokenizer = self.train, self.corpus.tokenizer
        uniform, unigram = self.baselines
        learned = self.train_counts.sum() / self.corpus.train.tokens
        padding = 1 - self.tokens_per_batch / (self.config.training.batch_size * train.length)
        divided = (
            f"{counted(train.divided, 'dialogue')} of more than {train.length + 1:,} tokens, divided "
            f"between turns; {train.left_out:,} tokens of longer turns are not trained on"
        )
        return {
            "Text": self.split,
            "Tokens": f"{self.corpus.train.tokens:,} for training, {self.corpus.val.tokens:,} held out; "
            f"{tokenizer.kind} vocabulary of {tokenizer.vocab_size:,}; {learned:.0%} of them are learned "
            f"(training.loss_on = {self.config.training.loss_on!r})",
            "Rows": f"{len(train.rows):,} of {train.length:,} tokens, {padding:.0%} padding",
            **({"Divided": divided} if train.divided else {}),
            **self.unknown_in_prompts(),
            "Baselines": f"validation loss, nats per learned token: uniform {uniform:.3f}, unigram "
            f"{unigram:.3f}",
        }

    def evaluation(self) -> Evaluation:
        record = self.new_breakdown().add
        return evaluate_dialogues(self.evaluator, self.corpus.tokenizer, self.val, record)

    def samples(self, model: GPT, display: Display) -> Samples:
        tokenizer = self.corpus.tokenizer
        sampling = self.config.sampling.model_dump(exclude={"translations", "prompts"})
        given = [text for text in self.config.sampling.prompts if text]
        questions = [[{"role": "user", "content": text}] for text in given]
        prompts = tokenizer.encode_dialogues(questions) or self.val.questions(QUESTIONS)
        generator = TextGenerator(
            tokenizer,
            [ids.tolist() for ids in prompts],
            show=lambda question, answer: display.show_sample(question, f" {answer}"),
            **sampling,
        )
        generator.set_model(model)
        return generator.write
