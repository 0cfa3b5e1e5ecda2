"""Portable files that somebody changed: numbers, names, parts and bytes, at random.

`mutated(file, number)` always gives the same bytes for the same number.
"""

import random
import struct
from collections.abc import Callable
from dataclasses import replace

from tests.targets.gguf.gguf_parts import File, Record

# The types of tensors.
F32, F16, Q8_0 = 0, 1, 8
BOUNDARIES = [0, 1, 2, 3, 4, 5, 8, 9, 16, 31, 32, 33, 127, 128, 255, 256, 2**15, 2**16]
BOUNDARIES += [2**28, 2**29, 2**30, 2**30 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1]
BOUNDARIES += [2**33, 2**60, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 16, 2**64 - 1]
# Not a number, the infinities, the smallest and the largest number, minus one.
FLOATS = (0x7FC00000, 0x7F800000, 0xFF800000, 0x00000001, 0x7F7FFFFF, 0xBF800000)


def written(data: bytes, place: tuple[int, int], value: int) -> bytes:
    start, size = place
    return data[:start] + (value % 256**size).to_bytes(size, "little") + data[start + size :]


def another(draw: random.Random, data: bytes, place: tuple[int, int]) -> int:
    """Returns a number at a boundary, or near the one that is there."""
    start, size = place
    old = int.from_bytes(data[start : start + size], "little")
    near = (old + 1, old - 1, old * 2, old // 2, old ^ 1 << draw.randrange(8 * size))
    return draw.choice((draw.choice(BOUNDARIES), draw.choice(FLOATS), draw.choice(near)))


def some_record(draw: random.Random, file: File) -> tuple[list[Record], int]:
    records = draw.choice((file.keys, file.tensors)) or file.keys or file.tensors
    return records, draw.randrange(len(records))


def change_number(draw: random.Random, file: File) -> None:
    records, i = some_record(draw, file)
    record = records[i]
    places = [*record.fields, None]
    if (place := draw.choice(places)) is None:
        records[i] = replace(
            record, size=written(record.size, (0, 8), another(draw, record.size, (0, 8)))
        )
    else:
        records[i] = replace(
            record, rest=written(record.rest, place, another(draw, record.rest, place))
        )


def change_element(draw: random.Random, file: File) -> None:
    choices = [i for i, record in enumerate(file.keys) if record.elements[2]]
    if not choices:
        return
    i = draw.choice(choices)
    start, size, count = file.keys[i].elements
    rest = file.keys[i].rest
    for _ in range(draw.choice((1, 1, 5))):
        place = start + size * draw.randrange(count), size
        rest = written(rest, place, another(draw, rest, place))
    file.keys[i] = replace(file.keys[i], rest=rest)


def swap_values(draw: random.Random, file: File) -> None:
    records, i = some_record(draw, file)
    j = draw.randrange(len(records))
    first, second = records[i], records[j]
    records[i] = replace(second, size=first.size, name=first.name)
    records[j] = replace(first, size=second.size, name=second.name)


def repeat(draw: random.Random, file: File) -> None:
    records, i = some_record(draw, file)
    records.insert(draw.randrange(len(records) + 1), records[i])


def remove(draw: random.Random, file: File) -> None:
    records, i = some_record(draw, file)
    del records[i]


def some_tensors(draw: random.Random, file: File) -> list[int]:
    every = list(range(len(file.tensors)))
    return every if draw.random() < 0.5 else [draw.choice(every)]


def move_tensors(draw: random.Random, file: File) -> None:
    """All tensors begin at the same place, or one of them at any place."""
    offset = 16 * draw.randrange(len(file.content) // 16 + 2)
    for i in some_tensors(draw, file):
        record = file.tensors[i]
        file.tensors[i] = replace(record, rest=written(record.rest, record.fields[-1], offset))


def change_types(draw: random.Random, file: File) -> None:
    """One tensor has another type, or all of them have the same one, whatever their shape."""
    kind = draw.choice((F32, F16, Q8_0))
    for i in some_tensors(draw, file):
        record = file.tensors[i]
        file.tensors[i] = replace(record, rest=written(record.rest, record.fields[-2], kind))


def change_weights(draw: random.Random, file: File) -> None:
    content = bytearray(file.content)
    special = struct.pack("<I", draw.choice(FLOATS))
    if draw.random() < 0.3:
        content = bytearray(special * (len(content) // 4))
    for _ in range(draw.choice((1, 8, 200))):
        at = 4 * draw.randrange(len(content) // 4)
        content[at : at + 4] = draw.choice((special, draw.randbytes(4)))
    file.content = bytes(content)


CHANGES: tuple[Callable[[random.Random, File], None], ...] = (
    *(change_number,) * 4,
    *(change_element,) * 2,
    *(swap_values, repeat, remove, move_tensors, change_types, change_weights),
)


# The version, the number of tensors and the number of keys.
HEADER = ((4, 4), (8, 8), (16, 8))


def damage(draw: random.Random, data: bytes) -> bytes:
    """Changes the header, cuts, repeats a part, or flips bits."""
    kind = draw.randrange(5)
    if kind == 0:
        place = draw.choice(HEADER)
        return written(data, place, another(draw, data, place))
    start = draw.randrange(len(data))
    if kind == 1:
        return data[:start]
    if kind == 2:
        return data[: start + draw.randrange(200)] + data[start:]
    changed = bytearray(data)
    # Most of the file is content: bits of the tables change more.
    end = len(data) if kind == 3 else min(len(data), 4000)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(end)
        changed[at] ^= 1 << draw.randrange(8)
    return bytes(changed)


def mutated(file: File, number: int) -> bytes:
    """Returns a file that is made of a valid one."""
    draw = random.Random(number)
    file = File([*file.keys], [*file.tensors], file.content)
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        draw.choice(CHANGES)(draw, file)
    data = file.data()
    return damage(draw, data) if draw.random() < 0.25 else data
