"""Arguments of the wrong type: the Python functions name the argument."""

import numpy as np
import pytest

import minigpt


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("run", lambda path: minigpt.train(run=5)),
        ("resume_from", lambda path: minigpt.train(resume_from=5)),
        ("name", lambda path: minigpt.train(name=5)),
        ("run", lambda path: minigpt.plan(run=5)),
        ("path", lambda path: minigpt.load_portable(5)),
        ("folder", lambda path: minigpt.import_run(5, path)),
        ("run", lambda path: minigpt.import_run(path, 5)),
        ("folder", lambda path: minigpt.list_runs(5)),
        ("runs", lambda path: minigpt.write_report(5, path)),
        ("run", lambda path: minigpt.write_report([5], path)),
        ("output", lambda path: minigpt.write_report([], 5)),
    ],
)
def test_the_argument_is_named(name, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Fails before anything is trained, if the argument is not checked.
    monkeypatch.setattr("minigpt.distribution.devices.set_up_replicas", None)
    monkeypatch.setattr("minigpt.training.strategy.Strategy.set_up", None)
    with pytest.raises(TypeError, match=f"^`{name}` must be .*Received: 5$"):
        call(tmp_path / "new")


@pytest.mark.parametrize("function", [minigpt.train, minigpt.plan])
def test_a_configuration_of_the_wrong_type(function):
    with pytest.raises(TypeError, match=r"^`config` should be a Config, .*Received: 5$"):
        function(5)


def test_the_output_of_an_export_is_named(tiny_run):
    with pytest.raises(TypeError, match=r"^`output` must be a path\. Received: 5$"):
        minigpt.export_run(tiny_run, "gguf", 5)


def test_a_report_of_one_run_needs_no_list(tiny_run, tmp_path):
    for number, run in enumerate((tiny_run, tiny_run.path, str(tiny_run.path))):
        minigpt.write_report(run, tmp_path / f"{number}.html")
        page = (tmp_path / f"{number}.html").read_text(encoding="utf-8")
        assert f"<title>{tiny_run.path.name} – report</title>" in page
    with pytest.raises(minigpt.UserError, match=r"^run = 'runs/none': does not exist"):
        minigpt.write_report("runs/none", tmp_path / "page.html")


def test_the_tokenizer_of_a_portable_file(tiny_run, tmp_path):
    """It is accepted wherever texts are encoded and decoded, and refused by name where it cannot do it."""
    model, tokenizer = (
        tiny_run.load_model(),
        minigpt.load_portable(tiny_run.portable_file).tokenizer,
    )
    shown: list[list[tuple[str, str]]] = [[], []]
    for lines, given in zip(shown, (tokenizer, tiny_run.load_tokenizer()), strict=True):
        generator = minigpt.TextGenerator(
            given, ["Ana"], 5, show=lambda *said, lines=lines: lines.append(said)
        )
        generator.set_model(model)
        generator.on_epoch_end(0)
    assert shown[0] == shown[1] and shown[0]
    expected = minigpt.load(tiny_run).generate("Ana", 5)
    assert minigpt.TextModel(model, tokenizer).generate("Ana", 5) == expected


ARRAY = np.zeros((2, 2))


@pytest.mark.parametrize(
    "load", [minigpt.load, lambda run: minigpt.load_portable(run.portable_file)]
)
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.unknown_tokens(5), TypeError, "`text` must be a string. Received: 5"),
        (lambda m: m.stream(5), TypeError, "`prompt` must be a string. Received: 5"),
        (
            lambda m: m.generate("Ana", ARRAY),
            minigpt.UserError,
            "max_new_tokens = [[0.0, 0.0], [0.0, 0.0]]: should be a valid integer",
        ),
        (
            lambda m: m.generate("Ana", 2, stop=np.array([1, 2])),
            minigpt.UserError,
            "stop",
        ),
        (
            lambda m: m.logits([[1], [1, 2]]),
            ValueError,
            "`token_ids` must have rows of the same length. Received: [[1], [1, 2]]",
        ),
        (
            lambda m: m.tokenizer.encode(5),
            TypeError,
            "text should be a string. Received: 5 of type int",
        ),
        (
            lambda m: m.tokenizer.encode_many("Ana"),
            TypeError,
            "`texts` must be a list of strings. Received: 'Ana'",
        ),
        (
            lambda m: m.tokenizer.encode("\ud800"),
            ValueError,
            "text should be valid Unicode. Received: half of a surrogate pair, U+D800, at character 0",
        ),
        (
            lambda m: m.generate("Ana", 2, num_samples=True),
            TypeError,
            "`num_samples` must be an integer. Received: True",
        ),
    ],
)
def test_text_models_refuse_it_in_one_line(load, call, error, message, tiny_run):
    with pytest.raises(error) as caught:
        call(load(tiny_run))
    first, *others = str(caught.value).splitlines()
    assert first.startswith(message) and (not others or error is minigpt.UserError)


