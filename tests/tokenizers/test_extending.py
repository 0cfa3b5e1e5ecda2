"""The example of docs/adding-a-tokenizer.md works to the end."""

import pytest

from tests.extending import ExtendedPackage

CODE = """
import keras, numpy as np

problem = "tokenizer.kind = 'unigram': has no form in a portable file"
out = train("tokenizer.kind=unigram")
assert out.count(f"model.gguf will not be written: {problem}\\n") == 1, out
assert "unigram vocabulary of " in out, out
run = minigpt.Run("run")
assert len(list(run.checkpoints_folder.glob("*-epoch-1"))) == 1
assert not run.portable_file.exists()
assert (run.saved_model_folder / "saved_model.pb").is_file()

tokenizer = run.load_tokenizer()
text = "Béla ate figs \u2581 \u732b."
assert tokenizer.kind == "unigram" and tokenizer.decode(tokenizer.encode(text)) == text
from minigpt.tokenizers.graph import graph_of
graph = graph_of(tokenizer)
np.testing.assert_array_equal(graph.encode([text])[0], tokenizer.encode(text))

command("export", "run", "--format", "keras", "--output", "model.keras")
keras.models.load_model("model.keras")
sampled = command("sample", "run", "--prompt", "Ana", "--max-new-tokens", "8", "--seed", "1")
expected = minigpt.load("run").generate(["Ana"], 8, seed=1)[0]
assert sampled.rstrip("\\n").endswith(expected.rstrip("\\n")), (sampled, expected)
"""


@pytest.mark.slow
def test_a_new_tokenizer_trains_samples_and_is_exported(tmp_path):
    package = ExtendedPackage(tmp_path)
    (files,) = package.apply("adding-a-tokenizer.md")
    assert len(files) == 3
    package.python(CODE)
