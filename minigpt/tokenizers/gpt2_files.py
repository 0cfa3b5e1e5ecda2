"""GPT-2's two published files, `encoder.json` and `vocab.bpe`: reading, checking and writing."""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from minigpt.errors import UserError
from minigpt.tokenizers.byte_pair import merged

END_TOKEN = "<|endoftext|>"
ENCODER_FILE, MERGES_FILE = "encoder.json", "vocab.bpe"
# A vocabulary from an untrusted source must not exhaust memory: every id up to the largest needs some.
MAX_IDS = 2**24
_ENCODER = TypeAdapter(dict[str, Annotated[int, Field(ge=0, lt=MAX_IDS)]])


@functools.cache
def byte_alphabet() -> dict[str, int]:
    """Returns the byte of each of the 256 characters that represent bytes in the published files.

    A printable byte is represented by itself. The others are represented, in order, by the characters from
    U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + number): byte for number, byte in enumerate(others)
    }


def token_bytes(token: str) -> bytes:
    """Returns the bytes that a token of the published files represents.

    Raises:
      KeyError: a character is not in the byte alphabet.
    """
    alphabet = byte_alphabet()
    return bytes(alphabet[character] for character in token)


def added_bytes(content: str) -> bytes:
    """Returns the bytes that an added token decodes to.

    The tokenizers package reads a token in the byte alphabet as bytes, even if it was added as text.
    """
    return token_bytes(content) if set(content) <= byte_alphabet().keys() else content.encode()


def read_encoder(data: bytes, name: str) -> dict[str, int]:
    """Reads encoder.json: token → id.

    Args:
      data: the content of the file.
      name: its name, for messages.
    Raises:
      UserError: the file is damaged.
    """
    try:
        encoder = _ENCODER.validate_json(data, strict=True)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise UserError(f"{name}: should be a JSON object, token to id: {problem}") from None
    if len(set(encoder.values())) < len(encoder):
        raise UserError(f"{name}: two tokens have the same id")
    return encoder


def read_merges(data: bytes, name: str) -> list[tuple[str, str]]:
    """Reads vocab.bpe: the merges in their order.

    Args:
      data: the content of the file.
      name: its name, for messages.
    Raises:
      UserError: the file is damaged.
    """
    try:
        lines = data.decode().replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: {error}") from None
    merges = []
    for number, line in enumerate(lines, 1):
        if line and not (number == 1 and line.startswith("#version")):
            pair = line.split(" ")
            if len(pair) != 2 or not all(pair):
                raise UserError(f"{name}: line {number}: {line[:60]!r}: should be two tokens")
            merges.append((pair[0], pair[1]))
    return merges


def encoder_file(encoder: Mapping[str, int]) -> bytes:
    """Returns the content of encoder.json."""
    return json.dumps(encoder).encode("ascii")


def merges_file(merges: Sequence[tuple[str, str]]) -> bytes:
    """Returns the content of vocab.bpe."""
    return "\n".join(["#version: 0.2", *(" ".join(pair) for pair in merges), ""]).encode()


def check_tokens_and_merges(
    encoder: Mapping[str, int], merges: Sequence[tuple[str, str]], names: tuple[str, str]
) -> None:
    """Raises a `UserError` if merges and tokens do not belong to one vocabulary."""
    alphabet = byte_alphabet()
    missing = [character for character in alphabet if character not in encoder]
    if missing:
        raise UserError(
            f"{names[0]}: has {256 - len(missing)} of the 256 bytes; should have all of them"
        )
    invalid = next((token for token in encoder if not token or set(token) - set(alphabet)), None)
    if invalid is not None:
        raise UserError(f"{names[0]}: {invalid!r}: not a token in GPT-2's byte alphabet")
    ranks: dict[str, int] = {}
    for number, (a, b) in enumerate(merges, 1):
        # The earlier merges should make the two parts, and not more.
        if a + b not in encoder or merged(a + b, ranks, number) != [a, b]:
            raise UserError(
                f"{names[1]}: merge {number}, {a} {b}: does not match the earlier ones and {names[0]}"
            )
        ranks[a + b] = number
    unmade = next((token for token in encoder if len(token) > 1 and token not in ranks), None)
    if unmade:
        raise UserError(f"{names[0]}: {unmade!r}: no merge in {names[1]} makes it")
