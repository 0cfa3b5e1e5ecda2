"""The bundled corpus `stories`: short English stories, which scripts/make_stories.py generates."""

from collections.abc import Iterator
from pathlib import Path

# Identifies the text; runs record it. It must be changed together with the text; a test compares both.
FINGERPRINT = "d04e5d4fcd83a1d3ed53ff4dd1d959aa4c6d418980622bda100f15fc8bfd13b7"
# Between two stories. A story has one paragraph per line.
SEPARATOR = "\n\n"


def text_file() -> Path:
    """Returns the compressed text, in the installed package or next to it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "data" / "stories.txt.zst"
    return installed if installed.is_file() else package.parent / "data" / "stories.txt.zst"


def stories() -> Iterator[str]:
    """Yields the 6,300 stories, 5.6 MB of ASCII text in all.

    A story has one or more paragraphs, one per line, and no final newline.
    """
    import zstandard

    text = zstandard.ZstdDecompressor().decompress(text_file().read_bytes())
    yield from text.decode("ascii").split(SEPARATOR)
