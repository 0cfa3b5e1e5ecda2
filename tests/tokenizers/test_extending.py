"""The example of docs/adding-a-tokenizer.md works to the end."""

from tests.extending import ExtendedPackage

PROBLEM = "tokenizer.kind = 'unigram': has no form in a portable file"
CODE = """
import keras, numpy as np
import minigpt
from minigpt.tokenizers import load_tokenizer
run = minigpt.Run("run")
tokenizer = run.load_tokenizer()
text = "Béla ate figs \u2581 \u732b."
assert tokenizer.kind == "unigram" and tokenizer.decode(tokenizer.encode(text)) == text
graph = tokenizer.graph().encode([text])
np.testing.assert_array_equal(graph[0], tokenizer.encode(text))
keras.models.load_model("model.keras")
print(minigpt.load("run").generate(["Ana"], 8, seed=1)[0])
"""


def test_a_new_tokenizer_trains_samples_and_is_exported(tmp_path):
    package = ExtendedPackage(tmp_path)
    (files,) = package.apply("adding-a-tokenizer.md")
    assert len(files) == 3
    out = package.train(["tokenizer.kind=unigram"])
    assert out.count(f"model.gguf will not be written: {PROBLEM}\n") == 1
    assert "unigram vocabulary of " in out
    assert len(list((tmp_path / "run" / "checkpoints").glob("*-epoch-1"))) == 1
    assert not (tmp_path / "run" / "model.gguf").exists()
    assert (tmp_path / "run" / "saved_model" / "saved_model.pb").is_file()
    package.run("export", "run", "--format", "keras", "--output", "model.keras")
    sampled = package.run(
        "sample", "run", "--prompt", "Ana", "--max-new-tokens", "8", "--seed", "1"
    )
    assert sampled.rstrip("\n").endswith(package.python("-c", CODE).rstrip("\n"))
