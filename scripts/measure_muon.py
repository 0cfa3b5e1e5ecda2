"""Measures what replicas gain by dividing the matrices of Muon's update.

    python scripts/measure_muon.py [--layers 4] [--width 128] [--rows 8] [--length 256] [--calls 15]

On 2 and 4 processes and on 2 simulated devices, each with one thread, times an update and a whole step:

    whole    every replica orthogonalizes all matrices
    divided  each orthogonalizes its share; an all-reduce of all matrices, with zeros for those of others

The two take turns, and start together in all processes. The time of a call is that of its slowest
process, by the clock and of its processor; the latter says more beside other programs. Two processes have
a core each. Four share two: by the clock, dividing the work saves twice as much as on four machines.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minigpt.config import load_config
from minigpt.distribution.launch import free_ports, worker_environment

# Processes, and devices of each.
CASES = {"2 processes": (2, 1), "4 processes": (4, 1), "2 devices": (1, 2)}
MODES = ("whole", "divided")
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rows", type=int, default=8, help="rows of the global batch")
    parser.add_argument("--length", type=int, default=256, help="tokens of a row")
    parser.add_argument("--calls", type=int, default=15, help="of each measurement")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--without-steps", action="store_true", help="time only updates")
    arguments = parser.parse_args()
    if "MEASURED_DEVICES" in os.environ:
        print(json.dumps(measure(arguments, int(os.environ["MEASURED_DEVICES"]))))
        return
    print(" ".join(sys.argv[1:]) + "; medians, milliseconds\n")
    parts = [f"{part}, {mode}" for part in ("update", "step") for mode in MODES]
    ratios = [f"{part}, divided / whole" for part in ("update", "step")]
    columns = ["replicas", "matrices, MB", "time", *parts, *ratios, "difference"]
    print(f"| {' | '.join(columns)} |\n|" + "---|" * len(columns))
    for name in arguments.cases:
        found = run(*CASES[name])
        for clock in CLOCKS:
            times = [found[part][mode][clock] for part in ("update", "step") for mode in MODES]
            print(
                f"| {name} | {found['bytes'] / 1e6:.1f} | {clock} | "
                + " | ".join(f"{1e3 * seconds:.1f}" for seconds in times)
                + f" | {times[1] / times[0]:.2f} | {times[3] / times[2]:.2f} | {found['difference']:.1g} |",
                flush=True,
            )


def run(workers: int, devices: int) -> dict[str, Any]:
    """Returns what the first of several workers measures."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    one_thread = {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env=os.environ
            | (dict(worker_environment(addresses, index)) if workers > 1 else {})
            | {**one_thread, "MEASURED_DEVICES": str(devices), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for index in range(workers)
    ]
    outputs = [process.communicate()[0] for process in processes]
    found: dict[str, Any] = json.loads(outputs[0].splitlines()[-1])
    return found


