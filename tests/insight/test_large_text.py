"""The memory of a search in a gigabyte of text."""

import subprocess
import sys

import numpy as np
import pytest

from minigpt.tokenizers.character import CharacterTokenizer

pytestmark = pytest.mark.slow

GIGABYTE = 10**9
SEARCH = """
import resource, sys, time
from pathlib import Path

import numpy as np

from minigpt.insight.verbatim import TokenBytes, find_copies
from minigpt.tokenizers.base import Tokenizer

folder = Path(sys.argv[1])
# The pages of a mapped file do not count: the system takes them back.
resource.setrlimit(resource.RLIMIT_DATA, (10**9, 10**9))
token_bytes = TokenBytes(Tokenizer.load(folder))
ids = np.memmap(folder / "ids.bin", np.uint16, mode="r")
texts = [token_bytes.join(np.load(folder / f"{n}.npy")) for n in range(128)]
began = time.perf_counter()
copies = find_copies(token_bytes.blocks(ids), texts)
print(sum(map(any, copies)), time.perf_counter() - began)
"""


def test_two_gigabytes_of_ids_are_searched_within_one(tmp_path):
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
    print(done.stdout)
    assert done.stdout.split()[0] == "64"
