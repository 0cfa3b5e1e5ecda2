"""The model that is served: its tokenizer, its settings and the bounds of requests."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import minigpt
from minigpt.errors import ArgumentProblem, UserError
from minigpt.targets.gguf.settings import Settings, settings_of
from minigpt.targets.gguf.text_model import PortableTextModel


@dataclass(frozen=True)
class Bounds:
    """What requests may ask for.

    Attributes:
      prompt_tokens: tokens of a prompt.
      new_tokens: tokens that are generated for a text.
      body_bytes: bytes of a request.
    """

    prompt_tokens: int
    new_tokens: int
    body_bytes: int = 2**20


class ServedModel:
    """A portable file with its settings.

    Args:
      file: the portable file.
      name: what requests call it.
      sampling: sampling settings: name → value.
    Attributes:
      longest_piece: the maximum number of characters of a token; None if a token can stand for any text.
      created: when the file was written, in seconds since 1970.
      fingerprint: begins with the first digits of the file's SHA-256.
    Raises:
      UserError: the file cannot be opened, or is a translation model.
    """

    def __init__(self, file: Path, name: str, sampling: dict[str, Any]) -> None:
        model = minigpt.load_portable(file)
        if not isinstance(model, PortableTextModel):
            problem = "is a translation model; the server continues texts"
            raise UserError(ArgumentProblem("run", file, problem))
        self.file, self.name = file, name
        self.tokenizer = model.tokenizer
        self.max_len = model.max_len
        lengths = map(len, self.tokenizer.pieces)
        self.longest_piece = max(lengths) if self.tokenizer.unknown_id is None else None
        self.created = int(file.stat().st_mtime)
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        self.fingerprint = f"minigpt-{minigpt.__version__}-{digest[:12]}"
        used = {name: sampling[name] for name in asdict(Settings()) if name in sampling}
        self.settings = settings_of({**used, "beams": 1})
