"""Finds what is suspicious about a training text: copies, repetition, wrong encodings, markup.

docs/doctor.md lists the thresholds, EXPERIMENTS.md how far good texts are below them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from minigpt.config import Config, PairsConfig
from minigpt.corpus.token_ids import decode_documents
from minigpt.corpus.token_store import Corpus
from minigpt.evaluation.baselines import spread_parts
from minigpt.insight.verbatim import passage_hashes
from minigpt.runs.analysis import Finding

# The characters that stand for the bytes 0x80 to 0xBF of UTF-8, read as Latin-1 or Windows-1252.
_CONTINUATION = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
# UTF-8 that was read as Latin-1 or Windows-1252: "Ã©", "â€™", "Ð¿Ñ€", "ä½\xa0å¥½", "ðŸ˜€". Only first
# letters that do not occur before these characters in any language, or sequences of two: "Spaß“" is German.
_MOJIBAKE = re.compile(
    f"[ÂÃ]{_CONTINUATION}|â€|ï»¿|(?:[ÐÑ]{_CONTINUATION}){{2,}}"
    f"|(?:[à-ï]{_CONTINUATION}{{2}}){{2,}}|ðŸ{_CONTINUATION}{{2}}"
    # Windows-1251 that was read as Latin-1: words of accented letters only.
    "|[À-ÖØ-öø-ÿ]{5,}"
)
_REPLACEMENT = re.compile("\ufffd+")
# Tab, line ends and form feed are in many good texts; backspace underlines. The C1 characters, from 0x80
# on, remain of Windows-1252 that was read as Latin-1. Bells that follow each other count once.
_CONTROL = re.compile("[\x00-\x07\x0e-\x1f\x7f-\x9f]+")
# Characters of the text that are shown on both sides of a finding.
_CONTEXT_CHARACTERS = 15

# Not <br>, <i> and <b>, which are in reviews and posts, and no other names, which may be of people.
_TAG = re.compile(
    r"<(?:!doctype|/?(?:html|head|body|title|meta|link|script|style|div|span|p|a|img|h[1-6]|[uo]l|li|d[ldt]"
    r"|table|thead|tbody|t[rhd]|nav|header|footer|main|section|article|aside|form|input|button|label))"
    r"(?:\s[^<>]{0,300})?/?>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:nbsp|amp|lt|gt|quot|#\d{2,6});")


# Thresholds: shares of the text, and numbers per million characters.
MAX_DUPLICATES = MAX_LINE_SHARE = MAX_COPIED_PARAGRAPHS = 0.15
MAX_COPIED_PASSAGES = 0.45
MAX_REPLACEMENT, MAX_MOJIBAKE, MAX_CONTROL = 100.0, 300.0, 300.0
MAX_HTML = 0.05
# Fewer may be quoted on purpose, in any text.
_MIN_COUNT = 10
# Shorter documents, and shorter paragraphs, are sentences and headings, which people repeat.
_MIN_DOCUMENT_BYTES = _PARAGRAPH_CHARACTERS = 40
# A repetition shows only in a text that is longer than a few lines.
_MIN_BYTES = 1000
_SHOWN_CHARACTERS = 60
_PASSAGE_BYTES = 50
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n")
# Shorter lines are repeated in every play and program: "GLOUCESTER:", "    return None". They count only if
# they make up a large part of the text.
_LINE_CHARACTERS, _SHORT_LINE_SHARE = 20, 0.3

# Decoding a million tokens takes 0.2 to 0.5 s. Each document takes an additional 15 microseconds.
MAX_TOKENS, MAX_BYTES, MAX_DOCUMENTS = 1_000_000, 2_000_000, 20_000
# A longer text is sampled in this many blocks, at equal distances.
BLOCKS = 16


def sample_text(corpus: Corpus, max_bytes: int = MAX_BYTES) -> list[str]:
    """Returns documents and parts of documents: the training text, or blocks spread evenly over it.

    The first block begins with the text, the last one ends with it. For pairs, each source and each target
    is a document. The sample has about `max_bytes`, at most `MAX_TOKENS` tokens and about `MAX_DOCUMENTS`
    documents.
    """
    part, blocks = corpus.train, [np.asarray(corpus.train.ids)]
    of_bytes = max_bytes * part.tokens / max(part.bytes, 1)
    of_documents = MAX_DOCUMENTS * part.tokens / max(part.documents, 1)
    tokens = int(min(MAX_TOKENS, of_bytes, of_documents))
    if part.tokens > tokens:
        blocks = spread_parts(part.ids, max(1, tokens // BLOCKS), BLOCKS)
    texts = [text for ids in blocks for text in decode_documents(ids, corpus.tokenizer)]
    # A block may begin and end inside a character.
    return [text.strip("\ufffd") for text in texts]


def check_text(corpus: Corpus, config: Config) -> list[Finding]:
    """Returns what is suspicious about the training text; [] for a good text.

    It reads a sample of at most 2 MB, which takes about half a second for any length. The number of
    copies is that of the whole text. Damage that the tokenizer does not keep is not found: with
    `tokenizer.kind = "word"`, lines and control characters are lost.
    """
    copies = list(check_duplicates(corpus, isinstance(config.data, PairsConfig)))
    # Copies of documents are repeated text, too: that is one finding. Dialogues repeat short questions.
    repetition = not copies and config.data.source != "dialogues"
    return copies + list(check_sample(sample_text(corpus), repetition))


def check_duplicates(corpus: Corpus, is_pairs: bool) -> Iterator[Finding]:
    """Compares the number of copies with that of all documents, or pairs."""
    total = (corpus.train.documents + corpus.val.documents) // (2 if is_pairs else 1)
    mean = (corpus.train.bytes + corpus.val.bytes) / max(1, total)
    if total > 1 and corpus.duplicates > MAX_DUPLICATES * total and mean >= _MIN_DOCUMENT_BYTES:
        noun = "pairs" if is_pairs else "documents"
        share = corpus.duplicates / total
        yield Finding(
            "duplicates",
            f"{corpus.duplicates:,} of the {total:,} {noun} ({share:.0%}) are exact copies of others.",
        )


def check_sample(texts: list[str], repetition: bool = True) -> Iterator[Finding]:
    """Checks documents and parts of documents, with or without looking for repetition."""
    data = "".join(texts).encode()
    if repetition and len(data) >= _MIN_BYTES:
        yield from _check_repetition(texts, data)
    yield from _check_encoding(texts)
    yield from _check_markup(texts)


def _check_repetition(texts: list[str], data: bytes) -> Iterator[Finding]:
    """Checks the texts of a sample, which is `data`; returns one finding at most."""
    sample = f"a sample of {len(data):,} bytes"
    line, count, share = _most_repeated_line(texts)
    if count >= _MIN_COUNT and share > MAX_LINE_SHARE:
        yield Finding(
            "repeated_line",
            f"One line makes up {share:.0%} of the text. It occurs {count:,} times in {sample}: "
            f"{_shown(line)}.",
        )
        return
    share, paragraph = _copied_paragraphs(texts)
    if share > MAX_COPIED_PARAGRAPHS:
        yield Finding(
            "duplicates",
            f"{share:.0%} of {sample} is in paragraphs that are exact copies of earlier ones, for "
            f"example {_shown(paragraph)}.",
        )
        return
    share, start = _copied_passages(data)
    if share > MAX_COPIED_PASSAGES:
        example = data[start : start + 4 * _SHOWN_CHARACTERS].decode(errors="ignore")
        yield Finding(
            "repeated_text",
            f"{share:.0%} of the passages of {_PASSAGE_BYTES} bytes in {sample} are copies of others, for "
            f"example {_shown(example)}.",
        )


def _most_repeated_line(texts: Sequence[str]) -> tuple[str, int, float]:
    """Returns the repeated line that takes most of a text.

    Only lines of at least 20 characters, at least half of them letters and digits, are counted, and shorter
    ones that make up at least 30% of the text.

    Returns:
      The line without white space around it, how often it occurs, and its share of the characters, 0 to
      1; "", 0 and 0 if no line is repeated.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(map(str.strip, text.splitlines()))
    characters = max(1, sum(map(len, texts)))
    long = (
        (n * len(line), line)
        for line, n in counts.items()
        if n > 1
        and 2 * sum(map(str.isalnum, line)) >= len(line)  # No rulers, no tables.
        and (len(line) >= _LINE_CHARACTERS or n * len(line) >= _SHORT_LINE_SHARE * characters)
    )
    taken, line = max(long, default=(0, ""))
    return line, counts[line] if taken else 0, taken / characters


