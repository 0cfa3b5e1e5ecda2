"""`minigpt import`, and the other commands with an imported run."""

import json

import minigpt as package
from minigpt.tokenizers.gpt2 import PATTERNS
from tests.cli.running import called
from tests.targets.huggingface.folders import described_tokenizer, expected, huggingface_folder


def test_import_sample_evaluate_export(tmp_path, without_xla):
    huggingface_folder("narrow", tmp_path / "folder")
    done = called("import", "folder", "--run", "runs/gpt2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "reading folder\n"
    assert done.stdout.startswith("Wrote runs/gpt2. Sample from it with: ")

    right = expected("narrow")
    greedy = ("--prompt", right["prompt"], "--top-k", 1, "--max-new-tokens", 50, "--json")
    done = called("sample", "runs/gpt2", *greedy, cwd=tmp_path)
    # Once: an imported run has no portable file yet.
    assert done.stderr.startswith("Wrote runs/gpt2/model.gguf") and done.stderr.count("\n") == 1
    assert json.loads(done.stdout)["tokens"] == right["greedy"].tolist()

    (tmp_path / "text.txt").write_text("It was a dark and stormy night.")
    done = called("evaluate", "runs/gpt2", "--text", "text.txt", cwd=tmp_path)
    assert "bits per byte, over" in done.stdout and done.stderr == ""
    done = called("evaluate", "runs/gpt2", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("minigpt: RUN runs/gpt2: ")

    done = called("export", "runs/gpt2", "--format=huggingface", "--output=back", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "back" / "model.safetensors").is_file()


def test_a_tokenizer_that_the_engine_does_not_have(tmp_path, without_xla):
    """Sampling goes on with TensorFlow; a portable file is refused in one line."""
    described = described_tokenizer()
    split = {"type": "Split", "pattern": {"Regex": PATTERNS["qwen2"]}, "behavior": "Isolated"}
    byte_level = described["pre_tokenizer"] | {"use_regex": False}
    described["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, byte_level]}
    described["normalizer"] = {"type": "NFC"}
    folder = huggingface_folder("qwen3/grouped", tmp_path / "folder")
    (folder / "tokenizer.json").write_text(json.dumps(described))
    done = called("import", "folder", "--run", "qwen3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    problem = "the tokenizer splits text as Qwen3 does: has no form in a portable file"
    greedy = ("--prompt", "One", "--temperature", 0, "--max-new-tokens", 5)
    done = called("sample", "qwen3", *greedy, "--verbose", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [f"Running on TensorFlow: {problem}."]
    opened = package.load(tmp_path / "qwen3")
    assert done.stdout == "One" + opened.generate("One", 5, temperature=0)[0] + "\n"
    for arguments in (
        ("export", "qwen3", "--format=gguf", "--output=x.gguf"),
        ("export", "qwen3", "--format=html", "--output=x.html"),
        ("serve", "qwen3", "--port", 0),
    ):
        done = called(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert problem in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "qwen3"]
