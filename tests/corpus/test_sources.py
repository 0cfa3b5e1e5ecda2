"""The built-in sources."""

import hashlib
import io
import sysconfig
import tarfile
from dataclasses import dataclass

import pytest

from minigpt.corpus.documents import ingest
from minigpt.corpus.sources import open_source
from minigpt.errors import UserError
from tests.settings import data_config

pytestmark = pytest.mark.usefixtures("cache")


def texts_of(source):
    documents = ingest(source.pieces())
    return [documents.text[start:stop].decode() for start, stop in documents.spans]


@dataclass
class Link:
    kind: bytes


def imdb(path, members):
    """A source that reads an archive of (name, content or link)."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, Link):
                member.type, member.linkname = content.kind, "aclImdb/train/pos/1_9.txt"
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return downloaded("imdb", path)


def downloaded(source, path, **more):
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return open_source(data_config(source=source, url=path.as_uri(), sha256=sha256, **more))


def test_imdb_reviews_sorted_with_line_breaks_as_spaces(tmp_path):
    source = imdb(
        tmp_path / "a.tar.gz",
        [
            ("aclImdb/train/pos/1_9.txt", b"third<br /><br />more"),
            ("aclImdb/train/neg/2_1.txt", "second é".encode()),
            ("aclImdb/test/pos/9_9.txt", b"first"),
            ("aclImdb/train/unsup/1_0.txt", b"unlabelled"),
            ("aclImdb/train/pos/urls.csv", b"no"),
            ("aclImdb/train/pos/._1_9.txt", b"no"),
            ("aclImdb/train/pos/deep/1_9.txt", b"no"),
            ("x/aclImdb/train/pos/1_9.txt", b"no"),
            ("../aclImdb/train/pos/1_9.txt", b"no"),
            ("aclImdb/README", b"no"),
            ("aclImdb/train/pos/5_5.txt", Link(tarfile.SYMTYPE)),
            ("aclImdb/train/pos/6_5.txt", Link(tarfile.LNKTYPE)),
            ("aclImdb/train/pos/7_5.txt", Link(tarfile.DIRTYPE)),
        ],
    )
    assert texts_of(source) == ["first", "second é", "third  more"]


def test_broken_imdb_archives(tmp_path):
    path = tmp_path / "a.tar.gz"
    review = "aclImdb/train/pos/1_9.txt"
    with pytest.raises(UserError, match="contains no IMDB reviews"):
        texts_of(imdb(path, [("other.txt", b"x")]))
    with pytest.raises(UserError, match="utf-8"):
        texts_of(imdb(path, [(review, b"ab\xff")]))
    imdb(path, [(review, bytes(range(128)) * 1000)])
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(UserError, match="not a readable archive"):
        texts_of(downloaded("imdb", path))
    path.write_bytes(b"text")
    with pytest.raises(UserError, match="not a readable archive"):
        texts_of(downloaded("imdb", path))


def test_shakespeare_is_one_document(tmp_path):
    path = tmp_path / "input.txt"
    path.write_text("To be,\n\nor not\n")
    assert texts_of(downloaded("shakespeare", path)) == ["To be,\n\nor not\n"]
    cut = downloaded("shakespeare", path, document_separator="\n\n")
    assert texts_of(cut) == ["To be,", "or not\n"]
    path.write_bytes(b"\xff")
    with pytest.raises(UserError, match="UTF-8"):
        texts_of(downloaded("shakespeare", path))


def test_the_fingerprint_of_a_download_needs_no_download():
    config = data_config(source="imdb", url="http://127.0.0.1:9/none", sha256="ab" * 32)
    assert open_source(config).fingerprint() == "ab" * 32


def test_python_library(tmp_path, monkeypatch):
    for name, content in {
        "b.py": b"b = 1\n",
        "a/z.py": "z = 'é'\n".encode(),
        "a/tests/no.py": b"no",
        "test/no.py": b"no",
        "idlelib/idle_test/no.py": b"no",
        "site-packages/no.py": b"no",
        "latin.py": b"# \xe9",
        "a/empty.py": b"",
        "a/data.txt": b"no",
    }.items():
        (tmp_path / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib" / name).write_bytes(content)
    library = str(tmp_path / "lib")
    monkeypatch.setattr(sysconfig, "get_path", {"stdlib": library}.__getitem__)
    source = open_source(data_config(source="python"))
    assert texts_of(source) == ["z = 'é'\n", "b = 1\n"]
    before = source.fingerprint()
    (tmp_path / "lib" / "b.py").write_bytes(b"b = 2\n")
    assert open_source(data_config(source="python")).fingerprint() != before
