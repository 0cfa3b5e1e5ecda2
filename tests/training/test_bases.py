"""Training that starts from a base: the choice is measured, said and recorded."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import minigpt
from minigpt.config import load_config
from minigpt.config.beginning import what_to_expect, why_from_nothing
from minigpt.config.loading import load_new_config
from minigpt.corpus.sources import read_text
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from minigpt.evaluation import base_scores
from minigpt.insight import sweep
from minigpt.insight.history import read_history
from minigpt.insight.report.report import report_facts
from minigpt.insight.run_list import list_runs
from minigpt.runs import layout
from minigpt.runs.base_file import BaseFile
from minigpt.runs.layout import bases, check_run
from minigpt.runs.records import read_lines
from minigpt.runs.run import Run
from minigpt.targets.gguf.run_file import write_run_file
from minigpt.tokenizers.base import Tokenizer
from minigpt.training.pipeline import build_task
from minigpt.training.start import complete_settings
from tests.cli.running import called
from tests.conftest import nothing_compiled
from tests.serving.running import serving
from tests.settings import data_config
from tests.tiny import tiny_text

SHORT = {"epochs": 1, "steps_per_epoch": 2}
OF_THE_PACKAGE = layout.BASES


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A text like that of the base, in other words: too short for an n-gram."""
    (tmp_path / "book.txt").write_text(tiny_text(12, seed=1))
    return tmp_path / "book.txt"


def started(book: Path, *overrides: str, base: str | None = None):
    return complete_settings(load_new_config(None, overrides, [str(book)], base))[0]


def written(folder: Path, tokenizer: Tokenizer, **model: object) -> Path:
    """A portable file of a model with random weights."""
    config = load_config({"model": {"block": "modern", **model}})
    built, draw = minigpt.GPT(config.model, tokenizer.vocab_size), np.random.default_rng(0)
    built.set_weights([draw.normal(0, 0.3, w.shape) for w in built.get_weights()])
    run = Run.create(folder / "written", config, tokenizer, None, built)
    write_run_file(run, folder / "model.gguf")
    return folder / "model.gguf"


@pytest.mark.parametrize("shape", [{}, {"value_residual": True, "convolution": 3}])
def test_the_forward_pass_is_that_of_keras(shape, tmp_path, tiny_run, monkeypatch):
    settings = {"max_len": 12, "embed_dim": 16, "num_heads": 4, "num_kv_heads": 2, "num_layers": 3}
    tokenizer, draw = tiny_run.load_tokenizer(), np.random.default_rng(0)
    file = BaseFile(written(tmp_path, tokenizer, **settings, **shape))
    model = file.load_model()
    ids = draw.integers(0, tokenizer.vocab_size, (3, 12))
    ours = base_scores._logits(file.config.model.resolved(), file.tensors, ids)
    np.testing.assert_allclose(ours, model(ids.astype("int32")).numpy(), rtol=0, atol=1e-4)
    texts = [ids[0], ids[1][:5]]
    computed = []
    plain = base_scores._logits

    def logits(model, tensors, ids):
        computed.append(ids.size)
        return plain(model, tensors, ids)

    monkeypatch.setattr(base_scores, "_logits", logits)
    many = [*([texts[1]] * 40), texts[0]]
    found = base_scores._total_loss(file.config.model.resolved(), file.tensors, many)
    for row, times in zip(texts, (1, 40), strict=True):
        scores = model(row[None, :-1].astype("int32")).numpy()[0].astype(float)
        found += times * sum(
            s[i] - math.log(np.exp(s).sum()) for s, i in zip(scores, row[1:], strict=True)
        )
    assert found == pytest.approx(0, abs=0.01)
    # One long text does not make all the others as long.
    assert sum(computed) < 1.5 * sum(len(row) for row in many)


def test_what_is_not_computed_is_not_measured(runs_folder, book):
    text = read_text(data_config(source="files", paths=[str(book)]))
    assert base_scores.bits_before_training(BaseFile(runs_folder / "tiny/model.gguf"), text)
    assert not base_scores.bits_before_training(
        BaseFile(runs_folder / "post_norm/model.gguf"), text
    )


