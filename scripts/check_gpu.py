"""Checks minigpt on the GPUs of this machine, and writes a report. docs/gpu.md describes the checks.

    python scripts/check_gpu.py
    python scripts/check_gpu.py --only xla --only resume --output report.md
    python scripts/check_gpu.py --allow-cpu      # tries the script itself, with a tiny model

Each check is a process of its own, which cannot stop the others. The exit status is 1 if one fails.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

MAX_SECONDS = 1800
# A process that ends in the middle of training, by a signal that nothing can catch.
KILLED = """
import os, signal, sys, keras, minigpt
class Kill(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
minigpt.train(sys.argv[1], sys.argv[2], callbacks=[Kill()])
"""


class Skipped(Exception):
    """A check cannot be made here, and why."""


def require(condition: bool, figures: str) -> None:
    if not condition:
        raise AssertionError(figures)


class Bench:
    """What the checks share.

    Attributes:
      work: a folder that all checks of a report use.
      gpus: TensorFlow's GPUs; none on a machine where only the script is tried.
      device: the first of them, for `tf.device`.
    """

    def __init__(self, work: Path) -> None:
        import minigpt  # Sets TF_FORCE_GPU_ALLOW_GROWTH, and hides TensorFlow's log lines.

        getattr(minigpt, "train")  # noqa: B009
        import tensorflow as tf

        self.work = work
        self.gpus: list[Any] = tf.config.list_physical_devices("GPU")
        self.device = "GPU:0" if self.gpus else "CPU:0"

    def config(self, *overrides: str) -> Any:
        """Returns the default configuration for two short epochs, or that of a tiny model."""
        import minigpt

        epochs = ["training.epochs=2", "training.steps_per_epoch=150", "training.max_minutes=none"]
        small = ["training.devices=1", "sampling.prompts=[]"]
        if not self.gpus:
            text = self.work / "text.txt"
            if not text.exists():
                names = ("Ana", "Ben", "Eva", "Tom")
                lines = [f"{a} met {b} and {c}." for a in names for b in names for c in names]
                text.write_text("\n".join(lines * 3))
            small += ["data.source=files", f"data.paths={json.dumps([str(text)])}"]
            small += ["tokenizer.kind=character", "tokenizer.vocab_size=512"]
            small += ["model.max_len=16", "model.embed_dim=16", "model.num_layers=1"]
            small += ["training.steps_per_epoch=8", "training.warmup_steps=0"]
        return minigpt.load_config("default", [*epochs, *small, *overrides])

    def train(self, name: str, *overrides: str) -> tuple[list[float], float]:
        """Trains without exports; returns the loss of each epoch, and the last tokens per second."""
        from minigpt.distribution.devices import Devices
        from minigpt.training.pipeline import train

        run = train(
            self.config(*overrides),
            self.work / name,
            strategy=Devices(),
            console=Console(quiet=True),
        )
        lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
        return [line["val_loss"] for line in lines], lines[-1]["tokens_per_second"]

    def finished_run(self) -> Any:
        """Returns a run with its exports, which the first check that asks for it trains."""
        import minigpt

        path = self.work / "finished"
        if not (path / "saved_model").exists():
            minigpt.train(self.config(), path, console=Console(quiet=True))
        return minigpt.Run(path)


def device(bench: Bench) -> str:
    """A product of matrices is computed on the GPU."""
    import tensorflow as tf

    from minigpt.training.strategy import device_name

    with tf.device(bench.device):
        product = tf.matmul(tf.ones([64, 64]), tf.ones([64, 64]))
    require(product.device.endswith(bench.device), f"computed on {product.device}")
    build = tf.sysconfig.get_build_info()
    versions = [f"{key} {build[key]}" for key in ("cuda_version", "cudnn_version") if key in build]
    return ", ".join([f"{max(1, len(bench.gpus))} x {device_name(bench.gpus)}", *versions])


def kernels(bench: Bench) -> str:
    """Logits and gradients of each block equal those of the CPU in float32."""
    import numpy as np
    import tensorflow as tf

    from minigpt.models import build_model

    tf.config.experimental.enable_tensor_float_32_execution(False)
    ids = np.arange(128, dtype="int32").reshape(4, 32) % 50
    found = {}
    for block in ("modern", "pre_norm", "post_norm"):
        config = bench.config(f"model.block={block}", "model.max_len=32", "model.dropout_rate=0.0")
        model = build_model(config.model, 50)
        results = []
        for name in ("CPU:0", bench.device):
            with tf.device(name), tf.GradientTape() as tape:
                logits = model(ids)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits))
                gradients = tape.gradient(loss, model.trainable_weights)
            results.append([tf.convert_to_tensor(value).numpy() for value in (logits, *gradients)])
        found[block] = max(
            float(np.abs(a - b).max() / max(1e-6, np.abs(a).max()))
            for a, b in zip(*results, strict=True)
        )
    figures = ", ".join(f"{block} {value:.1e}" for block, value in found.items())
    require(max(found.values()) < 1e-3, f"largest relative difference: {figures}")
    return f"largest relative difference: {figures}"


def precision(bench: Bench) -> str:
    """Training in bfloat16 and float16: the loss falls, to within 5% of that of float32."""
    names = ("float32", "mixed_bfloat16", "mixed_float16")
    losses = {name: bench.train(name, f"training.precision={name}")[0] for name in names}
    figures = ", ".join(
        f"{name} {first:.3f} to {last:.3f}" for name, (first, last) in losses.items()
    )
    right = losses["float32"][1]
    good = all(last < first and abs(last / right - 1) < 0.05 for first, last in losses.values())
    require(good, f"validation loss: {figures}")
    return f"validation loss: {figures}"


def xla(bench: Bench) -> str:
    """Training with and without XLA: losses that differ by less than 2%, and the speed of both."""
    found = {
        on: bench.train(f"xla-{on}", f"training.jit_compile={on}", "model.dropout_rate=0.0")
        for on in ("true", "false")
    }
    (with_xla, fast), (without, slow) = found.values()
    figures = f"{with_xla[-1]:.4f} with, {without[-1]:.4f} without; {fast / slow:.2f} times as fast"
    require(abs(with_xla[-1] / without[-1] - 1) < 0.02, figures)
    return figures


def resume(bench: Bench) -> str:
    """Deterministic training that was killed and resumed ends with the same bytes."""
    from minigpt.runs.checkpoints import read_checkpoint
    from minigpt.training.pipeline import train

    settings = ("training.deterministic=true", "training.checkpoint_every_steps=3")
    bench.train("straight", *settings)
    # Its settings include those that were chosen for the text.
    file, killed = bench.work / "straight" / "config.toml", bench.work / "killed"
    command = [sys.executable, "-c", KILLED, str(file), str(killed), "5"]
    status = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    require(status == -9, f"the process to be killed ended with the status {status}")
    train(resume_from=killed, console=Console(quiet=True))
    ends = [max((bench.work / name / "checkpoints").iterdir()) for name in ("straight", "killed")]
    right, other = (read_checkpoint(path).arrays for path in ends)
    different = [name for name in right if right[name].tobytes() != other[name].tobytes()]
    require(list(right) == list(other) and not different, f"{len(different)} arrays differ")
    return f"{len(right)} arrays of weights and optimizer are equal"


def devices(bench: Bench) -> str:
    """Two devices that share each batch: the losses of one, to within 1%."""
    if len(bench.gpus) == 1:
        raise Skipped("there is one GPU")
    settings = ("model.dropout_rate=0.0", "training.jit_compile=false")
    # Two first: TensorFlow divides the CPU before it is used.
    (two, both), (one, alone) = (
        bench.train(f"devices-{n}", *settings, f"training.devices={n}") for n in (2, 1)
    )
    figures = f"{one[-1]:.4f} on one, {two[-1]:.4f} on two; {both / alone:.2f} times as fast"
    require(abs(two[-1] / one[-1] - 1) < 0.01, figures)
    return figures


def memory(bench: Bench) -> str:
    """TensorFlow takes memory as it needs it, and at least what minigpt forecasts."""
    import tensorflow as tf

    from minigpt.models.memory_estimate import training_bytes

    if not bench.gpus:
        raise Skipped("there is no GPU")
    config = bench.config("training.batch_size=64")
    bench.train("memory", "training.batch_size=64")
    grows = tf.config.experimental.get_memory_growth(bench.gpus[0])
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    forecast = sum(training_bytes(config, config.tokenizer.vocab_size))
    figures = f"at least {forecast / 1e6:.0f} MB forecast, {peak / 1e6:.0f} MB used"
    grown = grows or os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
    require(grown and forecast < peak, figures)
    return figures


def generation(bench: Bench) -> str:
    """Greedy texts equal those of the portable file, which the CPU computes."""
    import minigpt

    run = bench.finished_run()
    prompts = ["", "Once upon a time", "The", "One day"]
    models: list[Any] = [minigpt.load(run), minigpt.load_portable(run.portable_file)]
    texts = [model.generate(prompts, max_new_tokens=20, temperature=0) for model in models]
    same = sum(a == b for a, b in zip(*texts, strict=True))
    # Where two tokens are almost equally probable, rounding decides.
    require(same >= 3, f"{same} of {len(prompts)} texts are equal")
    return f"{same} of {len(prompts)} texts are equal"


def exports(bench: Bench) -> str:
    """The SavedModel, the Keras file and the portable file are within their tolerance of the run."""
    import minigpt

    run = bench.finished_run()
    keras_file = bench.work / "exported.keras"
    minigpt.export_run(run, "keras", keras_file)
    files = (run.saved_model_folder, keras_file, run.portable_file)
    problems = [line for file in files for line in minigpt.verify(file, run)["problems"]]
    require(not problems, "; ".join(problems))
    return "minigpt verify: no problems with " + ", ".join(file.name for file in files)


CHECKS: dict[str, Callable[[Bench], str]] = {
    check.__name__: check
    for check in (*(device, kernels, precision, xla, resume, devices, memory, generation, exports),)
}


def in_this_process(name: str, work: Path, allow_cpu: bool) -> tuple[str, str]:
    """Makes a check; returns "passed", "failed" or "skipped", and figures or the reason."""
    bench = Bench(work)
    if not bench.gpus and not allow_cpu:
        return "failed", "TensorFlow finds no GPU; --allow-cpu tries the script without one"
    try:
        return "passed", CHECKS[name](bench)
    except Skipped as reason:
        return "skipped", str(reason)
    except Exception as error:  # A report says what failed, whatever it is.
        return "failed", f"{type(error).__name__}: {error}".partition("\n")[0]


def in_a_process(name: str, work: Path, allow_cpu: bool) -> tuple[str, str]:
    """Makes a check in another process."""
    command = [sys.executable, __file__, "--run", name, "--work", str(work)]
    try:
        found = subprocess.run(
            command + ["--allow-cpu"] * allow_cpu,
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
        )
        result, figures = json.loads(found.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return "failed", f"not done after {MAX_SECONDS} s"
    except (IndexError, ValueError):
        last = (found.stderr.splitlines() or [""])[-1]
        return "failed", f"the process ended with the status {found.returncode}: {last}"
    return result, figures


def report(rows: list[tuple[str, str, str, float]]) -> str:
    """Returns the report in Markdown."""
    driver = Path("/proc/driver/nvidia/version")
    facts = {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "system": platform.platform(),
        "driver": driver.read_text().splitlines()[0] if driver.is_file() else "no NVIDIA driver",
        "Python": platform.python_version(),
    }
    for package in ("minigpt-keras", "tensorflow", "keras", "numpy", "torch"):
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    lines = ["# minigpt on a GPU", "", "`python scripts/check_gpu.py` wrote this report.", ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items()), ""]
    lines += ["| check | result | figures | seconds |", "|---|---|---|---|"]
    for name, result, figures, seconds in rows:
        lines.append(f"| `{name}` | {result} | {figures.replace('|', '/')} | {seconds:.0f} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks minigpt on the GPUs of this machine.")
    parser.add_argument("--output", type=Path, default=Path("gpu-report.md"))
    parser.add_argument("--only", action="append", choices=CHECKS, metavar="CHECK")
    parser.add_argument(
        "--allow-cpu", action="store_true", help="use a tiny model if there is no GPU"
    )
    parser.add_argument("--run", choices=CHECKS, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(in_this_process(options.run, options.work, options.allow_cpu)))
        return 0
    rows: list[tuple[str, str, str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only or CHECKS:
            began = time.perf_counter()
            result, figures = in_a_process(name, Path(folder), options.allow_cpu)
            rows.append((name, result, figures, time.perf_counter() - began))
            print(f"{name}: {result}: {figures}", flush=True)
            # What is known is kept if the next check takes the machine down.
            options.output.write_text(report(rows), encoding="utf-8")
            if name == "device" and result == "failed":
                break
    print(f"The report is in {options.output}.")
    return int(any(result == "failed" for _, result, _, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
