"""Coverage-guided fuzzing of one target: `python -m tests.bad_input.fuzz TARGET -runs=N ...`.

The options are libFuzzer's. The first failure ends the process with a traceback and a non-zero status.
"""

import sys

import atheris

with atheris.instrument_imports(include=["minigpt", "tomllib", "pydantic"]):
    from tests.bad_input.targets import TARGETS, scratch


def main() -> None:
    name, *options = sys.argv[1:]
    # Inputs that fail are stored there, not in the working folder.
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={scratch()}/"], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
