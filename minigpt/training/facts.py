"""What a run records about itself before its first step."""

import math

from minigpt.models import GPT, EncoderDecoder
from minigpt.models.lora import count_merged
from minigpt.runs.facts import Baselines, Facts
from minigpt.training.tasks.task import Task


def run_facts(
    task: Task, model: GPT | EncoderDecoder, device: str, command_line: str | None
) -> Facts:
    """Returns the content of facts.json.

    Args:
      task: corpus and baselines.
      model: the model, perhaps with LoRA.
      device: the device's name.
      command_line: how training was started; None from Python.
    """
    uniform, unigram = task.baselines
    return Facts(
        command=command_line,
        parameters=count_merged(model),
        # Not a number if no held-out pair fits the model.
        baselines=Baselines(uniform=uniform, unigram=unigram if math.isfinite(unigram) else None),
        train_bytes=task.corpus.train.bytes,
        train_tokens=task.corpus.train.tokens,
        val_tokens=task.corpus.val.tokens,
        device=device,
        text=task.split,
    )
