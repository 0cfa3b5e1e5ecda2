"""The page of a model as a file. What it does in a browser is tested in tests/browser."""

import base64
import bz2
import gzip
import hashlib
import json
import logging
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest

import minigpt
from minigpt.corpus.token_ids import encode_texts
from minigpt.errors import UserError
from minigpt.runs.records import append_lines
from minigpt.runs.run import open_run_corpus
from minigpt.storage.files import bundled
from minigpt.targets.gguf.run_file import write_run_file
from minigpt.targets.html import model_page
from minigpt.targets.html.file_page import write_file_page
from tests.browser.runs import write_page, write_run
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
    files = page.files("model")
    assert list(files) == ["main", "0", "1"]
    assert files["main"] == (tmp_path / "model.gguf").read_bytes()
    engines = Path(minigpt.__file__).parent / "targets" / "gguf" / "engine"
    names = ["engine.wasm", "engine_without_simd.wasm"]
    assert page.files("engine") == {name: (engines / name).read_bytes() for name in names}
    # The best epoch is the model itself.
    assert [snapshot["step"] for snapshot in page.facts["snapshots"]] == [20, 40, 60]


def test_the_states_of_training_are_rounded_to_15_levels(run, tmp_path):
    packed = Page(write_page(run)).files("model")["0"]
    path = tmp_path / "state.gguf"
    path.write_bytes(gzip.decompress(packed))
    assert minigpt.load_portable(path).training["step"] == 20
    pairs = zip(*(gguf.GGUFReader(p).tensors for p in (run.snapshots()[20], path)), strict=True)
    rounded = 0
    for tensor, found in pairs:
        whole, state = np.array(tensor.data), np.array(found.data)
        if tensor.tensor_type.name != "Q8_0":
            np.testing.assert_array_equal(whole, state)
            continue
        rounded += 1
        blocks, found_blocks = (array.reshape(-1, 34).view(np.int8) for array in (whole, state))
        np.testing.assert_array_equal(blocks[:, :2], found_blocks[:, :2])
        assert np.unique(found_blocks[:, 2:]).tolist() == list(range(-126, 127, 18))
        assert np.abs(blocks[:, 2:].astype(int) - found_blocks[:, 2:]).max() <= 9
    assert rounded > 4


def test_seconds_and_losses_of_the_states(run):
    lines = [
        {"epoch": 1, "step": step, "batches": step, "mean_loss": 4.0, "seconds": step / 2}
        for step in (1, 19, 30, 50)
    ]
    append_lines(run.steps_file, lines)
    facts = Page(write_page(run)).facts
    assert [snapshot["seconds"] for snapshot in facts["snapshots"]] == [9.5, 15.0, 25.0]
    assert facts["curve"] == [{"step": step, "loss": 4.0} for step in (1, 19, 30, 50)]


def test_snapshots_after_the_model_are_left_out(built, run):
    file = run.snapshots_folder / "step-00000100.gguf"
    write_run_file(run, file, "int8", built.weights, {"step": 100})
    facts = Page(write_page(run)).facts
    assert [snapshot["step"] for snapshot in facts["snapshots"]] == [20, 40, 60]


def test_the_training_text(tiny_run, tmp_path, monkeypatch):
    page, plain = tmp_path / "page.html", tmp_path / "plain.html"
    minigpt.export_run(tiny_run, "html", page, with_text=True)
    text = bz2.decompress(Page(page).files("training-text")["text"]).decode()
    corpus = open_run_corpus(tiny_run)
    assert Page(page).facts["training_text_bytes"] == len(text.encode())
    documents = text.split(model_page.END_OF_DOCUMENT)
    assert len(documents) == corpus.train.documents
    assert sum(len(document.encode()) for document in documents) == corpus.train.bytes
    ids = corpus.train.ids.tolist()
    # The end of the only document is held out.
    assert encode_texts(documents, corpus.tokenizer).ids.tolist()[: len(ids)] == ids
    minigpt.export_run(tiny_run, "html", plain)
    assert Page(plain).facts["training_text_bytes"] is None
    assert not Page(plain).files("training-text")
    with pytest.raises(UserError, match="format = 'gguf': cannot contain the training text"):
        minigpt.export_run(tiny_run, "gguf", tmp_path / "model.gguf", with_text=True)
    monkeypatch.setattr(model_page, "_MOST_TEXT", 100)
    with pytest.raises(UserError, match=r"its training text has .* a page holds at most 100"):
        minigpt.export_run(tiny_run, "html", tmp_path / "large.html", with_text=True)
    assert not (tmp_path / "large.html").exists()


