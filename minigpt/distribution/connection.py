"""The connection of several workers: how it begins, what it checks, and how it ends."""

import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import tensorflow as tf

from minigpt.distribution.cluster import Cluster
from minigpt.distribution.launch import end_with_launch
from minigpt.distribution.replicas import Replicas
from minigpt.errors import UserError
from minigpt.interrupts import default_signals
from minigpt.notices import LOGGER

# How long a worker waits for the others to start, when it says so, and how long the connection may take.
START_SECONDS = 600.0
REPORT_SECONDS = 20.0
CONNECTION_SECONDS = 120
CONNECT_SECONDS = 2.0
# A worker that fails waits for this time, so that the others can find out which of them ended first.
GRACE_SECONDS = 3.0

_connected: Cluster | None = None

# What TensorFlow raises when another worker is lost.
LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.FailedPreconditionError,
)


def connect(cluster: Cluster) -> tf.distribute.Strategy:
    """Starts this worker and waits for the others.

    Raises:
      UserError: this worker's address cannot be used, or another worker does not start.
    """
    global _connected
    end_with_launch()
    if cluster != _connected:  # TensorFlow keeps its connections for the whole process.
        _wait_for_others(cluster)
    spec = tf.train.ClusterSpec({"worker": list(cluster.addresses)})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        spec, task_type="worker", task_id=cluster.index, rpc_layer="grpc"
    )
    # The call holds Python's lock, and waits for workers that have ended: only a signal ends it.
    signal.alarm(CONNECTION_SECONDS)
    try:
        with lost_workers(cluster), default_signals():
            strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
    finally:
        signal.alarm(0)
    _connected = cluster
    return strategy


def is_reachable(address: str) -> bool:
    """Returns whether a process listens at an address, "HOST:PORT" or "[IPv6]:PORT"."""
    host, _, port = address.rpartition(":")
    with suppress(OSError):
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        return True
    return False


def _wait_for_others(cluster: Cluster) -> None:
    """Waits until all other workers listen at the same time, in Python, where signals are handled."""
    minutes = START_SECONDS / 60
    LOGGER.info("waiting for %d other workers, at most %g minutes", len(cluster.others), minutes)
    began, reported = time.monotonic(), False
    port = int(cluster.addresses[cluster.index].rpartition(":")[2])
    is_dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_dual else socket.AF_INET
    try:
        server = socket.create_server(
            ("", port), family=family, backlog=len(cluster.addresses), dualstack_ipv6=is_dual
        )
    except OSError:
        problem = "cannot use this address; it is of another machine, or another process uses it"
        raise UserError(f"{cluster.name(cluster.index)}: {problem}") from None
    with server:
        server.setblocking(False)
        while missing := [i for i in cluster.others if not is_reachable(cluster.addresses[i])]:
            waited = time.monotonic() - began
            names = ", ".join(cluster.name(index) for index in missing)
            if waited > START_SECONDS:
                raise UserError(f"{names}: did not start within {minutes:g} minutes")
            if waited > REPORT_SECONDS and not reported:
                # Not logged: only the first worker shows what is logged, and it may be the missing one.
                print(f"minigpt: {names}: not started yet; waiting", file=sys.stderr)
                reported = True
            # The workers that check whether this one listens: before the queue is full.
            with suppress(BlockingIOError):
                while True:
                    server.accept()[0].close()
            time.sleep(0.2)


def check_equal(replicas: Replicas, record: dict[str, Any]) -> None:
    """Checks that all workers have the same JSON values by name.

    Raises:
      UserError: in every worker; one line for each difference of a worker from the first one.
    """
    first, *others = replicas.gather(record)
    assert replicas.cluster
    problems = [
        f"{replicas.cluster.name(index)}: {name} = {other.get(name)!r}; worker 0 has {value!r}"
        for index, other in enumerate(others, 1)
        for name, value in first.items()
        if other.get(name) != value
    ]
    if problems:
        raise UserError(*problems)


@contextmanager
def lost_workers(cluster: Cluster | None) -> Iterator[None]:
    """Turns the loss of another worker into a `UserError` that names it."""
    try:
        yield
    except (RuntimeError, *LOST) as error:
        named = {int(task) for task in re.findall(r"/task:(\d+)", str(error))}
        if cluster is None or not named - {cluster.index}:
            raise
        gone = [index for index in cluster.others if not is_reachable(cluster.addresses[index])]
        time.sleep(GRACE_SECONDS)
        names = ", ".join(cluster.name(i) for i in gone or sorted(named - {cluster.index}))
        problem = "has ended or cannot be reached; resume training from its last checkpoint"
        raise UserError(f"{names}: {problem}") from None
