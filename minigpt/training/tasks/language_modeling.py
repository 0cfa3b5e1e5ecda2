"""The task of a GPT: to predict the next token of a text."""

from functools import cached_property
from typing import Any

import keras
import numpy as np

from minigpt.corpus.batches import check_fills_batch, training_batch, windows_in_pass
from minigpt.corpus.sources import source_name
from minigpt.errors import UserError
from minigpt.evaluation.scores import Evaluation, baselines, score
from minigpt.evaluation.text import Evaluator
from minigpt.generation.base_models import unknown_tokens_message
from minigpt.models import GPT
from minigpt.training.console import counted
from minigpt.training.progress import Display
from minigpt.training.samples import TextGenerator, held_out_prompts
from minigpt.training.tasks.task import Batch, Samples, Task


class LanguageModeling(Task):
    """Windows of a text; the target of every token is the token after it."""

    def prepare(self) -> None:
        training = self.config.training
        length = self.sequence_length = self.config.sequence_length
        tokens, name = self.corpus.train.tokens, source_name(self.config.data)
        check_fills_batch(tokens, length, training.batch_size, name)
        self.weights = getattr(self.config.data, "weights", None)
        sizes = np.diff((0, *self.corpus.text_ends)).tolist()
        problems = [
            f"{path}: {size:,} tokens are available for training; a window has {length}"
            for path, size in zip(getattr(self.config.data, "paths", []), sizes, strict=False)
            if size < length
        ]
        if problems:
            raise UserError(*problems)
        self.batches_in_pass = windows_in_pass(tokens, length) // training.batch_size
        sampling = self.config.sampling
        if "prompts" not in sampling.model_fields_set:
            # A model that was trained before would continue an empty prompt with what it read then.
            context = 0 if training.init_from else self.config.model.max_len
            ids = self.corpus.val.ids
            prompts = held_out_prompts(ids, self.corpus.tokenizer, training.seed, max_len=context)
            sampling = sampling.model_copy(update={"prompts": prompts})
            self.config = self.config.model_copy(update={"sampling": sampling})
        self.tokens_per_batch = training.batch_size * length

    def batch(self, number: int) -> Batch:
        training = self.config.training
        ids, length = self.corpus.train.ids, self.config.sequence_length
        place = (length, training.batch_size, training.seed, number)
        return *training_batch(ids, *place, self.weights, self.corpus.text_ends), None

    def objective(self) -> dict[str, Any]:
        return {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}

    def set_model(self, model: GPT) -> None:
        self.evaluator = Evaluator(model, self.config.training.batch_size)

    @property
    def split(self) -> str:
        train, val = self.corpus.train, self.corpus.val
        if train.documents + val.documents <= 10:
            return f"{train.bytes:,} bytes for training, {val.bytes:,} held out"
        return f"{counted(train.documents, 'document')} for training, {val.documents:,} held out"

    @cached_property
    def baselines(self) -> tuple[float, float]:
        return baselines(self.corpus.val, self.corpus.token_counts)

    def describe(self) -> dict[str, str]:
        train, val, tokenizer = self.corpus.train, self.corpus.val, self.corpus.tokenizer
        unknown = train.unknown_tokens / train.tokens
        in_bytes = self.corpus.token_counts[list(tokenizer.byte_ids)].sum() / train.tokens
        with_bytes = f" ({len(tokenizer.byte_ids)} for bytes)" if tokenizer.byte_ids else ""
        losses = []
        for name, loss in zip(("uniform", "unigram"), self.baselines, strict=True):
            bits = score(loss, val, tokenizer.lossless).bits_per_byte
            losses.append(
                f"{name} {loss:.3f}" + ("" if bits is None else f" ({bits:.3f} bits per byte)")
            )
        return {
            "Text": self.split,
            "Tokens": f"{train.tokens:,} for training, {val.tokens:,} held out; {tokenizer.kind} "
            f"vocabulary of {tokenizer.vocab_size:,}{with_bytes}, {train.bytes / train.tokens:.2f} bytes "
            "per token"
            + (f"; {unknown:.2%} of them [UNK]" if unknown else "")
            + (f"; {in_bytes:.2%} of them bytes of other characters" if in_bytes else ""),
            **self.unknown_in_prompts(),
            "Baselines": "validation loss, nats per token: " + ", ".join(losses),
        }

    def unknown_in_prompts(self) -> dict[str, str]:
        """Returns a line about the prompts whose characters the tokenizer does not have; {} if none."""
        tokenizer = self.corpus.tokenizer
        lines = [
            unknown_tokens_message(repr(prompt), number, tokenizer)
            for prompt in dict.fromkeys(self.config.sampling.prompts)
            if (number := tokenizer.count_unknown(prompt))
        ]
        return {"Prompts": "; ".join(lines)} if lines else {}

    def evaluation(self) -> Evaluation:
        """Returns the scores of the model on the held-out text; sets `breakdown`."""
        loss = self.evaluator.loss(self.corpus.val.ids, self.new_breakdown().add)
        return score(loss, self.corpus.val, self.corpus.tokenizer.lossless)

    def scores(self) -> dict[str, Any]:
        found = self.evaluation()
        names = ("loss", "perplexity", "bits_per_byte")
        return {f"val_{name}": getattr(found, name) for name in names}

    def samples(self, model: GPT, display: Display) -> Samples:
        sampling = self.config.sampling.model_dump(exclude={"translations"})
        generator = TextGenerator(self.corpus.tokenizer, show=display.show_sample, **sampling)
        generator.set_model(model)
        generator.open_state, generator.in_sentences = self.open_state, True
        return generator.write
