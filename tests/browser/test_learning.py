"""Learning in the page: the same weights as in Python, and a saved page that has them."""

import pytest

import minigpt
from minigpt.targets.html import file_page
from tests.browser.accessibility import violations
from tests.browser.interface import WRITTEN, learn, saved_page, set_value, wait_until_ready, write
from tests.cli.running import called
from tests.conftest import tiny_text

pytestmark = pytest.mark.browser

OPTIONS = {"steps": 6, "learningRate": 0.01, "batchSize": 2, "length": 9, "seed": 4}
ARGUMENTS = {"steps": 6, "learning_rate": 0.01, "batch_size": 2, "length": 9, "seed": 4}

# Saves the page with the button. Returns the name of the file.
SAVED_NAME = """() => new Promise((done) => {
  HTMLAnchorElement.prototype.click = function () { done(this.download); };
  document.getElementById("save-page").click();
})"""


def not_in_the_page(tab) -> list[str]:
    """The requests of other things than the page, its worker and its icon."""
    return [url for url in tab.requests[1:] if not url.startswith(("blob:", "data:"))]


@pytest.mark.both
def test_the_weights_are_those_of_python(tab, gpt, open_page, tmp_path):
    model, text = gpt.portable(), tiny_text(9)
    before = tab.generate("Ana", seed=1)
    losses, steps = tab.evaluate(
        """async (options) => {
          const steps = [];
          const { losses } = await minigpt.learn({ ...options, onStep: (step) => { steps.push(step); } });
          return [losses, steps];
        }""",
        {"text": text, **OPTIONS},
    )
    assert losses == model.learn(text, **ARGUMENTS)
    assert steps == [{"step": n, "loss": loss} for n, loss in enumerate(losses, 1)]
    after = tab.generate("Ana", seed=1)
    assert after != before
    settings = gpt.run.config.sampling.model_dump()
    names = ("max_new_tokens", "temperature", "top_k", "top_p", "min_p", "stop")
    settings = {name: settings[name] for name in names}
    assert [after["text"]] == model.generate("Ana", seed=1, **settings)
    # The saved page has them, and everything else that the page had.
    page = saved_page(tab, tmp_path / "saved.html")
    saved = minigpt.load_portable(page)
    assert saved.learned_steps == 6
    assert [after["text"]] == saved.generate("Ana", seed=1, **settings)
    again = open_page(page)
    again.evaluate("() => minigpt.ready")
    assert again.generate("Ana", seed=1) == after
    assert again.generate("Ana", snapshot=0) == tab.generate("Ana", snapshot=0)
    assert len(again.evaluate("() => minigpt.snapshots")) == 3
    assert again.messages == tab.messages == []
    assert not_in_the_page(again) == not_in_the_page(tab) == []
    model.save(tmp_path / "python.gguf")
    assert saved._engine.file() == (tmp_path / "python.gguf").read_bytes()
    options = ("--prompt", "Ana", "--seed", 1)
    assert called("sample", page, *options).stdout == f"Ana{after['text']}\n"
    # Saving a saved page changes nothing.
    assert saved_page(again, tmp_path / "twice.html").read_bytes() == page.read_bytes()


@pytest.mark.both
def test_a_text_is_learned_with_the_form(open_page, gpt, axe, tmp_path):
    tab = open_page(gpt.page)
    wait_until_ready(tab)
    before = write(tab, "Ana", seed=4)
    learn(tab, tiny_text(60), steps=40, learningRate=0.01, batchSize=2)
    progress = tab.text("#learn-progress")
    assert progress.startswith("Step 40 of 40: loss ")
    # The sample is what the form above writes now, up to the stop string.
    sample = tab.text("#learn-sample")
    after = write(tab, "Ana", seed=4)
    assert after != before and sample == after.split("hill")[0]
    note = tab.text("#learned-note")
    assert note.startswith("The model has learned since the export, by 40 steps.")
    assert violations(tab, axe) == []
    assert tab.messages == not_in_the_page(tab) == []
    # A saved page has learned, and does not ask to be saved.
    asks = "Save this page to keep the weights. "
    assert asks in note
    page = open_page(saved_page(tab, tmp_path / "saved.html"))
    wait_until_ready(page)
    assert page.text("#learned-note") == note.replace(asks, "")
    assert page.evaluate("() => document.getElementById('save-page').hidden")
    name = tab.evaluate(SAVED_NAME)
    assert name == "tiny-learned.html" and tab.text("#learned-note") == page.text("#learned-note")


