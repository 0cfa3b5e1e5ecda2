"""The prompt as the model reads it, and what has left the context."""

import re

import numpy as np
import pytest

from tests.browser.interface import write
from tests.targets.gguf.looking import softmax

pytestmark = pytest.mark.browser

PROMPT_TOKENS = """() => Array.from(document.querySelectorAll("#prompt-tokens .token"), (token) => ({
  name: token.ariaLabel, level: Number(/ p([0-4])/.exec(token.className)[1]) }))"""
LEFT = """() => ["prompt", "text"].map((name) =>
  document.querySelectorAll(`#${name}-tokens .token.left`).length)"""
NOTE = "() => document.getElementById('context-note')"


def test_the_tokens_of_the_prompt_have_probabilities(open_page, gpt):
    """From the second one on: the model has read nothing before the first."""
    tab, model = open_page(gpt.page), gpt.portable()
    prompt = "Béla sat on the hill"
    write(tab, prompt, length=2)
    tab.wait_for(f"() => ({PROMPT_TOKENS})().length > 2")
    tokens = tab.evaluate(PROMPT_TOKENS)
    ids = gpt.built.tokenizer.encode(prompt).tolist()
    assert len(tokens) == len(ids)
    assert tokens[0]["name"].endswith(", unknown") and tokens[0]["level"] == 0
    probabilities = softmax(model.logits([ids])[0].astype("float64"))
    for at, token in enumerate(tokens[1:], 1):
        expected = probabilities[at - 1, ids[at]]
        shown = float(re.search(r"([\d.]+)%$", token["name"])[1]) / 100
        assert shown == pytest.approx(expected, rel=0.06)
        limits = [0.5, 0.2, 0.05, 0.01]
        assert token["level"] == sum(expected < limit for limit in limits)
    tab.evaluate("() => document.querySelectorAll('#prompt-tokens .token')[2].click()")
    assert tab.text("#panel-heading") == "Token 3 of the prompt"
    note = tab.text("#alternatives .note")
    bits = -np.log2(probabilities[1, ids[2]])
    assert f"surprises it by {bits:.1f} bits" in note
    # It was not drawn, and nothing continues from it.
    assert not tab.evaluate("() => document.getElementById('look-inside').checkVisibility()")
    assert tab.evaluate("() => document.querySelector('button.alternative')") is None


def test_what_has_left_the_context_is_marked(open_page, gpt):
    tab, context = open_page(gpt.page), gpt.built.config.model.max_len
    write(tab, "Ana sat", length=context - 8, temperature=0)
    tab.wait_for(f"() => ({PROMPT_TOKENS})().length > 1")
    assert not tab.evaluate(f"() => ({NOTE})().checkVisibility()")
    assert tab.evaluate(LEFT) == [0, 0]
    write(tab, "Ana sat", length=context + 10)
    count = len(gpt.built.tokenizer.encode("Ana sat"))
    tab.wait_for(f"() => ({NOTE})().checkVisibility()")
    written = tab.evaluate("() => document.querySelectorAll('#text-tokens .token').length")
    assert written == context + 10
    assert tab.evaluate(LEFT) == [count, 10]
    note = tab.evaluate(f"() => ({NOTE})().textContent")
    assert note.startswith(
        f"The model sees {context} tokens. The first {count + 10} tokens of this text"
    )
