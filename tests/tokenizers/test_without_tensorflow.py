"""Tokenizers in Python import no TensorFlow."""

import subprocess
import sys
from pathlib import Path

import minigpt.tokenizers

PACKAGE = Path(minigpt.tokenizers.__file__).parent
MODULES = sorted(
    f"minigpt.tokenizers.{path.stem}" for path in PACKAGE.glob("*.py") if path.stem != "__init__"
)
GPT2_FILES = Path(__file__).resolve().parents[1] / "fixtures" / "gpt2"

IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [loaded for loaded in sys.modules if loaded.startswith("minigpt")]:
        del sys.modules[loaded]
    importlib.import_module(name)
    assert not {"tensorflow", "keras"} & sys.modules.keys(), name
"""

USE_EACH_KIND = """
import sys
from pathlib import Path
from minigpt.config import load_config
from minigpt.tokenizers import learn_tokenizer, load_tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer

folder, gpt2 = map(Path, sys.argv[1:])
text = "The KING's \\u039f\\u0394\\u039f\\u03a3 \\u6771\\u4eac, \\U0001f600 1,234."
tokenizers = [GPT2Tokenizer.from_files(*((gpt2 / n).read_bytes() for n in ("encoder.json", "vocab.bpe")))]
for kind in ("word", "character", "byte_pair"):
    for lowercase in (False, True):
        settings = {"kind": kind, "vocab_size": 300, "lowercase": lowercase}
        config = load_config({"tokenizer": settings}).tokenizer
        tokenizers.append(learn_tokenizer([text], config))
for number, tokenizer in enumerate(tokenizers):
    tokenizer.save(folder / str(number))
    opened = load_tokenizer(folder / str(number))
    ids = opened.encode(text)
    assert opened.decode(ids) and not opened.count_unknown(text)
    assert opened.continuation(ids[:3], ids[3:]) and opened.piece(int(ids[0]))
    opened.fingerprint()
    assert not {"tensorflow", "keras"} & sys.modules.keys(), tokenizer.kind
"""


def run_fresh(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_importing():
    assert len(MODULES) > 8
    run_fresh(IMPORT_EACH, "minigpt.tokenizers", *MODULES)


def test_learning_saving_encoding_and_decoding(tmp_path):
    run_fresh(USE_EACH_KIND, str(tmp_path), str(GPT2_FILES))
