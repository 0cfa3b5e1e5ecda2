"""Downloads, verified by their checksum and kept in the cache folder."""

import hashlib
import http.client
import re
import urllib.parse
import urllib.request
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import wrap_file

from minigpt.errors import UserError
from minigpt.notices import LOGGER
from minigpt.storage.atomic import atomic_file
from minigpt.storage.files import cache_folder, sha256_of

TIMEOUT_SECONDS = 60
# The address may come from someone else's configuration. A download should not fill the disk: the checksum
# is compared only after the last byte.
MAX_BYTES = 20_000_000_000
_BLOCK_BYTES = 1 << 18


def download(url: str, sha256: str) -> Path:
    """Returns the path of the file at `url` in the cache folder, and downloads it if necessary.

    A terminal shows a progress bar.

    Args:
      url: an address that begins with https://, http:// or file://.
      sha256: the file's SHA-256, 64 hexadecimal digits; a cached file is verified too.
    Raises:
      UserError: the address cannot be reached, the file has more than MAX_BYTES, or its checksum differs,
        as after a transfer that ended early. Nothing is kept then.
    """
    address = urllib.parse.urlsplit(url)
    if address.scheme not in ("http", "https", "file"):
        raise UserError(f"address {url}: should begin with https://, http:// or file://")
    name = urllib.parse.unquote(address.path).rsplit("/", 1)[-1]
    name = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[-100:] or "download"
    path = cache_folder() / "downloads" / f"{sha256}-{name}"
    if path.is_file() and sha256_of(path) == sha256:
        return path

    LOGGER.info("downloading %s", url)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as unfinished:
        actual = _transfer(url, unfinished)
        if actual != sha256:
            raise UserError(f"{url}: wrong checksum: expected sha256 {sha256}, received {actual}")
    return path


def _transfer(url: str, path: Path) -> str:
    """Writes the content of `url` to `path` and returns its SHA-256."""
    request = urllib.request.Request(url, headers={"User-Agent": "minigpt"})
    digest, received = hashlib.sha256(), 0
    try:
        with (
            urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response,
            _progress(response) as body,
            open(path, "wb") as file,
        ):
            while block := body.read(_BLOCK_BYTES):
                file.write(block)
                digest.update(block)
                received += len(block)
                if received > MAX_BYTES:
                    raise UserError(f"{url}: has more than {MAX_BYTES:,} bytes, the limit")
    except (OSError, ValueError, http.client.HTTPException) as error:
        problem = " ".join(str(error).split())
        raise UserError(f"{url}: cannot be downloaded: {problem}") from None
    return digest.hexdigest()


def _progress(response: Any) -> Any:
    console, total = Console(stderr=True), response.headers.get("Content-Length")
    if not total or not console.is_terminal:
        return nullcontext(response)
    return wrap_file(
        response, int(total), description="downloading", console=console, transient=True
    )
