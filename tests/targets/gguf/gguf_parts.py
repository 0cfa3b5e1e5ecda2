"""The parts of a portable file, to put together again in another way."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

STRING, ARRAY = 8, 9
# Bytes of the values of GGUF's types.
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


@dataclass(frozen=True)
class Record:
    """A key with its value, or the description of a tensor.

    Attributes:
      size: the length of the name as it is written.
      rest: what follows the name.
      fields: start and size of the numbers in `rest`.
      elements: start, size and number of the elements of an array.
    """

    size: bytes
    name: bytes
    rest: bytes
    fields: tuple[tuple[int, int], ...]
    elements: tuple[int, int, int] = (0, 0, 0)

    @property
    def data(self) -> bytes:
        return self.size + self.name + self.rest


@dataclass
class File:
    """The parts of a portable file."""

    keys: list[Record]
    tensors: list[Record]
    content: bytes

    def data(self) -> bytes:
        parts = [b"GGUF", struct.pack("<IQQ", 3, len(self.tensors), len(self.keys))]
        parts += [record.data for record in (*self.keys, *self.tensors)]
        table = b"".join(parts)
        return table + bytes(-len(table) % 32) + self.content


def key_record(name: bytes, rest: bytes) -> Record:
    kind = struct.unpack_from("<I", rest)[0]
    fields, elements = [(0, 4)], (0, 0, 0)
    if kind == STRING:
        fields.append((4, 8))
    elif kind == ARRAY:
        element, count = struct.unpack_from("<IQ", rest, 4)
        fields += [(4, 4), (8, 8)]
        if element == STRING:
            fields.append((16, 8))
        else:
            elements = 16, SIZES[element], count
    else:
        fields.append((4, SIZES[kind]))
    return Record(struct.pack("<Q", len(name)), name, rest, tuple(fields), elements)


def tensor_record(name: bytes, shape: tuple[int, ...], kind: int, offset: int) -> Record:
    numbers = len(shape)
    rest = struct.pack(f"<I{numbers}QIQ", numbers, *shape, kind, offset)
    places = [(0, 4), *((4 + 8 * i, 8) for i in range(numbers))]
    end = 4 + 8 * numbers
    return Record(struct.pack("<Q", len(name)), name, rest, (*places, (end, 4), (end + 4, 8)))


def parsed(data: bytes) -> File:
    """Returns the parts of a valid file."""
    _, _, tensors, keys = struct.unpack_from("<4sIQQ", data)
    at = 24

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return data[at - size : at]

    def number(layout: str) -> int:
        return struct.unpack(layout, take(struct.calcsize(layout)))[0]

    def skip_value(kind: int) -> None:
        if kind == STRING:
            take(number("<Q"))
        elif kind == ARRAY:
            element, count = number("<I"), number("<Q")
            if element != STRING:
                take(count * SIZES[element])
            else:
                for _ in range(count):
                    take(number("<Q"))
        else:
            take(SIZES[kind])

    def records(count: int, is_key: bool) -> Iterator[Record]:
        for _ in range(count):
            name, start = take(number("<Q")), at
            if is_key:
                skip_value(number("<I"))
                yield key_record(name, data[start:at])
            else:
                shape = tuple(number("<Q") for _ in range(number("<I")))
                yield tensor_record(name, shape, number("<I"), number("<Q"))

    file = File([*records(keys, True)], [*records(tensors, False)], b"")
    file.content = data[at + -at % 32 :]
    return file
