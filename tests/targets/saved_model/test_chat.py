"""The signature `chat` of a SavedModel."""

import numpy as np
import pytest
import tensorflow as tf

import minigpt
from minigpt.config import Config, GPTConfig, SamplingConfig
from minigpt.models import build_gpt
from minigpt.runs.run import Run
from minigpt.targets.huggingface.chat_template import chat_format
from minigpt.targets.opened_model import opened_model
from minigpt.targets.saved_model.modules import build_text_module
from minigpt.targets.targets import target_named
from minigpt.tokenizers import learn_tokenizer
from tests.settings import tokenizer_config
from tests.targets.huggingface.test_chat_template import CHATML, TURNS, chatml_tokenizer

SIZES = {"max_len": 48, "embed_dim": 16, "num_heads": 2, "num_layers": 1, "block": "pre_norm"}
TEXT = "Who has the ball? Ana. Be brief. Où is it, Ben? <|user|> end. " * 4
QUESTIONS = ["Who has the ball?", "<|assistant|>Ben", "", " Où\n", "<|im_start|>user", "<end>"]
SETTINGS = {"temperature": 0.0, "top_k": 1, "top_p": 1.0, "seed": 0}


def tokenizer_of(kind: str):
    if kind == "gpt2":
        tokenizer = chatml_tokenizer()
        return tokenizer.with_chat(chat_format("{{ '<|endoftext|>' }}" + CHATML, tokenizer))
    learned = learn_tokenizer(
        [TEXT], tokenizer_config(kind=kind, vocab_size=40 if kind == "word" else 300)
    )
    return learned.with_chat()


def model_for(tokenizer):
    model = build_gpt(GPTConfig(**SIZES), tokenizer.vocab_size)
    draw = np.random.default_rng(0)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(draw.standard_normal(variable.shape) / 2)
    return model


def columns(messages):
    return [tf.constant([m[key] for m in messages]) for key in ("role", "content")]


@pytest.mark.parametrize("kind", ["character", "byte_pair", "word", "gpt2"])
def test_the_ids_are_those_of_encode_dialogues(kind):
    tokenizer = tokenizer_of(kind)
    module = build_text_module(model_for(tokenizer), tokenizer)
    for question in QUESTIONS:
        asked = {"role": "user", "content": question}
        for messages in (TURNS, TURNS[:2], TURNS[1:], [asked], [*TURNS[:3], asked]):
            found = module.dialogue_ids(*columns(messages)).numpy()
            assert found.tolist() == tokenizer.encode_dialogues([messages])[0].tolist()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    tokenizer = tokenizer_of("character")
    config = Config(
        tokenizer=tokenizer_config(kind="character", vocab_size=300),
        model=GPTConfig(**SIZES),
        sampling=SamplingConfig(),
    )
    run = Run.create(folder / "run", config, tokenizer, None, model_for(tokenizer))
    minigpt.export_run(run, "saved_model", folder / "saved")
    return run, tf.saved_model.load(str(folder / "saved")), folder / "saved"


def test_answers_as_chat_does(exported):
    run, loaded, _ = exported
    model, served = minigpt.load(run), loaded.signatures["chat"]
    settings = {name: tf.constant(value) for name, value in SETTINGS.items()}
    for messages in (TURNS[1:2], TURNS[1:2] + TURNS[2:3] + [{"role": "user", "content": "Où?"}]):
        roles, contents = columns(messages)
        found = served(roles=roles, contents=contents, max_new_tokens=tf.constant(12), **settings)
        (text,) = found["text"].numpy()
        assert text.decode() == model.chat(messages, 12, temperature=0.0) != ""


def test_roles_that_are_none(exported):
    _, loaded, _ = exported
    settings = {name: tf.constant(value) for name, value in SETTINGS.items()}
    for roles, contents in ((["User"], ["a"]), ([], []), (["user"], ["a", "b"])):
        with pytest.raises(tf.errors.InvalidArgumentError):
            loaded.signatures["chat"](
                roles=tf.constant(roles, tf.string),
                contents=tf.constant(contents, tf.string),
                max_new_tokens=tf.constant(2),
                **settings,
            )


def test_a_certificate_compares_answers(exported, tmp_path):
    run, _, saved = exported
    minigpt.export_run(run, "gguf", tmp_path / "model.gguf")
    model, questions = minigpt.load(run), ["Who?", "Be brief."]
    source = opened_model(model.model, model.tokenizer)
    expected = [model.chat(question, 6, temperature=0.0) for question in questions]
    assert source.answer(questions, 6) == expected
    for path, name in ((saved, "saved_model"), (tmp_path / "model.gguf", "gguf")):
        assert target_named(name).open(path).answer(questions, 6) == expected
