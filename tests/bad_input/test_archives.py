"""Archives and downloads from strangers cannot reach other files, fill the memory or the disk."""

import gzip
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


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("MAX_BYTES", "decompresses to more than 100 bytes"),
        ("MAX_MEMBERS", "contains more than 100 members"),
        ("MAX_MEMBER_BYTES", f"{REVIEW}: has more than 100 bytes"),
    ],
)
def test_a_decompression_bomb(limit, words, tmp_path, cache, monkeypatch):
    members = {f"{number}": b"" for number in range(150)} | {REVIEW: b"0" * 3_000_000}
    if limit == "MAX_MEMBER_BYTES":
        members = {REVIEW: b"0" * 3_000_000}
    data = archive(tmp_path / "a.tar.gz", members)
    monkeypatch.setattr(sources, limit, 100)
    with pytest.raises(UserError, match=words):
        list(sources.open_source(data).pieces())


def test_tar_members_that_expand(tmp_path, cache, monkeypatch):
    """A sparse member can have any size; tarfile reads headers into memory completely."""
    sparse = tarfile.TarInfo(REVIEW)
    sparse.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    # A hole of 50 MB, which is the size of the member.
    block[386:398] = block[483:495] = b"%011o\0" % 50_000_000
    block[398:410] = b"%011o\0" % 0
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    path = tmp_path / "sparse.tar.gz"
    path.write_bytes(gzip.compress(bytes(block) + bytes(1024)))
    with pytest.raises(UserError, match="contains no IMDB reviews"):
        list(sources.open_source(described(path)).pieces())

    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 3_000_000
    path = tmp_path / "header.tar.gz"
    path.write_bytes(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT) + bytes(3_000_000)))
    monkeypatch.setattr(sources, "MAX_MEMBER_BYTES", 100_000)
    with pytest.raises(UserError, match="a member has more than 100,000 bytes"):
        list(sources.open_source(described(path)).pieces())


def test_a_text_that_decompresses_to_any_size(tmp_path, cache, monkeypatch):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"0" * 5_000_000))
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    data = data_config(source="shakespeare", url=path.as_uri(), sha256=right)
    monkeypatch.setattr(sources, "MAX_BYTES", 1_000_000)
    with pytest.raises(UserError, match="decompresses to more than 1,000,000 bytes"):
        list(sources.open_source(data).pieces())


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
    monkeypatch.setattr(sources, "_LimitedGzip", None)
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
