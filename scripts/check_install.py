"""Goes from an empty folder to a trained model, a page and a server, with nothing but the built wheels.

    python scripts/check_install.py [--dist FOLDER] [--python PYTHON] [--constraint FILE] [--windows]

Downloads minigpt-keras into a new environment, with an empty home; trains for a few steps, samples, writes
the page and asks the server. Then the model's file alone is used in a second environment, of
minigpt-portable, which has no TensorFlow. With --windows, pip also looks for the files of all packages of
minigpt-portable for Windows. Prints the seconds and megabytes of each part. If PIP_CACHE_DIR names a cache
that has the packages, they are taken from there.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {"minigpt_keras": ROOT, "minigpt_portable": ROOT / "packaging/portable"}
VERSIONS = ("3.11", "3.12", "3.13")
# As few as show that all parts work.
SHORT = (
    *("--set", "training.epochs=1", "--set", "training.steps_per_epoch=5"),
    *("--set", "model.num_layers=1", "--set", "model.embed_dim=16", "--set", "model.num_heads=2"),
)
PROMPT = "Once upon a time"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, help="folder of the wheels; default: builds them")
    parser.add_argument("--python", default=sys.executable, help="the Python to install for")
    parser.add_argument("--constraint", type=Path, help="exact versions, such as constraints.txt")
    parser.add_argument("--windows", action="store_true", help="look for files for Windows")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), arguments)


def check(folder: Path, arguments: argparse.Namespace) -> None:
    """Runs all parts in a folder and prints the table."""
    rows: list[tuple[str, float, float | None]] = []
    environment = {
        name: value
        for name, value in os.environ.items()
        # Nothing of the checkout, of the user's environment, and of earlier runs.
        if not name.startswith(("PYTHON", "MINIGPT", "VIRTUAL_ENV", "XDG_"))
    }
    (folder / "home").mkdir()
    environment |= {"HOME": str(folder / "home"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if arguments.constraint:
        environment["PIP_CONSTRAINT"] = str(arguments.constraint.absolute())

    def run(*command: str | Path, cwd: Path = folder) -> str:
        """Runs a command in an empty folder, and returns what it prints."""
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stderr}")
        return done.stdout

    def measure(
        name: str, *command: str | Path, cwd: Path = folder, size: Path | None = None
    ) -> str:
        start = time.perf_counter()
        printed = run(*command, cwd=cwd)
        bytes_ = None if size is None else bytes_of(size)
        rows.append((name, time.perf_counter() - start, bytes_ and bytes_ / 1e6))
        return printed

    dist = arguments.dist or folder / "dist"
    wheels = {}
    for name, project in PROJECTS.items():
        if not arguments.dist:
            command = ("wheel", "--quiet", "--no-deps", "--wheel-dir", dist, project)
            measure(f"build {name}", sys.executable, "-m", "pip", *command)
        (wheels[name],) = dist.absolute().rglob(f"{name}-*.whl")

    for name, extra in (("minigpt_keras", "[serve]"), ("minigpt_portable", "")):
        work, files = folder / f"work-{name}", folder / f"files-{name}"
        work.mkdir()
        run(arguments.python, "-m", "venv", folder / name)
        python, minigpt = (folder / name / "bin" / program for program in ("python", "minigpt"))
        pip = (python, "-m", "pip")
        empty = bytes_of(folder / name)
        packages = f"{wheels[name]}{extra}"
        measure(
            f"download {name}", *pip, "download", "--quiet", "--dest", files, packages, size=files
        )
        offline = ("install", "--quiet", "--no-index", "--find-links", files, packages)
        measure(f"install {name}", *pip, *offline, size=folder / name)
        rows[-1] = (*rows[-1][:2], bytes_of(folder / name) / 1e6 - empty / 1e6)
        shutil.rmtree(files)
        version = run(minigpt, "--version", cwd=work).split()[1]
        assert f"-{version}-" in wheels[name].name, version
        if name == "minigpt_keras":
            measure("train", minigpt, "train", "--run", "run", *SHORT, cwd=work)
            shutil.copy(work / "run/model.gguf", folder)
            model = "run"
        else:
            model = str(Path(shutil.copy(folder / "model.gguf", work)).name)
            absent = "import importlib.util as u; print(*map(u.find_spec, ('tensorflow', 'keras')))"
            assert run(python, "-c", absent).split() == ["None", "None"]
        prompt = ("--prompt", PROMPT, "--max-new-tokens", "20")
        text = measure(f"sample {model}", minigpt, "sample", model, *prompt, cwd=work)
        assert text.startswith(PROMPT) and len(text.strip()) > len(PROMPT), text
        page = ("--format", "html", "--output", "page.html")
        measure("page", minigpt, "export", model, *page, cwd=work, size=work / "page.html")
        seconds = ask_server([str(minigpt), "serve", model, "--port", "0"], work, environment)
        rows.append(("server, until its first answer", seconds, None))

    dry = ("--dry-run", "--ignore-installed", "--target", folder / "none", "--only-binary=:all:")
    for version in VERSIONS if arguments.windows else ():
        platform = ("--platform", "win_amd64", "--python-version", version)
        wheel = wheels["minigpt_portable"]
        measure(f"files for Windows, Python {version}", *pip, "install", *dry, *platform, wheel)
    print(f"{'':34}{'seconds':>9}{'MB':>9}")
    for name, seconds, megabytes in rows:
        print(f"{name:34}{seconds:9.1f}{'' if megabytes is None else f'{megabytes:9.1f}'}")


def bytes_of(path: Path) -> int:
    """Returns the size of a file, or of all files in a folder; a file with several names counts once."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum({(s.st_dev, s.st_ino): s.st_size for s in (p.lstat() for p in files)}.values())


def ask_server(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Starts a server, asks it for a text, and stops it. Returns the seconds until the answer."""
    start = time.perf_counter()
    server = subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        line = next((line for line in server.stderr if line.startswith("Serving")), "")
        url = line.partition(" at ")[2].partition(". Press")[0]
        assert url, f"{' '.join(command)}: did not start"
        body = json.dumps({"prompt": PROMPT, "max_tokens": 8, "temperature": 0}).encode()
        request = urllib.request.Request(
            f"{url}/v1/completions", body, {"Content-Type": "application/json"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            assert json.load(answer)["choices"][0]["text"]
        return time.perf_counter() - start
    finally:
        server.terminate()
        assert server.wait(60) == 0


if __name__ == "__main__":
    main()
