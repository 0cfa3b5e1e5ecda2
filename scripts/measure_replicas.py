"""Measures what a training step costs on 1, 2 and 4 processes, and estimates it for GPUs.

    python scripts/measure_replicas.py [--layers 4] [--width 256] [--rows 8] [--seconds 10]

Each process is a worker of one replica; all share the cores of this machine, so that the times say nothing
about speed. What is checked is the model

    seconds of a step = gradients of the rows of a replica + sum over the replicas + update

in which the sum of G bytes of gradients over N replicas sends 2 (N - 1) / N · G bytes per replica (a ring:
Patarasuk & Yuan 2009). The bytes are counted by the loopback device, if the system has /proc/net/dev.
Afterwards the same model is computed for machines with GPUs; see docs/distributed.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minigpt.config import load_config
from minigpt.distribution.launch import free_ports, worker_environment

WORKERS = (1, 2, 4)
# FLOP/s of an A100 in bfloat16, and the share of them that training of a GPT reaches.
GPU_FLOPS, UTILIZATION = 312e12, 0.4
# The speed of the slowest link of the ring, bytes/s: within a machine (NVLink), and between machines.
RINGS = {
    "8 GPUs, 1 machine, NVLink": (8, 300e9),
    "64 GPUs, 8 machines, 100 Gbit/s": (64, 12.5e9),
    "64 GPUs, 8 machines, 400 Gbit/s": (64, 50e9),
    "512 GPUs, 64 machines, 400 Gbit/s": (512, 50e9),
}
# Parameters; tokens that a GPU computes at once; accumulated batches.
MODELS = {"124M": (124_439_808, 32 * 1024), "1.5B": (1_557_611_200, 8 * 1024)}
ACCUMULATED = (1, 4, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rows", type=int, default=8, help="rows of the global batch")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    arguments = parser.parse_args()
    if "TF_CONFIG" in os.environ or os.environ.get("MEASURES_ALONE"):
        print(json.dumps(measure(arguments)))
        return
    print(f"{os.cpu_count()} cores; global batch of {arguments.rows} x 256 tokens; milliseconds\n")
    print(
        "| processes | gradients | sum | update | total | step | tokens/s | efficiency | "
        "MB sent per step | 2 (N - 1) G, MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    alone = None
    for workers in WORKERS:
        found = run(workers)
        alone = alone or found["step"]
        print(row(workers, found, 256 * arguments.rows, alone))
    print("\nOn GPUs, without overlap:\n")
    print(
        "| model | replicas | batches | tokens per update | gradients, s | sum, s | efficiency | "
        "GPU-hours for 10^9 tokens |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for line in on_gpus():
        print(line)


def run(workers: int) -> dict[str, Any]:
    """Returns what the first of several workers measures."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    alone = {"MEASURES_ALONE": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    processes = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env=os.environ | (alone if workers == 1 else worker_environment(addresses, index)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for index in range(workers)
    ]
    outputs = [process.communicate()[0] for process in processes]
    found: dict[str, Any] = json.loads(outputs[0].splitlines()[-1])
    return found


def row(workers: int, found: dict[str, Any], tokens: int, alone: float) -> str:
    parts = [found["gradients"], found["sum"], found["update"]]
    bytes_sent = 2 * (workers - 1) * found["bytes"]
    times = " | ".join(f"{1e3 * seconds:.1f}" for seconds in (*parts, sum(parts), found["step"]))
    speed = f"{tokens / found['step']:,.0f} | {alone / found['step']:.0%}"
    return f"| {workers} | {times} | {speed} | {found['sent'] / 1e6:.2f} | {bytes_sent / 1e6:.2f} |"


