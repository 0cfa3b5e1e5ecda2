"""`window.minigpt`, in both browsers; docs/model-page.md describes it."""

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.both
def test_it_exists_at_the_load_event(open_page, gpt):
    tab = open_page(gpt.page)
    assert tab.evaluate("() => Object.keys(minigpt).sort()") == [
        "chat",
        "generate",
        "info",
        "learn",
        "learningDates",
        "occurrences",
        "ready",
        "saveUrl",
        "snapshots",
    ]
    assert tab.evaluate("() => minigpt.ready.then((value) => value === undefined)")
    info = tab.evaluate("() => minigpt.info")
    assert info["title"] == "tiny"
    assert info["kind"] == "gpt"
    assert info["weights"] == "float32"
    assert info["parameters"] == sum(weight.size for weight in gpt.built.weights)
    assert info["tokenizer"]["vocab_size"] == gpt.built.tokenizer.vocab_size
    assert info["model"]["max_len"] == gpt.built.config.model.max_len
    assert info["sampling"]["seed"] == 5
    assert (info["epoch"], info["step"]) == (3, 60)
    snapshots = tab.evaluate("() => minigpt.snapshots")
    assert [snapshot["step"] for snapshot in snapshots] == [20, 40, 60]


def test_options_that_are_left_out_have_the_values_of_the_run(tab, gpt):
    found = tab.generate("Ana sat")
    options = gpt.run.config.sampling.model_dump()
    names = ("max_new_tokens", "temperature", "top_k", "top_p", "min_p", "stop", "seed")
    (expected,) = gpt.portable().samples("Ana sat", **{name: options[name] for name in names})
    assert found["text"] == expected.text
    assert found["tokens"] == expected.tokens
    assert found == tab.generate("Ana sat", temperature=0.9, seed=5, maxNewTokens=30)
    assert found["text"] != tab.generate("Ana sat", seed=6)["text"]
    # No prompt at all is the empty one.
    empty = tab.evaluate("async () => [await minigpt.generate(), await minigpt.generate({})]")
    options = {"max_new_tokens": 30, "temperature": 0.9, "top_k": 0, "seed": 5, "stop": ["hill"]}
    assert empty[0] == empty[1]
    assert [empty[0]["text"]] == gpt.portable().generate("", **options)


def test_options_that_cannot_be_used(tab, gpt):
    name_and_message = """async (options) => {
      try { await minigpt.generate(options); return "no error"; }
      catch (error) { return `${error.name} ${error.message}`; }
    }"""
    cases = [
        ({"temperature": -1}, "RangeError temperature: -1: "),
        ({"maxNewTokens": 1.5}, "RangeError maxNewTokens: 1.5: "),
        ({"topP": 0}, "RangeError topP: 0: "),
        ({"seed": 2**40}, "RangeError seed: 1099511627776: "),
        ({"temperature": "warm"}, "TypeError temperature: "),
        ({"prompt": 3}, "TypeError prompt: "),
        ({"onText": "log"}, "TypeError onText: "),
        ({"constructor": 3}, "TypeError constructor: unknown option"),
    ]
    for options, message in cases:
        assert tab.evaluate(name_and_message, options).startswith(message), options
    for value in ("NaN", "Infinity", "-Infinity"):
        options = f"() => ({name_and_message})({{ temperature: {value} }})"
        assert tab.evaluate(options).startswith(f"RangeError temperature: {value}: ")
    # A page that had errors still writes.
    assert tab.generate("Ana")["tokens"]


def test_several_calls_at_once(tab):
    alone = [tab.generate("Béla", seed=seed, maxNewTokens=60 * seed)["text"] for seed in range(4)]
    together = tab.evaluate(
        """async () => Promise.all([0, 1, 2, 3].map(async (seed) => {
          const { text } = await minigpt.generate({ prompt: "Béla", seed, maxNewTokens: 60 * seed });
          return text;
        }))"""
    )
    assert together == alone


def test_an_error_in_a_callback_does_not_stop_the_page(tab):
    tab.evaluate(
        """async () => {
          const onText = () => { throw new Error("of the caller"); };
          await Promise.race([
            minigpt.generate({ prompt: "Ana", onText }).catch(() => {}),
            new Promise((resolve) => setTimeout(resolve, 3000)),
          ]);
        }"""
    )
    assert tab.generate("Ana")["tokens"]


def test_what_a_page_writes_to_the_console_is_seen(tab):
    tab.generate("Ana sat on the hill")
    assert tab.messages == []
    tab.evaluate("() => { console.log('a message'); setTimeout(() => { throw new Error('x'); }); }")
    tab.evaluate("() => new Promise((resolve) => setTimeout(resolve, 200))")
    assert len(tab.messages) == 2