def test_a_word_is_too_short_for_the_base(own_bases, book):
    for text, source in (("Hello!", None), ("A little girl looked for her hat.", "english")):
        book.write_text(text)
        assert started(book).config.training.init_from == source
    book.write_text("Hello!")
    assert "your text is too short for a base" in started(book).beginning
    assert started(book, base="english").config.training.init_from == "english"


ENGLISH = """The letter came on a Tuesday. My aunt read it twice, put it into the drawer of the kitchen
table, and went out to feed the hens. Nobody asked her anything. In our family, one did not ask about
letters; one waited until the person who had received it began to speak of something else."""
GERMAN = """Der Brief kam an einem Dienstag. Meine Tante las ihn zweimal, legte ihn in die Schublade des
Küchentisches und ging hinaus, um die Hühner zu füttern. Niemand fragte sie etwas. In unserer Familie fragte
man nicht nach Briefen; man wartete, bis der Mensch, der ihn bekommen hatte, von etwas anderem sprach."""


@pytest.mark.parametrize(("text", "expected"), [(ENGLISH, "english"), (GERMAN, None)])
def test_the_choice_of_the_base_of_the_package(text, expected, book, monkeypatch):
    monkeypatch.setattr(layout, "BASES", OF_THE_PACKAGE)
    book.write_text(text)
    assert started(book).config.training.init_from == expected


def test_a_run_is_a_base_for_another_text(tiny_run, book):
    plans = [minigpt.plan(text=book, base=base) for base in (tiny_run, tiny_run.path)]
    assert plans[0].as_dict()["init_from"] == str(tiny_run.path)
    assert plans[0].as_dict()["origins"] == plans[1].as_dict()["origins"]
    with pytest.raises(TypeError, match="must be a run, a path or the name of a base"):
        minigpt.plan(text=book, base=3)


def test_a_base_has_no_run(own_bases):
    with pytest.raises(
        UserError, match="run = 'english': is a base, without a run; expected a run"
    ):
        check_run(Path("english"))


def test_a_text_that_the_base_knows(own_bases, book, tmp_path, capsys, without_xla, no_export):
    completed = started(book)
    assert completed.config.training.init_from == "english"
    assert completed.config.model.embed_dim == 16
    assert completed.origins["training.init_from"].startswith("chosen for")
    assert completed.origins["model.embed_dim"] == "of the base english"
    base, ngram = completed.bits
    assert base < ngram
    expected = [what_to_expect(book.stat().st_size, bits) for bits in (completed.bits, None)]
    assert expected[0] in completed.beginning and expected[0] != expected[1]
    # Trained, resumed without the base, and recorded.
    overrides = [f"training.{name}={value}" for name, value in SHORT.items()]
    config = load_new_config(None, overrides, [str(book)])
    run = minigpt.train(config, tmp_path / "run")
    assert "Starts from the base" in capsys.readouterr().out
    assert run.config.training.init_from == "english"
    assert run.facts["bits_before_training"] == {"model": base, "ngram": ngram}
    (own_bases / "english.gguf").unlink()
    minigpt.resume(run, ["training.epochs=2"])
    assert [line["epoch"] for line in read_lines(run.metrics_file)] == [0, 1, 2]
    prompts = len(run.config.sampling.prompts)
    assert [s["epoch"] for s in read_lines(run.samples_file)[::prompts]] == [0, 1, 2]


def test_short_documents_are_begun_with_words_of_the_text(own_bases, book):
    """Without a beginning, a model writes what it has read before."""
    book.write_text(tiny_text(200, seed=1))
    completed, text = complete_settings(
        load_new_config(None, ["data.by_line=true", "model.max_len=64"], [str(book)], "english")
    )
    tokenizer, data = BaseFile(bases()["english"]).load_tokenizer(), completed.config.data
    corpus = open_corpus(data, completed.config.tokenizer, tokenizer, text)
    prompts = build_task(completed.config, corpus).config.sampling.prompts
    assert prompts and all(prompts)
    nothing = completed.config.with_training(init_from=None)
    assert build_task(nothing, corpus).config.sampling.prompts[0] == ""