def on_gpus() -> list[str]:
    """Returns the lines of the table for machines with GPUs."""
    lines = []
    for model, (parameters, tokens) in MODELS.items():
        for ring, (gpus, speed) in RINGS.items():
            sum_seconds = 2 * (gpus - 1) / gpus * 4 * parameters / speed
            for batches in ACCUMULATED:
                # 6 operations per parameter and token (Kaplan et al. 2020, section 2.1).
                seconds = batches * 6 * parameters * tokens / (GPU_FLOPS * UTILIZATION)
                share = seconds / (seconds + sum_seconds)
                hours = (seconds + sum_seconds) / (batches * tokens) * 1e9 / 3600
                lines.append(
                    f"| {model} | {ring} | {batches} | {batches * tokens * gpus:,} | {seconds:.2f} | "
                    f"{sum_seconds:.3f} | {share:.0%} | {hours:.1f} |"
                )
    return lines


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the median seconds of a step and of its parts, and the bytes that all workers send."""
    import tensorflow as tf

    from minigpt.corpus.token_store import open_corpus
    from minigpt.distribution.cluster import find_cluster
    from minigpt.distribution.devices import Devices, set_up_replicas
    from minigpt.distribution.fit import ReplicatedStep
    from minigpt.training.start import initial_model
    from minigpt.training.tasks import build_task

    sizes = [f"model.num_layers={arguments.layers}", f"model.embed_dim={arguments.width}"]
    rows = f"training.batch_size={arguments.rows}"
    config = load_config("default", [*sizes, f"model.ff_dim={4 * arguments.width}", rows])
    cluster = find_cluster()
    strategy = Devices()
    _, replicas = set_up_replicas(config.training, cluster)
    strategy.replicas = replicas
    task = build_task(config, open_corpus(config.data, config.tokenizer))
    model = strategy.build_model(lambda: initial_model(task))
    strategy.compile(task, model)
    inputs, targets, _ = task.batch(0)
    share = len(targets) // (replicas.count if replicas else 1)
    gradients = tf.function(model.loss_and_gradients, jit_compile=True, autograph=False)
    part = (inputs[:share], targets[:share], None, 1000.0)
    values = [tf.constant(value) for value in gradients(*part)[2]]
    variables = model.trainable_weights
    found: dict[str, Any] = {
        "bytes": sum(value.dtype.size * int(tf.size(value)) for value in values)
    }
    timed = _Timed(arguments.seconds)
    found["gradients"] = timed(lambda: float(gradients(*part)[0]))
    if replicas is None:
        step = tf.function(model.train_step, jit_compile=True, autograph=False)
        update = tf.function(
            lambda: model.optimizer.apply(values, variables), jit_compile=True, autograph=False
        )
        batches = iter(range(10**9))
        found |= {"sum": 0.0, "sent": 0.0, "update": timed(update)}
        found["step"] = timed(lambda: float(step(task.batch(next(batches)))["loss"]))
        return found
    sum_all = tf.function(lambda: replicas.run(lambda: replicas.sum(values)[0]), autograph=False)
    update = tf.function(
        lambda: replicas.run(lambda: model.optimizer.apply(values, variables)), autograph=False
    )
    replicated = ReplicatedStep(task, model, replicas)
    # The same number of times in all workers, whatever their clocks say.
    timed.agree = replicas.from_first
    found["sum"] = timed(lambda: float(tf.reduce_sum(sum_all())))
    found["update"] = timed(update)
    numbers = iter(range(10**9))
    found["step"] = timed(lambda: float(replicated(next(numbers))["loss"]))
    before = _sent()
    for _ in range(10):
        replicated(next(numbers))
    replicas.from_first(None)
    found["sent"] = (_sent() - before) / 10
    replicas.from_first(None)
    return found


class _Timed:
    """Measures the median of calls.

    Args:
      seconds: of all calls together.
    Attributes:
      agree: called with the number of calls; returns that of the first worker.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.agree: Callable[[Any], Any] = lambda calls: calls

    def __call__(self, call: Callable[[], Any]) -> float:
        call()
        start = time.perf_counter()
        call()
        calls = self.agree(max(5, int(self.seconds / (time.perf_counter() - start + 1e-4))))
        times = []
        for _ in range(min(calls, 200)):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def _sent() -> int:
    """Returns the bytes that this machine has sent to itself; 0 where the system does not count them."""
    counters = Path("/proc/net/dev")
    if not counters.is_file():
        return 0
    line = next(
        line for line in counters.read_text().splitlines() if line.strip().startswith("lo:")
    )
    return int(line.split(":")[1].split()[8])


if __name__ == "__main__":
    main()