def test_the_page_of_a_base(open_page, gpt, axe, tmp_path, monkeypatch):
    """A text is pasted first. The model then writes on from words of it, and the file has its weights."""
    base, model = gpt.page.with_suffix(".gguf"), gpt.portable()
    monkeypatch.setattr(file_page, "bases", lambda: {"english": base})
    file = tmp_path / "english.html"
    file_page.write_file_page(base, file)
    content = file.read_text(encoding="utf-8")
    file.write_text(content.replace('["Ana sat"]', '["", "Ana sat"]'), encoding="utf-8")
    tab = open_page(file)
    sections = (
        "() => Array.from(document.querySelectorAll('main > section:not([hidden])'), (s) => s.id)"
    )
    assert tab.evaluate(sections)[:2] == ["learning", "write"]
    wait_until_ready(tab)
    values = "() => ['prompt', 'temperature'].map((id) => document.getElementById(id).value)"
    assert tab.evaluate(values) == ["Ana sat", "0.7"]
    text = tiny_text(60).replace(". ", ".\n")
    text = f"{text}\nLeo and Mia went down to the river in the morning.\n{text}"
    learn(tab, text)
    tab.wait_for(
        f"() => ({WRITTEN})() && document.getElementById('text').textContent.startsWith('Leo')"
    )
    assert tab.evaluate(values) == ["Leo and Mia went down", "0.7"]
    assert violations(tab, axe) == []
    losses = model.learn(text)
    assert tab.text("#learn-progress").startswith(f"Step {len(losses)} of {len(losses)}: ")
    model.save(tmp_path / "python.gguf")
    page = saved_page(tab, tmp_path / "saved.html")
    assert minigpt.load_portable(page)._engine.file() == (tmp_path / "python.gguf").read_bytes()
    assert tab.messages == []


def test_the_page_of_a_run_that_began_from_a_base(open_page, run_from_base, tmp_path):
    """Its first state of training is the base, and it learns as any other page does."""
    page, base = tmp_path / "page.html", run_from_base.config.training.init_from
    minigpt.export_run(run_from_base, "html", page)
    tab = open_page(page)
    wait_until_ready(tab)
    (expected,) = minigpt.load_portable(base).generate("Ana", 8, temperature=0)
    first = tab.generate("Ana", snapshot=0, maxNewTokens=8, temperature=0)
    assert first["text"] == expected
    model, text = minigpt.load_portable(page), tiny_text(20)
    losses = model.learn(text, 3, learning_rate=0.01, batch_size=2)
    learn(tab, text, steps=3, learningRate=0.01, batchSize=2)
    assert tab.text("#learn-progress").startswith(f"Step 3 of 3: loss {losses[-1]:.3f} nats")
    model.save(tmp_path / "python.gguf")
    saved = minigpt.load_portable(saved_page(tab, tmp_path / "saved.html"))
    assert saved._engine.file() == (tmp_path / "python.gguf").read_bytes()
    assert tab.messages == not_in_the_page(tab) == []


def test_an_empty_text_and_a_short_one(tab):
    """No learning begins without a text, and a short one is called short before."""
    tab.open_parts()
    tab.evaluate("() => document.getElementById('learn-form').requestSubmit()")
    assert tab.text("#learn-status") == "Paste a text first."
    assert tab.evaluate("() => document.activeElement.id") == "learn-text"
    set_value(tab, "learn-text", "Please write like me.")
    assert tab.text("#learn-status") == "A short text: the model will repeat it."
    set_value(tab, "learn-text", "Please write like me. " * 100)
    assert tab.text("#learn-status") == tab.text("#alert") == ""


def test_learning_can_be_stopped(tab, gpt):
    tab.open_parts()
    set_value(tab, "learn-text", tiny_text(60))
    set_value(tab, "learn-steps", 10**6)
    tab.evaluate("() => document.getElementById('learn-start').focus()")
    tab.press("Enter")
    tab.wait_for("() => /^Step [2-9]/.test(document.getElementById('learn-progress').textContent)")
    # The focus is on the button that ends it.
    assert tab.evaluate("() => document.activeElement.id") == "learn-stop"
    tab.press("Enter")
    tab.wait_for("() => /^Done after/.test(document.getElementById('learn-status').textContent)")
    assert tab.evaluate("() => document.activeElement.id") == "learn-start"
    # A script stops it with its callback.
    options = {"text": tiny_text(9), "steps": 50, "length": 5}
    losses = tab.evaluate(
        """async (options) => {
          const onStep = ({ step }) => step < 3;
          return (await minigpt.learn({ ...options, onStep })).losses;
        }""",
        options,
    )
    assert 3 <= len(losses) < 50
    assert tab.generate("Ana")["tokens"]
