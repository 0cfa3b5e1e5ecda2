"""`/v1/chat/completions`, with OpenAI's client and with plain requests."""

import json

import pytest

import minigpt
from tests.serving.running import serving

QUESTION = [{"role": "user", "content": "A has six. A?"}]


@pytest.fixture(scope="module")
def chat_server(chat_run):
    with serving(chat_run.path, "--threads", "1", "--slots", "3") as served:
        yield served


@pytest.fixture(scope="module")
def chat_model(chat_run) -> minigpt.PortableTextModel:
    return minigpt.load_portable(chat_run.portable_file)


@pytest.fixture
def chat_client(chat_server):
    import openai

    return openai.OpenAI(base_url=f"{chat_server.url}/v1", api_key="none", max_retries=0)


def test_openais_client_chats(chat_client, chat_model):
    name = chat_client.models.list().data[0].id
    ask = chat_client.chat.completions.create
    options = {"model": name, "messages": QUESTION, "temperature": 0, "max_tokens": 8}
    whole = ask(**options)
    expected = chat_model.chat(QUESTION, 8, temperature=0)
    assert whole.object == "chat.completion"
    message = whole.choices[0].message
    assert (message.role, message.content) == ("assistant", expected)
    (prompt,) = chat_model.tokenizer.encode_dialogues([QUESTION])
    assert whole.usage.prompt_tokens == len(prompt)
    events = list(ask(**options, stream=True, stream_options={"include_usage": True}))
    assert {event.object for event in events} == {"chat.completion.chunk"}
    parts = [event.choices[0] for event in events if event.choices]
    assert "".join(part.delta.content or "" for part in parts) == expected
    assert [part.delta.role for part in parts] == ["assistant", *[None] * (len(parts) - 1)]
    assert parts[-1].finish_reason == whole.choices[0].finish_reason
    assert events[-1].usage == whole.usage


def test_probabilities_of_tokens(chat_client):
    found = chat_client.chat.completions.create(
        model="chat", messages=QUESTION, temperature=0, max_tokens=4, logprobs=True, top_logprobs=3
    )
    for token in found.choices[0].logprobs.content:
        most = [other.logprob for other in token.top_logprobs]
        assert most == sorted(most, reverse=True)
        assert most[0] == token.logprob


def test_without_a_limit_an_answer_may_fill_the_context(chat_server, chat_model):
    fields = {"messages": QUESTION, "logit_bias": {str(chat_model.tokenizer.end_id): -100}}
    status, answer = chat_server.ask("/chat/completions", fields)
    assert status == 200
    usage = json.loads(answer)["usage"]
    assert usage["total_tokens"] == chat_model.max_len


def test_content_in_parts_is_one_text(chat_server, chat_model):
    parts = [{"type": "text", "text": "A has six. "}, {"type": "text", "text": "A?"}]
    fields = {"messages": [{"role": "user", "content": parts}], "temperature": 0, "max_tokens": 8}
    _, answer = chat_server.ask("/v1/chat/completions", fields)
    expected = chat_model.chat(QUESTION, 8, temperature=0)
    assert json.loads(answer)["choices"][0]["message"]["content"] == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [*QUESTION, 5]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "x" * 200}]}, "messages"),
        ({"tools": []}, "tools"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"max_tokens": 10**6}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
    ],
    ids=str,
)
def test_fields(chat_server, fields, param):
    found = chat_server.refused("/v1/chat/completions", {"messages": QUESTION, **fields})
    assert found["param"] == param


def test_a_model_of_text_names_the_endpoint_that_it_has(server):
    found = server.refused("/v1/chat/completions", {"messages": QUESTION})
    assert found["code"] == "not_a_chat_model" and "/v1/completions" in found["message"]
