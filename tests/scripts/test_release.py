"""What scripts/release.py checks before it builds; and the workflow that publishes what it builds."""

import re
import subprocess
from pathlib import Path

import pytest

from scripts.release import read_release, with_absolute_links

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with the version 1.2.3, and a function that commits all of it."""
    monkeypatch.delenv("GITHUB_REF_TYPE", raising=False)
    (tmp_path / "minigpt").mkdir()
    (tmp_path / "minigpt/__init__.py").write_text('__version__ = "1.2.3"\n')
    ours = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(re.sub(r"[\w.]+/OWNER/", "example.org/us/", ours))
    (tmp_path / "mkdocs.yml").write_text("site_url: https://us.example.org/minigpt/\n")

    def commit(changelog: str) -> Path:
        (tmp_path / "CHANGELOG.md").write_text(changelog)
        name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for command in (("init", "-q"), ("add", "-A"), (*name, "commit", "-qm", "A version")):
            subprocess.run(["git", *command], cwd=tmp_path, check=True)
        return tmp_path

    return commit


def test_notes_are_the_newest_section(checkout):
    text = "# Changelog\n\n## 1.2.3 (2026-01-31)\n\n### Added\n\n- [This](a.md#b).\n\n## 1.2.2\n\n- That.\n"
    link = "https://example.org/us/minigpt/blob/main/a.md#b"
    assert read_release(checkout(text)) == ([], "1.2.3", f"### Added\n\n- [This]({link}).\n")


def test_links_and_pictures_on_an_index_lead_to_the_repository():
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    readme = with_absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), pyproject)
    targets = re.findall(r'\]\(([^)\s]+)|(?:src|srcset)="([^"]+)', readme)
    # Those that begin with "#" are sections of the same page.
    assert len(targets) > 30 and all("".join(t).startswith(("https://", "#")) for t in targets)
    (address,) = re.findall('^Repository = "(.*)"$', pyproject, re.M)
    for page in ("raw/main/docs/images/page.png", "blob/main/docs/install.md"):
        assert f"{address}/{page}" in readme
    # Others stay as they are.
    text = "[a](https://example.org/b) [c](#d) `[e]` (f)"
    assert with_absolute_links(text, pyproject) == text


@pytest.mark.parametrize("heading", ["1.2.3 (not released yet)", "1.2.4 (2026-01-31)", "1.2.3"])
def test_the_changelog_should_have_the_version_and_a_date(checkout, heading):
    (problem,), *_ = read_release(checkout(f"# Changelog\n\n## {heading}\n\n- This.\n"))
    assert problem.startswith(f"CHANGELOG.md: its first section is '{heading}'; should be '1.2.3 (")


def test_files_that_are_not_committed(checkout):
    root = checkout("## 1.2.3 (2026-01-31)\n\n- This.\n")
    (root / "new.py").touch()
    (problem,), *_ = read_release(root)
    assert problem == "git: 1 changes are not committed, such as '?? new.py'"


def test_the_address_of_the_repository_is_filled_in(checkout):
    root = checkout("## 1.2.3 (2026-01-31)\n\n- This.\n")
    (root / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert any("OWNER should be the owner" in problem for problem in read_release(root)[0])


@pytest.mark.parametrize(("tag", "count"), [("v1.2.3", 0), ("v1.2.4", 1)])
def test_the_tag_is_compared(checkout, monkeypatch, tag, count):
    root = checkout("## 1.2.3 (2026-01-31)\n\n- This.\n")
    monkeypatch.setenv("GITHUB_REF_TYPE", "tag")
    monkeypatch.setenv("GITHUB_REF_NAME", tag)
    assert len(read_release(root)[0]) == count