def test_the_state_before_training(own_bases, book, tmp_path, capsys, without_xla, no_export):
    """It is measured and sampled once, and is the best state if training makes the model worse."""
    rate = {"optimizer": "sgd", "learning_rate": 5.0, "early_stopping_patience": 2}
    config = {
        "data": {"source": "files", "paths": [str(book)]},
        "training": {**SHORT, **rate, "init_from": "english", "batch_size": 4},
    }
    run = minigpt.train(config, tmp_path / "run")
    before, after = read_lines(run.metrics_file)
    assert (before["epoch"], before["step"]) == (0, 0)
    assert before["train_loss"] is before["learning_rate"] is None
    assert before["val_loss"] < after["val_loss"] and list_runs(run.path)[0].epochs == 1
    assert minigpt.evaluate_run(run).loss == pytest.approx(before["val_loss"], rel=1e-4)
    bits = f"{before['val_bits_per_byte']:.3f}"
    said = f"before training {bits} bits per byte, now {bits}; no later state is better."
    assert said in capsys.readouterr().out
    facts = report_facts(run)
    assert (facts["base"], facts["best_epoch"], facts["epochs"]) == ("english", 0, 1)
    assert "no_better" in [verdict.id for verdict in minigpt.examine(run)]
    assert read_history(run).epochs[0].epoch == 1
    # Killed after the line and before the checkpoint: there is one line again. Patience counts epochs.
    shutil.rmtree(run.checkpoints_folder)
    run.model_file.unlink(missing_ok=True)
    run.metrics_file.write_text(json.dumps(before) + "\n")
    minigpt.resume(run, ["training.epochs=9"])
    assert [line["epoch"] for line in read_lines(run.metrics_file)] == [0, 1, 2]
    prompts = len(run.config.sampling.prompts)
    assert [s["epoch"] for s in read_lines(run.samples_file)[::prompts]] == [0, 1, 2]


def test_the_validation_text_is_not_read_for_the_choice(own_bases, book, tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("0123456789 9876543210\n" * 400)
    data = data_config(source="files", paths=[str(book)], val_paths=[str(own)])
    expected = base_scores._pieces(read_text(data_config(source="files", paths=[str(book)])))
    assert base_scores._pieces(read_text(data)) == expected


def test_a_text_that_the_base_does_not_know(own_bases, tmp_path):
    (tmp_path / "text.txt").write_text("0123456789 9876543210 " * 400)
    completed = started(tmp_path / "text.txt")
    assert completed.config.training.init_from is None
    base, ngram = completed.bits
    assert ngram < base
    line = completed.in_words()[0]
    assert line.startswith('Starts from nothing: the base "english" predicts')
    assert line.endswith(" A base helps below 4 bits.")
    # Asked for, it is used.
    asked = started(tmp_path / "text.txt", base="english")
    assert asked.config.training.init_from == "english" and asked.bits == (base, ngram)
    assert "training from nothing should be better" in asked.in_words()[0]


def test_of_several_bases_the_best_is_taken(own_bases, book, tiny_run, tmp_path):
    random = written(tmp_path, tiny_run.load_tokenizer(), embed_dim=16, max_len=32, num_layers=3)
    shutil.copy(random, own_bases / "another.gguf")
    book.write_text(tiny_text(200, seed=1))
    assert list(bases()) == ["another", "english"]
    completed = started(book)
    assert completed.config.training.init_from == "english"
    assert '"english"' in completed.in_words()[0]
    # A base that the settings exclude is not read, whatever its name.
    for layers, name in ((2, "english"), (3, "another")):
        completed = started(book, f"model.num_layers={layers}")
        assert completed.config.training.init_from == name


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("model.embed_dim=64", 'model.embed_dim = 64 was given, and the base "english" has 16'),
        ("tokenizer.kind=character", "tokenizer.kind = 'character' was given"),
        ("data.source=pairs", "does not translate pairs"),
    ],
)
def test_settings_that_exclude_the_base(override, reason, own_bases, book, tmp_path):
    (tmp_path / "book.txt").write_text("a b\tb a\n" * 200)
    completed = started(book, override)
    assert completed.config.training.init_from is None
    assert (
        completed.in_words()[0].startswith("Starts from nothing: ")
        and reason in completed.beginning
    )
    with pytest.raises(UserError, match="'english'"):
        started(book, override, base="english")


def test_the_setting_that_was_given_is_named():
    with_parts = load_config({"model": {"value_residual": True, "convolution": 3}})
    given = load_config(None, ["model.standard_parts=true"], ["book.txt"])
    reason = why_from_nothing(given, "english", with_parts)
    assert reason == 'model.standard_parts = True was given, and the base "english" has False'
    assert why_from_nothing(given, "english", given) is None


