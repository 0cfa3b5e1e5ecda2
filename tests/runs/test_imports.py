"""Runs are opened without TensorFlow, which takes seconds to import."""

import subprocess
import sys

from minigpt.config import load_config
from minigpt.runs.run import Run
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.settings import tokenizer_config

USE = """
import sys
from pathlib import Path
import minigpt.runs.run, minigpt.runs.checkpoints, minigpt.runs.lock, minigpt.runs.layout
import minigpt.runs.records, minigpt.storage.atomic, minigpt.storage.downloads
import minigpt.storage.files, minigpt.runs.checkpoints
run = minigpt.Run(sys.argv[1])
run.config, run.corpus, run.load_tokenizer().encode("a text"), repr(run)
minigpt.Run.create(Path(sys.argv[2]), run.config, run.load_tokenizer(), run.corpus)
assert not {"tensorflow", "keras"} & sys.modules.keys()
"""


def test_runs_and_storage_import_no_tensorflow(tmp_path):
    tokenizer = learn_tokenizer(["a text"], tokenizer_config(kind="character"))
    run = Run.create(tmp_path / "a", load_config({}), tokenizer, {"fingerprint": "0" * 64})
    command = [sys.executable, "-c", USE, str(run.path), str(tmp_path / "b")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
