"""Finds what the browser tests need, or skips with the line that installs it."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from minigpt.storage.atomic import atomic_folder

PACKAGES = Path(__file__).with_name("package.json")
# Not committed. MINIGPT_BROWSER_CACHE moves it.
CACHE = Path(
    os.environ.get("MINIGPT_BROWSER_CACHE", Path(__file__).resolve().parents[2] / ".browser_cache")
)
_NAMES = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "firefox": ("firefox-esr", "firefox"),
}


def browser_path(name: str) -> str:
    """Returns the path of the system's browser, "chromium" or "firefox"."""
    for program in _NAMES[name]:
        if path := shutil.which(program):
            return path
    pytest.skip(f"needs {name}: apt-get install chromium firefox-esr")


def npm_packages() -> Path:
    """Returns the folder node_modules with the packages of package.json, installed once."""
    versions = json.loads(PACKAGES.read_text(encoding="utf-8"))["dependencies"]
    folder = CACHE / "-".join(f"{name}-{version}" for name, version in versions.items())
    if problem := _problem_of_installing(folder):
        pytest.skip(problem)
    return folder / "node_modules"


@functools.cache
def _problem_of_installing(folder: Path) -> str | None:
    """Installs the packages if they are not. Returns what is missing; asked once, not for every test."""
    if not shutil.which("node") or not shutil.which("npm"):
        return "needs node and npm: apt-get install nodejs npm"
    if folder.is_dir():
        return None
    CACHE.mkdir(parents=True, exist_ok=True)
    options = ("--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund")
    try:
        with atomic_folder(folder) as unfinished:
            shutil.copy(PACKAGES, unfinished)
            command = ["npm", "install", *options]
            subprocess.run(command, cwd=unfinished, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.startswith("npm error")]
        reason = lines[0] if lines else "npm failed"
        return f"needs npm's registry, to install the packages of {PACKAGES.name}: {reason}"
    return None
