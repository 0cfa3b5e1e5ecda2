"""Compares minigpt with other programs: time to quality, then speed; and with its targets.

    make benchmark [CASES="train-words start"] [OUTPUT=results.json]
    python scripts/benchmark.py [CASE]... [--output FILE] [--reuse-peers] [--set SECTION.KEY=VALUE]...

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
from unittest.mock import patch

from benchmarks.case import Case
from benchmarks.cases import build_cases
from benchmarks.our_quality import check_overrides
from benchmarks.quality_cases import QualityCase, Texts, build_quality_cases
from benchmarks.quality_report import QualityResult, quality_failed, quality_remarks, quality_table
from benchmarks.quality_running import Peers, run_quality_case
from benchmarks.report import Result, failed, remarks, table, write_json
from benchmarks.rounds import Runner
from benchmarks.running import run_case
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PACKAGES = (
    "tensorflow",
    "keras",
    "keras-hub",
    "torch",
    "transformers",
    "tokenizers",
    "xllamacpp",
    "playwright",
)
# Packages of the extra that the modules of `benchmarks` import. The quality cases name theirs themselves.
EXTRA = {
    "first_word": ("torch", "transformers", "xllamacpp"),
    "keras_hub_gpt": ("keras_hub",),
    "limits": ("torch",),
    "llama_cpp": ("xllamacpp",),
    "page": ("playwright",),
    "torch_gpt2": ("torch", "transformers"),
    "torch_qwen3": ("torch", "transformers"),
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


# Options that name a text, with the cases that read it.
TEXTS = {
    "shakespeare": "tiny Shakespeare, for `quality`, which downloads it by default, and for `plan`",
    "imdb": "the archive aclImdb_v1.tar.gz, for `quality-words`, `quality-text` and `plan-words`",
    "pairs": "pairs of sentences, for `plan-pairs`",
    "prose": "a text for `quality-text`; by default the first 500 KB of the reviews",
}


def arguments() -> tuple[argparse.Namespace, list[QualityCase], list[Case]]:
    """Returns the parsed arguments and the selected cases."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    quality_names = [case.name for case in build_quality_cases(False, Texts())]
    names = quality_names + [case.name for case in build_cases(quick=False)]
    parser.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        help=f"any of {', '.join(names)}, or the beginning of several, as engine; default: all",
    )
    parser.add_argument("--output", type=Path, help="write the results to this file as JSON")
    for name, what in TEXTS.items():
        variable = f"MINIGPT_{name.upper()}"
        parser.add_argument(
            f"--{name}", default=os.environ.get(variable), help=f"{what} (or ${variable})"
        )
    parser.add_argument("--rounds", type=int, help="maximum number of measurements of each case")
    parser.add_argument(
        "--quick", action="store_true", help="one short round, to show that everything runs"
    )
    parser.add_argument(
        "--reuse-peers",
        action="store_true",
        help="in the quality cases, train a peer once for all rounds and cases of this invocation",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="in the quality cases, change a setting of minigpt; repeatable",
    )
    parser.add_argument("--work", type=Path, help="keep texts, models and logs in this folder")
    given = parser.parse_args()
    wanted = {name for asked in given.cases for name in matching(asked, names)}
    if unknown := sorted(asked for asked in set(given.cases) if not matching(asked, names)):
        parser.error(f"unknown case {', '.join(unknown)}; should be one of {', '.join(names)}")
    if given.rounds is not None and given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: should be 1 or more")
    for name in TEXTS:
        if path := getattr(given, name):
            if not os.path.isfile(path):
                parser.error(f"--{name} {path}: no such file")
            setattr(given, name, os.path.abspath(path))
    if given.output:
        given.output = given.output.absolute()
        if given.output.is_dir() or not os.access(given.output.parent, os.W_OK):
            parser.error(f"--output {given.output}: should be a file in a writable folder")

    def selected(case: Case | QualityCase) -> bool:
        return not given.cases or case.name in wanted

    texts = Texts(given.shakespeare, given.imdb, given.prose, given.pairs)
    quality = list(filter(selected, build_quality_cases(given.quick, texts)))
    cases = list(filter(selected, build_cases(given.quick, texts)))
    modules = {party.place.partition(":")[0] for case in cases for party in case.parties()}
    needed = {package for module in modules for package in EXTRA.get(module, ())}
    if missing := sorted(package for package in needed if not util.find_spec(package)):
        parser.error(
            f"{', '.join(missing)} not installed: pip install -c constraints.txt -e '.[benchmark]'"
        )
    timed = [case for case in quality if not case.why_skipped()]
    if not timed and not cases:
        parser.error("; ".join(f"{case.name}: {case.why_skipped()}" for case in quality))
    for option, value in (("--set", given.set), ("--reuse-peers", given.reuse_peers)):
        if value and not timed:
            parser.error(f"{option}: has no effect without one of {', '.join(quality_names)}")
    # Now, because the peers train first.
    if given.set and (problems := override_problems(timed, given.set)):
        parser.error("; ".join(problems))
    return given, quality, cases


