"""How often the files of a text are read before the first step."""

import gzip
import sys
from collections import Counter

import pytest

from minigpt.config import load_config
from minigpt.corpus import formats
from minigpt.corpus.token_store import open_corpus
from minigpt.training.start import new_training

LINES = [f"Ana sat on hill {number} and ate figs.\n" for number in range(400)]
ROWS = "".join(f'{{"text": "{line.strip()}"}}\n' for line in LINES)
FILES = {
    "book.txt": "".join(LINES).encode(),
    "book.txt.gz": gzip.compress("".join(LINES).encode()),
    "rows.jsonl": ROWS.encode(),
    "rows.json": f"[{','.join(ROWS.splitlines())}]".encode(),
    "rows.csv": f"text\n{''.join(LINES)}".encode(),
}
opened: Counter[str] | None = None


@pytest.fixture(scope="module", autouse=True)
def count_opened_files():
    """Counts the files that Python opens. An audit hook cannot be removed."""

    def count(event, arguments):
        if event == "open" and opened is not None:
            opened[str(arguments[0])] += 1

    sys.addaudithook(count)


@pytest.fixture
def opens(cache):
    global opened
    opened = Counter()
    yield opened
    opened = None


@pytest.mark.parametrize("name", FILES)
def test_a_text_is_read_once_before_the_first_step(name, tmp_path, opens):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    opens.clear()
    start = new_training(load_config(None, text=[str(path)]), [], tmp_path / "run", None)
    corpus = start.open_corpus()
    # Before, its beginning is read, which says what it is.
    assert opens[str(path)] == 2
    assert corpus.train.bytes + corpus.val.bytes >= 0.9 * len("".join(LINES))
    # A second run reads it once, too, and no tokens are made again.
    again = new_training(load_config(None, text=[str(path)]), [], tmp_path / "run", None)
    assert again.open_corpus().from_cache and opens[str(path)] == 4
    # So does a run that is resumed, which needs the hash.
    reopened = open_corpus(again.config.data, again.config.tokenizer)
    assert reopened.fingerprint == corpus.fingerprint and opens[str(path)] in (5, 6)


def test_a_document_is_parsed_once(tmp_path, cache, monkeypatch):
    path, parsed = tmp_path / "page.html", []
    path.write_bytes(FILES["book.txt"])
    read = lambda data: parsed.append(1) or data.decode()  # noqa: E731
    monkeypatch.setitem(formats.FORMATS, ".html", read)
    new_training(load_config(None, text=[str(path)]), [], tmp_path / "run", None).open_corpus()
    assert parsed == [1]
