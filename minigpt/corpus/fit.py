"""Chooses sizes and steps for a text, unless the user has set them."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from minigpt.config import Config, IdsConfig, PairsConfig, load_config
from minigpt.config.fit import (
    CHARACTERS_BELOW,
    LONG_TEXT,
    REFERENCE_SPEED,
    TextSize,
    fitted,
    settings_to_fit,
)
from minigpt.config.tokenizer import TokenizerConfig
from minigpt.config.training import TrainingConfig
from minigpt.corpus.documents import Piece, ingest
from minigpt.corpus.id_files import IdFiles, tokenizer_of_ids
from minigpt.corpus.sources import open_source
from minigpt.corpus.split import split
from minigpt.corpus.token_store import given_tokenizer
from minigpt.environment import hide_tensorflow_log
from minigpt.errors import ArgumentProblem, UserError, gathering
from minigpt.notices import LOGGER

# The bytes of UTF-8 that do not begin a character.
_CONTINUATION = bytes(range(0x80, 0xC0))

# A product of matrices is measured for this time.
_MEASURED_SECONDS = 0.2
# Share of the time of a step that such products would take (58% to 82% were measured with TensorFlow). The
# rest is attention, activations and the optimizer.
SHARE_OF_PRODUCTS = 0.67
# Of one GPU. Not measured: training at a tenth of the 130e12 operations per second of a usual GPU.
GPU_SPEED = 100 * REFERENCE_SPEED


def config_for_text(paths: Sequence[str], overrides: Sequence[str] = ()) -> Config:
    """Returns settings that suit the text of some files, as `train` chooses them.

    Args:
      paths: files, folders, globs, as `data.paths`.
      overrides: `"SECTION.KEY=VALUE"` strings; what they set is not chosen.
    Raises:
      UserError: if the text cannot be read, or an override is wrong.
    """
    if isinstance(paths, str) or not paths:
        problem = "should be a list of paths, such as ['book.txt']"
        raise UserError(ArgumentProblem("paths", paths, problem))
    return fit_to_text(load_config(None, overrides, [str(path) for path in paths]))


def fit_to_text(config: Config, *, measures_speed: bool = True) -> Config:
    """Returns the settings of `choose_settings`, and logs those that were chosen."""
    result, lines = choose_settings(config, measures_speed=measures_speed)
    for line in lines:
        LOGGER.info("%s", line)
    return result


def choose_settings(config: Config, *, measures_speed: bool = True) -> tuple[Config, list[str]]:
    """Fills in what the user has not set, by the text's bytes, the time limit and the machine's speed.

    The bundled stories have their own defaults. A configuration that sets everything is returned
    unchanged, without reading the text.

    Args:
      config: the settings of the user.
      measures_speed: whether this machine is measured. If not, its speed is `REFERENCE_SPEED`, so that
        all machines choose the same.
    Returns:
      The settings, and lines that say what was chosen.
    Raises:
      UserError: if the text cannot be read.
    """
    problems: list[str] = []
    with gathering(problems):
        config = _with_given_tokenizer(config)
    # `open_corpus` reports a problem together with those of the text.
    if problems or not settings_to_fit(config):
        return config, []
    data = config.data
    if isinstance(data, IdsConfig):
        files = IdFiles(data.paths)
        count = sum(map(len, (files.train | files.val).values()))
        text = TextSize(count, count)
    else:
        val_fraction = None if isinstance(data, PairsConfig) else data.val_fraction
        # The user's own validation text is not trained on.
        text = _measure(open_source(data, with_val_paths=False).pieces(), val_fraction)
    if getattr(data, "val_paths", None):
        text = replace(text, training_share=1.0)
    speed, gpus = REFERENCE_SPEED, 0
    if measures_speed and not isinstance(data, PairsConfig):
        speed, gpus = speed_and_gpus(config.training)
    result, chosen = fitted(config, text, speed, gpus)
    unit = "token ids" if isinstance(data, IdsConfig) else "bytes of text"
    lines = [f"Chosen for {text.bytes:,} {unit} (each of these can be set):"]
    for section, settings in chosen.items():
        named = (f"{section}.{key} = {_toml(value)}" for key, value in settings.items())
        lines.append(f"  {', '.join(named)}")
    return result, lines


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool | None) else repr(value)


def _with_given_tokenizer(config: Config) -> Config:
    tokenizer: TokenizerConfig = config.tokenizer
    if isinstance(config.data, IdsConfig) and config.training.init_from is None:
        tokenizer = tokenizer_of_ids(config.data, tokenizer)
    if not tokenizer.vocab_size and (given := given_tokenizer(tokenizer)):
        tokenizer = tokenizer.model_copy(update={"vocab_size": given.vocab_size})
    changed = tokenizer is not config.tokenizer
    return config.model_copy(update={"tokenizer": tokenizer}) if changed else config


def speed_and_gpus(training: TrainingConfig) -> tuple[float, int]:
    """Returns the speed of training on all devices that this process will use, and the number of GPUs."""
    import tensorflow as tf

    found = 0 if training.device == "cpu" else len(tf.config.list_physical_devices("GPU"))
    most = 1 if ":" in training.device else found
    gpus = min(found, most if training.devices == "auto" else training.devices)
    return training_speed(training.device) * max(1, gpus), gpus


@cache
def training_speed(device: str) -> float:
    """Estimates the speed of training on one device, in weights times tokens per second.

    Each process measures it once.

    Args:
      device: as `training.device`.
    """
    # TensorFlow is not asked to multiply: its devices are selected later.
    with hide_tensorflow_log():
        import tensorflow as tf

        has_gpu = bool(tf.config.list_physical_devices("GPU"))
    if device != "cpu" and has_gpu:
        return GPU_SPEED
    rows, width, columns = 2048, 192, 512
    inputs, kernel = np.ones((rows, width), "float32"), np.ones((width, columns), "float32")
    durations = []
    end = time.perf_counter() + _MEASURED_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        inputs @ kernel
        durations.append(time.perf_counter() - start)
    # The shortest ones: other programs only make it slower.
    products = rows * width * columns / np.quantile(durations, 0.1)
    # Each weight is multiplied once forward and twice backward.
    return float(SHARE_OF_PRODUCTS * products / 3)


def _measure(pieces: Iterable[Piece], val_fraction: float | None) -> TextSize:
    """Returns the size of a text.

    A short one is split, since its batch depends on what is left; pairs, with `val_fraction` None, are not.
    """
    size = characters = 0
    different, kept = set[str](), list[Piece]()
    for piece in pieces:
        size += len(piece.text)
        # Also of a piece that begins or ends within one.
        characters += len(piece.text.translate(None, _CONTINUATION))
        if size < LONG_TEXT:
            different.update(piece.text.decode(errors="ignore"))
        if size < CHARACTERS_BELOW:
            kept.append(piece)
    share = None
    if size < CHARACTERS_BELOW and val_fraction is not None:
        documents = ingest(kept)
        # `open_corpus` reports a text without documents.
        if len(documents):
            # The share that is chosen for a short text is the default.
            train, _ = split(documents, val_fraction)
            share = sum(len(text) for text, _ in train.pieces()) / characters
    return TextSize(size, characters, len(different), share)
