"""Compares minigpt with other programs, each measurement in a process of its own.

    make benchmark [CASES="train-words start"] [OUTPUT=results.json]
    python scripts/benchmark.py [CASE]... [--rounds N] [--quick] [--output FILE] [--work FOLDER]

The peers need the extra `benchmark`. minigpt and its peers take turns; the figures are medians. A ratio
above 1 means that minigpt is better. Ratios are valid within one run on one machine that runs nothing else.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from importlib import metadata, util
from pathlib import Path
from typing import Any

from benchmarks.cases import Case, Measurement, build_cases

SCRIPTS = Path(__file__).resolve().parent
PACKAGES = ("tensorflow", "keras", "torch", "transformers", "tokenizers", "xllamacpp")
TIMEOUT_SECONDS = 3600
# Variables that name a text, which some cases need.
TEXTS = {
    "shakespeare": "MINIGPT_SHAKESPEARE",
    "imdb": "MINIGPT_IMDB",
    # A text of one's own, and build/base/train.jsonl of scripts/make_base.py.
    "text": "MINIGPT_TEXT",
    "base_texts": "MINIGPT_BASE_TEXTS",
}


@dataclass
class Result:
    """What a case has measured.

    Attributes:
      ours: the median of minigpt, in the unit of the case; None if it was not measured.
      peers: the medians of the peers that were measured.
      ratio: to the best peer; None without one.
      memory_ratio: our peak memory above the imports, relative to that of the best peer.
      notes: failures, and what else the reader should know.
    """

    case: str
    unit: str
    ours: float | None
    peers: dict[str, float]
    ratio: float | None
    memory_ratio: float | None
    target: float | None
    notes: list[str] = field(default_factory=list)
    failed: bool = False


def measure(what: Measurement, name: str, work: Path) -> dict[str, Any]:
    """Runs a measurement in a process.

    Returns:
      Its outcome: "value", and what the case needs; {"failed": the last line of its log} if it has none.
    """
    stem = work / f"{time.time_ns()}-{''.join(c if c.isalnum() else '-' for c in name)}"
    output, log = stem.with_suffix(".json"), stem.with_suffix(".log")
    command = [sys.executable, "-m", "benchmarks.worker", what.place]
    paths = [str(SCRIPTS), os.environ.get("PYTHONPATH", "")]
    with open(log, "wb") as said:
        try:
            subprocess.run(
                [*command, json.dumps(what.arguments), str(output)],
                cwd=work,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                    "MINIGPT_CACHE": str(work / "cache"),
                    "TF_CPP_MIN_LOG_LEVEL": "2",
                    # Downloads would disturb the measurement.
                    "HF_HUB_OFFLINE": "1",
                    # Last, because the clock of `start` and `quality-*` begins here.
                    "BENCHMARK_STARTED": repr(time.time()),
                },
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"did not finish within {TIMEOUT_SECONDS} s; see {log}"}
    if not output.exists():
        last = (log.read_text(errors="replace").strip().splitlines() or ["nothing printed"])[-1]
        return {"failed": f"{last[:200]} (see {log})"}
    outcome: dict[str, Any] = json.loads(output.read_text())
    return outcome


def run_case(case: Case, rounds: int, work: Path) -> Result:
    """Prepares a case, and measures A B A B for a number of rounds."""
    notes: list[str] = []
    for what in case.prepare:
        if reason := measure(what, f"{case.name} prepare", work).get("failed"):
            notes.append(f"preparing with {what.place} failed: {reason}")
    parties = {"ours": case.ours, **case.peers}
    outcomes: dict[str, list[dict[str, Any]]] = {name: [] for name in parties}
    if case.reaches and not notes:
        # The peer sets the score that minigpt has to reach. It trains once.
        (name,) = case.peers
        peer = measure(parties.pop(name), f"{case.name} {name}", work)
        outcomes[name] = [peer]
        if "score" in peer:
            goal = {**case.ours.arguments, "goal": peer["score"]}
            parties["ours"] = Measurement(case.ours.place, goal)
            notes.append(f"score to reach: {peer['score']:.3f} {case.reaches}")
        else:
            parties.clear()
    for number in range(0 if notes and not case.reaches else rounds):
        for name, what in parties.items():
            # What failed once would fail again.
            if not any("failed" in outcome for outcome in outcomes[name]):
                print(f"{time.strftime('%H:%M:%S')} {case.name}: {name}, round {number + 1}")
                outcomes[name].append(measure(what, f"{case.name} {name}", work))
    return summarize(case, outcomes, notes)


def summarize(case: Case, outcomes: dict[str, list[dict[str, Any]]], notes: list[str]) -> Result:
    """Returns medians, and ratios to the best peer."""

    def medians(key: str) -> dict[str, float]:
        values = {name: [o[key] for o in of if key in o] for name, of in outcomes.items()}
        return {name: statistics.median(of) for name, of in values.items() if of}

    for name, of in outcomes.items():
        notes += [f"{name} failed: {outcome['failed']}" for outcome in of if "failed" in outcome]
    if len({o["text"] for of in outcomes.values() for o in of if "text" in o}) > 1:
        notes.append("failed: the texts differ")
    values, memory = medians("value"), medians("memory")
    ours = values.pop("ours", None)
    best = (min if case.less_is_better else max)(values, key=values.__getitem__, default=None)
    ratio = memory_ratio = None
    if ours and best:
        ratio = values[best] / ours if case.less_is_better else ours / values[best]
        if best in memory and "ours" in memory:
            memory_ratio = memory["ours"] / memory[best]
    failed = ours is None or any("failed" in note for note in notes)
    return Result(
        case.name, case.unit, ours, values, ratio, memory_ratio, case.target, notes, failed
    )


def table(results: list[Result]) -> str:
    """Returns a table in Markdown, and below it the notes."""
    lines = ["| case | ours | peers | ratio | memory | target |", "|---|---|---|---|---|---|"]
    for result in results:
        peers = "; ".join(f"{name} {value:,.4g}" for name, value in result.peers.items())
        ratios = (
            "–" if ratio is None else f"{ratio:.2f} ×"
            for ratio in (result.ratio, result.memory_ratio)
        )
        ours = "–" if result.ours is None else f"{result.ours:,.4g} {result.unit}"
        target = "–" if result.target is None else f"≥ {result.target:g} ×"
        cells = [f"`{result.case}`", ours, peers or "–", *ratios, target]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *(f"{r.case}: {note}" for r in results for note in r.notes)])


def machine() -> str:
    """Returns one line that describes the machine and the software."""
    model, information = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text().splitlines()
        model = next((x.split(": ")[1] for x in lines if x.startswith("model name")), model)
    installed = [name for name in PACKAGES if util.find_spec(name)]
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in installed)
    return f"{model}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}"


def main() -> int:
    """Returns the exit status: 0; 1 if a measurement failed; 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="or the beginning of several")
    parser.add_argument("--output", type=Path, help="write the results to this file as JSON")
    parser.add_argument("--rounds", type=int, help="measurements of each case")
    parser.add_argument("--quick", action="store_true", help="show that all cases run")
    parser.add_argument("--work", type=Path, help="keep texts, models and logs in this folder")
    given = parser.parse_args()
    paths = {name: os.environ.get(variable) for name, variable in TEXTS.items()}
    texts = {name: os.path.abspath(path) for name, path in paths.items() if path}
    cases = build_cases(given.quick, texts)
    for asked in given.cases:
        if not any(case.name.startswith(asked) for case in cases):
            names = ", ".join(case.name for case in cases)
            parser.error(f"unknown case {asked}; should be one of {names}")
    if given.cases:
        cases = [case for case in cases if any(map(case.name.startswith, given.cases))]
    output = given.output and given.output.absolute()
    work = given.work.absolute() if given.work else Path(tempfile.mkdtemp(prefix="benchmark-"))
    work.mkdir(parents=True, exist_ok=True)
    print(machine())
    if os.getloadavg()[0] > 0.3 * (os.cpu_count() or 1):
        print(f"Other programs are running: load {os.getloadavg()[0]:.1f}")
    results: list[Result] = []
    for case in cases:
        if missing := [name for name in case.packages if not util.find_spec(name)]:
            print(f"{case.name}: without peers: {', '.join(missing)} not installed")
            case = case.without_peers()
        if case.reaches and not case.peers:
            print(f"{case.name}: skipped: its peer sets the score to reach")
        elif case.needs and case.needs not in texts:
            print(f"{case.name}: skipped: set {TEXTS[case.needs]} to its text")
        else:
            results.append(
                run_case(case, given.rounds or (1 if given.quick else case.rounds), work)
            )
            if output:
                output.write_text(json.dumps([asdict(result) for result in results], indent=1))
    print(table(results))
    if given.quick:
        print("--quick: these figures are not meaningful")
    failed = any(result.failed for result in results)
    # The logs of a failed measurement are kept.
    if not given.work and not failed:
        shutil.rmtree(work, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
