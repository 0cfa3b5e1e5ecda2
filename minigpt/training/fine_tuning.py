"""Training that starts from a finished run, whole or with low-rank additions (LoRA)."""

import math
from dataclasses import dataclass
from pathlib import Path

from minigpt.config import Config, TokenizerConfig, TransformerConfig
from minigpt.errors import UserError
from minigpt.models import GPT, build_gpt
from minigpt.models.lora import enable_lora
from minigpt.runs.paths import check_run
from minigpt.runs.run import Run
from minigpt.tokenizers import Tokenizer

# What may be otherwise than in the run: it decides how is trained, not what the weights are.
FREE = {"dropout_rate", "attention_dropout_rate", "ff_dropout_rate"}


@dataclass(frozen=True)
class StartingPoint:
    """A run to train on from.

    Attributes:
      run: the run.
      config: the settings of the new training, with the run's sizes and tokenizer.
      tokenizer: the run's.
    """

    run: Run
    config: Config
    tokenizer: Tokenizer

    def build_model(self) -> GPT:
        """The run's best model, ready for the new training.

        Raises:
          UserError: the run has no finished model, or one that is not a GPT.
        """
        training = self.config.training
        finished = self.run.load_model()
        if not isinstance(finished, GPT):
            kind = type(finished).__name__
            raise UserError(f"training.init_from = {str(self.run.path)!r}: is a {kind}, not a GPT")
        model = build_gpt(self.config.model, self.tokenizer.vocab_size, training.precision)
        for weight, value in zip(model.weights, finished.weights, strict=True):
            weight.assign(value)
        if training.lora_rank:
            enable_lora(model, training.lora_rank)
        return model

    def describe(self, model: GPT) -> str:
        """One line: from where, and how much of it is trained."""

        def count(weights: list) -> int:
            return sum(math.prod(weight.shape) for weight in weights)

        rank = self.config.training.lora_rank
        how = f"LoRA of rank {rank}" if rank else "whole"
        return (
            f"Fine-tuning {self.run.path}, {how}: {count(model.trainable_weights):,} of "
            f"{count(model.weights):,} parameters are trained"
        )


def starting_point(config: Config) -> StartingPoint | None:
    """Where `training.init_from` says to start; None if it says nothing.

    Raises:
      UserError: there is no such run, or a setting contradicts it; a line each.
    """
    if config.training.init_from is None:
        return None
    path = Path(config.training.init_from)
    check_run(path, "training.init_from")
    run = Run(path)
    before = run.config
    if before.model.kind != "gpt" or config.model.kind != "gpt":
        what = before.model.kind if before.model.kind != "gpt" else config.model.kind
        raise UserError(
            f"training.init_from = {config.training.init_from!r}: model.kind = {what!r} cannot be "
            "fine-tuned; should be a run of kind 'gpt', and a training of text"
        )
    problems = _contradictions(config.model, before.model.resolved(), "model", path)
    problems += _contradictions(config.tokenizer, before.tokenizer, "tokenizer", path)
    if problems:
        raise UserError(*problems)
    free = {name: getattr(config.model, name) for name in FREE & config.model.model_fields_set}
    resolved = config.model_copy(
        update={
            "model": before.model.resolved().model_copy(update=free),
            "tokenizer": before.tokenizer,
            "training": config.training.model_copy(update={"init_from": str(path.absolute())}),
        }
    )
    return StartingPoint(run, resolved, run.load_tokenizer())


def _contradictions(
    given: TransformerConfig | TokenizerConfig,
    before: TransformerConfig | TokenizerConfig,
    section: str,
    path: Path,
) -> list[str]:
    """A line for every setting that was given and is not the run's."""
    problems = []
    for name in type(given).model_fields:
        value, right = getattr(given, name), getattr(before, name, None)
        if name in given.model_fields_set - FREE and value is not None and value != right:
            problems.append(
                f"{section}.{name} = {value!r}: training.init_from = {str(path)!r} has {right!r}; "
                "should be that, or left out"
            )
    return problems
