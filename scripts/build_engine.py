#!/usr/bin/env python3
"""Compiles the engine: minigpt/portable/engine/*.c → minigpt/portable/engine/engine.wasm.

    python scripts/build_engine.py

The result is committed. It depends on the compiler: CONTRIBUTING.md names the version.
"""

import argparse
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "minigpt" / "portable" / "engine"
CLANG_VERSION = "14"
FLAGS = (
    "--target=wasm32",
    "-O3",
    "-msimd128",
    "-mbulk-memory",
    "-std=c11",
    "-ffreestanding",
    "-nostdlib",
    # Every machine rounds after each operation.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,--no-entry",
    "-Wl,--strip-all",
    "-Wl,-z,stack-size=262144",
)


def build(output: Path) -> None:
    """Compiles all C files into one WebAssembly file.

    Raises:
      FileNotFoundError: clang is not installed.
      subprocess.CalledProcessError: it reports an error.
    """
    sources = sorted(SOURCES.glob("*.c"))
    # In the folder itself: the compiler's messages, and nothing else, name the paths.
    names = [source.name for source in sources]
    subprocess.run(
        ["clang", *FLAGS, *names, "-o", str(output.absolute())],
        cwd=SOURCES,
        check=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=SOURCES / "engine.wasm")
    build(parser.parse_args().output)


if __name__ == "__main__":
    main()
