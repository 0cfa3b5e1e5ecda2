"""The script that makes the base model: its texts, and a run from texts to the portable file."""

import io
import json
import random
import sys
import tarfile
from pathlib import Path

import minigpt
from tests.tiny import tiny_text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import make_base


def test_makes_a_base_from_folders(tmp_path, monkeypatch):
    works, documentation = tmp_path / "works", tmp_path / "documentation"
    works.mkdir()
    documentation.mkdir()
    (works / "carroll-alice.txt").write_text(tiny_text(), encoding="utf-8")
    (works / "hope-zenda.txt").write_text("A held-out sentence.\n" * 200, encoding="utf-8")
    page = b"Title\n=====\n\nCall :func:`save` to write the file, "
    page += b"and read ``the manual`` before you do so.\n"
    with tarfile.open(documentation / "package-1.tar.gz", "w:gz") as archive:
        for name in ("package-1/docs/save.rst", "package-1/docs/changes.rst", "package-1/setup.py"):
            member = tarfile.TarInfo(name)
            member.size = len(page)
            archive.addfile(member, io.BytesIO(page))
    output = tmp_path / "base.gguf"
    sizes = ["model.embed_dim=16", "model.num_layers=1", "model.max_len=32", "training.epochs=1"]
    sizes += ["training.steps_per_epoch=2", "tokenizer.vocab_size=300"]
    given = [works, documentation, "--folder", tmp_path / "build", "--output", output]
    options = [text for setting in sizes for text in ("--set", setting)]
    monkeypatch.setattr(sys, "argv", ["make_base.py", *map(str, given), *options])
    make_base.main()
    texts = [
        json.loads(line)["text"]
        for line in (tmp_path / "build/train.jsonl").read_text("utf-8").splitlines()
    ]
    assert not any("held-out" in text.lower() for text in texts)
    sentence = "Call save to write the file, and read the manual before you do so."
    assert [" ".join(t.split()) for t in texts if "write the file" in t] == [sentence]
    assert minigpt.load_portable(output).tokenizer.vocab_size == 300


def test_writes_a_text_as_people_do():
    rng = random.Random(0)
    texts = [make_base.written(['"Oh," he said--"it is Tom\'s."', "Yes."], rng) for _ in range(200)]
    assert '"Oh," he said--"it is Tom\'s."\n\nYes.' in texts
    assert "“Oh,” he said—“it is Tom’s.”\nYes." in texts