def test_no_base_is_installed(book):
    assert started(book).beginning.splitlines()[0] == "Starts from nothing: no base is installed."
    with pytest.raises(UserError, match=r"expected a base \(none is installed\)"):
        started(book, base="english")


def test_who_starts_from_nothing(own_bases, book):
    assert load_new_config("default", (), [str(book)]).training.init_from is None
    stories = load_new_config(None, (), ())
    assert stories.training.init_from is None
    assert load_new_config(None, (), (), "auto").model == stories.model
    expected = f"{book.stat().st_size} bytes of text: expect parts of words."
    assert started(book, base="none").beginning == expected
    for given in ("none", "english"):
        with pytest.raises(UserError, match="should be given once"):
            started(book, f"training.init_from={given}", base="auto")


def test_the_base_is_measured_also_if_nothing_is_to_choose(own_bases, book):
    complete = started(book)
    again, _ = complete_settings(complete.config.with_training(init_from="auto"))
    assert again.bits == complete.bits
    assert again.config == complete.config


def test_a_damaged_base_is_never_replaced_by_nothing(own_bases, book):
    file = bases()["english"]
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    for base in ("english", None):
        with pytest.raises(UserError, match="checksum; install minigpt again"):
            started(book, base=base)
    with pytest.raises(UserError, match="checksum; copy or export it again"):
        started(book, base=str(shutil.copy(file, book.with_name("own.gguf"))))
    # An empty path would be the current folder.
    with pytest.raises(UserError, match="at least 1 character"):
        started(book, base="")


def test_dialogues(own_bases, tiny_run, dialogue_file, tmp_path, without_xla, no_export):
    sizes = {"max_len": 128, "embed_dim": 16, "num_heads": 2, "num_layers": 1}
    written(tmp_path, tiny_run.load_tokenizer(), **sizes).replace(own_bases / "english.gguf")
    config = {
        "data": {"source": "dialogues", "paths": [str(dialogue_file)]},
        "training": {**SHORT, "batch_size": 1},
    }
    run = minigpt.train(config, tmp_path / "run", base="english")
    assert run.load_tokenizer().chat is not None
    assert run.load_tokenizer().vocab_size == 320 + 3
    assert run.facts["bits_before_training"]


def test_a_base_of_ones_own(tiny_run, book, tmp_path, without_xla, no_export):
    """A run is a base; the plan says the same as training."""
    run, settings = str(tiny_run.path), [f"training.{name}={v}" for name, v in SHORT.items()]
    config = load_new_config(None, settings, [str(book)], run)
    plan = minigpt.plan(config)
    assert plan.as_dict()["init_from"] == run
    trained = minigpt.train(config, tmp_path / "run")
    measured = trained.facts["bits_before_training"]
    assert list(measured.values()) == pytest.approx(plan.as_dict()["bits_before_training"])
    assert trained.config.model.resolved().embed_dim == 16
    json.dumps(plan.as_dict())


def test_the_context_may_be_another(tiny_run, book, tmp_path, without_xla, no_export):
    """A context has no weights: what fits into the former one is predicted as before."""
    settings = ["model.max_len=40", "training.learning_rate=1e-9"]
    settings += [f"training.{name}={value}" for name, value in SHORT.items()]
    config = load_new_config(None, settings, [str(book)], str(tiny_run.path))
    run = minigpt.train(config, tmp_path / "run")
    assert tiny_run.config.model.max_len == 16
    assert run.config.model.max_len == run.config.training.sequence_length == 40
    ids = np.arange(40, dtype="int32")[np.newaxis]
    before, after = minigpt.load(tiny_run).logits(ids[:, :16]), minigpt.load(run).logits(ids)
    np.testing.assert_allclose(after[:, :16], before, atol=1e-4)


