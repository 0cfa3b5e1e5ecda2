"""Finds what the browser tests need, or skips with the line that installs it."""

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
    if not folder.is_dir():
        if not shutil.which("node") or not shutil.which("npm"):
            pytest.skip("needs node and npm: apt-get install nodejs npm")
        CACHE.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder, replace=True) as unfinished:
            shutil.copy(PACKAGES, unfinished)
            options = ("--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund")
            command = ["npm", "install", *options]
            done = subprocess.run(command, cwd=unfinished, capture_output=True, text=True)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["npm failed"])[-1]
                pytest.skip(f"needs the npm registry, once, for {PACKAGES.name}: {reason}")
    return folder / "node_modules"
