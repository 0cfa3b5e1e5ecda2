"""What is recognized in files of text and of rows: licenses, lists, the array and the column of texts."""

import itertools
import json
import random
import textwrap

import pytest

from minigpt.corpus.recognition import is_list
from minigpt.corpus.sources import read_text
from minigpt.corpus.text_files import TextFiles
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from tests.conftest import SHARED_DATA
from tests.corpus.test_text_files import read, write
from tests.settings import data_config, tokenizer_config
from tests.tiny import tiny_text

LICENSE = "Permission is granted.\n\n" * 20
NEW = (
    "\ufeffThe Project Gutenberg eBook of Hills\r\n\r\nTitle: Hills\r\n\r\n"
    "*** START OF THE PROJECT GUTENBERG EBOOK HILLS\r\nAND VALLEYS ***\r\n\r\n\r\n"
    "CHAPTER I\r\n\r\nAna sat.\r\n\r\n"
    "End of Project Gutenberg's Hills, by Ana\r\n\r\n*** END OF THE PROJECT GUTENBERG EBOOK HILLS ***\r\n"
)
OLD = (
    "Project Gutenberg Etext of Hills\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n\n"
    "Béla sat.\n\nEnd of The Project Gutenberg Etext of Hills\n"
)
KEPT = "CHAPTER I\n\nAna sat.\n\n"


def test_licenses_of_project_gutenberg_are_left_out(tmp_path, messages):
    new = write(tmp_path / "new.txt", NEW + LICENSE)
    old = write(tmp_path / "old.txt", OLD + LICENSE)
    page = write(tmp_path / "page.html", f"<pre>{NEW[1:]}</pre>")
    both = write(tmp_path / "both.txt", NEW + LICENSE + OLD)
    assert read(new) == [KEPT] and read(old) == ["Béla sat.\n\n"]
    assert read(page) == [KEPT]
    assert read(both) == [KEPT + "Béla sat.\n\n"]
    # Only the license is left out, also without a header, and with any title.
    end = NEW[NEW.index("*** END") :] + "to hear about new\neBooks.\n"
    mixed = write(tmp_path / "mixed.txt", "Mine.\n\n" + NEW[1:] + end + "Mine, too.\n" + OLD)
    assert read(mixed) == ["Mine.\n\n" + KEPT + "Mine, too.\n" + "Béla sat.\n\n"]
    assert read(write(tmp_path / "end.txt", "Ana sat.\n" * 50_000 + end)) == ["Ana sat.\n" * 50_000]
    assert read(write(tmp_path / "star.txt", NEW.replace("HILLS\r", "*HILLS*\r"))) == [KEPT]
    assert read(new, separator="\r\n\r\n") == ["CHAPTER I", "Ana sat."]
    assert len(TextFiles([new], by_line=True).read()) == 2
    messages()
    assert len(TextFiles([new, old]).read()) == 2
    (line,) = messages()
    assert line.startswith(f"{new} and 1 more: ") and "data.keep_gutenberg" in line
    kept = TextFiles([new], keep_gutenberg=True)
    assert kept.read().bytes == len((NEW[1:].replace("\r", "") + LICENSE).encode())
    assert messages() == []
    # They are different texts, also where the file is not read.
    hashes = {TextFiles([new], keep_gutenberg=k).fingerprint() for k in (True, False)}
    assert len(hashes) == 2 and kept.fingerprint() in hashes


FIRST = ("Ana", "Béla", "Čeněk", "Dirk", "Maria del Carmen")
LAST = [f"{a}{b}" for a in "KLMNPRST" for b in ("ahn", "o", "ieslowski")]
NAMES = [f"{first} {last}" for first, last in itertools.product(FIRST, LAST)]
PROSE = " ".join(tiny_text(200).replace(".", "").splitlines())


def test_a_list_is_told_from_verse_and_prose():
    titles = itertools.product(("Wind", "House", "Last Day"), "ABCDEF", NAMES[:9])
    lists = [
        NAMES,
        [f"{name.lower().split()[0]}{number}" for number, name in enumerate(NAMES)],
        [f"The {a} of the {b} and {c}" for a, b, c in titles],
    ]
    lists += [
        [f"{title} ({1930 + number})" for number, title in enumerate(lists[2])],
        [f'"{title}"' for title in lists[2]],
        [f"{number}. {title}" for number, title in enumerate(lists[2])],
        [f"{name} " for name in NAMES],
        [f"{name}\n" if number % 25 == 0 else name for number, name in enumerate(NAMES)],
        [f"{title} " * (1 + n % 3) for n, title in enumerate(lists[2])],
    ]
    for lines in lists:
        assert is_list("\n".join(lines)) and not is_list("\n".join(lines[:90]))
        # Paragraphs.
        assert not is_list("\n\n".join(lines))
    assert not is_list(tiny_text(300))
    for width in (30, 60, 90):
        assert not is_list("\n".join(textwrap.wrap(PROSE, width)))
    assert not is_list("\n".join(f"    {name}" for name in NAMES))
    assert not is_list("\n".join(f"{name}\t1" for name in NAMES))