def _copied_paragraphs(texts: Sequence[str]) -> tuple[float, str]:
    """Returns the share of the characters that is in copies of earlier paragraphs, and the first copy.

    Paragraphs are separated by blank lines; short ones do not count as copies.
    """
    seen: set[str] = set()
    characters = copied = 0
    example = ""
    for text in texts:
        for paragraph in map(str.strip, _BLANK_LINES.split(text)):
            characters += len(paragraph)
            if len(paragraph) < _PARAGRAPH_CHARACTERS:
                continue
            if paragraph in seen:
                copied += len(paragraph)
                example = example or paragraph
            seen.add(paragraph)
    return copied / max(1, characters), example


def _copied_passages(data: bytes) -> tuple[float, int]:
    """Returns the share of the passages that are copies, and where the first one with a copy is."""
    begins = np.arange(len(data) - _PASSAGE_BYTES + 1)
    hashes = passage_hashes(np.frombuffer(data, np.uint8), begins, begins + _PASSAGE_BYTES)
    order = np.argsort(hashes, kind="stable")
    has_copy = np.diff(hashes[order]) == 0
    return float(has_copy.mean()), int(order[:-1][has_copy].min(initial=len(data)))


# Kind, what is found, how it is found, and how often it may occur in a million characters.
_DAMAGE = (
    ("encoding", "sequences of UTF-8 decoded with another encoding", _MOJIBAKE, MAX_MOJIBAKE),
    ("encoding", "U+FFFD for bytes that could not be decoded", _REPLACEMENT, MAX_REPLACEMENT),
    ("control_characters", "control characters", _CONTROL, MAX_CONTROL),
)