@pytest.mark.parametrize(
    "load", [minigpt.load, lambda run: minigpt.load_portable(run.portable_file)]
)
def test_numpy_numbers_and_arrays_are_settings(load, tiny_run):
    model = load(tiny_run)
    numpy = {"top_k": np.int64(3), "temperature": np.float32(0.5), "banned_tokens": np.array([9])}
    python = {"top_k": 3, "temperature": 0.5, "banned_tokens": [9]}
    found = model.generate("Ana", np.int64(4), num_samples=np.int64(1), **numpy)
    assert found == model.generate("Ana", 4, **python)


def test_evaluated_text_that_is_not_unicode(opened):
    with pytest.raises(minigpt.UserError, match=r"^texts = '.ud800': not valid Unicode"):
        opened.evaluate("\ud800")


@pytest.mark.parametrize(
    "load", [minigpt.load, lambda run: minigpt.load_portable(run.portable_file)]
)
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"beams": 1.5}, TypeError, "`beams` must be an integer. Received: 1.5"),
        ({"beams": 0}, ValueError, "`beams` must be at least 1. Received: 0"),
        ({"beams": 10**30}, ValueError, f"`beams` must be at most 1000. Received: {10**30}"),
        ({"max_new_tokens": "5"}, TypeError, "`max_new_tokens` must be an integer. Received: '5'"),
        ({"max_new_tokens": 1.5}, TypeError, "`max_new_tokens` must be an integer. Received: 1.5"),
        ({"max_new_tokens": -1}, ValueError, "`max_new_tokens` must be at least 0. Received: -1"),
        ({"length_penalty": "a"}, TypeError, "`length_penalty` must be a number. Received: 'a'"),
        (
            {"length_penalty": float("nan")},
            ValueError,
            "`length_penalty` must be from -1e+30 to 1e+30. Received: nan",
        ),
    ],
)
def test_translation_models_refuse_it_in_one_line(load, settings, error, message, pair_run):
    with pytest.raises(error) as caught:
        load(pair_run).translate("a b", **settings)
    assert str(caught.value) == message


def test_sentences_of_the_wrong_type_are_named(pair_run):
    model = minigpt.load(pair_run)
    for call in (model.source_tokens, model.unknown_tokens):
        with pytest.raises(TypeError, match=r"^`text` must be a string. Received: None$"):
            call(None)
        with pytest.raises(minigpt.UserError, match=r"^text = '.ud800': not valid Unicode"):
            call("\ud800")
    for pairs in (5, [5], ["ab"], ("a", "b"), [("a", 5)], [("a", "b", "c")]):
        with pytest.raises(TypeError, match=r"^`pairs` must be a list of pairs of source and"):
            model.evaluate(pairs)
    assert model.evaluate(np.array([["a b", "b a"]])) == model.evaluate([("a b", "b a")])
    assert model.translate("a b c", max_new_tokens=10**30) == model.translate("a b c")


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("path", lambda run, path: minigpt.load_portable(path)),
        ("path", lambda run, path: minigpt.verify(path, run)),
        ("folder", lambda run, path: minigpt.list_runs(path)),
        ("folder", lambda run, path: minigpt.Tokenizer.load(path)),
        ("output", lambda run, path: minigpt.write_report(run, path)),
        ("run", lambda run, path: minigpt.import_run("here", path)),
    ],
)
def test_a_path_that_cannot_be(name, call, path, tiny_run):
    with pytest.raises(minigpt.UserError) as caught:
        call(tiny_run, path)
    assert str(caught.value) == f"{name} = {path!r}: contains a character that no path can have"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda run: minigpt.verify(5, run), TypeError, "`path` must be a path. Received: 5"),
        (
            lambda run: minigpt.export_run(run, ["gguf"], "x"),
            ValueError,
            r"`format` must be one of .* Received: \['gguf'\]",
        ),
        (
            lambda run: minigpt.load_config(text="book.txt"),
            TypeError,
            r"`text` must be a list of paths, such as \['book.txt'\]. Received: 'book.txt'",
        ),
        (
            lambda run: minigpt.evaluate_run(run, 5),
            minigpt.UserError,
            r"paths = 5: should be a list of paths, such as \['book.txt'\]",
        ),
        (
            lambda run: minigpt.measure_memorization(run, tokens=-1),
            ValueError,
            "`tokens` must be at least 1. Received: -1",
        ),
    ],
)
def test_other_functions_refuse_it_in_one_line(call, error, message, tiny_run):
    with pytest.raises(error, match=f"^{message}$"):
        call(tiny_run)
