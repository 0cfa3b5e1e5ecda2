"""Look inside, as the page's scripts read it from the engine.

tests/targets/gguf/test_inspection.py tests the engine itself.
"""

import re

import numpy as np
import pytest

from tests.browser.interface import look_at, write
from tests.targets.gguf.looking import softmax

pytestmark = pytest.mark.browser


def test_the_page_shows_the_probabilities_of_the_model(open_page, gpt):
    """Of every token, and its alternatives; temperature and limits do not change them."""
    tab, model = open_page(gpt.page), gpt.portable()
    write(tab, "Ana sat", temperature=1.5, top_k=3, length=12)
    options = {"prompt": "Ana sat", "temperature": 1.5, "topK": 3, "maxNewTokens": 12}
    tokens = tab.evaluate("async (options) => (await minigpt.generate(options)).tokens", options)
    labels = tab.evaluate(
        "() => Array.from(document.querySelectorAll('#text-tokens .token'), (t) => t.ariaLabel)"
    )
    assert len(labels) == len(tokens)
    ids = gpt.built.tokenizer.encode("Ana sat").tolist()
    for index, (label, token) in enumerate(zip(labels, tokens, strict=True)):
        probabilities = softmax(
            model.logits([[*ids, *tokens[:index]][-24:]])[0, -1].astype("float64")
        )
        assert percent(label) == pytest.approx(probabilities[token], rel=0.06)
        look_at(tab, index)
        shown = tab.evaluate(
            """() => {
              const rows = document.querySelectorAll("#alternatives .alternative:not(.rest)");
              return Array.from(rows, (row) => row.querySelector(".number").textContent).slice(0, 10);
            }"""
        )
        best = np.sort(probabilities)[::-1][:10]
        assert [percent(text) for text in shown] == pytest.approx(best.tolist(), rel=0.06)


def percent(text: str) -> float:
    """Returns the probability at the end of a text such as "sat, 4.0%"."""
    found = re.search(r"([\d.]+)%$", text)
    assert found is not None, text
    return float(found[1]) / 100
