"""Downloads, verified by checksum and kept in the cache folder."""

import hashlib
import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console
from rich.progress import wrap_file

from minigpt.errors import UserError
from minigpt.storage.atomic import atomic_file
from minigpt.storage.cache import cache_folder
from minigpt.storage.files import sha256_of

TIMEOUT_SECONDS = 60
# An address may be a stranger's: nothing fills the disk.
MOST_BYTES = 20_000_000_000
_BLOCK_BYTES = 1 << 18


def download(url: str, sha256: str, report: Callable[[str], None] = lambda line: None) -> Path:
    """The file at `url`, from the cache folder where it is there already.

    Args:
      url: http, https or file.
      sha256: 64 hex digits; a cached file is held against them too.
      report: gets one line when a transfer begins; a terminal shows a progress bar as well.
    Raises:
      UserError: the address cannot be reached or leads to another host, the transfer ends early, there
        are more than MOST_BYTES, or the checksum is another. Nothing is left behind then.
    """
    address = urllib.parse.urlsplit(url)
    if address.scheme not in ("http", "https", "file"):
        raise UserError(f"address {url}: should begin with https://, http:// or file://")
    name = urllib.parse.unquote(address.path).rsplit("/", 1)[-1]
    name = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[-100:] or "download"
    path = cache_folder() / "downloads" / f"{sha256}-{name}"
    if path.is_file() and sha256_of(path) == sha256:
        return path

    report(f"downloading {url}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as unfinished:
        actual = _transfer(url, unfinished)
        if actual != sha256:
            raise UserError(f"{url}: wrong checksum: expected sha256 {sha256}, received {actual}")
    return path


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a server to other addresses of its own, and to nobody else's."""

    def redirect_request(
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str
    ) -> Any:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if new.hostname != old.hostname or (old.scheme, new.scheme) == ("https", "http"):
            raise UserError(
                f"address {req.full_url}: leads to {newurl}; if that is to be trusted, it should be the "
                "address that is given"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _transfer(url: str, path: Path) -> str:
    """Writes what is at `url` to `path`, through to the disk; returns its SHA-256."""
    request = urllib.request.Request(url, headers={"User-Agent": "minigpt"})
    digest, received = hashlib.sha256(), 0
    try:
        with urllib.request.build_opener(_SameHost).open(
            request, timeout=TIMEOUT_SECONDS
        ) as response:
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            with _progress(response, total) as body, open(path, "wb") as file:
                while block := body.read(_BLOCK_BYTES):
                    file.write(block)
                    digest.update(block)
                    received += len(block)
                    if received > MOST_BYTES:
                        raise UserError(
                            f"{url}: has more than {MOST_BYTES:,} bytes; should have less"
                        )
    except urllib.error.HTTPError as error:
        raise UserError(f"{url}: the server answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        reason = getattr(reason, "strerror", None) or reason
        raise UserError(f"{url}: cannot be downloaded: {reason}".replace("\n", " ")) from None
    # http.client takes an early end of a body read in blocks for the end.
    if total is not None and received != total:
        raise UserError(
            f"{url}: the transfer ended after {received:,} of {total:,} bytes; try again"
        )
    return digest.hexdigest()


def _progress(response: BinaryIO, total: int | None) -> Any:
    console = Console(stderr=True)
    if total is None or not console.is_terminal:
        return nullcontext(response)
    return wrap_file(response, total, description="downloading", console=console, transient=True)
