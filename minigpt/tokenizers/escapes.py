"""The escape sequences of byte-pair text."""

# sentencepiece writes a space as U+2581 and cannot distinguish it from a U+2581 of the text. Therefore
# a U+2581 of the text is replaced by an escape sequence, as is the escape character (DLE, which is rare).
SPACE, ESCAPE = "\u2581", "\x10"
ESCAPED_ESCAPE, ESCAPED_SPACE = ESCAPE + "a", ESCAPE + "b"


def escaped(text: str) -> str:
    """Replaces each U+2581 and each escape character."""
    return text.replace(ESCAPE, ESCAPED_ESCAPE).replace(SPACE, ESCAPED_SPACE)


def unescaped(text: str) -> str:
    """Undoes `escaped`. Maps prefixes of a text to prefixes of its result."""
    # An incomplete escape sequence is left out, because the next id may complete it.
    text = text.removesuffix(ESCAPE)
    return text.replace(ESCAPED_SPACE, SPACE).replace(ESCAPED_ESCAPE, ESCAPE)
