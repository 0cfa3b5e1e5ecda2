"""The text of the page: what TensorFlow wrote with the same model, and what the other engines write."""

import pytest

from tests.browser.runs import write_page, write_run
from tests.targets.gguf.golden import built_of, golden, name_of

pytestmark = pytest.mark.browser


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


@pytest.mark.both
@pytest.mark.parametrize("case", golden("texts"), ids=name_of)
def test_texts(case, open_page, tmp_path):
    run = write_run(tmp_path / "run", built_of(case), sampling=case["sampling"])
    tab = open_page(write_page(run))
    for wanted in case["samples"]:
        options = {camel(name): value for name, value in wanted["settings"].items()}
        found = tab.generate(wanted["prompt"], **options)
        assert (found["text"], found["tokens"]) == (wanted["text"], wanted["tokens"]), wanted


@pytest.mark.parametrize("case", golden("translations"), ids=name_of)
def test_translations(case, open_page, tmp_path):
    tab = open_page(write_page(write_run(tmp_path / "run", built_of(case))))
    for wanted in case["samples"]:
        found = tab.generate(wanted["source"], maxNewTokens=wanted["max_new_tokens"])
        assert found["text"] == wanted["text"], wanted["source"]


def test_a_page_without_simd(gpt, open_page, tmp_path):
    """The other engine writes the same. A browser without SIMD refuses the first one's bytes."""
    content = gpt.page.read_text(encoding="utf-8")
    start = content.index('data-file="engine.wasm"')
    start = content.index(">", start) + 1
    # The version of the format, which follows the four bytes of the magic number.
    broken = content[:start] + content[start:].replace("AGFzbQE", "AGFzbf8", 1)
    assert broken != content
    page = tmp_path / "without-simd.html"
    page.write_text(broken, encoding="utf-8")
    tab, usual = open_page(page), open_page(gpt.page)
    options = {"maxNewTokens": 200, "seed": 3}
    assert tab.generate("Ana", **options) == usual.generate("Ana", **options)
