"""Downloads: verified, cached, and removed when they fail."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from minigpt.errors import UserError
from minigpt.storage.downloads import download

BODY = b"some text\n" * 100_000
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "downloads"


@pytest.fixture
def server():
    class Handler(BaseHTTPRequestHandler):
        hits = 0

        def do_GET(self):
            Handler.hits += 1
            if "moved" in self.path:
                self.send_response(302)
                self.send_header("Location", f"http://localhost:{running.server_port}/text.txt")
                return self.end_headers()
            if "missing" in self.path:
                return self.send_error(404)
            self.send_response(200)
            if "chunked" in self.path:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                return self.wfile.write(b"ff\r\nearly end")
            if "unsized" not in self.path:
                self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY[:-7] if "cut" in self.path else BODY)

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}", Handler
    running.shutdown()
    running.server_close()


def failure(url, sha256=SHA256):
    with pytest.raises(UserError) as error:
        download(url, sha256)
    (line,) = error.value.problems
    assert url in line and "\n" not in line
    return line


@pytest.mark.parametrize("name", ["text.txt", "unsized.txt"])
def test_download_once(server, cache, name, caplog):
    caplog.set_level("INFO", "minigpt")
    url, handler = server
    path = download(f"{url}/a/{name}?x=1", SHA256)
    assert path == cache / f"{SHA256}-{name}" and path.read_bytes() == BODY
    assert download(f"{url}/a/{name}", SHA256) == path
    assert handler.hits == 1 and caplog.messages == [f"downloading {url}/a/{name}?x=1"]
    assert list(cache.iterdir()) == [path]


def test_redirections_are_followed(server):
    assert download(f"{server[0]}/moved", SHA256).read_bytes() == BODY


def test_file_addresses(tmp_path):
    file = tmp_path / "a b.txt"
    file.write_bytes(BODY)
    assert download(file.as_uri(), SHA256).read_bytes() == BODY
    assert "No such file" in failure((tmp_path / "none").as_uri())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", "404"),
        ("cut", "wrong checksum"),
        ("chunked", "cannot be downloaded"),
    ],
)
def test_failing_transfers(server, cache, name, words):
    assert words in failure(f"{server[0]}/{name}")
    assert not list(cache.iterdir())


def test_wrong_checksum(server, cache):
    line = failure(f"{server[0]}/text", "0" * 64)
    assert "0" * 64 in line and SHA256 in line
    assert not list(cache.iterdir())


def test_unreachable():
    assert "refused" in failure("http://127.0.0.1:9/text")
    assert "https://" in failure("ftp://127.0.0.1/text")
