"""The model that is served: its tokenizer, its settings, its page, and the limits of requests."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import minigpt
from minigpt.config.sampling import TextSettings
from minigpt.errors import ArgumentProblem, UserError
from minigpt.serving.bodies import MOST_TEXTS, RequestError, Texts, problem
from minigpt.storage.files import sha256_of
from minigpt.targets.gguf.text_model import PortableTextModel
from minigpt.targets.html.file_page import write_file_page


class ServedModel:
    """A portable file with its settings, which the engine has, and the limits of requests.

    Attributes:
      longest_piece: the maximum number of characters of a token; None if a token can stand for any text.
      created: when the file was written, in seconds since 1970.
      fingerprint: begins with the first digits of the file's SHA-256.
    Raises:
      UserError: the file cannot be opened, or is a translation model.
    """

    def __init__(
        self,
        file: Path,
        name: str,
        sampling: TextSettings,
        most_prompt_tokens: int,
        most_new_tokens: int,
    ) -> None:
        model = minigpt.load_portable(file)
        if not isinstance(model, PortableTextModel):
            message = "is a translation model; the server continues texts"
            raise UserError(ArgumentProblem("run", file, message))
        self.name = name
        self.most_prompt_tokens, self.most_new_tokens = most_prompt_tokens, most_new_tokens
        self.tokenizer = model.tokenizer
        self.max_len = model.max_len
        lengths = map(len, self.tokenizer.pieces)
        self.longest_piece = max(lengths) if self.tokenizer.unknown_id is None else None
        self.created = int(file.stat().st_mtime)
        self.fingerprint = f"minigpt-{minigpt.__version__}-{sha256_of(file)[:12]}"
        self.settings = sampling


async def token_ids(model: ServedModel, texts: Texts, field: str, most: int) -> list[list[int]]:
    """Returns the token ids of each text of a field.

    Raises:
      RequestError: there are too many texts, one has more than `most` tokens, or one has a token that is
        outside the vocabulary.
    """
    is_one = isinstance(texts, str) or (texts and isinstance(texts[0], int))
    listed: Any = [texts] if is_one else texts
    if not 1 <= len(listed) <= MOST_TEXTS:
        message = f"{field}: has {len(listed)} texts; should have from 1 to {MOST_TEXTS}"
        raise RequestError(400, message, field)
    found = []
    for text in listed:
        ids = await _encoded(model, text, field, most) if isinstance(text, str) else text
        if len(ids) > most:
            raise _too_long(field, most)
        for token in ids:
            if not 0 <= token < model.tokenizer.vocab_size:
                message = f"should be a token from 0 to {model.tokenizer.vocab_size - 1}"
                raise problem(field, token, message)
        found.append(ids)
    return found


async def _encoded(model: ServedModel, text: str, field: str, most: int) -> list[int]:
    # A text that is much too long is not encoded.
    if model.longest_piece is not None and len(text) > most * model.longest_piece:
        raise _too_long(field, most)
    # Long texts take a while. Others are answered meanwhile.
    encode = model.tokenizer.encode
    ids = encode(text) if len(text) < 1000 else await asyncio.to_thread(encode, text)
    return ids.tolist()


def _too_long(field: str, most: int) -> RequestError:
    message = f"{field}: should have at most {most} tokens"
    return RequestError(400, message, field, "context_length_exceeded")


class ServedPage:
    """The page of a portable file or of its run, written into a folder when it is first asked for."""

    def __init__(self, file: Path, run: Path | None, folder: Path) -> None:
        self._file, self._run, self._folder = file, run, folder
        self._lock = threading.Lock()

    def written(self) -> Path:
        """Returns the file with the page.

        Raises:
          UserError, OSError: the run or the portable file is not there any more.
        """
        page = self._folder / "page" / "page.html"
        with self._lock:
            if not page.exists():
                page.parent.mkdir(exist_ok=True)
                unfinished = self._folder / "page.unfinished"
                if self._run is None:
                    write_file_page(self._file, unfinished)
                else:
                    # Importing this takes as long as starting the server.
                    from minigpt.targets.html.model_page import write_page

                    write_page(minigpt.Run(self._run), unfinished)
                unfinished.rename(page)
        return page
