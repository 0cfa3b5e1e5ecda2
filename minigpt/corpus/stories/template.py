"""The small language the sentences of the material are written in, and spelling rules.

* `[one|two|]` is one of the alternatives; an empty one is nothing. They may be nested.
* `[1:one|two]` is the same, but every choice labelled 1 in a story takes the same position.
* `{a}` is the cast member `a`, `{a.he}` a form of it (see `teller`).
* `<put a x s>` is an event of the world or a phrase of the material, with its arguments.
* A blank line begins a new paragraph.
"""

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Slot:
    """A place for a cast member, in one of its forms ("" is the plain one)."""

    key: str
    form: str


@dataclass(frozen=True)
class Call:
    """A place for an event or a phrase."""

    name: str
    args: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """A place for one of several alternatives."""

    label: str
    options: tuple["Nodes", ...]


Nodes = tuple[str | Slot | Call | Choice, ...]

_TOKEN = re.compile(
    r"(?P<open>\[(?:(?P<label>\d):)?)|(?P<bar>\|)|(?P<close>\])"
    r"|\{(?P<key>\w+)(?:\.(?P<form>\w+))?\}|<(?P<call>\w+)(?P<args>(?: \w+)*)>"
    r"|(?P<text>[^\[\]|{}<>]+)"
)

_AN = re.compile(r"\b([Aa]) (?=[aeiou](?!ne\b|nce\b))")
_SPEECH = "said|asked|cried|called|whispered|shouted|laughed|thought|read|was the answer"
_SENTENCE_START = re.compile(
    r'(?:^|(?<=[.!?] )|(?<=[.!?]" )|(?<=\n))(?P<quote>"?)'
    rf"(?!(?<=\" )(?:(?:he|she|they|someone|they both) )?(?:{_SPEECH})\b)(?P<letter>[a-z])"
)
_QUOTE_START = re.compile(r'((?:^|[ \n])")([a-z])')


@cache
def parse(template: str) -> Nodes:
    """Return the parts of a template; raise `ValueError` if it is not well formed."""
    nodes, end = _sequence(template, 0, inside=False)
    if end != len(template):
        raise ValueError(f"unexpected {template[end]!r} in template: {template}")
    return nodes


def _sequence(template: str, start: int, *, inside: bool) -> tuple[Nodes, int]:
    """Parse up to the end, or, inside a choice, up to its next bar or its closing bracket."""
    nodes: list[str | Slot | Call | Choice] = []
    while start < len(template):
        token = _TOKEN.match(template, start)
        if token is None:
            raise ValueError(f"cannot read {template[start : start + 20]!r} in: {template}")
        if token["bar"] or token["close"]:
            if not inside:
                raise ValueError(f"stray {token[0]!r} in template: {template}")
            break
        start = token.end()
        if token["open"]:
            choice, start = _choice(template, start, token["label"] or "")
            nodes.append(choice)
        elif token["key"]:
            nodes.append(Slot(token["key"], token["form"] or ""))
        elif token["call"]:
            nodes.append(Call(token["call"], tuple(token["args"].split())))
        else:
            nodes.append(token["text"])
    return tuple(nodes), start


def _choice(template: str, start: int, label: str) -> tuple[Choice, int]:
    options: list[Nodes] = []
    while True:
        option, start = _sequence(template, start, inside=True)
        options.append(option)
        if start >= len(template):
            raise ValueError(f"a bracket is not closed in template: {template}")
        start += 1
        if template[start - 1] == "]":
            return Choice(label, tuple(options)), start


def with_arguments(template: str, args: tuple[str, ...]) -> str:
    """Return a phrase with its parameters 1, 2, ... replaced by the cast members given."""
    for number, arg in enumerate(args, start=1):
        template = template.replace(f"{{{number}}}", f"{{{arg}}}")
        template = template.replace(f"{{{number}.", f"{{{arg}.")
    return template


def tidy(text: str) -> str:
    """Return told text with single spaces, "an" before vowels and capitals where they belong.

    Paragraphs, parted by blank lines in the material, come out one a line.
    """
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    text = "\n".join(paragraph for paragraph in paragraphs if paragraph)
    text = re.sub(r'([.!?]")\.', r"\1", text)  # a sentence that ends with speech has its mark
    text = _AN.sub(r"\1n ", text)
    text = _SENTENCE_START.sub(lambda match: match["quote"] + match["letter"].upper(), text)
    return _QUOTE_START.sub(lambda match: match[1] + match[2].upper(), text)
