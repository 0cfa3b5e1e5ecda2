"""Compares the speed of minigpt with other programs and with its targets.

    make benchmark [CASES="train-words start"] [OUTPUT=results.json]
    python scripts/benchmark.py [CASE]... [--output FILE]

Needs the extra `benchmark`. Ratios are valid within one run on one machine that runs nothing else.
"""

import argparse
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from importlib import metadata, util
from pathlib import Path
from typing import NoReturn

from benchmarks.case import Case
from benchmarks.cases import build_cases
from benchmarks.report import Result, failed, remarks, table, write_json
from benchmarks.rounds import Runner
from benchmarks.running import run_case
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PACKAGES = ("tensorflow", "keras", "keras-hub", "torch", "transformers", "tokenizers")
# Packages of the extra that the modules of `benchmarks` import.
EXTRA = {
    "keras_hub_gpt": ("keras_hub",),
    "limits": ("torch",),
    "nanogpt": ("torch",),
    "quality": ("torch",),
    "torch_gpt2": ("torch", "transformers"),
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def arguments() -> tuple[argparse.Namespace, list[Case]]:
    """Returns the parsed arguments and the selected cases."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [case.name for case in build_cases(quick=False)]
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help=f"any of {', '.join(names)}; default: all"
    )
    parser.add_argument("--output", type=Path, help="write the results to this file as JSON")
    parser.add_argument(
        "--shakespeare",
        default=os.environ.get("MINIGPT_SHAKESPEARE"),
        help="path of tiny Shakespeare for `quality` (or $MINIGPT_SHAKESPEARE); downloaded by default",
    )
    parser.add_argument("--rounds", type=int, help="maximum number of measurements of each case")
    parser.add_argument(
        "--quick", action="store_true", help="one short round, to show that everything runs"
    )
    parser.add_argument("--work", type=Path, help="keep texts, models and logs in this folder")
    given = parser.parse_args()
    if unknown := sorted(set(given.cases) - set(names)):
        parser.error(f"unknown case {', '.join(unknown)}; should be one of {', '.join(names)}")
    if given.rounds is not None and given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: should be 1 or more")
    if given.shakespeare:
        given.shakespeare = os.path.abspath(given.shakespeare)
        if not os.path.isfile(given.shakespeare):
            parser.error(f"--shakespeare {given.shakespeare}: no such file")
    if given.output:
        given.output = given.output.absolute()
        if given.output.is_dir() or not os.access(given.output.parent, os.W_OK):
            parser.error(f"--output {given.output}: should be a file in a writable folder")
    cases = [
        case
        for case in build_cases(given.quick, given.shakespeare)
        if not given.cases or case.name in given.cases
    ]
    modules = {party.place.partition(":")[0] for case in cases for party in case.parties()}
    needed = {package for module in modules for package in EXTRA.get(module, ())}
    if missing := sorted(package for package in needed if not util.find_spec(package)):
        parser.error(
            f"{', '.join(missing)} not installed: pip install -c constraints.txt -e '.[benchmark]'"
        )
    return given, cases


def machine() -> str:
    """Returns one line that describes the machine and the software versions."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text().splitlines()
        model = next((x.split(": ")[1] for x in lines if x.startswith("model name")), model)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    installed = [name for name in PACKAGES if util.find_spec(name.replace("-", "_"))]
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in installed)
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GB; {platform.system()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def run(
    cases: list[Case],
    work: Path,
    given: argparse.Namespace,
    console: Console,
    results: list[Result],
) -> None:
    """Appends the result of each case to `results`, and rewrites the output file after each."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    rounds = given.rounds or (1 if given.quick else None)
    with Progress(TextColumn("{task.description}"), *columns, console=console) as progress:
        task = progress.add_task("", total=len(cases))

        def say(what: str) -> None:
            progress.update(task, description=what)
            if not console.is_terminal:
                console.print(f"{time.strftime('%H:%M:%S')} {what}")

        for case in cases:
            result = run_case(case, Runner(work, say), rounds)
            results.append(result)
            progress.advance(task)
            if given.output:
                write_json(given.output, results)
            if console.is_terminal:
                console.print(f"{case.name}: {result.seconds:.0f} s")


def main() -> int:
    """Returns the exit status: 0; 1 if a measurement failed; 2 for wrong arguments; 130 after Ctrl-C."""
    given, cases = arguments()
    console = Console(soft_wrap=True, highlight=False)
    console.print(machine())
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.3 * (os.cpu_count() or 1):
        console.print(f"[yellow]Other programs are running: load {os.getloadavg()[0]:.1f}[/]")
    work = given.work.absolute() if given.work else Path(tempfile.mkdtemp(prefix="benchmark-"))
    work.mkdir(parents=True, exist_ok=True)
    # SIGTERM ends the current measurement too and removes temporary files.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    began = time.monotonic()
    results: list[Result] = []
    status = 0
    try:
        run(cases, work, given, console, results)
    except KeyboardInterrupt:
        status = 130
    else:
        status = int(any(map(failed, results)))
    finally:
        # The logs of a failed measurement are kept.
        if not given.work and status != 1:
            shutil.rmtree(work, ignore_errors=True)
    if console.is_terminal:
        console.print(table(results), soft_wrap=False)
    else:
        # Not wrapped, because a program reads this or it is pasted into a document.
        Console(width=1000).print(table(results, markdown=True))
    for line in remarks(results):
        console.print(line)
    minutes = (time.monotonic() - began) / 60
    console.print(
        f"{sum(r.met for r in results)} of {len(results)} meet their target; {minutes:.0f} min"
        + ("; interrupted" if status == 130 else "")
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
