"""A run directory comes into being whole, and leaves nothing beside it."""

import os
import subprocess
import sys

from minigpt.config import load_config
from tests.settings import tokenizer_config
from minigpt.runs.run import Run
from minigpt.tokenizers import learn_tokenizer


def test_what_a_killed_process_left_of_the_same_run_is_cleared_away(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    of_dead, of_living, of_other = (
        tmp_path / name
        for name in (f".run.{dead.pid}.tmp", f".run.{os.getppid()}.tmp", f".ruin.{dead.pid}.tmp")
    )
    for folder in (of_dead, of_living, of_other):
        (folder / "checkpoints").mkdir(parents=True)
    tokenizer = learn_tokenizer(["a text"], tokenizer_config(kind="character"))
    Run.create(tmp_path / "run", load_config({}), tokenizer, {"fingerprint": "0" * 64})
    assert {*tmp_path.iterdir()} == {tmp_path / "run", of_living, of_other}
