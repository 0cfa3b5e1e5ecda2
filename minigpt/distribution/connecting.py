"""The addresses of workers, and a process that ends a worker that cannot connect to the others.

TensorFlow connects in a call that holds Python's lock, so that the worker itself cannot notice anything.

    python -m minigpt.distribution.connecting PID SECONDS NAME=ADDRESS...
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from minigpt.distribution.cluster import Cluster

CONNECT_SECONDS = 2.0
# A worker whose address has not answered for this time has ended.
SILENT_SECONDS = 15.0


def answers(address: str) -> bool:
    """Returns whether a process listens at an address, "HOST:PORT" or "[IPv6]:PORT"."""
    host, port = _split(address)
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def listen(address: str, backlog: int) -> socket.socket:
    """Listens at the port of an address of this machine.

    Raises:
      OSError: another process uses the port.
    """
    port = _split(address)[1]
    if socket.has_dualstack_ipv6():
        family = socket.AF_INET6
        return socket.create_server(("", port), family=family, backlog=backlog, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=backlog)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


@contextmanager
def watched_connection(cluster: Cluster, seconds: float) -> Iterator[None]:
    """Ends this process, with one line that names the worker, if another one ends within the block.

    Args:
      cluster: the workers.
      seconds: how long the block may take.
    """
    others = [
        f"{cluster.name(index)}={address}"
        for index, address in enumerate(cluster.addresses)
        if index != cluster.index
    ]
    command = [sys.executable, "-m", "minigpt.distribution.connecting", str(os.getpid())]
    watcher = subprocess.Popen([*command, str(seconds), *others], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        watcher.kill()
        watcher.wait()


def watch(pid: int, seconds: float, addresses: dict[str, str]) -> None:
    """Kills a process when one of the addresses does not answer, or the time is over.

    Args:
      pid: the process, the parent of this one.
      seconds: the time.
      addresses: name of each worker → "HOST:PORT".
    """
    began = time.monotonic()
    heard = dict.fromkeys(addresses, began)
    while os.getppid() == pid:
        now = time.monotonic()
        heard |= {name: now for name, address in addresses.items() if answers(address)}
        silent = [name for name, last in heard.items() if time.monotonic() - last > SILENT_SECONDS]
        if silent or now - began > seconds:
            names = ", ".join(silent) or "the other workers"
            reason = "has ended or cannot be reached" if silent else "did not connect"
            print(f"minigpt: {names}: {reason}", file=sys.stderr, flush=True)
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(1)


if __name__ == "__main__":
    parent, limit, *named = sys.argv[1:]
    watch(int(parent), float(limit), dict(each.rsplit("=", 1) for each in named))
