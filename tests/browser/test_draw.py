"""What a token is drawn from: bars and struck tokens."""

import re

import numpy as np
import pytest

from tests.browser.interface import write
from tests.targets.gguf.looking import softmax

pytestmark = pytest.mark.browser

ROWS = """() => Array.from(document.querySelectorAll("#alternatives .alternative:not(.rest)"), (row) => ({
  isCut: row.classList.contains("cut"),
  share: Number(row.querySelector(".bars").style.getPropertyValue("--drawn")),
  model: Number(row.querySelector(".bars").style.getPropertyValue("--share")),
}))"""
CHOOSE = "(index) => document.querySelectorAll('#text-tokens .token')[index].click()"


def look(tab, index: int) -> list[dict]:
    """Chooses a token. Returns the rows of its alternatives."""
    tab.evaluate(CHOOSE, index)
    tab.wait_for("() => document.querySelector('.draw')?.hidden === false")
    return tab.evaluate(ROWS)


def test_bars_show_what_was_drawn_from(open_page, gpt):
    """Temperature, then the five most probable tokens, then those of 80% together."""
    tab, model = open_page(gpt.page), gpt.portable()
    settings = {"temperature": 1.3, "top_k": 5, "top_p": 0.8}
    write(tab, "Ana sat", length=10, **settings)
    options = {"prompt": "Ana sat", "temperature": 1.3, "topK": 5, "topP": 0.8, "maxNewTokens": 10}
    tokens = tab.evaluate("async (options) => (await minigpt.generate(options)).tokens", options)
    label = "() => document.querySelectorAll('#text-tokens .token')[3].ariaLabel"
    rows = look(tab, 3)
    ids = [*gpt.built.tokenizer.encode("Ana sat").tolist(), *tokens[:3]]
    logits = model.logits([ids])[0, -1].astype("float64")
    logits[gpt.built.tokenizer.never_sampled_ids] = -np.inf
    kept = np.sort(softmax(logits / 1.3))[::-1][:5]
    kept /= kept.sum()
    kept = kept[np.cumsum(kept) - kept < 0.8]
    assert 1 < len(kept) <= 5
    shares = sorted((row["share"] for row in rows), reverse=True)
    assert shares[: len(kept)] == pytest.approx((kept / kept.sum()).tolist(), rel=1e-3)
    assert not any(shares[len(kept) :])
    assert [row["isCut"] for row in rows] == [row["share"] == 0 for row in rows]
    # The pale bars and the label are those of the model.
    probabilities = softmax(model.logits([ids])[0, -1].astype("float64"))
    best = np.sort(probabilities)[::-1][:10]
    shown = sorted((row["model"] for row in rows), reverse=True)[:10]
    assert shown == pytest.approx(best.tolist(), rel=1e-3)
    percent = re.search(r"([\d.]+)%$", tab.evaluate(label))
    assert float(percent[1]) / 100 == pytest.approx(probabilities[tokens[3]], rel=0.06)