def test_what_has_no_spaces_and_dialogues_are_no_lists():
    draw = random.Random(0)
    letters = "".join(draw.choices("ACGT", k=9000))
    chinese = "".join(draw.choices("却说那日天气晴朗众人来到城外忽然听得一声响", k=9000))
    for text, width in itertools.product((letters, chinese), (20, 40, 76)):
        assert not is_list("\n".join(textwrap.wrap(text, width)))
    assert not is_list("床前明月光，\n疑是地上霜。\n" * 50)
    lines = [chinese[n : n + 2 + n % 9] for n in range(200)]
    assert is_list("\n".join(lines))
    assert not is_list("\n".join(f"「{line}」" for line in lines))
    assert not is_list("\n".join(f"{draw.choice(FIRST)}: {name}" for name in NAMES))


def test_shakespeare_is_no_list():
    path = SHARED_DATA / "shakespeare.txt"
    if not path.is_file():
        pytest.skip("needs the text")
    text = path.read_text()
    verse = "\n".join(line for line in text.splitlines() if line.strip())
    assert not any(map(is_list, (text, verse, text[:20_000], verse[:20_000])))


def test_each_name_is_a_document(tmp_path, messages):
    path = write(tmp_path / "names.txt", "\r\n".join(NAMES))
    assert read(path) == NAMES
    (line,) = messages()
    assert "each line is a document" in line and "data.by_line" in line
    assert len(TextFiles([path], by_line=False).read()) == 1
    assert len(TextFiles([path], separator="Dirk").read()) > 20
    verse = write(tmp_path / "verse.txt", tiny_text(5))
    assert len(TextFiles([verse], by_line=True).read()) == 5 and messages() == []
    assert TextFiles([path], by_line=False).fingerprint() != TextFiles([path]).fingerprint()


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ({"data": [{"text": "a"}, {"text": "b"}]}, "data"),
        (
            {"meta": {"tags": ["x"]}, "found": {"rows": [{"body": "a"}, {"body": "b"}]}},
            "found.rows",
        ),
        ({"texts": ["a", "b"]}, "texts"),
        # The array with most text.
        ({"tags": [*"uvwxyz"], "items": {"rows": ["a" + " " * 99, "b"]}}, "items.rows"),
        ({"text": "a", "tags": ["x", "y"]}, None),
    ],
)
def test_the_array_in_an_object_is_read(tmp_path, messages, content, path):
    for indent in (None, 1):
        file = write(tmp_path / "a.json", json.dumps(content, indent=indent))
        assert [text.strip() for text in read(file)] == (["a", "b"] if path else ["a"])
        assert (f"{file}: the rows are those of the array {path!r}" in messages()) == bool(path)
    lines = write(tmp_path / "lines.json", '{"text": "a"}\n\n{"text": "b"}\n')
    assert read(lines) == ["a", "b"]
    assert read(write(tmp_path / "strings.json", '["a b", "c d"]')) == ["a b", "c d"]


def test_the_longest_column_is_that_of_the_texts(tmp_path, messages):
    header = "lang,link,tweet\n"
    path = write(
        tmp_path / "a.csv", f"{header}en,https://example.org/aaaaaaaaaaaaaaa,we sat\nde,x,ja wir\n"
    )
    assert read(path) == ["we sat", "ja wir"]
    assert messages() == [f"{path}: the texts are those of the column 'tweet'"]
    with pytest.raises(UserError, match=r"data\.field: one of 'a', 'b'"):
        read(write(tmp_path / "b.csv", "a,b\nx,y\n"))


def test_copies_are_left_out(tmp_path, cache, messages):
    draw = random.Random(0)
    jokes = [f"A joke about the {n}th hill." for n in range(30)]
    lines = [draw.choice(jokes) for _ in range(600)] + jokes
    path = write(tmp_path / "jokes.jsonl", "".join(json.dumps({"text": j}) + "\n" for j in lines))
    config = tokenizer_config(kind="character", vocab_size=64)
    corpora = {}
    for duplicates in ("keep", "drop"):
        data = data_config(source="files", paths=[str(path)], duplicates=duplicates)
        corpora[duplicates] = open_corpus(data, config)
    kept, dropped = corpora.values()
    assert kept.duplicates == 600 and kept.train.documents + kept.val.documents == 630
    assert dropped.duplicates == 0 and dropped.train.documents + dropped.val.documents == 30
    found = messages()
    assert any("600 documents are copies" in line and "30 would remain" in line for line in found)
    assert any("600 copies" in line and "30 remain" in line for line in found)
    text = write(tmp_path / "jokes.txt", "\n".join(lines))
    for more, hints in (({}, 1), ({"by_line": True}, 0), ({"document_separator": "\n"}, 0)):
        data = data_config(source="files", paths=[str(text)], duplicates="drop", **more)
        assert len(read_text(data).documents) == (1 if hints else 30)
        assert sum("data.by_line = true" in line for line in messages()) == hints
    data = data_config(source="files", paths=[str(path)], duplicates="drop")
    # Settings are chosen for what remains.
    size = read_text(data).size
    assert abs(size.bytes - sum(map(len, jokes))) <= 1
