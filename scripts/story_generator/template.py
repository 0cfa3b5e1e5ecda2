"""The template language of the material, and spelling rules.

* `[one|two|]` selects one of the alternatives, which may be empty and may contain choices.
* `[1:one|two]` does the same, but all choices labelled 1 in a story select the same position.
* `{a}` stands for the cast member `a`, `{a.he}` for one of its forms (see `teller`).
* `<put a x s>` is an event of the world or a phrase of the material, with its arguments.
* A blank line starts a new paragraph.
"""

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Slot:
    """A cast member in one of its forms; "" is the plain form."""

    key: str
    form: str


@dataclass(frozen=True)
class Call:
    """An event or a phrase with its arguments."""

    name: str
    args: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """A choice between alternatives; "" is no label."""

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
    """Returns the nodes of a template.

    Raises:
      ValueError: the template is not well formed.
    """
    nodes, end = _sequence(template, 0, inside=False)
    if end != len(template):
        raise ValueError(f"unexpected {template[end]!r} in template: {template}")
    return nodes


def _sequence(template: str, start: int, *, inside: bool) -> tuple[Nodes, int]:
    """Parses up to the end or, inside a choice, up to its next bar or closing bracket."""
    nodes: list[str | Slot | Call | Choice] = []
    while start < len(template):
        token = _TOKEN.match(template, start)
        if token is None:
            raise ValueError(f"cannot read {template[start : start + 20]!r} in: {template}")
        if token["bar"] or token["close"]:
            if not inside:
                raise ValueError(f"unexpected {token[0]!r} in template: {template}")
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
            raise ValueError(f"missing closing bracket in template: {template}")
        start += 1
        if template[start - 1] == "]":
            return Choice(label, tuple(options)), start


def with_arguments(template: str, args: tuple[str, ...]) -> str:
    """Returns a phrase with its parameters 1, 2, ... replaced by cast members."""
    for number, arg in enumerate(args, start=1):
        template = template.replace(f"{{{number}}}", f"{{{arg}}}")
        template = template.replace(f"{{{number}.", f"{{{arg}.")
    return template


def tidy(text: str) -> str:
    """Returns the text with single spaces, "an" before vowels, and capitals at sentence starts.

    Paragraphs, which blank lines separate in the material, become one line each.
    """
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    text = "\n".join(paragraph for paragraph in paragraphs if paragraph)
    text = re.sub(
        r'([.!?]")\.', r"\1", text
    )  # a sentence that ends with speech is already punctuated
    text = _AN.sub(r"\1n ", text)
    text = _SENTENCE_START.sub(lambda match: match["quote"] + match["letter"].upper(), text)
    return _QUOTE_START.sub(lambda match: match[1] + match[2].upper(), text)
