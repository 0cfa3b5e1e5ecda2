"""The memory of a search in a gigabyte of text."""

import subprocess
import sys

import numpy as np
import pytest

from minigpt.tokenizers.character import CharacterTokenizer

pytestmark = pytest.mark.slow

GIGABYTE = 10**9
SEARCH = """
import re, sys, time
from pathlib import Path

import numpy as np

from minigpt.insight.verbatim import Text
from minigpt.insight.verbatim import TokenBytes, TokenText
from minigpt.insight.verbatim import find_copies
from minigpt.tokenizers import load_tokenizer

folder = Path(sys.argv[1])
token_bytes = TokenBytes(load_tokenizer(folder))
ids = np.memmap(folder / "ids.bin", np.uint16, mode="r")
texts = [Text(token_bytes.join(np.load(folder / f"{n}.npy"))) for n in range(128)]
began = time.perf_counter()
copies = find_copies(TokenText(ids, token_bytes, targets_only=False), texts, token_bytes)
print(sum(map(bool, copies.spans)), time.perf_counter() - began)
# ru_maxrss would include the process that started this one.
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def test_a_gigabyte_is_searched_within_two_gigabytes(tmp_path):
    tokenizer = CharacterTokenizer([*"abcdefghijklmnopqrstuvwxyz "], b"", lowercase=False)
    tokenizer.save(tmp_path)
    draw = np.random.default_rng(0)
    words = ["".join(draw.choice([*"etaoinshrdlu"], draw.integers(1, 12))) for _ in range(5000)]
    with (tmp_path / "ids.bin").open("wb") as file:
        file.write(np.array([tokenizer.end_id], np.uint16).tobytes())
        written = 0
        while written < GIGABYTE:
            # Frequencies fall as those of words do.
            numbers = np.minimum(draw.zipf(1.2, 1_000_000), len(words)) - 1
            ids = tokenizer.encode(" ".join([words[number] for number in numbers]))
            file.write(np.append(ids, tokenizer.end_id).astype(np.uint16).tobytes())
            written += len(ids)
    # Half of the texts are passages of the training text.
    ids = np.memmap(tmp_path / "ids.bin", np.uint16, mode="r")
    for number in range(128):
        begin = number * (len(ids) // 128)
        text = np.array(ids[begin : begin + 1000])
        if number % 2:
            text = tokenizer.encode(" ".join(draw.choice(words, 150)))
        np.save(tmp_path / f"{number}.npy", text)
    command = [sys.executable, "-c", SEARCH, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found, peak = done.stdout.splitlines()
    print(f"{found}; {int(peak) / 1024:.0f} MB")
    assert int(found.split()[0]) == 64
    assert 1024 * int(peak) < 2 * GIGABYTE
