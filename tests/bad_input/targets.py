"""Readers of untrusted input, as functions of bytes for hypothesis and atheris.

A target either succeeds or raises a `UserError` with one line per problem. Any other exception is a bug.
"""

import functools
import gzip
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from minigpt.cli.terminal import input_lines
from minigpt.config import Config, dump_config, load_config
from minigpt.corpus.documents import ingest
from minigpt.corpus.text_files import PairFiles, TextFiles
from minigpt.errors import UserError
from minigpt.generation.base_models import check_prompt
from minigpt.runs.run import Run
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.kinds import learn_tokenizer
from minigpt.training.start import config_for_text
from tests.settings import tokenizer_config

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "gpt2"
SOME_TEXT = "Ana sat on the hill, and ate 3 figs.\nBéla… Čeněk – \U0001f600!\n" * 30


@functools.cache
def scratch() -> Path:
    """A temporary folder of this process, in memory if possible."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))


@contextmanager
def one_clear_line() -> Iterator[None]:
    try:
        yield
    except UserError as error:
        assert error.problems and all(error.problems)
        for problem in error.problems:
            assert "\n" not in problem, problem


def config_file(data: bytes) -> None:
    """A configuration that is written and read again is unchanged."""
    file = scratch() / "config.toml"
    file.write_bytes(data)
    with one_clear_line():
        config = load_config(file)
        file.write_text(dump_config(config), encoding="utf-8")
        again = load_config(file)
        assert again == config.model_copy(update={"model": config.model.resolved()})


def override(data: bytes) -> None:
    with one_clear_line():
        assert isinstance(load_config(None, data.decode("utf-8", "replace").split("\n")), Config)


def text_file(data: bytes) -> None:
    """The first byte selects a separator and compression."""
    flags, data = (data[:1] or b"\0")[0], data[1:]
    file = scratch() / ("text.gz" if flags & 1 else "text.txt")
    file.write_bytes(gzip.compress(data, 1) if flags & 3 == 3 else data)
    files = TextFiles([file], "ab" if flags & 4 else None)
    with one_clear_line():
        documents = ingest(files.pieces(), scratch())
        assert sum(len(text.encode()) for text, _ in documents.pieces(7)) == documents.bytes
        assert len(files.fingerprint()) == 64
        if flags & 8:
            config_for_text([str(file)])
    with one_clear_line():
        input_lines(file)


def pair_file(data: bytes) -> None:
    file = scratch() / "pairs.tsv"
    file.write_bytes(data)
    with one_clear_line():
        documents = ingest(PairFiles([file]).pieces(), scratch())
        assert len(documents) % 2 == 0


@functools.cache
def tokenizer(kind: str) -> Tokenizer:
    if kind == "gpt2":
        encoder, merges = ((FIXTURES / name).read_bytes() for name in ("encoder.json", "vocab.bpe"))
        return GPT2Tokenizer.from_files(encoder, merges)
    return learn_tokenizer([SOME_TEXT], tokenizer_config(kind=kind, vocab_size=300))


def prompt(data: bytes) -> None:
    """A command-line argument: bytes that are not UTF-8 become lone surrogates."""
    text = data.decode("utf-8", "surrogateescape")
    with one_clear_line():
        check_prompt(text)
        for kind in ("byte_pair", "word"):
            ids = tokenizer(kind).encode(text)
            assert len(tokenizer(kind).continuation(ids, ids)) >= 0
            assert all(isinstance(tokenizer(kind).piece(i), str) for i in ids.tolist())


@functools.cache
def _run() -> Path:
    path = scratch() / "right-run"
    config = load_config({"data": {"source": "files", "paths": ["x.txt"]}})
    Run.create(path, config, tokenizer("byte_pair"), {"fingerprint": "0" * 64})
    return path


def run_folder(data: bytes) -> None:
    path = scratch() / "run"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(_run(), path)
    _damage(path, data)
    for use in (
        lambda run: run.config,
        lambda run: run.corpus,
        lambda run: run.load_tokenizer().encode("Ana sat."),
        lambda run: run.best_checkpoint(),
    ):
        with one_clear_line():
            use(Run(path))


def tokenizer_folder(data: bytes) -> None:
    """A damaged tokenizer folder; the first byte selects the kind."""
    kind = ("byte_pair", "gpt2", "character", "word")[data[0] % 4 if data else 0]
    right, path = scratch() / f"right-{kind}", scratch() / "tokenizer"
    if not right.exists():
        tokenizer(kind).save(right)
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(right, path)
    _damage(path, data[1:])
    with one_clear_line():
        Tokenizer.load(path).encode("Ana sat.")


def _damage(folder: Path, data: bytes) -> None:
    """Replaces, truncates, changes or removes one file of a folder, as selected by `data`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file_number, kind, *rest = data[:4].ljust(4, b"\0")
    file, new = files[file_number % len(files)], data[4:]
    content = file.read_bytes()
    position = int.from_bytes(bytes(rest), "big") % (len(content) + 1)
    if kind % 4 == 0:
        file.write_bytes(new)
    elif kind % 4 == 1:
        file.write_bytes(content[:position])
    elif kind % 4 == 2:
        file.write_bytes(content[:position] + new + content[position + len(new) :])
    else:
        file.unlink()


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        config_file,
        override,
        text_file,
        pair_file,
        prompt,
        run_folder,
        tokenizer_folder,
    )
}
