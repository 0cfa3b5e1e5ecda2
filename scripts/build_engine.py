#!/usr/bin/env python3
"""Compiles the engine, minigpt/targets/gguf/engine/*.c, to engine.wasm and engine_without_simd.wasm.

    python scripts/build_engine.py

Browsers without SIMD run the second file, which computes the same numbers. Both are committed. They
depend on the compiler: CONTRIBUTING.md names the version.
"""

import argparse
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "minigpt" / "targets" / "gguf" / "engine"
CLANG_VERSION = "14"
FLAGS = (
    "--target=wasm32",
    "-O3",
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


# File → additional flags.
ENGINES = {"engine.wasm": ("-msimd128",), "engine_without_simd.wasm": ()}


def build(name: str, output: Path) -> None:
    """Compiles all C files into one WebAssembly file.

    Args:
      name: a key of `ENGINES`.
      output: the file to write.
    Raises:
      FileNotFoundError: clang is not installed.
      subprocess.CalledProcessError: it reports an error.
    """
    sources = sorted(SOURCES.glob("*.c"))
    # In the folder itself: the compiler's messages, and nothing else, name the paths.
    names = [source.name for source in sources]
    subprocess.run(
        ["clang", *FLAGS, *ENGINES[name], *names, "-o", str(output.absolute())],
        cwd=SOURCES,
        check=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=SOURCES, metavar="FOLDER")
    folder = parser.parse_args().output
    for name in ENGINES:
        build(name, folder / name)


if __name__ == "__main__":
    main()
