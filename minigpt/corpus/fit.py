"""Chooses sizes and steps for a text, unless the user has set them."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from minigpt.config import Config, IdsConfig, PairsConfig, load_config
from minigpt.config.fit import (
    CHARACTERS_BELOW,
    REFERENCE_SPEED,
    TextSize,
    fitted,
    settings_to_fit,
)
from minigpt.config.tokenizer import TokenizerConfig
from minigpt.config.training import TrainingConfig
from minigpt.corpus.id_files import IdFiles, tokenizer_of_ids
from minigpt.corpus.sources import Text, read_text
from minigpt.corpus.token_store import given_tokenizer
from minigpt.environment import hide_tensorflow_log
from minigpt.errors import ArgumentProblem, UserError, gathering
from minigpt.notices import LOGGER

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
    result, lines, _ = choose_settings(config, measures_speed=measures_speed)
    for line in lines:
        LOGGER.info("%s", line)
    return result


def choose_settings(
    config: Config, *, measures_speed: bool = True
) -> tuple[Config, list[str], Text | None]:
    """Fills in what the user has not set, by the text's bytes, the time limit and the machine's speed.

    The bundled stories have their own defaults. A configuration that sets everything is returned
    unchanged, without reading the text.

    Args:
      config: the settings of the user.
      measures_speed: whether this machine is measured. If not, its speed is `REFERENCE_SPEED`, so that
        all machines choose the same.
    Returns:
      The settings, lines that say what was chosen, and the text if it was read.
    Raises:
      UserError: if the text cannot be read.
    """
    problems: list[str] = []
    with gathering(problems):
        config = _with_given_tokenizer(config)
    # `open_corpus` reports a problem together with those of the text.
    if problems or not settings_to_fit(config):
        return config, [], None
    data, read = config.data, None
    if isinstance(data, IdsConfig):
        files = IdFiles(data.paths)
        count = sum(map(len, (files.train | files.val).values()))
        text = TextSize(count, count)
    else:
        read = read_text(data)
        text = TextSize(read.bytes, read.characters, read.different_characters)
        # The share that is chosen for a short text is the default.
        if read.bytes < CHARACTERS_BELOW and not isinstance(data, PairsConfig):
            text = replace(text, training_share=read.training_share(data.val_fraction))
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
    return result, lines, read


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
