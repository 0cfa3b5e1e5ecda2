"""All settings of `generate`: in Python, as a stream, and in the export."""

import numpy as np
import pytest
import tensorflow as tf

from minigpt.errors import UserError

PROMPTS = ["Ana sat", "", "Čeněk ate 3 figs \u2581 \U0001f600"]
DEFAULTS = {
    # With each of the prompts, a capacity of 48 tokens: XLA compiles the decoder for few shapes.
    "max_new_tokens": 32,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "repetition_penalty": 1.0,
    "stop": [],
    "banned_tokens": [],
    "num_samples": 1,
    "seed": 0,
}
DTYPES = {
    "top_k": tf.int32,
    "max_new_tokens": tf.int32,
    "num_samples": tf.int32,
    "seed": tf.int32,
    "banned_tokens": tf.int32,
    "stop": tf.string,
}
CASES = [
    {"temperature": 0.8, "top_k": 9, "top_p": 0.9, "min_p": 0.05, "seed": 3},
    {"num_samples": 3, "repetition_penalty": 1.5, "banned_tokens": [1]},
    {"temperature": 1.3, "typical_p": 0.4, "min_p": 0.01, "seed": 2},
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_export_gives_the_text_of_python(opened, signatures, case):
    # Stop strings are not a part of the export.
    settings = {name: value for name, value in (DEFAULTS | case).items() if name != "stop"}
    tensors = {
        name: tf.constant(value, DTYPES.get(name, tf.float32)) for name, value in settings.items()
    }
    texts = signatures["sample"](prompt=tf.constant(PROMPTS), **tensors)["text"]
    assert texts.shape == (len(PROMPTS), settings["num_samples"])
    expected = opened.generate(PROMPTS, **settings)
    assert [text.decode() for text in texts.numpy().reshape(-1)] == expected


@pytest.mark.parametrize(
    "settings", [{"seed": 3}, {"stop": ["\n"], "banned_tokens": [1], "seed": 0}], ids=str
)
def test_the_pieces_of_a_stream_join_to_the_text(opened_without_xla, settings):
    opened = opened_without_xla
    for prompt in PROMPTS:
        pieces = list(opened.stream(prompt, 20, top_k=0, **settings))
        assert "".join(pieces) == opened.generate(prompt, 20, top_k=0, **settings)[0]
        assert all(pieces)
    assert len(pieces) > 5 or "stop" in settings


def test_a_stream_holds_back_the_possible_start_of_a_stop_string(opened_without_xla):
    opened = opened_without_xla
    text = opened.generate("Ana sat", 32, temperature=0.0)[0]
    stop = text[10:14]
    pieces = list(opened.stream("Ana sat", 32, temperature=0.0, stop=[stop]))
    assert "".join(pieces) == text[: text.index(stop)]
    # The start of a stop string at the end of the text is part of the text.
    nearly = text[-2:] + "\x00"
    assert "".join(opened.stream("Ana sat", 32, temperature=0.0, stop=[nearly])) == text


def test_a_stream_yields_complete_characters(opened_without_xla):
    opened = opened_without_xla
    tokenizer = opened.tokenizer
    # Only the bytes of a four-byte character are allowed, so most texts are cut inside one.
    keep = [tokenizer.encode("\U0001f600")[i] for i in range(4)]
    banned = [i for i in range(tokenizer.vocab_size) if i not in keep]
    settings = {"top_k": 0, "banned_tokens": banned, "temperature": 1e6}
    texts = opened.generate("", 100, num_samples=64, seed=0, **settings)
    # 100 uniform draws from four bytes contain all four in order in one text of three.
    whole = [seed for seed, text in enumerate(texts) if "\U0001f600" in text]
    assert len(whole) > 3
    for seed in whole[:3]:
        assert "".join(opened.stream("", 100, seed=seed, **settings)) == texts[seed]


def test_sample_i_uses_seed_plus_i(opened_without_xla):
    opened = opened_without_xla
    samples = opened.samples(PROMPTS, 20, seed=[3, 10, 20], num_samples=2, top_k=0)
    assert [sample.seed for sample in samples] == [3, 4, 10, 11, 20, 21]
    assert [sample.prompt for sample in samples] == [p for p in PROMPTS for _ in range(2)]
    alone = [opened.samples(s.prompt, 20, seed=np.int64(s.seed), top_k=0)[0] for s in samples]
    assert samples == alone


def test_tokens_end_with_the_one_that_completed_the_stop_string(opened_without_xla):
    opened = opened_without_xla
    free = opened.samples("Ana sat", 60, seed=1)[0]
    stopped = opened.samples("Ana sat", 60, seed=1, stop=["figs"])[0]
    assert stopped.text == free.text[: free.text.index("figs")]
    assert stopped.tokens == free.tokens[: len(stopped.tokens)]
    ids = opened.tokenizer.encode("Ana sat")
    assert "figs" in opened.tokenizer.continuation(ids, stopped.tokens)
    assert "figs" not in opened.tokenizer.continuation(ids, stopped.tokens[:-1])


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"top_k": -1}, "top_k"),
        ({"temperature": float("nan")}, "temperature"),
        ({"stop": [""]}, "stop"),
        ({"tok_k": 3}, "tok_k"),
        ({"banned_tokens": [10**6]}, "banned_tokens"),
        ({"beams": 2}, "beams"),
        ({"num_samples": 0}, "num_samples"),
        ({"max_new_tokens": "a"}, "max_new_tokens"),
        ({"seed": 2**31 - 1, "num_samples": 2}, "seed"),
        ({"prompts": "Ana \udcff"}, "prompts"),
    ],
)
def test_a_refusal_names_the_setting(opened_without_xla, settings, named):
    with pytest.raises(UserError) as refused:
        opened_without_xla.generate(**{"prompts": "Ana", **settings})
    (line,) = refused.value.problems
    assert line.startswith(f"{named} = ") and "\n" not in line
