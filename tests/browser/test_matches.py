"""A page with the training text: where the text has what was written."""

import pytest

from minigpt.targets.html.model_page import END_OF_DOCUMENT, write_page
from tests.browser.accessibility import overflow, violations
from tests.browser.interface import wait_until_ready, write

pytestmark = pytest.mark.browser

DOCUMENTS = (
    "Ana sat on the hill. Béla sat on the hill, too. 🎈🎈🎉 <b>sat</b> on the hill",
    "and Ana sat on a hill.\r\n\0 Then <img src=x onerror=alert(1)> sat on the mill.",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + "ab" * 40,
)
TEXTS = (
    "Béla sat on the hill and Ana sat on the mill.",
    # The end of a document and the beginning of the next.
    "sat on the hilland Ana sat on a hill",
    "🎈🎉 and 🎈🎈🎉: Ω, \ud83c",
    "aaaaaaaaaaaaaabababa",
    # It overlaps itself.
    "babab",
    "",
    f"hill{END_OF_DOCUMENT}and",
    "<img src=x onerror=alert(1)>\r\n\0 Then",
)


@pytest.fixture(scope="module")
def page(gpt, tmp_path_factory):
    path = tmp_path_factory.mktemp("matches") / "page.html"
    write_page(gpt.run, path, text=END_OF_DOCUMENT.join(DOCUMENTS))
    return path


def occurrences(text: str) -> list[dict[str, int]]:
    """Every part of a text that a document has and that is in no longer one, in UTF-16 code units."""
    characters = list(text)
    parts = [
        (start, end)
        for start in range(len(characters))
        for end in range(start + 1, len(characters) + 1)
        if any("".join(characters[start:end]) in document for document in DOCUMENTS)
    ]
    longest = [
        (start, end)
        for start, end in parts
        if not any((a, b) != (start, end) and a <= start and end <= b for a, b in parts)
    ]

    def units(count: int) -> int:
        return len("".join(characters[:count]).encode("utf-16-le", "surrogatepass")) // 2

    return [
        {
            "start": units(start),
            "end": units(end),
            "count": sum(
                document.startswith(text[start:end], at)
                for document in DOCUMENTS
                for at in range(len(document))
            ),
        }
        for start, end in longest
    ]


def test_occurrences_are_those_of_a_search_for_every_part(open_page, page):
    tab = open_page(page)
    wait_until_ready(tab)
    for text in TEXTS:
        units = list(text.encode("utf-16-le", "surrogatepass"))
        codes = [low + 256 * high for low, high in zip(units[::2], units[1::2], strict=True)]
        found = tab.evaluate(
            "async (codes) => window.minigpt.occurrences(String.fromCharCode(...codes))", codes
        )
        assert found == occurrences(text), text
    message = tab.evaluate("() => window.minigpt.occurrences(3).catch((error) => String(error))")
    assert message == "TypeError: text: should be a string"


def test_a_text_of_several_blocks(open_page, gpt, tmp_path):
    """bzip2 compresses 900,000 bytes at a time, and a run of equal bytes first."""
    lines = [f"{number * 7919 % 100_003:06} lines. " for number in range(100_000)]
    text = "".join(lines) + "x" * 1000 + "\uffffThe end."
    path = tmp_path / "page.html"
    write_page(gpt.run, path, text=text)
    tab = open_page(path)
    wait_until_ready(tab)
    parts = [lines[5] + lines[6], lines[-1] + "x" * 1000, "The end."]
    for part in parts:
        found = tab.evaluate("async (part) => window.minigpt.occurrences(part)", part)
        assert found == [{"start": 0, "end": len(part), "count": 1}]
    found = tab.evaluate("async () => window.minigpt.occurrences(' lines.')")
    assert found[0]["count"] == 100_000


@pytest.mark.both
@pytest.mark.parametrize("width", [1280, 360])
def test_what_was_written_is_underlined(open_page, page, width, axe):
    tab = open_page(page, width=width)
    write(tab, "Ω Béla sat on the hill, too. Then <img src=x onerror=alert(1)> sat", length=1)
    tab.evaluate("() => document.querySelector('#matches-body button').click()")
    tab.wait_for("() => document.querySelectorAll('#matches .match').length === 2")
    texts = tab.evaluate(
        "() => [...document.querySelectorAll('#matches .match')].map((match) => match.textContent)"
    )
    # The space between both belongs to the longer one.
    assert texts[0] == " Béla sat on the hill, too." and texts[1].startswith(" Then <img src=x")
    shown = tab.text("#matches .text")
    assert shown == tab.text("#text")
    assert shown.startswith("Ω Béla sat")
    status = "() => document.querySelector('#matches [role=status]').textContent"
    assert "2 parts of at least 20 characters" in tab.evaluate(status)
    tab.evaluate("() => document.querySelectorAll('#matches .match')[1].focus()")
    tab.press("Enter")
    tab.wait_for("() => document.querySelector('.passages') !== null")
    passage = tab.text(".passages")
    assert DOCUMENTS[1] in passage and "hill, too" not in passage
    heading = tab.evaluate("() => document.querySelector('.passages').previousSibling.textContent")
    assert heading.endswith("occurs once in the training text.")
    assert violations(tab, axe) == []
    assert overflow(tab) == []
    write(tab, "Ω", length=1)
    tab.evaluate("() => document.querySelector('#matches-body button').click()")
    tab.wait_for(f"() => ({status})().startsWith('No part')")
