"""The tasks that a model can be trained for, one per file."""

from minigpt.config import Config, DialoguesConfig
from minigpt.corpus.token_store import Corpus
from minigpt.training.tasks.dialogue import Dialogue
from minigpt.training.tasks.language_modeling import LanguageModeling
from minigpt.training.tasks.task import Task
from minigpt.training.tasks.translation import Translation

TASKS: dict[str, type[Task]] = {"gpt": LanguageModeling, "encoder_decoder": Translation}


def build_task(config: Config, corpus: Corpus) -> Task:
    """Returns the task of a configuration. The settings in its `config` are all resolved.

    Raises:
      UserError: the text is too short for a batch, or a setting cannot be used with its tokenizer.
    """
    if isinstance(config.data, DialoguesConfig):
        return Dialogue(config, corpus)
    return TASKS[config.model.kind](config, corpus)
