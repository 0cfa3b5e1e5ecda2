"""`minigpt import`, and the other commands with an imported run."""

import json
import subprocess
import sys

import minigpt as package
from tests.cli.running import called, minigpt
from tests.export.test_saved_model import FRESH, NEW, PROMPTS
from tests.huggingface.folders import expected, huggingface_folder


def test_import_sample_evaluate_export(tmp_path, without_xla):
    huggingface_folder("narrow", tmp_path / "folder")
    done = minigpt("import", "folder", "--run", "runs/gpt2", cwd=tmp_path)
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
    assert done.returncode == 2 and "name a text to evaluate on" in done.stderr

    done = called("export", "runs/gpt2", "--output", "served", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "fresh.py").write_text(FRESH)
    out = subprocess.run(
        [sys.executable, "fresh.py", "served", json.dumps(PROMPTS)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    opened = package.load(tmp_path / "runs" / "gpt2")
    assert json.loads(out) == opened.generate(PROMPTS, NEW, top_k=1)
    done = called("export", "runs/gpt2", "--format=huggingface", "--output=back", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "back").iterdir()} == {
        "certificate.json",
        "config.json",
        "generation_config.json",
        "merges.txt",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.json",
    }
