"""Files of text in blocks of bytes: `.gz` and `.zst` are decompressed, and UTF-8 is checked."""

import codecs
import gzip
import shlex
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import zstandard

from minigpt.errors import UserError

BLOCK_BYTES = 1 << 20
# Few, because a block can decompress to thousands of times its size.
_ZSTD_BYTES = 1 << 14
COMPRESSIONS = (".gz", ".zst")


def checked_blocks(path: Path) -> Iterator[bytes]:
    """Yields the text of a file in blocks, none empty; raises UserError at the first problem."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_bytes = n_lines = 0
    for block in blocks(path):
        if (position := block.find(b"\0")) >= 0:
            line = n_lines + block.count(b"\n", 0, position) + 1
            hint = _utf16_hint(path) if _looks_like_utf16(block) else "; should be text in UTF-8"
            raise UserError(
                f"{path}: binary file: NUL at byte {n_bytes + position} (line {line}){hint}"
            )
        pending = decoder.getstate()[0]
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            position = n_bytes - len(pending) + error.start
            raise _not_utf8(path, position, n_lines, error) from None
        yield block.removeprefix(codecs.BOM_UTF8) if n_bytes == 0 else block
        n_bytes += len(block)
        n_lines += block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        position = n_bytes - len(error.object) + error.start
        raise _not_utf8(path, position, n_lines, error) from None
    if n_bytes == 0:
        raise UserError(f"{path}: empty; should contain text")


def blocks(path: Path) -> Iterator[bytes]:
    """Yields the bytes of a file in blocks; raises UserError if it is broken or in UTF-16."""
    n_bytes = 0
    try:
        with open(path, "rb") as file:
            for block in _decompressed(file, path.suffix):
                if n_bytes == 0 and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise UserError(
                        f"{path}: not valid UTF-8 at byte 0 (line 1){_utf16_hint(path)}"
                    )
                n_bytes += len(block)
                yield block
    except (gzip.BadGzipFile, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise UserError(f"{path}: broken {path.suffix} file: {error}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines of a text without their line feeds."""
    rest: list[bytes] = []
    for block in blocks:
        first, *others = block.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest = others[-1:]
    if last := b"".join(rest):
        yield last


def _decompressed(file: IO[bytes], suffix: str) -> Iterator[bytes]:
    if suffix == ".zst":
        yield from _zstd_blocks(file)
        return
    source = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if suffix == ".gz" else file
    while block := source.read(BLOCK_BYTES):
        yield block


def _zstd_blocks(file: IO[bytes]) -> Iterator[bytes]:
    # Unlike `stream_reader`, an object for each frame tells whether the frame is complete.
    frame, compressed = None, b""
    while compressed or (compressed := file.read(_ZSTD_BYTES)):
        frame = frame or zstandard.ZstdDecompressor().decompressobj()
        if block := frame.decompress(compressed):
            yield block
        compressed = frame.unused_data if frame.eof else b""
        frame = None if frame.eof else frame
    if frame:
        raise EOFError("Compressed file ended before the end of its last frame")


def _not_utf8(path: Path, position: int, n_lines: int, error: UnicodeDecodeError) -> UserError:
    line = n_lines + error.object.count(b"\n", 0, error.start) + 1
    return UserError(
        f"{path}: not valid UTF-8 at byte {position} (line {line}): {error.reason};"
        " convert it, for example with iconv -t UTF-8"
    )


def _utf16_hint(path: Path) -> str:
    file, new = shlex.quote(str(path)), shlex.quote(str(path.with_suffix(".utf-8.txt")))
    program = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    read = f"{program} -dc {file} | iconv" if program else f"iconv {file}"
    return f"; it looks like UTF-16: convert it with: {read} -f UTF-16 -t UTF-8 > {new}"


def _looks_like_utf16(block: bytes) -> bool:
    """Returns whether most even or most odd bytes are NUL, as in UTF-16 of a Latin script."""
    head = block[:1000]
    return any(2 * head[odd::2].count(0) > len(head[odd::2]) > 0 for odd in (0, 1)) and not (
        head.count(0) * 4 > len(head) * 3
    )
