"""Messages about prompts."""

import pytest

from minigpt.generation.prompts import unknown_tokens_message
from minigpt.tokenizers import learn_tokenizer
from tests.settings import tokenizer_config

UNKNOWN = "p: 2 of its tokens are unknown to the tokenizer and are read as [UNK]"
BYTES = "p: 2 of its characters are unknown to the tokenizer and are read as bytes"


@pytest.mark.parametrize(("kind", "message"), [("word", UNKNOWN), ("character", BYTES)])
def test_unknown_text(kind, message):
    tokenizer = learn_tokenizer(["a b"], tokenizer_config(kind=kind, vocab_size=50))
    number = tokenizer.count_unknown("a ☃ ż")
    assert unknown_tokens_message("p", number, tokenizer) == message
