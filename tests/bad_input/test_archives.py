"""Archives and downloads from strangers cannot reach other files."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

import minigpt
from minigpt.config import DataConfig
from minigpt.corpus import sources
from minigpt.errors import UserError
from tests.conftest import tiny_settings
from tests.settings import data_config


def archive(path: Path, members: dict[str, bytes]) -> DataConfig:
    """Returns settings for an archive of these members and two links."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE)):
            member = tarfile.TarInfo(f"aclImdb/train/pos/{number}_1.txt")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    return described(path)


def described(path: Path) -> DataConfig:
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    return data_config(source="imdb", url=path.as_uri(), sha256=right)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "a/b/cache"))
    return tmp_path / "a/b/cache"


REVIEW = "aclImdb/train/pos/9_9.txt"


def test_names_and_links_in_an_archive_are_not_followed(tmp_path, cache):
    names = ["../../x", "/tmp/minigpt-absolute", "aclImdb/train/pos/../../../../../x.txt"]
    data = archive(tmp_path / "a.tar.gz", dict.fromkeys(names, b"evil") | {REVIEW: b"good"})
    (piece,) = sources.open_source(data).pieces()
    assert piece.text == b"good"
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == sorted(
        ["a.tar.gz", f"{data.sha256}-a.tar.gz"]
    )
    assert not Path("/tmp/minigpt-absolute").exists()


def test_an_endless_download(tmp_path, cache, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_bytes(b"0" * 3_000_000)
    data = data_config(source="shakespeare", url=path.as_uri(), sha256="0" * 64)
    monkeypatch.setattr("minigpt.storage.downloads.MAX_BYTES", 1_000_000)
    with pytest.raises(UserError, match="has more than 1,000,000 bytes"):
        list(sources.open_source(data).pieces())
    assert not any(cache.rglob("*.txt"))


def test_nothing_is_decompressed_before_the_checksum_is_verified(tmp_path, cache, monkeypatch):
    data = archive(tmp_path / "a.tar.gz", {REVIEW: b"good"})
    monkeypatch.setattr(tarfile, "open", None)
    wrong = data.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(UserError, match="wrong checksum"):
        list(sources.open_source(wrong).pieces())


def test_only_the_configured_address_is_contacted(tmp_path, cache, monkeypatch):
    asked = []

    def refuse(opener, request, *_, **__):
        asked.append(request.full_url)
        raise OSError("no network here")

    monkeypatch.setattr("urllib.request.OpenerDirector.open", refuse)
    settings = tiny_settings(tmp_path / "x")
    address = "https://example.org/a.txt"
    settings["data"] = {"source": "shakespeare", "url": address, "sha256": "0" * 64}
    with pytest.raises(UserError, match="no network here"):
        minigpt.train(settings, tmp_path / "run")
    assert asked == [address] and not (tmp_path / "run").exists()
