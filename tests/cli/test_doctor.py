"""`minigpt doctor`."""

import json
import re
import shutil
import subprocess
import sys

from minigpt.runs.analysis import TITLES, Verdict
from tests.cli.running import called, refused
from tests.run_files import records


def test_verdicts_as_json_and_in_words(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    result = called("doctor", run, "--json")
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert list(found) == ["verdicts"]
    for verdict in found["verdicts"]:
        assert set(verdict) == {"id", "evidence", "action"} and verdict["id"] in TITLES
    # What was measured is in the report from now on.
    analysis = json.loads((run / "analysis.json").read_text(encoding="utf-8"))
    recorded = [v | {"action": Verdict(**v).runnable_action(run)} for v in analysis["verdicts"]]
    assert recorded == found["verdicts"]
    assert analysis["memorization"]["last"]["epoch"] == 2
    assert isinstance(analysis["text"], list) and analysis["baselines"]["ngram"] > 0
    # In words, what was measured is the end, whether anything was found or not.
    *_, losses, _, bits, copied, _ = called("doctor", run).stdout.splitlines()
    known = analysis["baselines"]
    assert re.match(r"Loss: training [\d.]+, validation [\d.]+ nats per token; best", losses)
    assert (
        f"{min(line['val_bits_per_byte'] for line in records(tiny_run.metrics_file)):.3f} bits per byte"
        in losses
    )
    assert bits.startswith(f"Baselines, bits per byte: ngram {known['ngram_bits_per_byte']:.3f}, ")
    assert f"{analysis['memorization']['last']['held_out_share']:.1%}" in copied


def test_after_a_kill_the_training_is_interrupted(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    analysis = json.loads((run / "analysis.json").read_text(encoding="utf-8"))
    (run / "analysis.json").write_text(json.dumps(analysis | {"state": "training"}))
    called("doctor", run)
    analysis = json.loads((run / "analysis.json").read_text(encoding="utf-8"))
    assert analysis["state"] == "interrupted"


# File modes apply to root, too, without its privileges.
READER = """
import ctypes, sys
version, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert not ctypes.CDLL(None).capset(version, nothing)
from minigpt.cli.program import run_command
run_command()
"""


def test_a_run_that_cannot_be_written(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    (run / "lock").touch()
    before = (run / "analysis.json").read_bytes()
    command = [sys.executable, "-c", READER, "doctor", str(run), "--json"]
    (run / "lock").chmod(0o444)
    run.chmod(0o555)
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    finally:
        run.chmod(0o755)
    assert any(line.startswith(f"{run}: ") for line in done.stderr.splitlines())
    assert isinstance(json.loads(done.stdout)["verdicts"], list)
    assert (run / "analysis.json").read_bytes() == before


def test_problems_are_one_line(tmp_path, tiny_run):
    imported = shutil.copytree(tiny_run.path, tmp_path / "run")
    (imported / "corpus.json").unlink()
    for run in (tmp_path / "none", imported):
        (line,) = refused("doctor", run, cwd=tmp_path)
        assert str(run) in line
