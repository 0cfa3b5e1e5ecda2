"""GPT-2's two published files, `encoder.json` and `vocab.bpe`: reading, checking and writing."""

import functools
import json
from collections.abc import Mapping, Sequence

from minigpt.errors import UserError
from minigpt.tokenizers.byte_pair import merged

END_TOKEN = "<|endoftext|>"
ENCODER_FILE, MERGES_FILE = "encoder.json", "vocab.bpe"
# A vocabulary from an untrusted source must not exhaust memory: every id up to the largest needs some.
MAX_IDS = 2**24


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
        encoder = json.loads(data)
    except ValueError as error:
        raise UserError(f"{name}: not valid JSON ({error})") from None
    if not isinstance(encoder, dict) or not all(
        type(i) is int and 0 <= i < MAX_IDS for i in encoder.values()
    ):
        raise UserError(f"{name}: should be a JSON object, token to id")
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
        raise UserError(f"{name}: not valid UTF-8 at byte {error.start}") from None
    merges = []
    for number, line in enumerate(lines, 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        first, space, second = line.partition(" ")
        if not (first and space and second) or " " in second:
            raise UserError(f"{name}: line {number}: {line[:60]!r}: should be two tokens")
        merges.append((first, second))
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
    # No earlier merge makes a + b, so applying them all leaves at least two parts of it.
    ranks: dict[str, int] = {}
    for number, (a, b) in enumerate(merges, 1):
        problem = None
        if a + b not in encoder:
            problem = f"{a + b!r} is not in {names[0]}"
        elif a + b in ranks:
            problem = f"an earlier merge makes {a + b!r} too"
        elif any(len(part) > 1 and part not in ranks for part in (a, b)):
            problem = "no earlier merge makes one of the two"
        elif (parts := merged(a + b, ranks, number)) != [a, b]:
            problem = f"the earlier merges make {' '.join(parts)} of {a + b!r}"
        if problem:
            raise UserError(
                f"{names[1]}: merge {number}, {a} {b}: {problem}; the two files do not match"
            )
        ranks[a + b] = number
    unmade = [token for token in encoder if len(token) > 1 and token not in ranks]
    if unmade:
        more = f" and {len(unmade) - 1:,} more" if len(unmade) > 1 else ""
        raise UserError(
            f"{names[0]}: {unmade[0]!r}{more}: no merge in {names[1]} makes it; "
            "the two files do not match"
        )
