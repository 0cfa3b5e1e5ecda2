"""Lines of mixed text: the same ids and text in a browser as in Python, with every tokenizer."""

from pathlib import Path

import pytest

from minigpt.config import load_config
from minigpt.models import build_model
from minigpt.tokenizers import Tokenizer
from tests.browser.scripts import open_model
from tests.mixed_lines import code, scraps
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
LINES = [*code(500, 1), *scraps(1_500, 2)]


def write_file(path: Path, tokenizer: Tokenizer) -> Path:
    """Writes a portable file with the tokenizer and a tiny model."""
    sizes = {"embed_dim": 8, "num_heads": 1, "num_layers": 1, "max_len": 8}
    config = load_config({"model": sizes, "tokenizer": {"kind": tokenizer.kind}})
    return Built(build_model(config.model, tokenizer.vocab_size), tokenizer, config).write(path)


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_texts(name, browser, tmp_path):
    tokenizer = TOKENIZERS[name]()
    tab = open_model(browser, write_file(tmp_path / "model.gguf", tokenizer))
    found = tab.evaluate(
        """(lines) => lines.map((line) => {
          const ids = model.engine.encode(line);
          return [Array.from(ids), model.vocabulary.texts(ids).join("")];
        })""",
        LINES,
    )
    for line, ids, (found_ids, text) in zip(
        LINES, tokenizer.encode_many(LINES), found, strict=True
    ):
        assert found_ids == ids.tolist(), repr(line)
        assert text == tokenizer.decode(found_ids), repr(line)
    tab.close()
