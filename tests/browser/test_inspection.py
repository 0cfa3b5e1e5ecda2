"""Look inside, as the page's scripts read it from the engine.

tests/targets/gguf/test_inspection.py tests the engine itself.
"""

import re

import numpy as np
import pytest

from tests.browser.interface import look_at, write
from tests.browser.scripts import open_model
from tests.targets.gguf.looking import look_inside, look_inside_pairs, softmax
from tests.targets.gguf.models import GPT_SHAPES, PAIR_SHAPES, build

pytestmark = pytest.mark.browser

TOLERANCE = 2e-5
INSPECT = """(request) => {
  const inside = model.inspect(request);
  const lens = inside.lens.map(({ probability, ids, probabilities }) =>
    ({ probability, ids: Array.from(ids), probabilities: Array.from(probabilities) }));
  const [attention, cross] = [inside.attention, inside.cross ?? []].map((values) => Array.from(values));
  return { ...inside, lens, attention, cross };
}"""


def check(found, expected, chosen):
    """Compares what the page reads with what the layers of the Keras model say."""
    shape = (found["layers"], found["heads"], len(found["context"]))
    attention = np.reshape(found["attention"], shape)
    np.testing.assert_allclose(attention, expected.attention, rtol=0, atol=TOLERANCE)
    for choice, probabilities in zip(found["lens"], expected.lens, strict=True):
        assert choice["probability"] == pytest.approx(probabilities[chosen], abs=TOLERANCE)
        wanted = probabilities[choice["ids"]]
        np.testing.assert_allclose(choice["probabilities"], wanted, rtol=0, atol=TOLERANCE)
        assert wanted[0] == pytest.approx(probabilities.max(), abs=TOLERANCE)


def test_a_gpt(browser, tmp_path):
    built = build(GPT_SHAPES["modern"])
    tab = open_model(browser, built.write(tmp_path / "model.gguf"))
    prompt = built.tokenizer.encode("Béla sat").tolist()
    # At the end of the prompt, further on, and where the context no longer holds the whole text.
    for tokens in ([], [40, 41, 42], list(range(50, 80))):
        ids = np.array([*prompt, *tokens][-24:], "int32")
        found = tab.evaluate(INSPECT, {"prompt": "Béla sat", "tokens": tokens, "chosen": 60})
        assert [token["id"] for token in found["context"]] == ids.tolist()
        check(found, look_inside(built.model, ids), 60)
    # Without a prompt, the model has read the end token.
    found = tab.evaluate(INSPECT, {"prompt": "", "tokens": [], "chosen": 60})
    assert [token["label"] for token in found["context"]] == ["<end>"]
    check(found, look_inside(built.model, np.array([built.tokenizer.end_id], "int32")), 60)
    tab.close()


def test_an_encoder_decoder(browser, tmp_path):
    built = build({"kind": "encoder_decoder", **PAIR_SHAPES["pre_norm"]}, spread=0.4)
    tab = open_model(browser, built.write(tmp_path / "model.gguf"))
    end = built.tokenizer.end_id
    source = np.array([*built.tokenizer.encode("Ana sat"), end], "int32")
    tokens, cross = [40, 41, 42, 43], []
    for count in range(4):
        ids = np.array([built.tokenizer.start_id, *tokens[:count]], "int32")
        request = {"prompt": " Ana sat\n", "tokens": tokens[:count], "chosen": tokens[count]}
        found = tab.evaluate(INSPECT, request)
        expected = look_inside_pairs(built.model, ids, source)
        check(found, expected, tokens[count])
        assert [token["id"] for token in found["source"]] == source.tolist()
        shape = (found["layers"], found["heads"], len(source))
        np.testing.assert_allclose(
            np.reshape(found["cross"], shape), expected.cross, atol=TOLERANCE
        )
        cross.append(expected.cross.mean(axis=(0, 1)))
    weights = tab.evaluate(
        "(tokens) => Array.from(model.align({ source: 'Ana sat', tokens }).weights)", tokens
    )
    np.testing.assert_allclose(np.reshape(weights, (4, -1)), cross, atol=TOLERANCE)
    assert tab.evaluate("() => model.align({ source: '', tokens: [] }).weights.length") == 0
    tab.close()


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


def test_heads_are_named_by_the_token_with_most_attention(open_page, gpt):
    tab, tokenizer = open_page(gpt.page), gpt.built.tokenizer
    write(tab, "Ana sat", length=12)
    look_at(tab, 3)
    options = {"prompt": "Ana sat", "maxNewTokens": 12}
    tokens = tab.evaluate("async (options) => (await minigpt.generate(options)).tokens", options)
    ids = np.array([*tokenizer.encode("Ana sat"), *tokens[:3]], "int32")
    attention = look_inside(gpt.built.model, ids).attention
    names = tab.evaluate(
        """() => Array.from(document.querySelectorAll(".part-button"), (button) =>
          [button.ariaLabel.replace(/;.*/, ""), button.title.replace(/;.*/, "")])"""
    )
    layers, heads = attention.shape[:2]
    assert len(names) == layers * (heads + 1)
    for number, (name, title) in enumerate(names):
        layer, head = divmod(number, heads + 1)
        # The first one is the layer as a whole.
        head -= 1
        if head < 0:
            continue
        weights = attention[layer, head]
        assert name == title
        assert name.startswith(f"Layer {layer + 1}, head {head + 1}: most attention to “")
        assert percent(name) == pytest.approx(weights.max(), rel=0.06)
        word = tokenizer.decode([ids[weights.argmax()]]).strip()
        assert not word.isalnum() or f"“{word}”" in name


def percent(text: str) -> float:
    """Returns the probability at the end of a text such as "sat, 4.0%"."""
    found = re.search(r"([\d.]+)%$", text)
    assert found is not None, text
    return float(found[1]) / 100
