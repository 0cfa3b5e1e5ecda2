"""Text token by token: always what the tokenizer makes of the whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt.tokenizers.kinds import learn_tokenizer
from minigpt.tokenizers.vocabulary import ContinuationText, find_stop
from tests.conftest import tiny_text
from tests.settings import tokenizer_config

# U+0010 and U+2581 are escaped by the byte-pair tokenizer.
TEXT = tiny_text(50) + " \U0001f600 \u2581 \x10 \x10\x10b ż日本"
KINDS = ["byte_pair", "word", "character"]
SIZES = [320, 320, 20]  # Rare characters are bytes.


@pytest.fixture(scope="module")
def tokenizers():
    return {
        kind: learn_tokenizer([TEXT], tokenizer_config(kind=kind, vocab_size=size))
        for kind, size in zip(KINDS, SIZES, strict=True)
    }


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=70, deadline=None)
@given(data=st.data())
def test_pieces_of_any_ids_join_to_the_continuation(kind, tokenizers, data):
    tokenizer = tokenizers[kind]
    # Half of the ids are bytes of characters of several bytes, or of escape sequences.
    special = [*tokenizer.encode("\U0001f600\x10\u2581日ab"), tokenizer.end_id]
    ids = st.one_of(st.sampled_from(special), st.integers(0, tokenizer.vocab_size - 1)).map(int)
    prompt, new = data.draw(st.lists(ids, max_size=12)), data.draw(st.lists(ids, max_size=30))
    detokenizer = ContinuationText(tokenizer, prompt)
    count = 0
    while count < len(new):
        end = count + data.draw(st.integers(1, 4))
        text = detokenizer.push(new[count:end])
        before = tokenizer.continuation(prompt, new[:count])
        assert before + text == tokenizer.continuation(prompt, new[:end])
        count = end


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_text_is_cut_like_the_whole(tokenizers, data):
    tokenizer = tokenizers["character"]
    text = data.draw(st.text("abn .\n", max_size=40))
    stops = data.draw(st.lists(st.text("abn .\n", min_size=1, max_size=4), max_size=3))
    tokens = tokenizer.encode(text).tolist()
    whole = tokenizer.decode(tokens)
    stop = find_stop(whole, stops)
    cut = ContinuationText(tokenizer, [], stops)
    pieces = []
    for token in tokens:
        pieces.append(cut.push([token]))
        # What was returned is never taken back.
        assert whole[:stop].startswith("".join(pieces))
    assert "".join(pieces) + cut.finish() == whole[:stop]
    assert cut.stopped == (stop is not None)
    if cut.stopped:
        assert find_stop(tokenizer.decode(cut.tokens), stops) is not None
        assert find_stop(tokenizer.decode(cut.tokens[:-1]), stops) is None
