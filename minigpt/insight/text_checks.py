"""Finds what is suspicious about a training text: copies, repetition, wrong encodings, boilerplate.

The thresholds leave a margin to good texts. Measured on tiny Shakespeare, 25,000 reviews of IMDB, the
bundled stories, 45,001 English-German pairs, the source code of the Python standard library and of seven
packages, the Debian handbook in 16 languages, manuals of Debian, Vim and Perl, and 130 collections of
quotations and poems in four languages:

    measure                                       threshold   good texts
    documents that are copies                     15%         at most 7%
    one line's share of the text                  15%         at most 13.5%, an attribution; prose 1%
    passages at one distance from their copy      30%         at most 15%, tables; prose 1%
    paragraphs that are copies                    15%         at most 4%; licenses of Debian packages 50%
    distinct passages                             30%         at least 72%; licenses of Debian packages 59%
    U+FFFD, per million characters                100         at most 8
    mojibake, per million characters              300         at most 35; one with real mojibake 161
    control characters, per million characters    300         at most 54
    carriage returns alone, of all line ends      5%          none
    HTML's share of the text                      5%          at most 3%
    documents with a line in common               70%         at most 60%, settings in Vim's manual

Found too, and rightly: headers in all files of a project (TensorFlow), documents under several names
(manual pages), quotations of one author with the name below each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from minigpt.config import Config, PairsConfig
from minigpt.corpus.store_files import Corpus
from minigpt.insight.boilerplate import gutenberg_lines, html_share, shared_line
from minigpt.insight.repetition import (
    copied_paragraphs,
    measure_repetition,
    most_repeated_line,
)
from minigpt.insight.text_encoding import (
    Damage,
    control_characters,
    lone_carriage_returns,
    mojibake,
    replacement_characters,
)
from minigpt.insight.text_sample import Passage, sample_text

MAX_DUPLICATES = 0.15
MAX_LINE_SHARE = 0.15
MAX_PERIODIC = 0.3
MAX_COPIED_PARAGRAPHS = 0.15
MIN_DISTINCT = 0.3
MAX_REPLACEMENT = 100.0
MAX_MOJIBAKE = 300.0
MAX_CONTROL = 300.0
MAX_LONE_CR = 0.05
MAX_HTML = 0.05
MAX_SHARED_LINE = 0.7

# Fewer may be quoted on purpose, in any text.
_MIN_COUNT = 10
# Shorter documents are sentences, which people repeat.
_MIN_DOCUMENT_BYTES = 40
# A repetition shows only in a text that is longer than a few lines.
_MIN_BYTES = 1000
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class Finding:
    """Something suspicious about a text.

    Attributes:
      kind: "duplicates", "repeated_line", "repeated_text", "encoding", "control_characters",
        "line_ends", "boilerplate" or "html".
      evidence: one sentence with figures and an example, without control characters.
    """

    kind: str
    evidence: str


def check_text(corpus: Corpus, config: Config) -> list[Finding]:
    """Returns what is suspicious about the training text; [] for a good text.

    It reads a sample of at most 2 MB, which takes about half a second for any length. The number of
    copies is that of the whole text. Damage to the encoding that is older than the tokenizer is found
    only if the tokenizer keeps it: with `tokenizer.kind = "word"`, lines and control characters are lost.

    Args:
      corpus: the token ids.
      config: the settings of the run.
    """
    is_pairs = isinstance(config.data, PairsConfig)
    copies = list(check_duplicates(corpus, is_pairs))
    # Copies of documents are repeated text, too: that is one finding.
    return copies + list(check_passages(sample_text(corpus), repetition=not copies))


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


def check_passages(passages: list[Passage], repetition: bool = True) -> Iterator[Finding]:
    """Checks a sample of a text.

    Args:
      passages: the sample.
      repetition: whether to look for repeated lines and passages.
    """
    if repetition:
        yield from _check_repetition(passages)
    yield from _check_encoding(passages)
    yield from _check_boilerplate(passages)


def _check_repetition(passages: list[Passage]) -> Iterator[Finding]:
    data = "".join(passage.text for passage in passages).encode()
    if len(data) < _MIN_BYTES:
        return
    found = most_repeated_line(passages)
    if found and found.count >= _MIN_COUNT and found.share > MAX_LINE_SHARE:
        yield Finding(
            "repeated_line",
            f"One line makes up {found.share:.0%} of the text. It occurs {found.count:,} times in "
            f"{_sampled(data)}: {_shown(found.line)}.",
        )
        return
    share, paragraph = copied_paragraphs(passages)
    if share > MAX_COPIED_PARAGRAPHS:
        yield Finding(
            "duplicates",
            f"{share:.0%} of {_sampled(data)} is in paragraphs that are exact copies of earlier ones, for "
            f"example {_shown(paragraph)}.",
        )
        return
    repetition = measure_repetition(data)
    example = data[repetition.start : repetition.start + 4 * _SHOWN_CHARACTERS]
    text = _shown(example.decode(errors="ignore"))
    if repetition.periodic > MAX_PERIODIC:
        yield Finding(
            "repeated_text",
            f"{repetition.periodic:.0%} of {_sampled(data)} is repeated exactly "
            f"{repetition.period:,} bytes later, for example {text}.",
        )
    elif repetition.distinct < MIN_DISTINCT:
        yield Finding(
            "repeated_text",
            f"Only {repetition.distinct:.0%} of the passages of 50 bytes in {_sampled(data)} are "
            f"distinct; the others are copies, for example {text}.",
        )


def _check_encoding(passages: list[Passage]) -> Iterator[Finding]:
    checks: list[tuple[str, str, Callable[[list[Passage]], Damage], float]] = [
        (
            "encoding",
            "sequences per million characters are UTF-8 that was decoded with another encoding",
            mojibake,
            MAX_MOJIBAKE,
        ),
        (
            "encoding",
            "U+FFFD characters per million characters replace bytes that could not be decoded",
            replacement_characters,
            MAX_REPLACEMENT,
        ),
        (
            "control_characters",
            "characters per million are control characters",
            control_characters,
            MAX_CONTROL,
        ),
    ]
    found: set[str] = set()
    for kind, what, measure, threshold in checks:
        # What was read in another encoding contains control characters, too.
        if found and kind == "control_characters":
            continue
        damage = measure(passages)
        if damage.count >= _MIN_COUNT and damage.per_million > threshold:
            found.add(kind)
            yield Finding(
                kind,
                f"{damage.per_million:,.0f} {what}, for example {_shown(damage.example)}.",
            )
    damage = lone_carriage_returns(passages)
    line_ends = damage.count + sum(passage.text.count("\n") for passage in passages)
    if damage.count >= _MIN_COUNT and damage.count > MAX_LONE_CR * line_ends:
        yield Finding(
            "line_ends",
            f"{damage.count / line_ends:.0%} of the line ends are carriage returns without a line feed, "
            f"for example {_shown(damage.example)}.",
        )


def _check_boilerplate(passages: list[Passage]) -> Iterator[Finding]:
    if lines := gutenberg_lines(passages):
        yield Finding(
            "boilerplate",
            "The text contains headers or licenses of Project Gutenberg, "
            f"{len(lines):,} times in {_sampled_passages(passages)}, for example {_shown(lines[0])}.",
        )
    share, tag = html_share(passages)
    if share > MAX_HTML:
        yield Finding(
            "html", f"{share:.0%} of the text is HTML tags and entities, for example {_shown(tag)}."
        )
    line = shared_line(passages)
    if line and line.count > MAX_SHARED_LINE * line.documents:
        place = "last" if line.at_end else "first"
        yield Finding(
            "boilerplate",
            f"{line.count:,} of {line.documents:,} documents ({line.count / line.documents:.0%}) have the "
            f"same line among their {place} three: {_shown(line.line)}.",
        )


def _sampled_passages(passages: list[Passage]) -> str:
    return _sampled("".join(passage.text for passage in passages).encode())


def _sampled(data: bytes) -> str:
    return f"a sample of {len(data):,} bytes"


def _shown(text: str) -> str:
    """Returns the beginning of a text in quotes, on one line, with escapes for what cannot be printed."""
    text = text.strip(" \n")
    shown = text[:_SHOWN_CHARACTERS]
    escaped = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
    return f'"{escaped}{"…" * (len(text) > len(shown))}"'
