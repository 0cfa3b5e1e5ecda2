"""Text that is not English: from training to the page."""

import random

import minigpt
from tests.cli.running import called
from tests.conftest import nothing_compiled

# Subject, object, verb; written for this test.
HINDI = (
    ["बिल्ली", "अध्यापक", "मेरा मित्र", "वह बच्चा", "पड़ोसी"],
    ["लाल छाता", "झील के पास घर", "पुरानी किताब", "कल का चाँद"],
    ["देखता है।", "भूल गया।", "बनाता है।", "चाहता है।"],
)


def test_from_training_to_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    text = "".join(" ".join(map(draw.choice, HINDI)) + "\n" for _ in range(300))
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    settings = ["model.max_len=16", "model.embed_dim=8", "model.num_heads=2", "model.num_layers=1"]
    settings += ["training.epochs=1", "training.steps_per_epoch=2", "training.batch_size=4"]
    options = [part for setting in settings for part in ("--set", setting)]
    with nothing_compiled():
        done = called("train", "--run", "run", "--text", "text.txt", *options)
    assert done.returncode == 0, done.stderr
    prompt = text.split("\n")[0]
    sampled = called("sample", "run", "--prompt", prompt, "--max-new-tokens", "8")
    assert sampled.stdout.startswith(prompt)
    exported = called("export", "run", "--format", "html", "--output", "page.html")
    assert "lines have the same tokens" in exported.stdout, exported
    page = minigpt.load_portable("page.html")
    tokenizer = page.tokenizer
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.count_unknown(text) == 0
    assert page.generate([prompt], 8, temperature=0) == minigpt.load("run").generate(
        [prompt], 8, temperature=0
    )
    # The browser finds out in which direction the text is read.
    assert '<div class="text" id="text" dir="auto">' in (tmp_path / "page.html").read_text()