def test_a_run_without_a_portable_file(runs_folder, book, tmp_path):
    """Its checkpoint is measured, and if that cannot be done, it is named."""
    run = Run(shutil.copytree(runs_folder / "tiny", tmp_path / "run"))
    measured = started(book, base=str(run.path))
    assert measured.beginning.startswith(f"Starts from {run.path}: it predicts a sample")
    run.portable_file.unlink()
    found = started(book, base=str(run.path))
    assert found.bits == pytest.approx(measured.bits, abs=0.01)
    assert found.beginning == measured.beginning
    # The weights of a checkpoint are not those of the model, or there is none, or nothing is to be chosen.
    run.replace_config(run.config.with_training(lora_rank=2, init_from="x"))
    named = f"Starts from {run.path}."
    assert started(book, base=str(run.path)).beginning == named
    shutil.rmtree(run.checkpoints_folder)
    assert started(book, base=str(run.path)).beginning == named
    complete = run.config.with_training(lora_rank=None, init_from=str(run.path))
    assert complete_settings(complete)[0].beginning == named
    other = str(runs_folder / "post_norm")
    assert started(book, base=other).beginning == f"Starts from {other}."


GREEDY = {"max_new_tokens": 8, "temperature": 0}


@pytest.fixture(scope="module")
def continuation(run_from_base) -> str:
    """What Keras writes, and the base does not."""
    with nothing_compiled():
        (text,) = minigpt.load(run_from_base).generate("Ana", **GREEDY)
    base = minigpt.load_portable(run_from_base.config.training.init_from)
    assert [text] != base.generate("Ana", **GREEDY)
    return text


def test_the_plan_and_the_doctor_of_a_run_that_began_from_a_base(run_from_base, tmp_path):
    plan = minigpt.plan(run_from_base.config).as_dict()
    assert plan["parameters"]["total"] == run_from_base.facts["parameters"]
    assert plan["init_from"] == run_from_base.config.training.init_from
    run = shutil.copytree(run_from_base.path, tmp_path / "run")
    (first, *_) = json.loads(called("doctor", run, "--json").stdout)["verdicts"]
    assert first["id"] == "too_short"
    assert f"train --resume {run} --set training.epochs=2`" in first["action"]
    before = read_lines(run / "metrics.jsonl")[0]
    assert before["step"] == 0 and read_history(Run(run)).val_loss_before == before["val_loss"]


def test_a_sweep_from_a_base(run_from_base, tmp_path, monkeypatch, without_xla, no_export):
    monkeypatch.setattr(sweep, "launch", lambda command, _: [called(*command).returncode])
    base, short = run_from_base.config.training.init_from, {"training.steps_per_epoch": [1]}
    values = {"training.seed": [1, 2], "training.epochs": [1], **short}
    text = run_from_base.config.data.paths
    runs = [
        minigpt.Run(run.path)
        for run in minigpt.sweep(values, None, output=tmp_path / "s", text=text, base=base)
    ]
    assert [run.config.training.init_from for run in runs] == [base, base]
    # What was chosen, and a relative path, are the settings with which the runs were started.
    monkeypatch.chdir(Path(base).parent)
    monkeypatch.setattr(sweep, "launch", None)
    for again in (None, "auto", Path(base).name):
        minigpt.sweep(values, None, output=tmp_path / "s", text=text, base=again)
    with pytest.raises(UserError, match="was started with base = "):
        minigpt.sweep(values, None, output=tmp_path / "s", text=text, base=runs[0].path)
    first = [read_lines(run.metrics_file)[0] for run in runs]
    # Both have read the same held-out text before they began.
    assert first[0]["step"] == 0 and first[0]["val_loss"] == first[1]["val_loss"]


@pytest.mark.parametrize("format", ["gguf", "html", "saved_model"])
def test_an_export_of_a_run_that_began_from_a_base(
    format, run_from_base, continuation, tmp_path, without_xla
):
    output = tmp_path / f"model.{format}"
    minigpt.export_run(run_from_base, format, output)
    if format == "saved_model":
        serve = tf.saved_model.load(str(output)).signatures["serving_default"]
        settings = {"max_new_tokens": 8, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "seed": 0}
        given = {name: tf.constant(value) for name, value in settings.items()}
        (text,) = serve(prompt=tf.constant(["Ana"]), **given)["text"].numpy()
        text = text.decode()
    else:
        (text,) = minigpt.load_portable(output).generate("Ana", **GREEDY)
    assert text == continuation
    if format == "html":
        assert '"base":"english.gguf"' in output.read_text("utf-8").replace('": "', '":"')


def test_a_server_of_a_run_that_began_from_a_base(run_from_base, continuation):
    with serving(run_from_base.path) as served:
        answer = served.complete(prompt="Ana", max_tokens=8, temperature=0)
    assert answer["choices"][0]["text"] == continuation
