"""Coverage-guided fuzzing of one target: `python -m tests.bad_input.fuzz TARGET -runs=N ...`.

The options are libFuzzer's. Ends with a traceback and a status other than 0 at the first fault.
"""

import sys

import atheris

with atheris.instrument_imports(include=["minigpt", "tomllib", "pydantic"]):
    from tests.bad_input.targets import TARGETS, scratch


def main() -> None:
    name, *options = sys.argv[1:]
    # What makes a fault is kept there, not in the working folder.
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={scratch()}/"], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
