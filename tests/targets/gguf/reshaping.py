"""Other sizes for a model in a portable file: a valid file again, with weights that share their bytes."""

import random
import struct

from tests.targets.gguf.gguf_parts import ARRAY, File, Record, key_record, tensor_record

MODEL = b"minigpt.model."
FLOAT32, UINT32 = 6, 4
F32, F16, Q8_0 = 0, 1, 8


def reshape(draw: random.Random, file: File, is_valid: bool = True) -> None:
    """Changes sizes, and with them all shapes; every tensor is somewhere in the content.

    Args:
      draw: the source of chance.
      file: the file that changes.
      is_valid: otherwise the sizes may not suit each other, or the content.
    """
    rules = ("", "", "vocabulary", "heads", "rotary", "content", "type")
    rule = "" if is_valid else draw.choice(rules)
    keys = {record.name: i for i, record in enumerate(file.keys)}

    def value(name: bytes) -> bytes:
        return file.keys[keys[MODEL + name]].rest

    def put(name: bytes, rest: bytes) -> None:
        file.keys[keys[MODEL + name]] = key_record(MODEL + name, rest)

    sizes = {name: struct.unpack("<I", value(name)[4:])[0] for name in new_sizes(draw)}
    for name, size in new_sizes(draw).items():
        if draw.random() < 0.4:
            sizes[name] = size
    if rule == "type":
        # A block of integers and a rest.
        sizes[b"embed_dim"] = draw.choice((sizes[b"embed_dim"], 40))
    # The vocabulary of the tokenizer stays; the engine allows more ids.
    more = -1 if rule == "vocabulary" else draw.choice((0, 0, 3))
    sizes[b"vocab_size"] = struct.unpack("<I", value(b"vocab_size")[4:])[0] + more
    if rule == "heads":
        sizes[b"num_kv_heads"] = draw.randint(1, 6)
    elif sizes[b"num_heads"] % sizes[b"num_kv_heads"]:
        sizes[b"num_kv_heads"] = draw.choice((1, sizes[b"num_heads"]))
    if value(b"position")[12:] == b"rotary":
        sizes[b"head_dim"] += sizes[b"head_dim"] % 2
        sizes[b"max_len"] = draw.choice((1, 3, 20, 2**30))
        half = sizes[b"head_dim"] // 2
        if rule == "rotary":
            half, sizes[b"head_dim"] = half - 1, sizes[b"head_dim"] - draw.choice((0, 1))
        frequencies = struct.pack(f"<IIQ{half}f", ARRAY, FLOAT32, half, *[0.5] * half)
        put(b"rotary_frequencies", frequencies)
    for name, size in sizes.items():
        put(name, struct.pack("<II", UINT32, size))
    names = [
        tensor.name.replace(b"blk.0.", b"blk.%d." % layer)
        for tensor in file.tensors
        for layer in range(sizes[b"num_layers"] if b"blk.0." in tensor.name else 1)
    ]
    odd = draw.choice(names) if rule == "type" else b""
    shapes = [(name, *shape_and_type(draw, name, sizes, name == odd)) for name in names]
    bytes_of = [size_of(shape, kind) for _, shape, kind in shapes]
    while len(file.content) < (max(bytes_of) if rule == "content" else sum(bytes_of)):
        file.content += file.content
    file.tensors = [placed(draw, file, *described) for described in shapes]


def new_sizes(draw: random.Random) -> dict[bytes, int]:
    heads = draw.randint(1, 6)
    return {
        b"embed_dim": draw.choice((*range(1, 10), 32, 64)),
        b"num_heads": heads,
        b"num_kv_heads": draw.choice([i for i in range(1, 7) if heads % i == 0]),
        b"head_dim": draw.choice((2, 4, 6, 10, 32)),
        b"value_dim": draw.choice((*range(1, 9), 32)),
        b"ff_dim": draw.choice((*range(1, 20), 32, 96)),
        b"num_layers": draw.choice((1, 1, 2, 3)),
        b"max_len": draw.choice((1, 2, 5, 20, 70)),
    }


def shape_and_type(
    draw: random.Random, name: bytes, sizes: dict[bytes, int], has_any_type: bool
) -> tuple[tuple[int, ...], int]:
    """Returns the dimensions of a tensor, and a type that it can have, or any type."""
    shape = shape_of(name, sizes)
    if has_any_type:
        return shape, draw.choice((F16, Q8_0))
    if len(shape) == 1 or b"position" in name:
        return shape, F32
    return shape, draw.choice((F32, F16) if shape[0] % 32 else (F32, F16, Q8_0))


def size_of(shape: tuple[int, ...], kind: int) -> int:
    """Returns the bytes of a tensor."""
    row = {F32: 4 * shape[0], F16: 2 * shape[0], Q8_0: shape[0] // 32 * 34}[kind]
    return row * (shape[1] if len(shape) == 2 else 1)


def placed(
    draw: random.Random, file: File, name: bytes, shape: tuple[int, ...], kind: int
) -> Record:
    # Often at the very end.
    last = (len(file.content) - size_of(shape, kind)) // 16
    place = draw.choice((0, last, last, draw.randint(0, last)))
    return tensor_record(name, shape, kind, 16 * place)


def shape_of(name: bytes, sizes: dict[bytes, int]) -> tuple[int, ...]:
    """Returns the dimensions of a tensor by docs/portable-file.md."""
    part, _, suffix = name.rpartition(b".")
    part = part.rpartition(b".")[2].removeprefix(b"cross_")
    width, inner, vocabulary = (sizes[key] for key in (b"embed_dim", b"ff_dim", b"vocab_size"))
    queries = sizes[b"num_heads"] * sizes[b"head_dim"]
    keys = sizes[b"num_kv_heads"] * sizes[b"head_dim"]
    values = sizes[b"num_kv_heads"] * sizes[b"value_dim"]
    matrices = {
        b"token_embd": (width, vocabulary),
        b"position_embd": (width, sizes[b"max_len"]),
        b"output": (width, vocabulary),
        b"attn_q": (width, queries),
        b"attn_k": (width, keys),
        b"attn_v": (width, values),
        b"attn_qkv": (width, queries + keys + values),
        b"attn_output": (sizes[b"num_heads"] * sizes[b"value_dim"], width),
        b"ffn_gate": (width, inner),
        b"ffn_up": (width, inner),
        b"ffn_down": (inner, width),
    }
    if part in (b"attn_q_norm", b"attn_k_norm"):
        return (sizes[b"head_dim"],)
    if part not in matrices:
        return (width,)
    return matrices[part] if suffix == b"weight" else (matrices[part][1],)
