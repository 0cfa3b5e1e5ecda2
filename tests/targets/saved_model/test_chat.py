"""The signature `chat` of a SavedModel."""

import pytest
import tensorflow as tf

import minigpt
from minigpt.config import GPTConfig
from minigpt.models import GPT
from minigpt.targets.huggingface.chat_template import chat_format
from minigpt.targets.opened_keras import opened_keras
from minigpt.targets.saved_model.modules import build_text_module
from minigpt.targets.targets import target_named
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.conftest import nothing_compiled
from tests.settings import tokenizer_config
from tests.targets.huggingface.test_chat_template import CHATML, TURNS, chatml_tokenizer

SIZES = {"max_len": 48, "embed_dim": 8, "num_heads": 2, "num_layers": 1, "block": "pre_norm"}
TEXT = "Who has the ball? Ana. Be brief. Où is it, Ben? <|user|> end. " * 4
QUESTIONS = ["Who has the ball?", "<|assistant|>Ben", "", " Où\n", "<|im_start|>user", "<end>"]
ASKED = ["A has two. A?", "B has six. B?"]


def tokenizer_of(kind: str):
    if kind == "gpt2":
        tokenizer = chatml_tokenizer()
        return tokenizer.with_chat(chat_format("{{ '<|endoftext|>' }}" + CHATML, tokenizer))
    learned = learn_tokenizer(
        [TEXT], tokenizer_config(kind=kind, vocab_size=40 if kind == "word" else 300)
    )
    return learned.with_chat()


def columns(messages):
    return [tf.constant([m[key] for m in messages]) for key in ("role", "content")]


@pytest.mark.parametrize("kind", ["character", "byte_pair", "word", "gpt2"])
def test_the_ids_are_those_of_encode_dialogues(kind):
    tokenizer = tokenizer_of(kind)
    module = build_text_module(GPT(GPTConfig(**SIZES), tokenizer.vocab_size), tokenizer)
    for question in QUESTIONS:
        asked = {"role": "user", "content": question}
        for messages in (TURNS, TURNS[:2], TURNS[1:], [asked], [*TURNS[:3], asked]):
            found = module.dialogue_ids(*columns(messages)).numpy()
            assert found.tolist() == tokenizer.encode_dialogues([messages])[0].tolist()


@pytest.fixture(scope="module")
def exported(chat_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat") / "saved"
    with nothing_compiled():
        minigpt.export_run(chat_run, "saved_model", folder)
    return folder


@pytest.fixture
def portable(chat_run):
    return minigpt.load_portable(chat_run.portable_file)


@pytest.fixture(scope="module")
def chat(exported):
    loaded = tf.saved_model.load(str(exported))

    def answer(roles, contents):
        # The signatures hold no reference to the model; this function does.
        settings = {"temperature": 0.0, "top_k": 1, "top_p": 1.0, "seed": 0, "max_new_tokens": 12}
        return loaded.signatures["chat"](
            roles=tf.constant(roles, tf.string),
            contents=tf.constant(contents, tf.string),
            **{name: tf.constant(value) for name, value in settings.items()},
        )["text"].numpy()

    return answer


def test_answers_as_chat_does(chat, portable):
    for contents in (ASKED[:1], [ASKED[0], "two.", ASKED[1]]):
        roles = ["user", "assistant", "user"][: len(contents)]
        messages = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=True)]
        (text,) = chat(roles, contents)
        assert text.decode() == portable.chat(messages, 12, temperature=0.0) != ""


def test_roles_that_are_none(chat):
    for roles, contents in ((["User"], ["a"]), ([], []), (["user"], ["a", "b"])):
        with pytest.raises(tf.errors.InvalidArgumentError):
            chat(roles, contents)


def test_what_a_certificate_compares(exported, portable, chat_run):
    expected = [portable.chat(question, 6, temperature=0.0) for question in ASKED]
    model, tokenizer = chat_run.load_model(), chat_run.load_tokenizer()
    assert opened_keras(model, tokenizer).answer(ASKED, 6) == expected
    for path, name in ((exported, "saved_model"), (chat_run.portable_file, "gguf")):
        assert target_named(name).open(path).answer(ASKED, 6) == expected
