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


def test_the_tokenizer_of_a_portable_file(tiny_run, without_xla):
    """It is accepted wherever texts are encoded and decoded."""
    model = tiny_run.load_model()
    tokenizer = minigpt.load_portable(tiny_run.portable_file).tokenizer
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


@pytest.fixture(params=["TensorFlow", "engine"])
def text_model(request, tiny_run, opened_without_xla):
    is_engine = request.param == "engine"
    return minigpt.load_portable(tiny_run.portable_file) if is_engine else opened_without_xla


@pytest.mark.parametrize(
    ("name", "error", "call"),
    [
        ("text", TypeError, lambda m: m.unknown_tokens(5)),
        ("prompt", TypeError, lambda m: m.stream(5)),
        ("max_new_tokens", minigpt.UserError, lambda m: m.generate("Ana", np.zeros((2, 2)))),
        ("stop", minigpt.UserError, lambda m: m.generate("Ana", 2, stop=np.array([1, 2]))),
        ("token_ids", ValueError, lambda m: m.logits([[1], [1, 2]])),
        ("text", TypeError, lambda m: m.tokenizer.encode(5)),
        ("texts", TypeError, lambda m: m.tokenizer.encode_many("Ana")),
        ("text", ValueError, lambda m: m.tokenizer.encode("\ud800")),
        ("num_samples", TypeError, lambda m: m.generate("Ana", 2, num_samples=True)),
    ],
)
def test_text_models_name_the_argument(name, error, call, text_model):
    with pytest.raises(error) as caught:
        call(text_model)
    first, *others = str(caught.value).splitlines()
    assert first.strip("`").startswith(name) and (not others or error is minigpt.UserError)


def test_numpy_numbers_and_arrays_are_settings(text_model):
    numpy = {"top_k": np.int64(3), "temperature": np.float32(0.5), "banned_tokens": np.array([9])}
    python = {"top_k": 3, "temperature": 0.5, "banned_tokens": [9]}
    found = text_model.generate("Ana", np.int64(4), num_samples=np.int64(1), **numpy)
    assert found == text_model.generate("Ana", 4, **python)


def test_evaluated_text_that_is_not_unicode(opened_without_xla):
    with pytest.raises(minigpt.UserError, match=r"^texts = '.ud800': not valid Unicode"):
        opened_without_xla.evaluate("\ud800")


@pytest.mark.parametrize(
    "load", [minigpt.load, lambda run: minigpt.load_portable(run.portable_file)]
)
def test_translation_models_name_the_argument(load, pair_run):
    model = load(pair_run)
    for name, value, error in (
        ("beams", 1.5, TypeError),
        ("beams", 0, ValueError),
        ("beams", 10**30, ValueError),
        ("max_new_tokens", "5", TypeError),
        ("max_new_tokens", 1.5, TypeError),
        ("max_new_tokens", -1, ValueError),
        ("length_penalty", "a", TypeError),
        ("length_penalty", float("nan"), ValueError),
    ):
        with pytest.raises(error) as caught:
            model.translate("a b", **{name: value})
        assert str(caught.value).startswith(f"`{name}` must be ")
        assert "\n" not in str(caught.value)


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
    ("name", "error", "call"),
    [
        ("path", TypeError, lambda run: minigpt.verify(5, run)),
        ("format", ValueError, lambda run: minigpt.export_run(run, ["gguf"], "x")),
        ("text", TypeError, lambda run: minigpt.load_config(text="book.txt")),
        ("paths", minigpt.UserError, lambda run: minigpt.evaluate_run(run, 5)),
        ("tokens", ValueError, lambda run: minigpt.measure_memorization(run, tokens=-1)),
    ],
)
def test_other_functions_name_the_argument(name, error, call, tiny_run):
    with pytest.raises(error) as caught:
        call(tiny_run)
    assert str(caught.value).strip("`").startswith(name) and "\n" not in str(caught.value)
