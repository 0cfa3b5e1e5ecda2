"""Starts several workers on this machine."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from minigpt.errors import UserError
from minigpt.interrupts import signals_handled_by

# Workers end by themselves when one of them has failed. One that does not, for example because it waits
# for it to connect, is interrupted after the first time, and killed after the second.
INTERRUPT_SECONDS, KILL_SECONDS = 10.0, 30.0
Worker = subprocess.Popen[bytes]
# The variable that tells a worker the process that launched it.
_LAUNCHED_BY = "MINIGPT_LAUNCHED_BY"


def launch(arguments: Sequence[str], workers: int) -> list[int]:
    """Runs a command of minigpt in several processes of this machine, which train together.

    The first worker prints as usual, the others only errors. Ctrl-C, SIGTERM and SIGHUP reach all of them.

    Args:
      arguments: of the command, without the program: `["train", "--config", "python"]`.
    Returns:
      the exit status of each worker; negative for the number of the signal that ended it.
    """
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    environments = [worker_environment(addresses, index) for index in range(workers)]
    processes: list[Worker] = []
    readers: list[threading.Thread] = []
    shown: set[bytes] = set()

    def forward(number: int, _: object) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    # In their own process groups, so that a terminal does not send them Ctrl-C as well.
    with signals_handled_by(forward):
        try:
            for index, environment in enumerate(environments):
                process = subprocess.Popen(
                    [sys.executable, "-m", "minigpt", *arguments],
                    env=os.environ | environment | {_LAUNCHED_BY: str(os.getpid())},
                    process_group=0,
                    stdin=subprocess.DEVNULL if workers > 1 else None,
                    # Only the first worker prints.
                    stdout=subprocess.DEVNULL if index else None,
                    stderr=subprocess.PIPE,
                )
                processes.append(process)
                reader = threading.Thread(target=_copy_errors, args=(process, shown), daemon=True)
                reader.start()
                readers.append(reader)
            statuses = _wait(processes)
            for reader in readers:
                reader.join()
            return statuses
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()


def end_with_launch() -> None:
    """Makes a process that `launch` has started end, as after SIGTERM, when `launch` is gone."""
    launched_by = os.environ.get(_LAUNCHED_BY)

    def watch() -> None:
        while str(os.getppid()) == launched_by:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    if launched_by:
        threading.Thread(target=watch, daemon=True).start()


def _copy_errors(process: Worker, shown: set[bytes]) -> None:
    """Copies what a worker writes to standard error; a message that several workers write, once."""
    assert process.stderr
    for line in process.stderr:
        if line not in shown:
            os.write(2, line)
        if line.startswith(b"minigpt: "):
            shown.add(line)


def _wait(processes: list[Worker]) -> list[int]:
    """Waits for all, or until one fails, and then ends the others; returns their statuses."""
    failed, ends = None, [(INTERRUPT_SECONDS, Worker.terminate), (KILL_SECONDS, Worker.kill)]
    while running := [process for process in processes if process.poll() is None]:
        if failed is None and any(process.poll() for process in processes):
            failed = time.monotonic()
        if failed is not None and ends and time.monotonic() > failed + ends[0][0]:
            _, end = ends.pop(0)
            for process in running:
                end(process)
        time.sleep(0.1)
    return [process.returncode for process in processes]


def worker_environment(addresses: Sequence[str], index: int) -> Mapping[str, str]:
    """Returns the variables of one worker: its place, and its share of the GPUs or of the cores."""
    place = {"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": index}}
    environment = {
        "TF_CONFIG": json.dumps(place),
        # The log of a worker whose connection ends is several lines; minigpt says it in one.
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    gpus, workers = _gpus(), len(addresses)
    if gpus:
        share = len(gpus) // workers
        if not share:
            raise UserError(
                f"--workers {workers}: should be at most {len(gpus)}, the number of GPUs; or set "
                "CUDA_VISIBLE_DEVICES to nothing to use the CPU"
            )
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[index * share : (index + 1) * share])
    else:
        threads = str(max(1, (os.cpu_count() or 1) // workers))
        environment |= {"TF_NUM_INTRAOP_THREADS": threads, "OMP_NUM_THREADS": threads}
    return environment


def _gpus() -> list[str]:
    """Returns the numbers or names of the GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        # -1 hides all GPUs.
        return [gpu for gpu in visible.split(",") if gpu and gpu != "-1"]
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True).stdout
    return [str(number) for number, line in enumerate(listed.splitlines()) if line]


def free_ports(count: int) -> list[int]:
    """Returns ports of this machine that no process listens on."""
    with contextlib.ExitStack() as sockets:
        opened = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in opened:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in opened]
