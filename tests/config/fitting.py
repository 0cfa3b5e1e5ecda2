"""Settings that are chosen for a text that is not written."""

from minigpt.config import Config, load_config
from minigpt.config.complete import TextSize, complete


def chosen_for(
    size: int,
    *overrides: str,
    characters: int | None = None,
    source: Config | None = None,
    bits: float | None = None,
) -> Config:
    """Settings for a text that is not written; every character is a byte if their number is not given."""
    config = load_config(None, overrides, text=["book.txt"])
    text = TextSize(size, size if characters is None else characters, 80)
    return complete(config, text, source=source, bits=bits).config


def steps_of(config: Config) -> int:
    assert config.training.steps_per_epoch is not None
    return config.training.epochs * config.training.steps_per_epoch


def passes_of(config: Config, size: int) -> float:
    """How often the planned steps read the training part; `size` is in characters or bytes."""
    tokenizer, training = config.tokenizer, config.training
    lengths = {"character": 1, "word": 5, "byte_pair": 2 if tokenizer.vocab_size < 1024 else 3}
    tokens = (1 - config.data.val_fraction) * size / lengths[tokenizer.kind]
    sequences = steps_of(config) * training.batch_size * training.accumulate_steps
    return sequences * config.sequence_length / tokens
