"""The process and its environment: imports, Keras' settings, TensorFlow's log lines."""

import importlib.util
import logging
import os
import shlex
import shutil
import sys
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path

from minigpt.errors import UserError

# What is said where only minigpt-portable can be installed.
NEEDS_TENSORFLOW = (
    "needs TensorFlow: install minigpt-keras in another environment, on Windows in WSL 2"
)
# Categories of Unicode: control characters and surrogates.
_UNPRINTABLE = ("Cc", "Cs")
# Characters that change the order in which the text after them is shown.
_DIRECTIONS = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def available_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _filtered_stderr() -> Iterator[None]:
    import subprocess  # Where nothing is hidden, it is not needed.

    # In a frozen application, the executable is the application.
    if not sys.executable or getattr(sys, "frozen", False):
        yield
        return
    _flush_stderr()
    try:
        stderr = os.dup(2)
    except OSError:  # Standard error is closed.
        yield
        return
    # Another process: it shows what this one writes before it aborts. Ctrl-C does not reach it.
    try:
        copying = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("stderr_filter.py"))],
            stdin=subprocess.PIPE,
            process_group=0 if hasattr(os, "setpgid") else None,
        )
    except OSError:  # It cannot be started, for example without memory. Nothing is hidden.
        os.close(stderr)
        yield
        return
    # In an interactive Python and in notebooks, TensorFlow shows its messages from Python of level INFO.
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    assert copying.stdin
    os.dup2(copying.stdin.fileno(), 2)
    copying.stdin.close()
    try:
        yield
    finally:
        logger.setLevel(level)
        _flush_stderr()
        os.dup2(stderr, 2)
        os.close(stderr)
        # It ends with the last process that writes to it, perhaps one that was started in the block.
        with suppress(subprocess.TimeoutExpired):
            copying.wait(1)


def _flush_stderr() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()


# The descriptor belongs to the process.
_lock = threading.RLock()


@contextmanager
def hide_tensorflow_log() -> Iterator[None]:
    """Drops TensorFlow's log lines from standard error. Threads take turns.

    Works on the file descriptor, because the lines come from C++ and not through `sys.stderr`.
    """
    with _lock, _filtered_stderr():
        yield


def program_name() -> str:
    """Returns how the user can start minigpt in the current folder, quoted for the shell."""
    program, python, cwd = Path(sys.argv[0]).absolute(), Path(sys.executable), Path.cwd()
    # `uv run` and `uvx` set UV, and add the environment's folder to PATH for this process alone.
    found = None if "UV" in os.environ else shutil.which("minigpt")
    # A program that is installed for the user is not beside Python; pipx links to one that is.
    if found and (
        Path(found) == program or Path(found).resolve().parent == python.parent.resolve()
    ):
        return "minigpt"
    is_script = program.stem == "minigpt"
    path = program if is_script else python
    path = path.relative_to(cwd) if cwd in path.parent.parents else path
    return shlex.join([str(path), *([] if is_script else ["-m", "minigpt"])])


def install_command(extra: str) -> str:
    """Returns the command that installs the packages of an extra for the Python that runs this.

    It names the packages, because no package index has this minigpt. The extras are in pyproject.toml.
    """
    from importlib import metadata

    required: list[str] = []
    for distribution in ("minigpt-keras", "minigpt-portable"):
        with suppress(metadata.PackageNotFoundError):
            required += metadata.requires(distribution) or []
    if not required:
        # Run from a checkout that is not installed.
        return f"pip install -e '.[{extra}]' in the checkout"
    named = [
        name for name, _, marker in (r.partition(";") for r in required) if f"'{extra}'" in marker
    ]
    return shlex.join([sys.executable, "-m", "pip", "install", *map(str.strip, named)])


# A GPU's device; in WSL 2, the library of the driver.
_NVIDIA_FILES = ("/dev/nvidia[0-9]*", "/usr/lib/wsl/lib/libcuda.so.1")


def why_no_gpu() -> str | None:
    """Returns in one line why TensorFlow, which has found no GPU, does not use this machine's NVIDIA GPU.

    None if there is no such GPU, or if CUDA_VISIBLE_DEVICES hides it.
    """
    # An empty value hides all, and so does -1 as the first number.
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip().split(",")[0] in ("", "-1"):
        return None
    if not any(map(glob, _NVIDIA_FILES)):
        return None
    if importlib.util.find_spec("nvidia"):  # The packages of the extra are nvidia.cudnn and others.
        show = "import tensorflow as tf; tf.config.list_physical_devices('GPU')"
        command = shlex.join([sys.executable, "-c", show])
        return f"TensorFlow cannot use this machine's NVIDIA GPU; this prints the reason: {command}"
    return (
        "TensorFlow has no CUDA libraries for this machine's NVIDIA GPU; install the extra gpu: "
        f"{install_command('gpu')}"
    )


def check_keras_backend() -> None:
    """Raises a `UserError` if Keras uses, or will use, a backend other than TensorFlow."""
    keras = sys.modules.get("keras")
    backend = keras.config.backend() if keras else os.environ.get("KERAS_BACKEND")
    if backend != "tensorflow":
        raise UserError(
            f"Keras' backend = {backend!r}: minigpt needs 'tensorflow'; set the environment variable "
            "KERAS_BACKEND to it, or unset it, before Keras is imported"
        )


def printable(text: str) -> str:
    r"""Returns `text` with control characters replaced by escapes, for a terminal or a title.

    "\x1b[2J" becomes "\\x1b[2J". Newlines and tabs stay. Lone surrogates, which cannot be encoded,
    become escapes too.
    """
    if text.isprintable():
        return text
    return "".join(
        ascii(character)[1:-1]
        if character in _DIRECTIONS
        or (character not in "\n\t" and unicodedata.category(character) in _UNPRINTABLE)
        else character
        for character in text
    )


_PROC = Path("/proc/self")


def peak_memory() -> int:
    """Returns the largest resident memory of this process in bytes."""
    with suppress(OSError, ValueError, StopIteration):
        lines = (_PROC / "status").read_text().splitlines()
        return 1024 * int(next(x for x in lines if x.startswith("VmHWM:")).split()[1])
    import resource  # Windows lacks it, and does not train.

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
