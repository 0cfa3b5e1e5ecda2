"""The engine, compiled natively with sanitizers: what it reads and writes is inside its allocations.

In WebAssembly, only an access outside the whole memory is an error. native_driver.c makes the calls.
"""

import shutil
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from scripts.build_engine import SOURCES
from tests.targets.gguf.gguf_parts import File
from tests.targets.gguf.mutations import mutated
from tests.targets.gguf.small_files import TEXT, small_files

pytestmark = pytest.mark.slow
SECONDS, MANY = 180, 100_000
FLAGS = (
    *("-std=c11", "-g", "-O1", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Dcalloc=limited_calloc"),
)
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, File]:
    return small_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("clang"):
        pytest.skip("needs clang with its sanitizers")
    output = tmp_path_factory.mktemp("driver") / "driver"
    sources = [*sorted(SOURCES.glob("*.c")), Path(__file__).with_name("native_driver.c")]
    text = "".join(f"\\x{byte:02x}" for byte in TEXT.encode())
    options = [*FLAGS, f'-DTEXT="{text}"', f"-I{SOURCES}", *map(str, sources), "-lm"]
    command = ["clang", *options, "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "libclang_rt" in done.stderr:
        pytest.skip("needs the sanitizers of clang")
    assert done.returncode == 0, done.stderr
    return output


def run(driver: Path, files: list[bytes], folder: Path) -> Counter[str]:
    """Returns how many files reached each step, by the letters of native_driver.c."""
    data = b"".join(struct.pack("<I", len(file)) + file for file in files)
    done = subprocess.run([driver], input=data, capture_output=True, env=OPTIONS)
    letters = done.stdout.decode()
    if done.returncode:
        (folder / "failed.gguf").write_bytes(files[len(letters)])
        error = done.stderr.decode(errors="replace")[-4000:]
        pytest.fail(f"status {done.returncode} with {folder / 'failed.gguf'}:\n{error}")
    assert len(letters) == len(files)
    return Counter(letters)


def test_mutated_files(driver, files, tmp_path, tally):
    """Those of test_hostile_files.py; on a slow machine, as many as take three minutes."""
    names, end = list(files), time.monotonic() + SECONDS
    reached: Counter[str] = Counter()
    part = 2_000
    for start in range(0, MANY, part):
        if time.monotonic() > end:
            break
        numbers = range(start, start + part)
        made = [mutated(files[names[i % len(names)]], i) for i in numbers]
        reached += run(driver, made, tmp_path)
    count = reached.total()
    tally(inputs=count)
    print(f"{count:,} files: {reached}")
    assert count >= 2 * part
    assert reached["G"] + reached["T"] > count / 5


def test_every_allocation_can_fail(driver, files, tmp_path):
    """Each time the engine reports an error, and then uses the file with the next allocation failing."""
    for name, file in files.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(file.data())
        command = [driver, "--without-memory", path]
        done = subprocess.run(command, capture_output=True, text=True, env=OPTIONS)
        assert done.returncode == 0, done.stderr[-4000:]
        # Only with the last number no allocation fails.
        assert len(done.stdout) > 20 and done.stdout[-1] in "GT"
        assert not {"G", "T"} & set(done.stdout[:-1])