def matching(asked: str, names: list[str]) -> list[str]:
    """Returns the case of this name; if there is none, those whose names begin with it and a dash."""
    if asked in names:
        return [asked]
    return [name for name in names if name.startswith(f"{asked}-")]


def override_problems(cases: list[QualityCase], overrides: list[str]) -> list[str]:
    """Returns what is wrong with settings of minigpt in these cases, each problem once."""
    problems: list[str] = []
    # minigpt sets environment variables when it is imported. The peers should not inherit them.
    with patch.dict(os.environ):
        from minigpt.errors import ArgumentProblem, UserError

        for case in cases:
            try:
                check_overrides(case.text, overrides)
            except UserError as error:
                problems += [
                    problem.as_option({"overrides": "--set"})
                    if isinstance(problem, ArgumentProblem)
                    else problem
                    for problem in error.problems
                ]
    return list(dict.fromkeys(problems))


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
    quality: list[QualityCase],
    cases: list[Case],
    work: Path,
    given: argparse.Namespace,
    console: Console,
    results: tuple[list[QualityResult], list[Result]],
) -> None:
    """Appends the results of each case to `results`, and rewrites the output file after each."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    rounds = given.rounds or (1 if given.quick else None)
    with Progress(TextColumn("{task.description}"), *columns, console=console) as progress:
        task = progress.add_task("", total=len(quality) + len(cases))

        def say(what: str) -> None:
            progress.update(task, description=what)
            if not console.is_terminal:
                console.print(f"{time.strftime('%H:%M:%S')} {what}")

        def done(name: str, seconds: float) -> None:
            progress.advance(task)
            if given.output:
                write_json(given.output, [*results[0], *results[1]])
            if console.is_terminal:
                console.print(f"{name}: {seconds:.0f} s")

        runner = Runner(work, say)
        peers = Peers(runner, given.reuse_peers, machine(), work / "peers.json")
        for quality_case in quality:
            found = run_quality_case(quality_case, peers, rounds, given.set)
            results[0].extend(found)
            done(quality_case.name, sum(result.seconds for result in found))
        for case in cases:
            result = run_case(case, runner, rounds)
            results[1].append(result)
            done(case.name, result.seconds)


def show(
    console: Console, quality: list[QualityResult], speed: list[Result], skipped: list[str]
) -> None:
    """Prints time to quality, then the other cases, then remarks."""
    # Not wrapped unless a person reads it: a program reads it, or it is pasted into a document.
    wide = console if console.is_terminal else Console(width=1000)
    markdown = not console.is_terminal
    if quality:
        wide.print(quality_table(quality, markdown), soft_wrap=False)
    if speed or not quality:
        wide.print(table(speed, markdown), soft_wrap=False)
    for line in [*skipped, *quality_remarks(quality), *remarks(speed)]:
        console.print(line)


def main() -> int:
    """Returns the exit status: 0; 1 if a measurement failed; 2 for wrong arguments; 130 after Ctrl-C."""
    given, quality, cases = arguments()
    console = Console(soft_wrap=True, highlight=False)
    console.print(machine())
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.3 * (os.cpu_count() or 1):
        console.print(f"[yellow]Other programs are running: load {os.getloadavg()[0]:.1f}[/]")
    skipped = [f"{case.name}: skipped: {why}" for case in quality if (why := case.why_skipped())]
    quality = [case for case in quality if not case.why_skipped()]
    work = given.work.absolute() if given.work else Path(tempfile.mkdtemp(prefix="benchmark-"))
    work.mkdir(parents=True, exist_ok=True)
    # SIGTERM ends the current measurement too and removes temporary files.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    began = time.monotonic()
    results: tuple[list[QualityResult], list[Result]] = ([], [])
    status = 0
    try:
        run(quality, cases, work, given, console, results)
    except KeyboardInterrupt:
        status = 130
    else:
        status = int(any(map(quality_failed, results[0])) or any(map(failed, results[1])))
    finally:
        # The logs of a failed measurement are kept.
        if not given.work and status != 1:
            shutil.rmtree(work, ignore_errors=True)
    show(console, *results, skipped)
    if given.quick:
        console.print("--quick: these figures are not meaningful")
    met = [r.met for r in results[0] if r.target] + [r.met for r in results[1]]
    minutes = (time.monotonic() - began) / 60
    console.print(
        f"{sum(met)} of {len(met)} meet their target; {minutes:.0f} min"
        + ("; interrupted" if status == 130 else "")
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