def _check_encoding(texts: list[str]) -> Iterator[Finding]:
    characters = max(1, sum(map(len, texts)))
    is_damaged = False
    for kind, what, pattern, most in _DAMAGE:
        # What was read in another encoding contains control characters, too.
        if is_damaged and kind == "control_characters":
            continue
        # Most passages are ASCII, in which only control characters can be found.
        can_have = [t for t in texts if kind == "control_characters" or not t.isascii()]
        found = [match for text in can_have for match in pattern.finditer(text)]
        per_million = 1e6 * len(found) / characters
        if len(found) >= _MIN_COUNT and per_million > most:
            is_damaged = True
            begin, end = found[0].span()
            around = slice(max(0, begin - _CONTEXT_CHARACTERS), end + _CONTEXT_CHARACTERS)
            example = _shown(found[0].string[around])
            said = f"There are {per_million:,.0f} {what} per million characters"
            yield Finding(kind, f"{said}, for example {example}.")


def _check_markup(texts: list[str]) -> Iterator[Finding]:
    with_tags = [text for text in texts if "<" in text]
    markup = [
        found for kind in (_TAG, _ENTITY) for text in with_tags for found in kind.findall(text)
    ]
    share = sum(map(len, markup)) / max(1, sum(map(len, texts)))
    if share > MAX_HTML:
        yield Finding(
            "html",
            f"{share:.0%} of the text is HTML tags and entities, for example {_shown(markup[0])}.",
        )


def _shown(text: str) -> str:
    """Returns the beginning of a text in quotes, on one line, with escapes for what cannot be printed."""
    text = text.strip(" \n")
    shown = text[:_SHOWN_CHARACTERS]
    escaped = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
    return f'"{escaped}{"…" * (len(text) > len(shown))}"'
