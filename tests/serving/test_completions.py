"""`/v1/completions` with OpenAI's client: the texts are those of `generate`."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np

PROMPT = "Ana sat"


def test_the_same_text_as_in_python(client, model, server):
    options = {"temperature": 0.8, "top_p": 0.9, "seed": 5}
    expected = model.samples(PROMPT, 30, top_k=10, num_samples=2, **options)
    answer = client.completions.create(
        model="tiny", prompt=PROMPT, max_tokens=30, n=2, extra_body={"top_k": 10}, **options
    )
    assert [choice.text for choice in answer.choices] == [sample.text for sample in expected]
    assert [choice.index for choice in answer.choices] == [0, 1]
    lengths = [len(sample.tokens) for sample in expected]
    assert answer.usage.completion_tokens == sum(lengths)
    prompt_tokens = len(model.tokenizer.encode(PROMPT))
    assert answer.usage.prompt_tokens == prompt_tokens
    assert answer.usage.total_tokens == prompt_tokens + sum(lengths)
    for choice, length in zip(answer.choices, lengths, strict=True):
        assert choice.finish_reason == ("length" if length == 30 else "stop")
    assert (answer.object, answer.model) == ("text_completion", "tiny")


def test_the_settings_of_the_model(server, model):
    """What a request leaves out is as in `minigpt sample`."""
    settings = {**model.config["sampling"], "seed": 3}
    for name in ("prompts", "print_every", "translations"):
        settings.pop(name, None)
    expected = model.generate(PROMPT, **settings)
    assert [c["text"] for c in server.complete(prompt=PROMPT, seed=3)["choices"]] == expected


def test_forms_of_prompts(server, model):
    texts = ["Ana sat", "Dirk ate"]
    ids = [model.tokenizer.encode(text).tolist() for text in texts]
    expected = model.generate(texts, 12, temperature=0.0)
    found = [
        [c["text"] for c in server.complete(prompt=prompt, max_tokens=12, temperature=0)["choices"]]
        for prompt in (texts, ids, texts[0], ids[0])
    ]
    assert found == [expected, expected, expected[:1], expected[:1]]


def test_longer_than_the_context(server, model):
    prompt = "Ana sat on the roof. " * 8
    assert len(model.tokenizer.encode(prompt)) > model.max_len
    expected = model.generate(prompt, 20, seed=1)
    answer = server.complete(prompt=prompt, max_tokens=20, seed=1, **_own(model))
    assert [choice["text"] for choice in answer["choices"]] == expected


def _own(model) -> dict:
    """The settings of `generate`, which are not those of the model."""
    return {"temperature": 1.0, "top_k": 10}


def test_many_at_once(server, model):
    """Each of many texts is the one that is generated alone."""
    prompts = [PROMPT[: i % 8] for i in range(40)]
    expected = [model.generate(p, 25, seed=i)[0] for i, p in enumerate(prompts)]

    def ask(i: int) -> str:
        answer = server.complete(prompt=prompts[i], max_tokens=25, seed=i, **_own(model))
        return answer["choices"][0]["text"]

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(ask, range(len(prompts)))) == expected


def test_streams(client, server):
    options = {"model": "tiny", "prompt": PROMPT, "max_tokens": 30, "seed": 9, "n": 2}
    whole = client.completions.create(**options)
    texts, reasons, usage = ["", ""], {}, None
    for event in client.completions.create(
        **options, stream=True, stream_options={"include_usage": True}
    ):
        for choice in event.choices:
            assert choice.index not in reasons
            texts[choice.index] += choice.text
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
        usage = event.usage or usage
    assert texts == [choice.text for choice in whole.choices]
    assert reasons == {choice.index: choice.finish_reason for choice in whole.choices}
    assert usage == whole.usage


def test_stop(server, model):
    text = model.generate(PROMPT, 40, temperature=0.0)[0]
    stop = text[10:13]
    expected = model.generate(PROMPT, 40, temperature=0.0, stop=[stop])[0]
    for given in (stop, ["never this", stop]):
        answer = server.complete(
            prompt=PROMPT, max_tokens=40, temperature=0, stop=given, logprobs=0
        )
        (choice,) = answer["choices"]
        assert (choice["text"], choice["finish_reason"]) == (expected, "stop")
        # The tokens of the stop string are not described.
        assert "".join(choice["logprobs"]["tokens"]).startswith(expected)
        assert choice["logprobs"]["text_offset"][-1] < len(expected)
        # Nothing is generated after it, nor where tokens are not described.
        plain = server.complete(prompt=PROMPT, max_tokens=40, temperature=0, stop=given)
        assert plain["choices"][0]["text"] == expected
        assert plain["usage"] == answer["usage"]
        assert plain["usage"]["completion_tokens"] < 40


def test_logprobs(server, model):
    answer = server.complete(prompt=PROMPT, max_tokens=12, temperature=0, logprobs=3)
    (choice,) = answer["choices"]
    found = choice["logprobs"]
    assert "".join(found["tokens"]) == choice["text"]
    assert len(found["tokens"]) == answer["usage"]["completion_tokens"]
    prompt = model.tokenizer.encode(PROMPT).tolist()
    ids = [*prompt, *model.tokenizer.encode(PROMPT + choice["text"]).tolist()[len(prompt) :]]
    logits = model.logits([ids[: model.max_len]])[0].astype(np.float64)
    logprobs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for t in range(min(len(ids), model.max_len) - len(prompt)):
        place, token = len(prompt) + t - 1, ids[len(prompt) + t]
        assert math.isclose(found["token_logprobs"][t], logprobs[place, token], abs_tol=1e-3)
        best = np.argsort(-logprobs[place], kind="stable")[:3]
        top = found["top_logprobs"][t]
        assert {model.tokenizer.piece(i) for i in best} <= top.keys() and 3 <= len(top) <= 4
        assert top[found["tokens"][t]] == found["token_logprobs"][t]
        assert math.isclose(max(top.values()), logprobs[place].max(), abs_tol=1e-3)
        assert found["text_offset"][t] == len("".join(found["tokens"][:t]))


def test_parts_of_characters(server, model):
    """Tokens that add no text have a readable name, the same in both lists."""
    ids = model.tokenizer.encode("\u2603").tolist()
    assert len(ids) == 3
    # A large bias on the first byte, which begins no text alone.
    options = {"prompt": "Ana", "max_tokens": 1, "temperature": 0, "logprobs": 2}
    (choice,) = server.complete(logit_bias={str(ids[0]): 100}, **options)["choices"]
    found = choice["logprobs"]
    assert found["tokens"] == ["<E2>"] and "<E2>" in found["top_logprobs"][0]
    assert found["text_offset"] == [0]


def test_streamed_logprobs(client):
    options = {"model": "tiny", "prompt": PROMPT, "max_tokens": 12, "seed": 1, "logprobs": 2}
    whole = client.completions.create(**options).choices[0].logprobs
    events = client.completions.create(**options, stream=True)
    parts = [event.choices[0].logprobs for event in events]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        found = [entry for part in parts for entry in getattr(part, name)]
        assert found == getattr(whole, name)


def test_penalties_and_bias(server, model):
    ids = model.tokenizer.encode(model.generate(PROMPT, 1, temperature=0.0)[0]).tolist()
    options = {"prompt": PROMPT, "max_tokens": 30, "temperature": 0}
    plain = server.complete(**options)["choices"][0]["text"]
    biased = server.complete(logit_bias={str(ids[0]): -100}, **options)["choices"][0]["text"]
    assert not biased.startswith(plain[:1]) or biased[:3] != plain[:3]
    # As OpenAI says, -100 bans a token: no temperature brings it back.
    others = {str(i): -100 for i in range(model.tokenizer.vocab_size) if i != ids[0]}
    only = server.complete(prompt=PROMPT, max_tokens=30, temperature=1000, logit_bias=others)
    assert only["choices"][0]["text"] == model.tokenizer.decode(ids[:1] * 30)
    forced = server.complete(logit_bias={str(ids[0]): 100}, **options)["choices"][0]["text"]
    assert forced == model.tokenizer.decode(ids[:1] * 30)
    for name in ("presence_penalty", "frequency_penalty"):
        varied = server.complete(**{name: 2.0}, **options)["choices"][0]["text"]
        assert varied != plain
        assert server.complete(**{name: 0.0}, **options)["choices"][0]["text"] == plain


def test_without_a_seed_an_answer_has_the_one_that_repeats_it(server):
    options = {"prompt": PROMPT, "max_tokens": 20, "temperature": 2.0}
    answers = [server.complete(**options) for _ in range(4)]
    assert len({answer["choices"][0]["text"] for answer in answers}) > 1
    again = server.complete(**options, seed=answers[0]["seed"])
    assert again["choices"][0]["text"] == answers[0]["choices"][0]["text"]
