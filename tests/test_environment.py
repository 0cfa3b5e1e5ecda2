"""Start-up: TensorFlow's log lines, closed streams, Keras' settings."""

import contextlib
import logging
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from minigpt import environment
from minigpt.environment import hide_tensorflow_log, program_name, why_no_gpu

LOG_LINE = b"I0000 00:00:1795223707.597663   26542 port.cc:153] oneDNN custom operations are on.\n"


def test_log_lines_are_dropped(capfd):
    with hide_tensorflow_log():
        # An error stays unless it is known to be harmless.
        noise = b"E0000 00:00:1.2 3 a.cc:1] failed call to cuInit: no device\n"
        os.write(2, b"one\n" + LOG_LINE + noise + b"E0000 00:00:1.2 3 a.cc:1] two\n")
        with hide_tensorflow_log():
            os.write(2, LOG_LINE + b"three\n")
    os.write(2, LOG_LINE)
    shown = capfd.readouterr().err
    assert shown == "one\nE0000 00:00:1.2 3 a.cc:1] two\nthree\n" + LOG_LINE.decode()


def test_two_threads_keep_standard_error(capfd):
    def write() -> None:
        with hide_tensorflow_log():
            os.write(2, LOG_LINE + b"inside\n")

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "inside\ninside\nafter\n"


@pytest.mark.parametrize("why", ["no executable", "frozen", "no memory"])
def test_without_another_process_nothing_is_hidden(why, capfd, monkeypatch):
    def fail(*_, **__):
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", fail)
    if why == "no executable":
        monkeypatch.setattr(sys, "executable", "")
    elif why == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    level, opened = logging.getLogger("tensorflow").level, os.listdir("/proc/self/fd")
    with hide_tensorflow_log():
        os.write(2, LOG_LINE)
        assert logging.getLogger("tensorflow").level == level
        assert os.listdir("/proc/self/fd") == opened
    assert capfd.readouterr().err == LOG_LINE.decode()


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )


def test_the_terminal_stays_empty_while_tensorflow_is_imported():
    code = (
        "import minigpt; minigpt.load\n"
        "import keras; assert keras.saving.get_registered_object('minigpt>GPT')\n"
        "assert keras.saving.get_registered_object('minigpt>Muon')\n"
    )
    terminal, its_end = pty.openpty()
    status = subprocess.run([sys.executable, "-c", code], stderr=its_end).returncode
    os.close(its_end)
    with os.fdopen(terminal, "rb") as shown, contextlib.suppress(OSError):
        assert shown.read() == b""
    assert status == 0


@pytest.fixture
def other_keras(tmp_path) -> Path:
    """The file of another package `keras`, which is found first; nothing in it takes time."""
    (tmp_path / "keras").mkdir()
    return tmp_path / "keras/__init__.py"


def test_an_abort_in_the_import_keeps_its_reason(other_keras):
    other_keras.write_text(
        f"import os\nos.write(2, {LOG_LINE!r} + b'F0000 00:00:1.2 3 a.cc:1] no AVX\\n')\nos.abort()\n"
    )
    done = run("import minigpt; minigpt.load", PYTHONPATH=str(other_keras.parents[1]))
    assert done.returncode == -signal.SIGABRT
    assert "no AVX" in done.stderr and "oneDNN" not in done.stderr


def test_a_program_that_looks_for_keras_and_imports_it(other_keras):
    other_keras.write_text(
        "class config:\n    asked = 0\n\n    @classmethod\n    def backend(cls):\n"
        "        cls.asked += 1\n        return 'another'\n"
    )
    code = (
        "import sys, importlib.util, minigpt\n"
        "assert 'wrapt' not in sys.modules\n"
        "assert importlib.util.find_spec('keras') and 'keras' not in sys.modules\n"
        "import keras\nassert keras.config.asked == 1\n"
    )
    done = run(code, PYTHONPATH=str(other_keras.parents[1]))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_another_backend_in_a_program(backend):
    done = run("import minigpt; minigpt.load", KERAS_BACKEND=backend)
    assert f"UserError: Keras' backend = '{backend}': minigpt needs 'tensorflow'" in done.stderr
    done = run("import minigpt; minigpt.load_config('default')", KERAS_BACKEND=backend)
    assert done.returncode == 0, done.stderr


def test_a_gpu_without_cuda_libraries(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(environment, "_NVIDIA_FILES", (f"{tmp_path}/nvidia[0-9]*",))
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None)
    (tmp_path / "nvidiactl").touch()
    assert why_no_gpu() is None
    (tmp_path / "nvidia3").touch()
    assert "no CUDA libraries" in (why := why_no_gpu())
    assert why.endswith("tensorflow[and-cuda]<2.22,>=2.21'") and "\n" not in why
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: name)
    assert why_no_gpu().endswith("tf.config.list_physical_devices('\"'\"'GPU'\"'\"')'")
    for hidden in ("", "-1", " -1,0"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert why_no_gpu() is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert why_no_gpu()


@pytest.mark.parametrize(
    ("called", "on_path", "uv", "expected"),
    [
        ("{0}/my env/bin/minigpt", "my env/bin", False, "minigpt"),
        ("{0}/my env/bin/minigpt", "", False, "'my env/bin/minigpt'"),
        # `uvx` and `uv run` add a folder to PATH that the user's shell does not have.
        ("{0}/my env/bin/minigpt", "my env/bin", True, "'my env/bin/minigpt'"),
        # A link, as pipx makes it.
        ("{0}/links/minigpt", "links", False, "minigpt"),
        ("{0}/minigpt/__main__.py", "", False, "'my env/bin/python' -m minigpt"),
        ("gpt.py", "other", False, "'my env/bin/python' -m minigpt"),
    ],
)
def test_how_the_program_can_be_called(tmp_path, monkeypatch, called, on_path, uv, expected):
    for name in ("my env/bin/minigpt", "my env/bin/python", "other/minigpt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch(mode=0o755)
    (tmp_path / "links").mkdir()
    (tmp_path / "links/minigpt").symlink_to("../my env/bin/minigpt")
    monkeypatch.setenv("PATH", str(tmp_path / on_path) if on_path else "")
    if uv:
        monkeypatch.setenv("UV", "/usr/bin/uv")
    monkeypatch.setattr(sys, "argv", [called.format(tmp_path)])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my env/bin/python"))
    monkeypatch.chdir(tmp_path)
    assert program_name() == expected
    monkeypatch.chdir(tmp_path / "my env/bin")
    if expected != "minigpt":
        assert program_name() == expected.replace("my env", f"{tmp_path}/my env")
