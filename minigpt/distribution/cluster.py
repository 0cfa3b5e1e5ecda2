"""The processes that train together, as the environment describes them. Imports no TensorFlow."""

import os
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, NonNegativeInt, StringConstraints

from minigpt.errors import UserError

# TensorFlow's default for Slurm. Workers on one machine use the ports from it on.
SLURM_PORT = 8888


@dataclass(frozen=True)
class Cluster:
    """The workers, in the order that all of them know.

    Attributes:
      addresses: "HOST:PORT" of each worker.
      index: which of them is this process. Worker 0 is the first worker, which alone writes files.
    """

    addresses: tuple[str, ...]
    index: int

    @property
    def others(self) -> list[int]:
        return [index for index in range(len(self.addresses)) if index != self.index]

    def name(self, index: int) -> str:
        """Returns how messages name a worker."""
        return f"worker {index} ({self.addresses[index]})"


def find_cluster(workers: int | str = "auto") -> Cluster | None:
    """Returns the cluster that TF_CONFIG or Slurm's variables describe; None if there is no other worker.

    `workers` is `training.workers`, the number that should be found, or "auto".
    """
    has_tf_config, cluster = "TF_CONFIG" in os.environ, None
    if has_tf_config or _is_in_slurm():
        cluster = _from_tf_config() if has_tf_config else _from_slurm()
    found = len(cluster.addresses) if cluster else 1
    if workers not in ("auto", found):
        problem = (
            "this process was started alone; `minigpt launch`, `srun` or TF_CONFIG start several"
        )
        if cluster:
            problem = f"{'TF_CONFIG' if has_tf_config else 'Slurm'} describes {found}"
        raise UserError(f"training.workers = {workers}: {problem}")
    return cluster if found > 1 else None


def worker_place() -> tuple[int, int]:
    """Returns the number of this worker and that of all, as `find_cluster`, without TensorFlow."""
    if "TF_CONFIG" in os.environ:
        cluster = _from_tf_config()
        return (cluster.index, len(cluster.addresses)) if cluster else (0, 1)
    if not _is_in_slurm():
        return 0, 1
    return int(os.environ.get("SLURM_PROCID", -1)), int(os.environ["SLURM_STEP_NUM_TASKS"])


def _is_in_slurm() -> bool:
    return os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1"


Job = Literal["chief", "worker"]


class _Task(BaseModel):
    type: Job
    index: NonNegativeInt


class _TFConfig(BaseModel):
    cluster: dict[Job, list[Annotated[str, StringConstraints(pattern=r"^.+:\d+$")]]]
    task: _Task


def _from_tf_config() -> Cluster | None:
    text = os.environ["TF_CONFIG"]
    if text.strip() == "{}":
        return None  # TensorFlow's own way to write that there is no cluster.
    try:
        found = _TFConfig.model_validate_json(text)
        if found.task.index >= len(found.cluster.get(found.task.type, [])):
            raise ValueError
    except ValueError:
        raise UserError(
            f"TF_CONFIG = {text}: should be a JSON object like "
            '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'
        ) from None
    # A chief, if there is one, is the first worker.
    chiefs, workers = found.cluster.get("chief", []), found.cluster.get("worker", [])
    before = len(chiefs) if found.task.type == "worker" else 0
    return Cluster((*chiefs, *workers), before + found.task.index)


def _from_slurm() -> Cluster:
    # Imports TensorFlow, which only several workers need this early.
    import tensorflow as tf

    try:
        tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
        # It would divide the GPUs of a node among its tasks. Slurm's own options do that, and nodes may
        # have none: it is told that every task has one, and leaves CUDA_VISIBLE_DEVICES as it is.
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=SLURM_PORT, gpus_per_node=tasks, gpus_per_task=1, auto_set_gpu=False
        )
        cluster = Cluster(tuple(resolver.cluster_spec().as_dict()["worker"]), int(resolver.task_id))
    except (RuntimeError, ValueError) as error:
        raise UserError(f"the variables of Slurm cannot be used: {error}") from None
    host = cluster.addresses[cluster.index].rpartition(":")[0]
    node = os.environ.get("SLURMD_NODENAME", host)
    if node != host:
        # The resolver sorts the nodes by name, and Slurm by number.
        raise UserError(
            f"Slurm runs worker {cluster.index} on {node}, and TensorFlow expects it on {host}; names of "
            "nodes should have numbers of equal length, or set TF_CONFIG"
        )
    return cluster
