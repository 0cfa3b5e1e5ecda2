"""Builds a release into dist/, checks it, and writes its notes. Publishes nothing.

    make release                        # python scripts/release.py
    make release RELEASE=--draft        # what is in the checkout, without a date and without tests

The version of minigpt/__init__.py should have a dated section in CHANGELOG.md, and git should have no
changes that are not committed. Both distributions are built twice, here and from a copy of the commit, and
should have the same bytes. A workflow on a tag also compares the tag.
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Distribution → its folder.
PROJECTS = {"minigpt-keras": ".", "minigpt-portable": "packaging/portable"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--without-tests", action="store_true", help="leave out `make test`")
    parser.add_argument(
        "--draft", action="store_true", help="check only the files; leave out all else"
    )
    arguments = parser.parse_args()
    problems, version, notes = read_release(ROOT)
    if not arguments.draft:
        if problems:
            sys.exit("\n".join(problems))
        for target in ["check"] if arguments.without_tests else ["check", "test"]:
            subprocess.run(["make", target], cwd=ROOT, check=True)
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        # A draft may have changes that are not committed: they become a commit that has no name.
        name = ("-c", "user.name=minigpt", "-c", "user.email=")
        commit = git(ROOT, *name, "stash", "create").decode().strip() or "HEAD"
        with tarfile.open(fileobj=io.BytesIO(git(ROOT, "archive", commit))) as archive:
            archive.extractall(Path(folder) / "commit", filter="data")
        built, again = build(ROOT, dist), build(Path(folder) / "commit", Path(folder) / "again")
    if different := [name for name in built if built[name] != again.get(name)]:
        sys.exit(f"{', '.join(different)}: other bytes if built from the commit")
    files = [str(dist / name) for name in built]
    run("twine", "check", "--strict", *files)
    run("check_wheel_contents", *(file for file in files if file.endswith(".whl")))
    (dist / "notes.md").write_text(notes, encoding="utf-8")
    print(f"minigpt {version}:")
    for file in sorted(dist.rglob("*.*")):
        print(f"  {file.relative_to(ROOT)}, {file.stat().st_size:,} bytes")


def read_release(root: Path) -> tuple[list[str], str, str]:
    """Returns what keeps a checkout from being released, its version, and the notes of that."""
    source = (root / "minigpt/__init__.py").read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.*)"$', source, re.M)[0]
    _, heading, notes = re.split(
        r"^## (.*)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), maxsplit=2, flags=re.M
    )[:3]
    problems = []
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading):
        problems.append(
            f"CHANGELOG.md: its first section is {heading!r}; should be '{version} (YYYY-MM-DD)', with the "
            "version of minigpt/__init__.py and the date of the release"
        )
    pyproject = (root / "pyproject.toml").read_text(encoding="utf-8")
    if "/OWNER/" in pyproject:
        problems.append(
            "pyproject.toml: project.urls: OWNER should be the owner of the repository; then run "
            "scripts/make_notebook_heads.py"
        )
    if "site_url: https://example.org" in (root / "mkdocs.yml").read_text(encoding="utf-8"):
        problems.append(
            "mkdocs.yml: site_url: https://example.org should be the address of the site"
        )
    if changed := git(root, "status", "--porcelain").decode().splitlines():
        problems.append(f"git: {len(changed)} changes are not committed, such as {changed[0]!r}")
    tag = os.environ.get("GITHUB_REF_NAME")
    if os.environ.get("GITHUB_REF_TYPE") == "tag" and tag != f"v{version}":
        problems.append(f"tag {tag!r}: should be 'v{version}'")
    newest = re.split("^## ", notes, maxsplit=1, flags=re.M)[0].strip() + "\n"
    return problems, version, with_absolute_links(newest, pyproject)


def with_absolute_links(text: str, pyproject: str) -> str:
    """Replaces links of a file in the root by links to the repository, as builds do in README.md."""
    hooks = tomllib.loads(pyproject)["tool"]["hatch"]["metadata"]["hooks"]
    for change in hooks["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    return text


def build(root: Path, dist: Path) -> dict[str, bytes]:
    """Builds all files of a checkout; returns path in `dist` → content."""
    for name, folder in PROJECTS.items():
        # Files in archives have the date of the commit.
        date = git(ROOT, "log", "-1", "--format=%ct").decode().strip()
        run(
            *("build", "--no-isolation", "--outdir", str(dist / name), str(root / folder)),
            SOURCE_DATE_EPOCH=date,
        )
    return {str(p.relative_to(dist)): p.read_bytes() for p in sorted(dist.rglob("*.*"))}


def git(root: Path, *command: str) -> bytes:
    return subprocess.run(["git", *command], cwd=root, check=True, capture_output=True).stdout


def run(module: str, *arguments: str, **environment: str) -> None:
    """Runs a program of the extra `release`; prints what it prints if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{module}: status {done.returncode}\n{done.stdout}")


if __name__ == "__main__":
    main()
