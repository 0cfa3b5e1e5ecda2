"""Files of token ids: nanoGPT's train.bin and val.bin, and .npy files of NumPy (docs/token-ids.md)."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from minigpt.config import GivenConfig, IdsConfig, TokenizerConfig
from minigpt.corpus.token_ids import Ids, Part, blocks, temporary_part
from minigpt.errors import UserError, gathering
from minigpt.storage.files import sha256_of
from minigpt.tokenizers.base import Tokenizer

SUFFIXES = (".bin", ".npy")
META_FILE = "meta.pkl"


class IdFiles:
    """The files of token ids that `data.paths` names, and those of its folders.

    Args:
      paths: files and folders.
      has_train: whether some files should be for training.
    Attributes:
      problems: a line for each file that cannot be used.
      train, val: path → integers[n], memory-mapped. Names of files for validation begin with "val".
    """

    def __init__(self, paths: Sequence[str], has_train: bool = True) -> None:
        self.problems: list[str] = []
        self.train: dict[Path, np.ndarray] = {}
        self.val: dict[Path, np.ndarray] = {}
        for path in map(Path, paths):
            for file in sorted(p for p in path.glob("*") if p.suffix in SUFFIXES) or [path]:
                with gathering(self.problems):
                    (self.val if file.name.startswith("val") else self.train)[file] = _open(file)
        if has_train and not self.problems and not self.train:
            self.problems.append(f"{', '.join(paths)}: has no ids for training")

    def fingerprint(self) -> str:
        """Returns a hash of the content of the files."""
        described = [[sha256_of(path) for path in side] for side in (self.train, self.val)]
        return hashlib.sha256(repr(described).encode()).hexdigest()

    def check_ids(self, tokenizer: Tokenizer) -> list[str]:
        """Returns a line for each file with ids that are negative, or outside the vocabulary."""
        # Tokens that a list of names does not have are not given.
        size = len(getattr(tokenizer, "names", tokenizer.pieces))
        problems = []
        for path, array in (self.train | self.val).items():
            found = [int(i) for ids in blocks([array]) for i in (ids.min(), ids.max())]
            if min(found) < 0 or max(found) >= size:
                problem = f"has ids from {min(found):,} to {max(found):,}"
                problems.append(f"{path}: {problem}; should be from 0 to {size - 1:,}")
        return problems

    def split(self, val_fraction: float, tokenizer: Tokenizer) -> tuple[Ids, Ids]:
        """Returns the ids for training and validation: without files for it, the last ids."""
        if problems := self.check_ids(tokenizer):
            raise UserError(*problems)
        train, sizes = [*self.train.values()], [len(ids) for ids in self.train.values()]
        if self.val:
            return train, [*self.val.values()]
        left = round(sum(sizes) * (1 - val_fraction))
        if not 0 < left < sum(sizes):
            raise UserError(f"data.val_fraction = {val_fraction}: {sum(sizes)} ids are too few")
        cuts = np.clip(left - np.cumsum([0, *sizes[:-1]]), 0, sizes).tolist()
        cut = list(zip(train, cuts, strict=True))
        return [ids[:end] for ids, end in cut], [ids[end:] for ids, end in cut]


def _open(path: Path) -> np.ndarray:
    """Maps the ids of a file into memory; a `UserError` if it holds none."""
    try:
        is_npy = path.suffix == ".npy"
        ids = open_memmap(path, mode="r") if is_npy else np.memmap(path, "<u2", mode="r")
        if (
            path.suffix not in SUFFIXES
            or ids.ndim != 1
            or ids.dtype.kind not in "iu"
            or not len(ids)
        ):
            raise ValueError("not one row of integers in a file of the kind .bin or .npy")
    except (OSError, ValueError, EOFError) as error:
        problem = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: should contain token ids: {problem}") from None
    return ids


def tokenizer_of_ids(data: IdsConfig, config: TokenizerConfig) -> TokenizerConfig:
    """Returns the settings of the tokenizer of some ids: those of the user, or nanoGPT's meta.pkl.

    Raises:
      UserError: there is no meta.pkl, or the tokenizer would be learned from text.
    """
    if isinstance(config, GivenConfig) or config.kind == "gpt2":
        return config
    for path in map(Path, data.paths):
        meta = (path if path.is_dir() else path.parent) / META_FILE
        if meta.is_file() and "kind" not in config.model_fields_set:
            return GivenConfig(kind="listed", path=str(meta))
    kinds = "'gpt2', 'sentencepiece', 'huggingface', 'listed' or 'run'"
    problem = f"tokenizer.kind = {config.kind!r}: should be {kinds} if there is no {META_FILE}"
    raise UserError(f"{', '.join(data.paths)}: {problem}")


def read_ids(paths: Sequence[str], tokenizer: Tokenizer) -> Part:
    """Returns the ids of files as one part, in an unnamed temporary file.

    Raises:
      UserError: with the problems of all files, one line each.
    """
    files = IdFiles(paths, has_train=False)
    if problems := files.problems + files.check_ids(tokenizer):
        raise UserError(*problems)
    return temporary_part([*files.train.values(), *files.val.values()], tokenizer)
