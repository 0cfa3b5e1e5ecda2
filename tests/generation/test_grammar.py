"""Texts of a given form, from a model that was not trained: they match, in TensorFlow and in the engine.

The oracles are `re.fullmatch` and the package jsonschema.
"""

import json
import re
import shlex
import sys

import jsonschema
import numpy as np
import pytest

import minigpt
from minigpt import CharacterTokenizer, WordTokenizer
from minigpt.environment import install_command
from minigpt.errors import UserError
from minigpt.generation.grammar import Grammar
from minigpt.models import GPT
from minigpt.targets.gguf.run_file import write_run_file
from tests.cli.running import called
from tests.test_documentation import ROOT

GBNF = r"""
# A move of chess, a number, or nested brackets: llama.cpp's notation.
root ::= move | "-"? [1-9] [0-9]{0,2} | nested
move ::= ("O-O" "-O"? | [a-h] [1-8] "-" square) [+#]?
square ::= [a-h] [1-8]
nested ::= "(" nested? ")"
"""
GBNF_AS_REGEX = r"(O-O(-O)?|[a-h][1-8]-[a-h][1-8])[+#]?|-?[1-9][0-9]{0,2}|(\()+(\))+"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "legs": {"enum": [2, 4]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    "required": ["name", "legs"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def untrained(tiny_run, opened_without_xla):
    """The text model of new weights, whose texts are noise."""
    model = GPT.from_config(opened_without_xla.model.get_config())
    return minigpt.TextModel(model, opened_without_xla.tokenizer)


@pytest.fixture(scope="module", params=["TensorFlow", "engine"])
def model(request, untrained, tiny_run, tmp_path_factory):
    if request.param == "TensorFlow":
        return untrained
    file = tmp_path_factory.mktemp("untrained") / "model.gguf"
    write_run_file(tiny_run, file, weights=untrained.model.get_weights())
    return minigpt.load_portable(file)


def twenty(model, grammar, **settings) -> list[str]:
    settings = {"top_k": 0, "num_samples": 20, "seed": 0, **settings}
    return model.generate("Ana ", 80, logits_processor=grammar, **settings)


@pytest.mark.parametrize(
    "pattern", [r"[0-9]{4}-[0-9]{2}", "(yes|no|maybe), (Ana|Béla)!?", "ß{2,5}"]
)
def test_texts_match_a_regular_expression(model, pattern):
    texts = twenty(model, Grammar("regex", pattern))
    assert all(re.fullmatch(pattern, text) for text in texts)
    assert len(set(texts)) > 3


def test_texts_match_a_grammar(model):
    texts = twenty(model, Grammar("grammar", GBNF))
    assert all(re.fullmatch(GBNF_AS_REGEX, text) for text in texts), texts
    assert all(text.count("(") == text.count(")") for text in texts)
    assert len(set(texts)) > 5


def test_texts_match_a_schema(model):
    texts = twenty(model, Grammar("json_schema", json.dumps(SCHEMA)))
    for text in texts:
        jsonschema.validate(json.loads(text), SCHEMA)
        assert text == json.dumps(json.loads(text), ensure_ascii=False)
    assert len(set(texts)) > 10


def test_a_text_without_an_end_is_cut(model):
    (text,) = model.generate("", 9, logits_processor=Grammar("regex", "[ab]{100}"))
    assert re.fullmatch("[ab]{9,}", text)


def test_a_form_that_the_vocabulary_does_not_have():
    tokenizer = CharacterTokenizer.learn(["abc abc"], 64, False)
    process = Grammar("regex", "ab☃").start(tokenizer, tokenizer.encode(""))
    logits = np.zeros(tokenizer.vocab_size, np.float32)
    logits[list(tokenizer.byte_ids)] = -np.inf
    with pytest.raises(UserError, match=r"^regex = 'ab☃': .*'ab'$"):
        process(tokenizer.encode("ab"), logits)
    endless = Grammar("grammar", 'root ::= "a" x\nx ::= x "b"').start(
        tokenizer, np.zeros(0, np.int32)
    )
    with pytest.raises(UserError, match=r"^grammar = "):
        for ids in ("", "a", "ab"):
            endless(tokenizer.encode(ids), np.zeros(tokenizer.vocab_size, np.float32))
    with pytest.raises(UserError, match="a vocabulary of words cannot follow a grammar"):
        Grammar("regex", "a").start(
            WordTokenizer.learn(["a b"], 8, lowercase=False), tokenizer.encode("")
        )


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("regex", "(ab"),
        ("regex", "a(?=b)"),
        ("grammar", 'root = "a"'),
        ("grammar", "root ::= name"),
        ("grammar", 'root ::= "a\\'),
        ("json_schema", '{"type": '),
        ("json_schema", "[]"),
    ],
)
def test_what_does_not_parse_is_one_line(kind, source):
    with pytest.raises(UserError) as refusal:
        Grammar(kind, source)
    (line,) = refusal.value.problems
    assert line.startswith(f"{kind} = {source!r}: ") and "\n" not in line


def test_without_the_library_one_line_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(UserError) as refusal:
        Grammar("regex", "a")
    expected = f"llguidance is not installed: {install_command('grammar')}"
    assert str(refusal.value) == expected and "llguidance<2,>=1.9" in expected


def test_the_commands_of_the_guide(tiny_run, tmp_path):
    """Its files and its three commands, with a run, and with a portable file alone."""
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    section = guide.split("## Texts of a given form\n")[1].split("\n## ")[0]
    commands = re.findall(r"^    minigpt (.*)$", section, re.M)
    grammar, schema = re.findall(r"```\w*\n(.*?)```", section, re.S)
    (tmp_path / "answer.gbnf").write_text(grammar)
    (tmp_path / "animal.json").write_text(schema)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/default-1").symlink_to(tiny_run.path)
    (tmp_path / "model.gguf").symlink_to(tiny_run.portable_file)
    assert len(commands) == 3
    texts = []
    for command in commands:
        done = called(*shlex.split(command), "--json", "--max-new-tokens", 99, cwd=tmp_path)
        assert done.returncode == 0 and re.fullmatch(r"seed \d+\n", done.stderr)
        texts.append(json.loads(done.stdout)["text"])
    assert re.fullmatch(r"[1-9][0-9]? years\.", texts[0])
    assert re.fullmatch(r'(Finn|Lily) said: "(Yes|No)!"', texts[1])
    jsonschema.validate(json.loads(texts[2]), json.loads(schema))
