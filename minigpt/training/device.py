"""The device that training runs on, and its memory."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import keras
import tensorflow as tf

from minigpt.config import Config, TrainingConfig
from minigpt.distribution.cluster import Cluster
from minigpt.distribution.connection import connect
from minigpt.distribution.replicas import Replicas
from minigpt.environment import available_cores
from minigpt.errors import UserError
from minigpt.models.memory_estimate import check_training_fits, needed_to_train

# The number of devices of the trainings in this process that used several.
_used_together: int | None = None


def set_up_device(config: TrainingConfig) -> str:
    """Selects the device, the first of several, and seeds all random number generators.

    Returns:
      The device's name.
    Raises:
      UserError: the device does not exist.
    """
    gpus = _make_visible(_selected_gpus(config)[:1])
    _seed(config)
    return _name(gpus)


def set_up_replicas(config: TrainingConfig, cluster: Cluster | None) -> tuple[str, Replicas | None]:
    """Selects the devices, connects to the other workers, and seeds all random number generators.

    Args:
      config: the settings.
      cluster: the workers; None for one process.
    Returns:
      The devices' name, and the replicas; None for one device.
    Raises:
      UserError: a device or a worker does not exist, or there are more replicas than rows in a batch.
    """
    workers = len(cluster.addresses) if cluster else 1
    gpus = _selected_gpus(config)
    if config.devices == "auto":
        # Each device needs a row of the batch.
        gpus = gpus[: max(1, config.batch_size // workers)]
    devices = len(gpus) or (1 if config.devices == "auto" else config.devices)
    if devices * workers > config.batch_size:
        raise UserError(
            f"training.batch_size = {config.batch_size}: should be at least {devices * workers}, the "
            "number of devices that share a batch; or lower training.devices"
        )
    gpus = _make_visible(gpus)
    if not gpus and devices > 1:
        _simulate_devices(devices, cluster)
    # Before anything initializes TensorFlow.
    strategy: tf.distribute.Strategy | None = connect(cluster) if cluster else None
    _seed(config)
    name = _name(gpus)
    if devices * workers == 1:
        return name, None
    kind = "GPU" if gpus else "CPU"
    _check_devices(kind, devices)
    if strategy is None:
        strategy = tf.distribute.MirroredStrategy([f"{kind}:{i}" for i in range(devices)])
    if devices > 1:
        name = f"{devices} x {name}" if gpus else f"{name}, simulating {devices} devices"
    if cluster:
        name = f"{len(cluster.addresses)} workers, each with {name}"
    return name, Replicas(strategy, cluster, uses_xla(config))


def uses_xla(config: TrainingConfig) -> bool:
    """Returns whether the training step is compiled with XLA: `training.jit_compile`, or its default."""
    return not config.deterministic if config.jit_compile is None else config.jit_compile


def _selected_gpus(config: TrainingConfig) -> list[Any]:
    """Returns the GPUs to use; none for the CPU."""
    gpus = tf.config.list_physical_devices("GPU")
    kind, _, number = config.device.partition(":")
    asked = 1 if config.devices == "auto" else config.devices
    if kind == "gpu" and int(number or 0) >= len(gpus):
        raise UserError(
            f"training.device = {config.device!r}: this machine has {len(gpus)} GPUs that TensorFlow "
            "can use; should be 'cpu' or 'auto'"
        )
    if kind == "cpu" or not gpus:
        return []
    if number:
        if asked > 1:
            raise UserError(
                f"training.devices = {asked}: training.device = {config.device!r} is one device; "
                "should be 'auto' or 'gpu'"
            )
        return gpus[int(number) :][:1]
    if asked > len(gpus):
        raise UserError(f"training.devices = {asked}: this machine has {len(gpus)} GPUs")
    return gpus if config.devices == "auto" else gpus[:asked]


def _simulate_devices(devices: int, cluster: Cluster | None) -> None:
    """Divides the CPU into several devices, which show how several GPUs would train."""
    if cluster:
        raise UserError(
            f"training.devices = {devices}: should be 1 for each of several CPU workers"
        )
    # If TensorFlow is already initialized, it refuses. The number of its devices is checked later.
    with suppress(RuntimeError):
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * devices,
        )


def _check_devices(kind: str, devices: int) -> None:
    """Checks that TensorFlow can use so many devices together in this process.

    Raises:
      UserError: it was initialized with fewer, or has used another number of them together, of which it
        keeps a record: it would wait forever, or fail at the first sum.
    """
    global _used_together
    found = len(tf.config.list_logical_devices(kind))
    if found < devices:
        raise UserError(
            f"training.devices = {devices}: TensorFlow was used before in this process, with {found}; "
            "should be the first thing that uses it"
        )
    if _used_together not in (None, devices):
        raise UserError(
            f"training.devices = {devices}: an earlier training of this process had {_used_together}; "
            "start another process"
        )
    _used_together = devices if devices > 1 else _used_together


def _make_visible(gpus: list[Any]) -> list[Any]:
    """Makes TensorFlow use these GPUs, or the CPU; returns those that it uses."""
    try:
        tf.config.set_visible_devices(gpus, "GPU")
    except RuntimeError:
        # TensorFlow is already initialized, for example in a notebook. Its devices cannot change.
        return [gpu for gpu in gpus if gpu in tf.config.get_visible_devices("GPU")]
    return gpus


def _seed(config: TrainingConfig) -> None:
    keras.utils.set_random_seed(config.seed)
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()


def _name(gpus: list[Any]) -> str:
    """Returns the name of the first GPU, or of the CPU."""
    if gpus:
        return tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")
    return f"CPU, {available_cores()} cores"


@contextmanager
def enough_memory(config: Config, vocab_size: int) -> Iterator[None]:
    """Rejects training that cannot fit, before memory is allocated; turns out-of-memory into one line.

    The check comes first because Linux overcommits memory: without it the kernel may kill the process.
    The memory of a GPU is not checked in advance.

    Raises:
      UserError: with the sizes, an estimate of what they need, and the setting to lower.
    """
    if not tf.config.get_visible_devices("GPU"):
        check_training_fits(config, vocab_size)
    try:
        yield
    except (MemoryError, tf.errors.ResourceExhaustedError):
        raise UserError(f"out of memory: {needed_to_train(config, vocab_size)}") from None
