"""Runs the slow tests that guard what has changed since they last passed, and a tenth of the others.

tests/NAME guards minigpt/NAME; GUARDS has the folders of other names. The commit that they passed on
is kept in the user's cache folder. Without it, as on a new machine, it is a tenth of all.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PASSED = CACHE / "minigpt-tests" / "slow-tests-passed"
GUARDS = {
    "bad_input": ("config", "corpus", "targets", "tokenizers"),
    "browser": ("pages", "targets/html", "targets/gguf"),
    "compatibility": ("runs", "targets", "training"),
    "faults": ("storage", "runs", "training"),
}
SLOW = "slow and not browser"


def output(*command: str) -> list[str]:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()


def guards(test: str) -> tuple[str, ...]:
    """Returns the beginnings of the paths that a test file guards, its own folder included."""
    folders = test.split("/")[1:-1]
    if not folders:
        return (test,)
    packages = GUARDS.get(folders[0], ("/".join(folders),))
    return ("/".join(("tests", *folders)) + "/", *(f"minigpt/{name}/" for name in packages))


def main() -> int:
    pytest = (sys.executable, "-m", "pytest", "-m", SLOW)
    tests = [line for line in output(*pytest, "--collect-only") if "::" in line]
    commit = PASSED.read_text().strip() if PASSED.exists() else ""
    known = commit in output("git", "rev-list", "HEAD")
    changed = output("git", "diff", "--name-only", commit) if known else []
    chosen = [
        test
        for number, test in enumerate(tests)
        if number % 10 == 0 or any(path.startswith(guards(test.split("::")[0])) for path in changed)
    ]
    print(f"{len(chosen)} of {len(tests)} slow tests")
    parallel = ("-n", "2", "--dist", "worksteal", "--max-worker-restart", "0")
    status = subprocess.run([*pytest, *parallel, *chosen], cwd=ROOT).returncode
    if not status and (head := output("git", "rev-parse", "HEAD")):
        PASSED.parent.mkdir(parents=True, exist_ok=True)
        PASSED.write_text(head[0])
    return status


if __name__ == "__main__":
    sys.exit(main())