def test_large_files_are_in_parts(run, monkeypatch):
    monkeypatch.setattr("minigpt.pages.inlining._PART_CHARACTERS", 1000)
    path = write_page(run)
    assert path.read_text().count('data-file="main"') > 10
    assert gzip.decompress(Page(path).files("model")["0"])[:4] == b"GGUF"


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
    run = write_run(tmp_path / name, built, prompts=[HOSTILE], text=HOSTILE, description=HOSTILE)
    minigpt.export_run(run, "html", tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    assert page.names == honest.names
    facts = page.facts
    assert facts["title"] == name and facts["text"]["description"] == HOSTILE
    assert facts["samples"][0]["prompt"] == facts["sampling"]["prompts"][0] == HOSTILE
    # Markup is text there; characters that change the direction are escaped.
    assert ("title", {}, name.replace("\u202e", "\\u202e")) in page.texts


DAMAGED = """
{"epoch": [1]}
{"epoch": 2, "step": "a", "val_loss": "b", "val_bits_per_byte": [1], "text": 5}
{"epoch": 2, "val_loss": NaN, "text": null, "prompt": {}}
[]
"""


def test_damaged_records(run):
    for file in (run.metrics_file, run.samples_file):
        with file.open("a") as lines:
            lines.write(DAMAGED.lstrip())
    facts = Page(write_page(run)).facts
    values = [value for record in facts["metrics"] for value in record.values()]
    assert all(value is None or isinstance(value, int | float) for value in values)
    assert all(isinstance(sample["text"], str) for sample in facts["samples"])
    assert len(facts["samples"]) == 3


def test_snapshots_that_cannot_be_used(built, run, tmp_path, caplog):
    other = write_run(
        tmp_path / "other", build(GPT_SHAPES["modern"], max_len=20), epochs=3, kept_epochs=3
    )
    first, second, _ = run.snapshots().values()
    first.write_bytes(other.snapshots()[20].read_bytes())
    second.write_bytes(second.read_bytes()[:-100])
    with caplog.at_level(logging.WARNING, "minigpt"):
        page = Page(write_page(run))
    assert len(caplog.messages) == 2
    assert all(
        "the page is without this state of training" in message for message in caplog.messages
    )
    assert str(first) in caplog.text and str(second) in caplog.text
    assert [snapshot["step"] for snapshot in page.facts["snapshots"]] == [60]
    assert page.files("model").keys() == {"main"}


def test_all_states_take_four_times_the_model_in_int8(built, tmp_path):
    run = write_run(tmp_path / "run", built, epochs=30, kept_epochs=30)
    page = Page(write_page(run))
    minigpt.export_run(run, "gguf", tmp_path / "model.gguf", weights="int8")
    states = [data for name, data in page.files("model").items() if name != "main"]
    assert 3 <= sum(map(len, states)) / (tmp_path / "model.gguf").stat().st_size <= 4
    steps = [snapshot["step"] for snapshot in page.facts["snapshots"]]
    assert len(states) == len(steps) - 1 < 29
    assert (steps[0], steps[-2], steps[-1]) == (20, 580, 600)


def test_a_run_without_records(run):
    for file in (run.metrics_file, run.samples_file, run.facts_file):
        file.unlink()
    facts = Page(write_page(run)).facts
    # Without the best epoch's loss, its number is not known.
    assert facts["metrics"] == facts["samples"] == []
    assert facts["baselines"] is None and facts["val_loss"] is None
    assert facts["parameters"] > 1000


def test_the_training_text_of_dialogues(monkeypatch):
    """Each message is apart from the others, whatever its role."""
    tokenizer = build(GPT_SHAPES["modern"], chat=True).tokenizer
    texts = ["Ana?", "Ana sat.", "Where?", "On the hill."]
    turns = [{"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(texts)]
    dialogues = [[{"role": "system", "content": "Be Ana."}, *turns], turns[:2]]
    parts = [[*ids, tokenizer.end_id] for ids in tokenizer.encode_dialogues(dialogues)]
    part = SimpleNamespace(ids=np.concatenate(parts), bytes=0)
    corpus = SimpleNamespace(train=part, tokenizer=tokenizer)
    monkeypatch.setattr(model_page, "open_run_corpus", lambda run: corpus)
    text = model_page.training_text(SimpleNamespace())
    assert text.split(model_page.END_OF_DOCUMENT) == ["Be Ana.", *texts, *texts[:2]]


def test_what_is_known_of_dialogues(tmp_path):
    """Baselines that were measured on whole dialogues are not those of their answers."""
    built = build(GPT_SHAPES["modern"], chat=True)
    run = write_run(tmp_path / "chat", built, prompts=["Where is Ana?"])
    analysis = {
        "baselines": {"ngram_bits_per_byte": 0.4, "ppmd_bits_per_byte": 0.6, "unigram": 3.4}
    }
    (run.path / "analysis.json").write_text(json.dumps(analysis))
    facts = Page(write_page(run)).facts
    assert facts["chat"] is True
    assert facts["baselines"] == {"uniform": 5.7, "unigram": 4.9}
    assert facts["samples"][0]["prompt"] == "Where is Ana?"
    plain = Page(write_page(write_run(tmp_path / "plain", build(GPT_SHAPES["modern"])))).facts
    assert plain["chat"] is False


def test_the_base_and_its_page_are_small(tmp_path):
    base = bundled("data/base") / "english.gguf"
    write_file_page(base, tmp_path / "english.html")
    assert base.stat().st_size <= 6_000_000
    assert (tmp_path / "english.html").stat().st_size <= 12_000_000
