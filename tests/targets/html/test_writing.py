"""The page of a model as a file. What it does in a browser is tested in tests/browser."""

import base64
import hashlib
import itertools
import json
import logging
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import minigpt
from minigpt.errors import UserError
from minigpt.runs.run import Run
from tests.browser.runs import write_page, write_run
from tests.insight.report.report_runs import memorization_of
from tests.targets.gguf.models import GPT_SHAPES, build

HOSTILE = "</script><img src=x onerror=alert(1)><!-- ]]> \u202e\u2028\0"


class Page(HTMLParser):
    """The elements of a page.

    Attributes:
      names: the names of all elements.
      texts: (name, attributes, text) of the elements that contain raw text.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: list[str] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.policy = ""
        self.is_open = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        attributes = dict(attrs)
        self.is_open = tag in ("script", "style", "title")
        if self.is_open:
            self.texts.append((tag, attributes, ""))
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]

    def handle_endtag(self, tag):
        self.is_open = False

    def handle_data(self, data):
        if self.is_open:
            tag, attributes, text = self.texts[-1]
            self.texts[-1] = (tag, attributes, text + data)

    def files(self, kind: str) -> dict[str, bytes]:
        """Returns the files of a kind of element, joined from their parts."""
        files: dict[str, bytes] = {}
        for _, attributes, text in self.texts:
            if attributes.get("class") == kind:
                name = attributes["data-file"]
                assert len(text) <= 4 * 2**20
                files[name] = files.get(name, b"") + base64.b64decode(text, validate=True)
        return files

    @property
    def facts(self) -> dict:
        (text,) = [text for _, attributes, text in self.texts if attributes.get("id") == "facts"]
        return json.loads(text)


@pytest.fixture(scope="module")
def built():
    return build(GPT_SHAPES["modern"])


@pytest.fixture
def run(built, tmp_path):
    return write_run(tmp_path / "run", built, epochs=3, kept_epochs=3)


def test_the_files_of_the_page(run, tmp_path):
    page = Page(write_page(run))
    minigpt.export_run(run, "gguf", tmp_path / "model.gguf")
    first, second, _ = run.epoch_files()
    expected = {"main": tmp_path / "model.gguf", "1": first, "2": second}
    assert page.files("model") == {name: path.read_bytes() for name, path in expected.items()}
    engines = Path(minigpt.__file__).parent / "targets" / "gguf" / "engine"
    names = ["engine.wasm", "engine_without_simd.wasm"]
    assert page.files("engine") == {name: (engines / name).read_bytes() for name in names}
    # The best epoch is the model itself.
    epochs = page.facts["epochs"]
    assert [(e["epoch"], e["in_main"]) for e in epochs] == [(1, False), (2, False), (3, True)]


def test_memorization(run):
    measured = memorization_of(3)
    (run.path / "analysis.json").write_text(json.dumps({"memorization": {"best": measured}}))
    found = Page(write_page(run)).facts["memorization"]
    assert found["share"] == 0.031 and found["held_out_share"] == 0.0021
    assert found["longest"]["description"] == measured["longest"]["description"]
    assert found["samples"] == measured["samples"]


@pytest.mark.parametrize("content", ["", "[]", '{"memorization": 5}', '{"memorization": {}}'])
def test_without_memorization(run, content):
    (run.path / "analysis.json").write_text(content)
    assert Page(write_page(run)).facts["memorization"] is None


def test_large_files_are_in_parts(run, monkeypatch):
    monkeypatch.setattr("minigpt.pages.inlining._PART_CHARACTERS", 1000)
    path = write_page(run)
    assert path.read_text().count('data-file="main"') > 10
    assert Page(path).files("model")["1"] == run.epoch_files()[0].read_bytes()


def test_the_policy_allows_the_script_and_the_style_of_the_page_only(run):
    page = Page(write_page(run))
    rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))
    assert rules.pop("default-src") == "'none'"
    (script,) = [text for tag, attributes, text in page.texts if tag == "script" and not attributes]
    (style,) = [text for tag, _, text in page.texts if tag == "style"]
    assert rules.pop("script-src") == f"{digest(script)} 'wasm-unsafe-eval'"
    assert rules.pop("style-src") == digest(style)
    assert rules == {
        "worker-src": "blob:",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_hostile_texts_stay_texts(built, tmp_path):
    honest = Page(write_page(write_run(tmp_path / "honest", built)))
    name = HOSTILE.replace("/", "").replace("\0", "")
    run = write_run(tmp_path / name, built, prompts=[HOSTILE], text=HOSTILE, command=HOSTILE)
    minigpt.export_run(run, "html", tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    assert page.names == honest.names
    facts = page.facts
    assert facts["title"] == name and facts["command"] == HOSTILE
    assert facts["samples"][0]["prompt"] == facts["sampling"]["prompts"][0] == HOSTILE
    # Markup is text there; characters that change the direction are escaped.
    assert ("title", {}, name.replace("\u202e", "\\u202e")) in page.texts


@pytest.mark.parametrize(
    "line",
    [
        '{"epoch": [1]}',
        '{"epoch": 2, "step": "a", "val_loss": "b", "val_bits_per_byte": [1], "text": 5}',
        '{"epoch": 2, "val_loss": NaN, "text": null, "prompt": {}}',
        "[]",
    ],
)
def test_damaged_records(run, line):
    for file in (run.metrics_file, run.samples_file):
        with file.open("a") as lines:
            lines.write(line + "\n")
    facts = Page(write_page(run)).facts
    for value in numbers_of(facts["metrics"]):
        assert value is None or isinstance(value, int | float)
    assert all(isinstance(sample["text"], str) for sample in facts["samples"])
    assert len(facts["samples"]) == 3


def numbers_of(metrics: list[dict]) -> Iterator[object]:
    for record in metrics:
        yield from record.values()


def test_epochs_that_cannot_be_used(built, run, tmp_path, caplog):
    other = write_run(
        tmp_path / "other", build(GPT_SHAPES["modern"], max_len=20), epochs=3, kept_epochs=3
    )
    first, second, _ = run.epoch_files()
    first.write_bytes(other.epoch_files()[0].read_bytes())
    second.write_bytes(second.read_bytes()[:-100])
    with caplog.at_level(logging.WARNING, "minigpt"):
        page = Page(write_page(run))
    assert len(caplog.messages) == 2
    assert all("the page is without this epoch" in message for message in caplog.messages)
    assert str(first) in caplog.text and str(second) in caplog.text
    # One epoch alone has nothing to be compared with.
    assert page.facts["epochs"] == [] and page.files("model").keys() == {"main"}


def test_of_many_epochs_some_are_in_the_page(built, tmp_path):
    run = write_run(tmp_path / "run", built, epochs=30, kept_epochs=30)
    epochs = [epoch["epoch"] for epoch in Page(write_page(run)).facts["epochs"]]
    assert len(epochs) == 12 and epochs[0] == 1 and epochs[-1] == 30
    assert all(2 <= b - a <= 3 for a, b in itertools.pairwise(epochs))


def test_a_run_without_records(run):
    for file in (run.metrics_file, run.samples_file, run.facts_file):
        file.unlink()
    facts = Page(write_page(run)).facts
    # Without the best epoch's loss, its number is not known.
    assert facts["metrics"] == facts["samples"] == []
    assert facts["command"] is None and facts["baselines"] is None and facts["val_loss"] is None
    assert facts["parameters"] > 1000


def test_the_size_of_a_page_with_five_epochs(tmp_path):
    """2.2 million parameters: under 30 MB, and under 18 MB in int8."""
    shape = {**GPT_SHAPES["modern"], "embed_dim": 192, "num_heads": 6, "num_kv_heads": 6}
    built = build({**shape, "head_dim": 32, "num_layers": 5}, max_len=128)
    assert 2.1e6 < sum(weight.size for weight in built.weights) < 2.4e6
    run = write_run(tmp_path / "run", built, epochs=5, kept_epochs=5)
    assert write_page(run).stat().st_size < 30e6
    assert write_page(run, "int8").stat().st_size < 18e6


def test_the_output_exists(run, tmp_path):
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(UserError, match="exists; should be a new file"):
        minigpt.export_run(run, "html", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "mine"


def test_nothing_is_left_of_an_export_that_fails(run, tmp_path):
    for path in run.checkpoints_folder.iterdir():
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    with pytest.raises(UserError, match="has no checkpoint"):
        minigpt.export_run(run, "html", tmp_path / "new" / "page.html")
    assert not (tmp_path / "new").exists()


def test_an_imported_run(built, tmp_path):
    """It has a model and no records."""
    run = Run.create(tmp_path / "run", built.config, built.tokenizer, None, built.model)
    facts = Page(write_page(run)).facts
    assert facts["parameters"] == built.model.count_params()
    assert facts["epoch"] is None and facts["metrics"] == []
