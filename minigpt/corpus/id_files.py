"""Files of token ids: nanoGPT's train.bin and val.bin, and .npy files of NumPy (docs/token-ids.md)."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from minigpt.config import GivenConfig, IdsConfig, ListedConfig, TokenizerConfig
from minigpt.corpus.token_ids import PartSizes, ids_dtype, write_first_id
from minigpt.errors import UserError, gathering
from minigpt.storage.files import sha256_of
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.listed import ListedTokenizer

SUFFIXES = (".bin", ".npy")
META_FILE = "meta.pkl"
_BLOCK_IDS = 4_000_000
# Training ends and validation begins at an end token, if there is one among so many ids.
_SEARCHED_IDS = 4_000_000


@dataclass(frozen=True)
class Ids:
    """Token ids of one side of the split.

    Attributes:
      files: the files in order.
      arrays: integers[n], memory-mapped, what belongs to the side of each file.
    """

    files: list[Path]
    arrays: list[np.ndarray]

    def __len__(self) -> int:
        return sum(map(len, self.arrays))

    def blocks(self) -> Iterator[tuple[Path, int, np.ndarray]]:
        """Yields the ids in blocks, each with its file and its position in the file."""
        for path, array in zip(self.files, self.arrays, strict=True):
            for start in range(0, len(array), _BLOCK_IDS):
                yield path, start, np.asarray(array[start : start + _BLOCK_IDS])


class IdFiles:
    """The files of token ids that `data.paths` names.

    Args:
      paths: files, and folders of them.

    Attributes:
      problems: a line for each file that cannot be used.
      train: the ids of the files for training.
      val: those of the files for validation, whose names begin with "val".
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.problems: list[str] = []
        self.train, self.val = Ids([], []), Ids([], [])
        for path in map(Path, paths):
            found = [path]
            if path.is_dir():
                found = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES)
                if not found:
                    self.problems.append(f"{path}: contains no {' or '.join(SUFFIXES)} files")
            for file in found:
                with gathering(self.problems):
                    side = self.val if file.name.startswith("val") else self.train
                    side.arrays.append(_open(file))
                    side.files.append(file)
        if not self.train.files and not self.problems:
            self.problems.append(
                f"{', '.join(paths)}: all are for validation; none is for training"
            )

    @property
    def tokens(self) -> int:
        """The number of all ids."""
        return len(self.train) + len(self.val)

    def fingerprint(self) -> str:
        """Returns the SHA-256 of the content of the files."""
        sides = [[sha256_of(path) for path in side.files] for side in (self.train, self.val)]
        return hashlib.sha256(repr(sides).encode()).hexdigest()

    def check_ids(self, tokenizer: Tokenizer) -> list[str]:
        """Returns a line for each file with ids that are outside the vocabulary."""
        size = len(tokenizer.names) if isinstance(tokenizer, ListedTokenizer) else None
        size = size or tokenizer.vocab_size
        problems: dict[Path, str] = {}
        for side in (self.train, self.val):
            for path, start, ids in side.blocks():
                if path not in problems and (ids.min() < 0 or ids.max() >= size):
                    place = int(np.argmax((ids < 0) | (ids >= size)))
                    problems[path] = (
                        f"{path}: the id {ids[place]:,} at position {start + place:,}: should be from 0 to "
                        f"{size - 1:,}, the last id of the tokenizer ({tokenizer.kind})"
                    )
        return list(problems.values())

    def split(self, val_fraction: float, end_id: int) -> tuple[Ids, Ids]:
        """Returns the ids for training and for validation.

        Without files for validation, the end of the ids is held out, from the last end token on that is
        before `val_fraction` of them.

        Raises:
          UserError: there are too few ids.
        """
        if self.val.files:
            return self.train, self.val
        cut = round(len(self.train) * (1 - val_fraction))
        sides: tuple[Ids, Ids] = (Ids([], []), Ids([], []))
        for path, array in zip(self.train.files, self.train.arrays, strict=True):
            here = min(max(cut, 0), len(array))
            if 0 < here < len(array):
                first = max(0, here - _SEARCHED_IDS)
                ends = np.flatnonzero(array[first:here] == end_id)
                here = first + int(ends[-1]) + 1 if ends.size else here
            for side, part in zip(sides, (array[:here], array[here:]), strict=True):
                if len(part):
                    side.files.append(path)
                    side.arrays.append(part)
            cut -= len(array)
        if not all(map(len, sides)):
            raise UserError(
                f"data.val_fraction = {val_fraction}: {self.tokens:,} ids are too few to hold any out"
            )
        return sides


def _open(path: Path) -> np.ndarray:
    """Maps the ids of a file into memory; a `UserError` if it holds none."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path}: should be a {' or '.join(SUFFIXES)} file of token ids")
    if not path.is_file():
        raise UserError(f"{path}: does not exist, or is no file")
    try:
        if path.suffix == ".npy":
            ids = np.load(path, mmap_mode="r", allow_pickle=False)
        elif size := path.stat().st_size:
            if size % 2:
                raise ValueError(f"has {size:,} bytes; should have two for each id")
            ids = np.memmap(path, "<u2", mode="r")
        else:
            ids = np.zeros(0, np.uint16)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}") from None
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise UserError(f"{path}: holds {ids.dtype}{list(ids.shape)}; should hold integers[n]")
    if not len(ids):
        raise UserError(f"{path}: holds no ids")
    return ids


def tokenizer_of_ids(data: IdsConfig, config: TokenizerConfig) -> TokenizerConfig:
    """Returns the settings of the tokenizer of some ids: those of the user, or nanoGPT's meta.pkl.

    Raises:
      UserError: there is no meta.pkl, or the tokenizer would be learned from text.
    """
    kinds = "'gpt2', 'sentencepiece', 'huggingface', 'listed' or 'run'"
    if "kind" in config.model_fields_set:
        if isinstance(config, GivenConfig) or config.kind == "gpt2":
            return config
        raise UserError(
            f"tokenizer.kind = {config.kind!r}: is learned from text; should be {kinds} for "
            "data.source = 'ids'"
        )
    folders = [path if path.is_dir() else path.parent for path in map(Path, data.paths)]
    meta = next((f / META_FILE for f in folders if (f / META_FILE).is_file()), None)
    if meta is None:
        raise UserError(
            f"{', '.join(data.paths)}: has no {META_FILE}, which names the ids; without it, "
            f"tokenizer.kind should be {kinds}"
        )
    return ListedConfig(kind="listed", path=str(meta))


def write_given_ids(
    file: IO[bytes], ids: Ids, tokenizer: Tokenizer
) -> tuple[PartSizes, np.ndarray]:
    """Writes given ids as a part; the result is that of `token_ids.write_ids`."""
    write_first_id(file, tokenizer)
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    for _, _, block in ids.blocks():
        counts += np.bincount(block, minlength=len(counts))
        file.write(block.astype(ids_dtype(tokenizer)).tobytes())
    sizes = np.array([len(piece) for piece in tokenizer.pieces])
    texts = counts[sizes > 0].sum()
    unknown = 0 if tokenizer.unknown_id is None else int(counts[tokenizer.unknown_id])
    # One separator less for each document.
    documents = max(1, int(counts[tokenizer.end_id]))
    size = int(counts @ sizes) + len(tokenizer.separator) * max(0, int(texts) - documents)
    return PartSizes(int(counts.sum()), documents, size, unknown), counts
