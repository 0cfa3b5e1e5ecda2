"""Arguments of the wrong type: the Python functions name the argument."""

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
    monkeypatch.setattr("minigpt.training.pipeline.set_up_replicas", None)
    monkeypatch.setattr("minigpt.insight.forecast.plan.set_up_device", None)
    with pytest.raises(TypeError, match=f"^`{name}` must be .*Received: 5$"):
        call(tmp_path / "new")


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
    from minigpt.targets.saved_model.writing import export_saved_model

    with pytest.raises(TypeError, match=r"^`tokenizer` must be a minigpt.Tokenizer.*PortableTok"):
        export_saved_model(model, tokenizer, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
