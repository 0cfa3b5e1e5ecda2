"""Where the steps of training are computed: the device, its memory, and the compiled step."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import keras
import numpy as np
import tensorflow as tf

from minigpt.config import Config, TrainingConfig
from minigpt.config.complete import REFERENCE_SPEED
from minigpt.corpus.token_store import Corpus
from minigpt.environment import available_cores, why_no_gpu
from minigpt.errors import UserError
from minigpt.models.memory_estimate import (
    block_weights,
    machine_bytes,
    needed_to_train,
    training_bytes,
)
from minigpt.runs.run import Run
from minigpt.training.optimizers import build_optimizer
from minigpt.training.tasks.task import Batch, Task

if TYPE_CHECKING:
    from minigpt.training.loop import TrainingLoop
    from minigpt.training.start import Start

# Products of matrices are measured for this time.
PROBE_SECONDS = 0.2
# Share of the time of a step that such products would take (58% to 82% were measured with TensorFlow). The
# rest is attention, activations and the optimizer.
SHARE_OF_PRODUCTS = 0.67
# Of one GPU. Not measured: training at a tenth of the 130e12 operations per second of a usual GPU.
GPU_SPEED = 100 * REFERENCE_SPEED

# Seconds of training at the reference speed from which XLA saves more than it takes to compile the step,
# validation and samples: about 10 s in all, and it shortens a step by a tenth to a fifth.
XLA_SECONDS = 45

# Trains on one batch; returns the metrics of the epoch so far.
Step = Callable[[Batch], dict[str, Any]]


class Strategy:
    """Trains on one device.

    `minigpt.distribution.devices.Devices` overrides the methods for several devices and processes.

    Attributes:
      is_first: whether this process prints and writes. The others only compute.
      is_alone: whether no other process trains the model too.
    """

    is_first = is_alone = True

    @contextmanager
    def open(self, config: TrainingConfig) -> Iterator[str]:
        """Sets up the devices, and yields their name; see `set_up`.

        Raises:
          UserError: while it is open: another process has ended or cannot be reached.
        """
        yield self.set_up(config)

    def set_up(self, config: TrainingConfig) -> str:
        """Selects the device, the first of several, and seeds all random number generators.

        Returns:
          The device's name.
        Raises:
          UserError: the device does not exist.
        """
        gpus = make_visible(selected_gpus(config.device, config.devices)[:1])
        seed(config.seed, config.deterministic)
        return device_name(gpus)

    def check_start(self, start: "Start", corpus: Corpus) -> None:
        """Raises a `UserError` if the processes do not train the same."""

    def build_model(self, build: Callable[[], keras.Model]) -> keras.Model:
        """Returns the model that `build` returns, with a copy on each device."""
        return build()

    def compile(self, task: Task, model: keras.Model) -> None:
        """Compiles a model for its task, and creates every variable that a checkpoint holds."""
        training = task.config.training
        optimizer = build_optimizer(training, model)
        uses_xla = training.uses_xla and (training.jit_compile or xla_pays(task))
        how = {"jit_compile": uses_xla, "r_drop": training.r_drop}
        model.compile(optimizer=optimizer, **how, **task.objective())
        task.set_model(model)

    def share(self, run: Run | None) -> Run:
        """Returns the run of the first process; `run` is None in the others."""
        assert run
        return run

    def check_weights(self, model: keras.Model) -> None:
        """Raises a `UserError` if the processes do not begin with the same weights."""

    @contextmanager
    def computing(self, loop: "TrainingLoop") -> Iterator[Step]:
        """Yields the step of a training loop. The block is the loop."""
        model, options = loop.model, tf.config.optimizer.get_experimental_options()
        if loop.training.uses_xla and not model.jit_compile:
            # In so few steps, the optimization of graphs takes longer than it saves, as XLA does.
            tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        try:
            yield tf.function(
                model.train_step,
                input_signature=loop.task.batch_signature,
                jit_compile=model.jit_compile,
                autograph=False,
            )
        finally:
            tf.config.optimizer.set_experimental_options(options)

    def agree(self, loop: "TrainingLoop") -> bool:
        """Makes the decisions of all processes the same, after each update and each epoch.

        Returns:
          whether one of them was interrupted.
        """
        return loop.interrupt.requested

    def wait(self, loop: "TrainingLoop") -> None:
        """Waits until the first process has written everything."""


def selected_gpus(device: str, devices: int | Literal["auto"]) -> list[Any]:
    """Returns the GPUs that `training.device` and `training.devices` select; none for the CPU.

    Raises:
      UserError: a GPU does not exist.
    """
    gpus = tf.config.list_physical_devices("GPU")
    kind, _, number = device.partition(":")
    asked = 1 if devices == "auto" else devices
    if kind == "gpu" and int(number or 0) >= len(gpus):
        why = unused_gpu(device)
        raise UserError(
            f"training.device = {device!r}: this machine has {len(gpus)} GPUs that TensorFlow "
            f"can use; should be 'cpu' or 'auto'{f'. {why}' if why else ''}"
        )
    if kind == "cpu" or not gpus:
        return []
    if number:
        if asked > 1:
            raise UserError(
                f"training.devices = {asked}: training.device = {device!r} is one device; "
                "should be 'auto' or 'gpu'"
            )
        return gpus[int(number) :][:1]
    if asked > len(gpus):
        raise UserError(f"training.devices = {asked}: this machine has {len(gpus)} GPUs")
    return gpus if devices == "auto" else gpus[:asked]


def probe_speed(training: TrainingConfig) -> tuple[float, int]:
    """Estimates the speed of training on all devices of this process.

    The sizes that are chosen, the expected time of training and the plan follow from it. The clock measures
    the steps later.

    Returns:
      weights times tokens per second; and the number of GPUs.
    """
    gpus = len(selected_gpus(training.device, training.devices))
    return gpus * GPU_SPEED if gpus else _cpu_speed(), gpus


@cache
def _cpu_speed() -> float:
    """Measures products of matrices, once in a process, in weights times tokens per second."""
    # NumPy's: TensorFlow's devices are selected later.
    rows, width, columns = 2048, 192, 512
    inputs, kernel = np.ones((rows, width), "float32"), np.ones((width, columns), "float32")
    durations = []
    end = time.perf_counter() + PROBE_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        inputs @ kernel
        durations.append(time.perf_counter() - start)
    # The shortest ones: other programs only make it slower.
    products = rows * width * columns / np.quantile(durations, 0.1)
    # Each weight is multiplied once forward and twice backward.
    return float(SHARE_OF_PRODUCTS * products / 3)


def training_seconds(task: Task, speed: float) -> float:
    """Estimates the time of training without its limit, from the multiplications.

    `speed`: weights times tokens per second; see `probe_speed`.
    """
    training, model = task.config.training, task.config.model
    batches = training.epochs * training.updates_per_epoch * training.accumulate_steps
    multiplied = block_weights(model) + task.corpus.tokenizer.vocab_size * model.embed_dim
    if model.kind == "encoder_decoder":
        # A token goes through the encoder or through the decoder and the head, not through both.
        multiplied //= 2
    # An evaluation is the forward pass alone, a third of an update.
    tokens = batches * task.tokens_per_batch + training.epochs * task.corpus.val.tokens / 3
    return multiplied * tokens / speed


def xla_pays(task: Task) -> bool:
    """Whether training takes longer than compiling with XLA saves; the same on every machine."""
    training = task.config.training
    limit = 60 * training.max_minutes if training.max_minutes else math.inf
    is_long = min(limit, training_seconds(task, REFERENCE_SPEED)) >= XLA_SECONDS
    return is_long or bool(tf.config.get_visible_devices("GPU"))


def make_visible(gpus: list[Any]) -> list[Any]:
    """Makes TensorFlow use these GPUs, or the CPU; returns those that it uses."""
    try:
        tf.config.set_visible_devices(gpus, "GPU")
    except RuntimeError:
        # TensorFlow is already initialized, for example in a notebook. Its devices cannot change.
        return [gpu for gpu in gpus if gpu in tf.config.get_visible_devices("GPU")]
    return gpus


def seed(number: int, deterministic: bool) -> None:
    """Seeds all random number generators, and makes operations deterministic if that is wanted."""
    keras.utils.set_random_seed(number)
    if deterministic:
        tf.config.experimental.enable_op_determinism()
        # `AddN`, which sums gradients, adds in an order that depends on which of its inputs no other
        # operation still needs. TensorFlow that is initialized refuses.
        with suppress(RuntimeError):
            tf.config.threading.set_inter_op_parallelism_threads(1)


def device_name(gpus: list[Any]) -> str:
    """Returns the name of the first GPU, or of the CPU."""
    if gpus:
        return tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")
    return f"CPU, {available_cores()} cores"


def unused_gpu(device: str) -> str | None:
    """Returns why training uses the CPU although the machine has a GPU; None if it does not, or should."""
    if device == "cpu" or tf.config.list_physical_devices("GPU"):
        return None
    return why_no_gpu()


@contextmanager
def enough_memory(config: Config, vocab_size: int) -> Iterator[None]:
    """Rejects training that cannot fit, before memory is allocated; turns out-of-memory into one line.

    The check comes first because Linux overcommits memory: without it the kernel may kill the process.

    Raises:
      UserError: with the sizes, an estimate of what they need, and the setting to lower.
    """
    needed = needed_to_train(config, vocab_size)
    on_cpu = not tf.config.get_visible_devices("GPU")
    if on_cpu and sum(training_bytes(config, vocab_size)) > machine_bytes():
        raise UserError(needed)
    try:
        yield
    except (MemoryError, tf.errors.ResourceExhaustedError):
        raise UserError(f"out of memory: {needed}") from None
