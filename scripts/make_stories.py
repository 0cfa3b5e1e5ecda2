"""Writes data/stories.txt.zst, the bundled corpus `stories`, from the material in data/stories/.

    python scripts/make_stories.py

If the text changes, also change `FINGERPRINT` in minigpt/corpus/sources.py.
"""

import zstandard
from story_generator import stories

from minigpt.corpus.sources import SEPARATOR
from minigpt.storage.files import bundled


def main() -> None:
    text = SEPARATOR.join(stories()).encode("ascii")
    file = bundled("data/stories.txt.zst")
    file.write_bytes(zstandard.ZstdCompressor(level=19).compress(text))
    print(f"{file}: {len(text):,} bytes of text, {file.stat().st_size:,} compressed")


if __name__ == "__main__":
    main()
