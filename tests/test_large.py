"""Real and large text: minutes, so not among the quick tests."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import minigpt
from tests.conftest import tiny_settings, tiny_text

pytestmark = pytest.mark.slow

GIGABYTE = 10**9
IMDB_SHA256 = "8cb529e0d47c81e8bd691112c0d883932b78405315200272d7fa5e61c2f0ebb5"


def anonymous_bytes(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return 0


def test_a_gigabyte_of_text_needs_less_than_a_gigabyte_of_memory(tmp_path):
    """On top of what importing TensorFlow takes: reading, tokenizing and training together."""
    text = tmp_path / "large.txt"
    with text.open("w", encoding="utf-8") as file:
        block = tiny_text(20_000) + "\n"
        for _ in range(GIGABYTE // len(block.encode()) + 1):
            file.write(block)
    (tmp_path / "settings.json").write_text(
        json.dumps(tiny_settings(text, data={"val_fraction": 0.0001}, training={"epochs": 1}))
    )
    code = (
        "import json, minigpt, tensorflow\n"
        "print('imported', flush=True)\n"
        "minigpt.train(json.load(open('settings.json')), 'run')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "imported\n"
    imports, peak = anonymous_bytes(process.pid), 0
    # Its output has to be read, or it waits for ever.
    reader = threading.Thread(target=process.stdout.read)
    reader.start()
    while process.poll() is None:
        peak = max(peak, anonymous_bytes(process.pid))
        time.sleep(0.05)
    reader.join()
    assert process.returncode == 0
    print(
        f"anonymous memory: {(peak - imports) / 1e6:.0f} MB above {imports / 1e6:.0f} MB of imports"
    )
    assert 0 < peak - imports < GIGABYTE


@pytest.mark.parametrize("name", ["imdb", "imdb_keras_example"])
def test_imdb_from_its_archive(name, shared_data, tmp_path):
    """The whole path through file://, with a checksum that is not the published one."""
    settings = minigpt.load_config(
        name,
        [
            f"data.url={(shared_data / 'aclImdb_v1.tar.gz').as_uri()}",
            f"data.sha256={IMDB_SHA256}",
            "data.val_fraction=0.002",
            "model.embed_dim=16",
            "model.head_dim=8",
            "training.epochs=1",
            "training.steps_per_epoch=20",
        ],
    )
    run = minigpt.train(settings, tmp_path / "run")
    (line,) = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    assert line["val_loss"] < 9.9
    assert (line["val_bits_per_byte"] is None) == (name == "imdb_keras_example")