def measure(arguments: argparse.Namespace, devices: int) -> dict[str, Any]:
    """Returns median seconds of an update and of a step, by mode, and how much the updates differ."""
    import keras
    import tensorflow as tf

    from minigpt.corpus.token_store import open_corpus
    from minigpt.distribution import devices as module
    from minigpt.distribution.cluster import find_cluster
    from minigpt.distribution.divided_muon import DividedMuon
    from minigpt.distribution.fit import ReplicatedStep
    from minigpt.training.optimizers.updates import Muon
    from minigpt.training.start import initial_model
    from minigpt.training.tasks import build_task

    settings = {
        "model.num_layers": arguments.layers,
        "model.embed_dim": arguments.width,
        "model.ff_dim": 4 * arguments.width,
        "model.max_len": arguments.length,
        "training.batch_size": arguments.rows,
        "training.devices": devices,
    }
    config = load_config("default", [f"{name}={value}" for name, value in settings.items()])
    strategy = module.Devices()
    _, replicas = module.set_up_replicas(config.training, find_cluster())
    strategy.replicas = replicas
    assert replicas
    task = build_task(config, open_corpus(config.data, config.tokenizer))
    model = strategy.build_model(lambda: initial_model(task))

    class Measured(DividedMuon):
        """Updates in either mode, and compiles what an update and a step have in common once."""

        mode = "whole"

        @property
        def kind(self) -> type[Muon]:
            return {"whole": Muon, "divided": DividedMuon}[self.mode]

        def run_update(self, update: Callable[[Any], None], gradients: Any) -> None:
            self.kind.run_update(self, update, gradients)

        def update_variables(self, gradients: Any, variables: Any, learning_rate: Any) -> None:
            self.kind.update_variables(self, gradients, variables, learning_rate)

        def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
            key = self.mode, self.replicas.current(), function.__qualname__
            if key not in compiled:
                compiled[key] = super()._compiled(function)
            return compiled[key]

    compiled: dict[Any, Callable[..., Any]] = {}
    module.DividedMuon = Measured  # type: ignore[misc]
    strategy.compile(task, model)
    optimizer: Any = model.optimizer
    values = [
        tf.random.stateless_normal(variable.shape, (0, index))
        for index, variable in enumerate(model.trainable_weights)
    ]
    state = [*model.trainable_weights, *optimizer.variables]

    def update() -> Any:
        optimizer.apply(values, model.trainable_weights)
        return tf.identity(optimizer.iterations)

    def values_of_state() -> list[np.ndarray]:
        return [keras.ops.convert_to_numpy(variable) for variable in state]

    updates, steps, results = {}, {}, {}
    before = values_of_state()
    replicated = ReplicatedStep(task, model, replicas)
    for mode in MODES:
        optimizer.mode = mode  # Read when the two are traced, by their first calls.
        updates[mode] = _call(tf.function(lambda: replicas.run(update), autograph=False))
        updates[mode]()
        results[mode] = values_of_state()
        gradients = replicated._gradients
        replicated = ReplicatedStep(task, model, replicas)
        replicated._gradients = gradients
        steps[mode] = _call(partial(_loss, replicated))
        if not arguments.without_steps:
            steps[mode]()
        for variable, value in zip(state, before, strict=True):
            variable.assign(value)
    matrices = [
        variable
        for variable, velocity in zip(
            model.trainable_weights, optimizer.adam_velocities, strict=True
        )
        if velocity is None
    ]
    no_times = {mode: dict.fromkeys(CLOCKS, float("nan")) for mode in MODES}
    return {
        "bytes": 4 * sum(int(np.prod(v.shape)) for v in matrices),
        "difference": max(
            float(np.max(np.abs(one - other)) / np.max(np.abs(one - start)))
            for one, other, start in zip(*results.values(), before, strict=True)
            if np.any(one != start)
        ),
        "update": _medians(updates, arguments.calls, replicas),
        "step": no_times if arguments.without_steps else _medians(steps, arguments.calls, replicas),
    }


def _loss(step: Any) -> Any:
    return step(0)["loss"]


def _call(function: Callable[[], Any]) -> Callable[[], float]:
    """A call that returns when its result is there."""
    return lambda: float(function())


def _medians(
    calls: dict[str, Callable[[], float]], count: int, replicas: Any
) -> dict[str, dict[str, float]]:
    """Returns the median seconds of calls that take turns, of the slowest worker, by each clock."""
    times: dict[str, list[list[float]]] = {name: [] for name in calls}
    for _ in range(count):
        for name, call in calls.items():
            replicas.from_first(None)  # Waits for the others.
            start = [clock() for clock in CLOCKS.values()]
            call()
            end = [clock() for clock in CLOCKS.values()]
            times[name].append([b - a for a, b in zip(start, end, strict=True)])
    of_workers = replicas.gather(times)
    medians = {}
    for name in calls:
        slowest = np.max([worker[name] for worker in of_workers], axis=0)
        medians[name] = dict(zip(CLOCKS, np.median(slowest, axis=0).tolist(), strict=True))
    return medians


if __name__ == "__main__":
    main()
