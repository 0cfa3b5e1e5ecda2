"""Training on several devices and in several processes."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import minigpt
from minigpt.config import TrainingConfig
from minigpt.corpus.token_store import Corpus
from minigpt.distribution.cluster import Cluster, find_cluster, worker_place
from minigpt.distribution.connection import LOST, check_equal, connect, lost_workers
from minigpt.distribution.replicas import Replicas
from minigpt.distribution.step import ReplicatedStep
from minigpt.errors import UserError
from minigpt.runs.run import Run
from minigpt.training.loop import TrainingLoop
from minigpt.training.optimizers import build_optimizer
from minigpt.training.start import Start
from minigpt.training.strategy import Step, Strategy, device_name, make_visible, seed, selected_gpus
from minigpt.training.tasks.task import Batch, Task

# Paths, which may differ between machines. The text and the weights are compared by their contents.
_OWN = {"data.paths", "data.val_paths", "training.init_from"}
# The number of devices that earlier training in this process used together.
_used_together: int | None = None


class Devices(Strategy):
    """Trains on the devices that the settings select, and with the processes of the environment.

    With one device in one process it behaves as `Strategy`.
    """

    replicas: Replicas | None

    def __init__(self) -> None:
        index, workers = worker_place()
        self.is_first, self.is_alone = index == 0, workers == 1
        self.replicas = None
        # Whether the other workers agree next, and do not compute a step before.
        self._others_wait = False

    @contextmanager
    def open(self, config: TrainingConfig) -> Iterator[str]:
        name, self.replicas = set_up_replicas(config, find_cluster(config.workers))
        with lost_workers(self.replicas.cluster if self.replicas else None):
            yield name

    def check_start(self, start: Start, corpus: Corpus) -> None:
        """Checks that all workers train the same model on the same text with the same version."""
        if (replicas := self._several_workers) is None:
            return
        settings = start.config.settings(mode="json").items()
        record = {
            "minigpt": minigpt.__version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "SHA-256 of the tokens": corpus.fingerprint[:12],
            "checkpoint": start.checkpoint.path.name if start.checkpoint else None,
            **{name: value for name, value in settings if name not in _OWN},
        }
        check_equal(replicas, record)

    def build_model(self, build: Callable[[], keras.Model]) -> keras.Model:
        """Returns the model that `build` returns, with a copy on every replica."""
        model = build()
        if self.replicas is None:
            return model
        with self.replicas.scope():
            copies = build()
        # Random initial values would depend on the number of replicas.
        for variable, value in zip(copies.variables, model.variables, strict=True):
            variable.assign(value)
        return copies

    def compile(self, task: Task, model: keras.Model) -> None:
        if self.replicas is None:
            super().compile(task, model)
            return
        training, replicas = task.config.training, self.replicas
        with replicas.scope():
            optimizer = build_optimizer(training, model, compiles_updates=replicas.jit_compile)
        # The metrics are created outside: they hold the loss of all replicas.
        how = {"jit_compile": replicas.jit_compile, "r_drop": training.r_drop}
        model.compile(optimizer=optimizer, **how, **task.objective())
        task.set_model(model)

    def share(self, run: Run | None) -> Run:
        if self.replicas is None:
            return super().share(run)
        path = Path(self.replicas.from_first(run and str(run.path.absolute())))
        if not path.is_dir():
            problem = "does not exist here; should be in a folder that all workers share"
            raise UserError(f"{path}: the run directory of worker 0 {problem}")
        return run or Run(path)

    def check_weights(self, model: keras.Model) -> None:
        """Checks that all workers begin with the same weights and the same state of the optimizer."""
        if (replicas := self._several_workers) is None:
            return
        digest = hashlib.sha256()
        for variable in (*model.variables, *model.optimizer.variables):
            digest.update(keras.ops.convert_to_numpy(variable).tobytes())
        check_equal(replicas, {"SHA-256 of the weights": digest.hexdigest()[:12]})

    @contextmanager
    def computing(self, loop: TrainingLoop) -> Iterator[Step]:
        """Yields the step, and tells the other workers if this one fails between two steps."""
        if (replicas := self.replicas) is None:
            with super().computing(loop) as of_one_device:
                yield of_one_device
            return
        replicated = ReplicatedStep(loop.training, loop.model, replicas, loop.clock.batches)

        def step(batch: Batch) -> dict[str, Any]:
            self._others_wait = False
            metrics = replicated(batch)
            self._others_wait = True
            return metrics

        try:
            yield step
        except (UserError, OSError):
            # The others are about to agree; they would report that this one has ended. If another worker
            # is lost as well, the first reason is reported.
            if self._others_wait and loop.clock.is_update:
                with suppress(*LOST):
                    replicas.sum_over_workers([0, 0, 0, 1])
            raise

    def agree(self, loop: TrainingLoop) -> bool:
        """Makes all workers end training at the same update; returns whether one of them was interrupted.

        The time limit is the first worker's, whose clock may also change the number of updates. A signal
        that arrives during the call counts in the next one.
        """
        if (replicas := self.replicas) is None:
            return super().agree(loop)
        model, step, limits = loop.model, loop.clock.step, loop.clock.limits
        end = limits.end(step) if self.is_first else 0
        self._others_wait = False
        stop, interrupted, end, failed = replicas.sum_over_workers(
            [model.stop_training, loop.interrupt.requested, end, 0]
        )
        if failed:
            raise UserError("training has ended, because another worker failed; see its message")
        # The end of the epoch is agreed on next, before another step.
        saving = loop.checkpointing
        self._others_wait = bool(stop) or saving.batch == saving.batches_per_epoch
        if end != limits.end(step):
            limits.change(step, int(end))
        model.stop_training = bool(stop)
        return bool(interrupted)

    def wait(self, loop: TrainingLoop) -> None:
        """Waits until the first worker has written everything; TensorFlow warns if one ends before."""
        if self.replicas and loop.ended_together:
            # The first worker has written everything, whether or not the others are still there.
            with suppress(*LOST) if self.is_first else nullcontext():
                self.replicas.from_first(None)

    @property
    def _several_workers(self) -> Replicas | None:
        return self.replicas if self.replicas and self.replicas.workers > 1 else None


def set_up_replicas(config: TrainingConfig, cluster: Cluster | None) -> tuple[str, Replicas | None]:
    """Selects the devices, connects to the other workers, and seeds all random number generators.

    Returns:
      The devices' name, and the replicas; None for one device.
    """
    workers = len(cluster.addresses) if cluster else 1
    gpus = selected_gpus(config.device, config.devices)
    if config.devices == "auto":
        # Each device needs a row of the batch.
        gpus = gpus[: max(1, config.batch_size // workers)]
    devices = len(gpus) or (1 if config.devices == "auto" else config.devices)
    if devices * workers > config.batch_size:
        raise UserError(
            f"training.batch_size = {config.batch_size}: should be at least {devices * workers}, the "
            "number of devices that share a batch; or lower training.devices"
        )
    gpus = make_visible(gpus)
    if not gpus and devices > 1:
        _simulate_devices(devices, cluster)
    seed(config.seed, config.deterministic)
    # Before anything else initializes TensorFlow.
    strategy: tf.distribute.Strategy | None = connect(cluster) if cluster else None
    name = device_name(gpus)
    if devices * workers == 1:
        return name, None
    kind = "GPU" if gpus else "CPU"
    _check_devices(kind, devices)
    if strategy is None:
        strategy = tf.distribute.MirroredStrategy([f"{kind}:{i}" for i in range(devices)])
    if devices > 1:
        name = f"{devices} x {name}" if gpus else f"{name}, simulating {devices} devices"
    if cluster:
        name = f"{workers} workers, each with {name}"
    return name, Replicas(strategy, cluster, config.uses_xla)


def _simulate_devices(devices: int, cluster: Cluster | None) -> None:
    """Divides the CPU into several devices, which show how several GPUs would train."""
    if cluster:
        raise UserError(
            f"training.devices = {devices}: should be 1 for each of several CPU workers"
        )
    # It refuses if TensorFlow is already initialized; the number of devices is checked later.
    with suppress(RuntimeError):
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * devices,
        )


def _check_devices(kind: str, devices: int) -> None:
    """Raises a `UserError` if TensorFlow cannot use this many devices together in this process.

    After another number it would wait forever, or fail at the first sum.
    """
    global _used_together
    found, used = len(tf.config.list_logical_devices(kind)), _used_together or devices
    if found < devices or used != devices:
        problem = f"this process has used TensorFlow with {min(found, used)}; start another one"
        raise UserError(f"training.devices = {devices}: {problem}")
    _used_together = devices if devices > 1 else _used_together
