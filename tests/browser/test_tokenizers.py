"""20,000 lines of mixed text: the same ids and text in a browser as in Python, with every tokenizer."""

from pathlib import Path

import pytest

from minigpt.config import load_config
from minigpt.models import build_model
from minigpt.tokenizers import Tokenizer
from tests.browser.scripts import open_model
from tests.conftest import SHARED_DATA
from tests.mixed_lines import code, scraps, twenty_thousand
from tests.targets.gguf.models import Built
from tests.targets.gguf.test_engine_tokenizers import TOKENIZERS

pytestmark = pytest.mark.browser

NAMES = (
    "byte_pair",
    "byte_pair-lower-case",
    "character",
    "word-lower-case",
    "gpt2",
)
ARCHIVE = SHARED_DATA / "aclImdb_v1.tar.gz"


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Those of the tests of tokenizers; without the shared data, all of them are generated."""
    if ARCHIVE.is_file():
        return twenty_thousand(ARCHIVE)
    return [*code(5_000, 1), *scraps(15_000, 2)]


def write_file(path: Path, tokenizer: Tokenizer) -> Path:
    """Writes a portable file with the tokenizer and a tiny model."""
    sizes = {"embed_dim": 8, "num_heads": 1, "num_layers": 1, "max_len": 8}
    config = load_config({"model": sizes, "tokenizer": {"kind": tokenizer.kind}})
    return Built(build_model(config.model, tokenizer.vocab_size), tokenizer, config).write(path)


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_texts(name, browser, lines, tmp_path):
    tokenizer = TOKENIZERS[name]()
    tab = open_model(browser, write_file(tmp_path / "model.gguf", tokenizer))
    expected = [ids.tolist() for ids in tokenizer.encode_many(lines)]
    for start in range(0, len(lines), 5_000):
        found = tab.evaluate(
            """(lines) => lines.map((line) => {
              const ids = model.engine.encode(line);
              return [Array.from(ids), model.vocabulary.texts(ids).join("")];
            })""",
            lines[start : start + 5_000],
        )
        for number, (ids, text) in enumerate(found, start):
            assert ids == expected[number], repr(lines[number])
            assert text == tokenizer.decode(ids), repr(lines[number])
    tab.close()
    assert len(lines) == 20_000
