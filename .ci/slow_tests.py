"""Runs the slow tests that guard what has changed since they last passed, and a tenth of the others.

tests/NAME guards minigpt/NAME, or what GUARDS has. The user's cache folder has the commit they passed on.
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
    "targets": ("targets", "models", "tokenizers", "runs", "generation"),
}


def run(*command: str) -> tuple[int, list[str]]:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout.splitlines()


def guards(test: str) -> tuple[str, ...]:
    """Returns the beginnings of the paths that a test file guards, its own folder included."""
    if not (folders := test.split("/")[1:-1]):
        return (test,)
    packages = GUARDS.get(folders[0], ("/".join(folders),))
    return ("/".join(("tests", *folders)) + "/", *(f"minigpt/{name}/" for name in packages))


def main() -> int:
    pytest = (sys.executable, "-m", "pytest", "-m", "slow and not browser")
    status, lines = run(*pytest, "--collect-only")
    if status or not (tests := [line for line in lines if "::" in line]):
        print(f"the slow tests were not collected: pytest ended with status {status}")
        return status or 1
    commit = PASSED.read_text().strip() if PASSED.exists() else ""
    known = commit in run("git", "rev-list", "HEAD")[1]
    changed = run("git", "diff", "--name-only", commit)[1] if known else []
    chosen = [
        test
        for number, test in enumerate(tests)
        if number % 10 == 0 or any(path.startswith(guards(test.split("::")[0])) for path in changed)
    ]
    print(f"{len(chosen)} of {len(tests)} slow tests")
    parallel = ("-n", "2", "--dist", "worksteal", "--max-worker-restart", "0")
    status = subprocess.run([*pytest, *parallel, *chosen], cwd=ROOT).returncode
    if not status and (head := run("git", "rev-parse", "HEAD")[1]):
        PASSED.parent.mkdir(parents=True, exist_ok=True)
        PASSED.write_text(head[0])
    return status


if __name__ == "__main__":
    sys.exit(main())
