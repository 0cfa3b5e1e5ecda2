"""Writes minigpt/tokenizers/unicode_tables.json: the Unicode of TensorFlow and of the tokenizers package.

    python scripts/make_unicode_tables.py

TensorFlow has two libraries with Unicode data: RE2, whose character classes split text, and ICU, which
lower-cases it. The tokenizers package has its own data for normalization and for words. All versions of
Unicode differ from each other and from Python's. Run this script after the version of TensorFlow or of
tokenizers changes; tests/tokenizers/test_unicode.py checks every code point.
"""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text
import tokenizers

FILE = Path(__file__).resolve().parents[1] / "minigpt" / "tokenizers" / "unicode_tables.json"
CATEGORIES = "LNPS"


def ranges_of(code_points: np.ndarray) -> str:
    """Returns sorted code points as hexadecimal ranges: "41-5a aa b5"."""
    runs = np.split(code_points, np.flatnonzero(np.diff(code_points) != 1) + 1)
    return " ".join(
        f"{first:x}" if first == last else f"{first:x}-{last:x}"
        for first, last in ((int(run[0]), int(run[-1])) for run in runs)
    )


def lowered(texts: list[str]) -> np.ndarray:
    """Returns an array of str."""
    found = tf.strings.lower(texts, encoding="utf-8").numpy()
    return np.array([text.decode() for text in found])


def not_normalized(texts: list[str]) -> list[str]:
    """Returns the characters that ICU composes, decomposes or moves; the tokenizers package does not."""

    def by_icu(form: str, changed: list[str]) -> list[str]:
        return [text.decode() for text in tensorflow_text.normalize_utf8(changed, form).numpy()]

    # A mark changes places with marks before and after it.
    among_marks = [f"a\u0315{text}\u0327" for text in texts]
    nfc, nfd = tokenizers.normalizers.NFC(), tokenizers.normalizers.NFD()
    found, old, parts = set(), set(), set()
    rows = zip(texts, among_marks, by_icu("NFC", among_marks), by_icu("NFD", texts), strict=True)
    for text, marks, composed, decomposed in rows:
        if nfc.normalize_str(marks) != composed:
            found.add(text)
        before = nfd.normalize_str(text)
        if before != text:
            old |= set(before)
        if before != decomposed:
            found.add(text)
            parts |= set(decomposed)
    return sorted(found | (parts - old))


def main() -> None:
    # NUL is left out: tf.strings.lower drops it and everything after it.
    texts = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    points = np.array([ord(text) for text in texts])
    tables = {
        name: ranges_of(points[tf.strings.regex_full_match(texts, rf"\p{{{name}}}").numpy()])
        for name in CATEGORIES
    }
    # U+03A3 becomes U+03C2 at the end of a word and U+03C3 elsewhere. Characters that Unicode calls
    # case-ignorable do not end a word.
    cased = np.char.endswith(lowered([f"{text}Σ" for text in texts]), "ς")
    inside = np.char.endswith(lowered([f"a{text}Σ" for text in texts]), "ς")
    capital = (lowered(texts) != np.array(texts)) & (points != ord("Σ"))
    tables |= {
        "capital": ranges_of(points[capital]),
        "cased": ranges_of(points[cased]),
        "ignorable": ranges_of(points[inside & ~cased]),
        "not normalized": ranges_of(np.array([ord(text) for text in not_normalized(texts)])),
    }
    FILE.write_text(json.dumps(tables, indent=1) + "\n", encoding="ascii")
    sizes = ", ".join(f"{name} {len(table.split())}" for name, table in tables.items())
    print(f"Wrote {FILE}: {FILE.stat().st_size:,} bytes; ranges: {sizes}")


if __name__ == "__main__":
    main()
