"""Portable files that somebody changed: the engine uses them, or says what is wrong.

test_hostile_natively.py has the same files, for what the engine reads and writes in its own memory.
"""

import random
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wasmtime

import minigpt
from minigpt.config.sampling import TextSettings
from minigpt.errors import UserError
from minigpt.targets.gguf import instance
from minigpt.targets.gguf.instance import Engine
from minigpt.tokenizers.word import WordTokenizer
from tests.targets.gguf.gguf_parts import ARRAY, STRING, File, key_record, tensor_record
from tests.targets.gguf.mutations import F32, FLOATS, mutated, written
from tests.targets.gguf.small_files import KINDS, MODELS, TEXT, built, small_files

# The limits of one file. A valid one takes about 10^6 instructions and 1 MB; 10^8 take a tenth of a second.
FUEL, MEMORY = 10**8, 64 << 20
IDS, NEW = 12, 3


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, File]:
    return small_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def limited() -> Iterator[None]:
    """Every engine has the limits FUEL and MEMORY."""
    config = wasmtime.Config()
    config.consume_fuel = True
    engine = wasmtime.Engine(config)
    module = wasmtime.Module(engine, instance._FILE.read_bytes())

    class Store(wasmtime.Store):
        def __init__(self, engine: wasmtime.Engine) -> None:
            super().__init__(engine)
            self.set_fuel(FUEL)
            self.set_limits(memory_size=MEMORY)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instance, "_module", lambda: (engine, module))
        patch.setattr(wasmtime, "Store", Store)
        yield


SAMPLING = {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.7}


def use(path: Path) -> str:
    """Makes all calls for a file. Returns the error message, or "used"."""
    try:
        generate_and_score(Engine(path))
    except UserError as error:
        message = str(error).removeprefix(f"{path}: ")
        assert message.strip(), "an error has no message"
        assert message != "out of memory", f"asks for more than {MEMORY} bytes"
        return message
    return "used"


def generate_and_score(engine: Engine) -> None:
    vocab_size, max_len = (
        engine.key(f"minigpt.model.{name}") for name in ("vocab_size", "max_len")
    )
    ids = engine.encode(TEXT)[0][:IDS]
    assert len(ids) and ids.min() >= 0 and ids.max() < vocab_size
    engine.set_sampling(TextSettings(**SAMPLING, banned_tokens=ids[:1].tolist()), 7)
    is_gpt = engine.key("minigpt.model.kind") == "gpt"
    if is_gpt:
        engine.start(ids, NEW)
    else:
        engine.start_translation(ids[:max_len], NEW)
    new = engine.add_tokens(NEW)
    assert len(new) <= NEW and all(0 <= token < vocab_size for token in new)
    if is_gpt:
        read = ids[:max_len]
        assert engine.score(read, vocab_size).shape == (len(read), vocab_size)


def test_mutated_files(files, limited, tmp_path, tally):
    outcomes: Counter[str] = Counter()
    names, path = list(files), tmp_path / "model.gguf"
    for number in range(400):
        name = names[number % len(names)]
        path.unlink(missing_ok=True)  # Some file systems flush a file that is overwritten.
        path.write_bytes(mutated(files[name], number))
        try:
            outcomes[use(path)] += 1
        except BaseException as error:
            error.add_note(f"the file is mutated(files[{name!r}], {number})")
            raise
    tally(inputs=400)
    # Many files get past each check.
    assert outcomes["used"] > 80 and len(outcomes) > 40


def opened(path: Path) -> str:
    """Does what `minigpt sample` or `translate` does. Returns the error message, or "used"."""
    try:
        model = minigpt.load_portable(path)
        repr((model.weights, model.config, model.training))
        if isinstance(model, minigpt.PortableTextModel):
            model.generate("The end", NEW, seed=1)
        else:
            model.translate("The end", max_new_tokens=NEW)
    except UserError as error:
        assert len(error.problems) == 1 and "\n" not in str(error)
        return str(error)
    return "used"


@pytest.mark.filterwarnings("ignore:prompt .* are unknown to the tokenizer:UserWarning")
def test_a_changed_byte_is_found(tmp_path):
    """Of the header, the keys, the tokenizer and the weights: none changes what the model writes."""
    kind, weights_type, sizes = MODELS["modern"]
    data, path = built(KINDS[kind](), weights_type, sizes, tmp_path / "a.gguf"), tmp_path / "b.gguf"
    assert opened(tmp_path / "a.gguf") == "used"
    for place in random.Random(0).sample(range(len(data)), 100):
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        # Without its name there is no checksum.
        assert opened(path) != "used" or b"minigpt.crc32" not in changed, place


def uint32(value: int) -> bytes:
    return struct.pack("<II", 4, value)


def text(data: bytes) -> bytes:
    return struct.pack("<IQ", STRING, len(data)) + data


def int32(value: int) -> bytes:
    return struct.pack("<Ii", 5, value)


def ids(*values: int) -> bytes:
    return struct.pack(f"<IIQ{len(values)}i", ARRAY, 5, len(values), *values)


@pytest.mark.parametrize(
    ("name", "key", "value", "is_used"),
    [
        # Memory is taken for the tokens of a text, not for the largest number of tokens.
        ("modern", "model.max_len", uint32(2**30), True),
        ("modern", "model.max_len", uint32(2**30 + 1), False),
        ("modern_pair", "model.max_len", uint32(2**30), True),
        ("gpt2", "model.max_len", uint32(2**30), False),
        ("modern", "model.num_layers", uint32(65536), False),
        ("modern", "model.num_layers", uint32(0), False),
        ("modern", "model.num_heads", uint32(2**30), False),
        ("modern", "model.vocab_size", uint32(2**32 - 1), False),
        ("modern", "tokenizer.undrawable_ids", ids(-1), False),
        ("modern", "tokenizer.undrawable_ids", ids(2**31 - 1), False),
        ("modern", "tokenizer.undrawable_ids", ids(), True),
        ("modern", "tokenizer.byte_ids", ids(*[2**31 - 1] * 256), False),
        ("modern", "tokenizer.byte_ids", ids(*[-2] * 256), False),
        ("modern", "tokenizer.byte_ids", ids(), False),
        ("modern", "tokenizer.ranks", ids(), False),
        ("modern", "tokenizer.end_id", uint32(2**31), False),
        ("pair", "tokenizer.start_id", uint32(1), True),
        ("pair", "tokenizer.start_id", uint32(2**31), False),
        ("pair", "tokenizer.start_id", int32(0), False),
        ("modern", "tokenizer.unknown_id", int32(-2), False),
        ("modern", "tokenizer.unknown_id", int32(2**31 - 1), False),
        ("bytes", "tokenizer.byte_ids", ids(*[-1] * 256), False),
    ],
)
def test_a_value_that_cannot_be_used(files, limited, tmp_path, name, key, value, is_used):
    path = with_value(files[name], f"minigpt.{key}", value, tmp_path)
    assert (use(path) == "used") == is_used


def with_value(file: File, key: str, value: bytes, folder: Path) -> Path:
    """Writes a file in which a key has another value."""
    keys = [
        key_record(record.name, value if record.name == key.encode() else record.rest)
        for record in file.keys
    ]
    data = File(keys, file.tensors, file.content).data()
    assert data != file.data()
    (folder / "model.gguf").write_bytes(data)
    return folder / "model.gguf"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("minigpt.config", text(b'{"a": "\xff"}')),
        ("minigpt.training", text(b"\xed\xa0\x80")),
        ("minigpt.config", text(b"[]")),
        ("minigpt.config", uint32(1)),
        ("minigpt.config", struct.pack("<IIQ", ARRAY, STRING, 0)),
    ],
)
def test_values_that_python_reads(files, limited, tmp_path, key, value):
    assert key in opened(with_value(files["gpt2"], key, value, tmp_path))


@pytest.mark.parametrize("key", ["window", "headdim", "kind.x", "", "a\nb\0é", "w" * 100])
def test_a_key_of_the_model_that_the_engine_does_not_know(files, limited, tmp_path, key):
    """Another program would compute something else with it."""
    file, path = files["modern"], tmp_path / "model.gguf"
    full = f"minigpt.model.{key}"
    path.write_bytes(
        File([*file.keys, key_record(full.encode(), uint32(1))], file.tensors, file.content).data()
    )
    assert "minigpt.model." in use(path)
    # Other programs add keys of their own.
    other = key_record(f"else.{full}".encode(), uint32(1))
    path.write_bytes(File([*file.keys, other], file.tensors, file.content).data())
    assert use(path) == "used"


def test_tensors_that_share_their_bytes(files, limited, tmp_path):
    """They could need any amount of memory: float16 becomes float32."""
    file, path = files["float16"], tmp_path / "model.gguf"
    tensors = [replace(key, rest=written(key.rest, key.fields[-1], 0)) for key in file.tensors]
    path.write_bytes(File(file.keys, tensors, file.content).data())
    assert use(path) == "used"
    half = file.content[: len(file.content) // 2]
    path.write_bytes(File(file.keys, tensors, half).data())
    assert use(path) != "used"


def test_more_tensors_than_any_model_has(files, limited, tmp_path):
    """Looking them up would take minutes."""
    file, path = files["modern"], tmp_path / "model.gguf"
    more = [tensor_record(b"x", (1,), F32, 0) for _ in range(16384 - len(file.tensors))]
    content = file.content + bytes(4 * len(more))
    path.write_bytes(File(file.keys, file.tensors + more, content).data())
    assert use(path) == "used"
    path.write_bytes(File(file.keys, file.tensors + more + more[:1], content + bytes(4)).data())
    assert use(path) != "used"


def with_one_hash(count: int) -> list[bytes]:
    """Returns words that belong to the same few slots of the engine's table."""
    letters = np.random.default_rng(0).integers(97, 123, (1_000_000, 8), dtype=np.uint8)
    sums = np.full(len(letters), 2166136261, np.uint32)
    for column in letters.T:
        sums = (sums ^ column) * np.uint32(16777619)
    sums ^= sums >> np.uint32(15)
    found = letters[sums % 4096 < 8]
    return list(dict.fromkeys(map(bytes, found)))[:count]


@pytest.mark.parametrize(("count", "is_used"), [(950, True), (1050, False)])
def test_pieces_that_were_made_for_one_slot(limited, count, is_used, tmp_path):
    # With more than 1024 words, the table has 4096 slots.
    others = [b"%d" % number for number in range(1100 - count)]
    tokenizer = WordTokenizer([*with_one_hash(count), *others], False)
    built(tokenizer, "float32", {"embed_dim": 4}, tmp_path / "model.gguf")
    assert (use(tmp_path / "model.gguf") == "used") == is_used


@pytest.mark.parametrize("name", ["modern", "pair"])
def test_arguments_that_cannot_be_used(files, limited, name, tmp_path):
    (tmp_path / "model.gguf").write_bytes(files[name].data())
    engine = Engine(tmp_path / "model.gguf")
    vocab_size = engine.key("minigpt.model.vocab_size")
    other, start = engine.start_translation, engine.start
    calls: list[Any] = [lambda: other([3], 2), lambda: engine.score([vocab_size], vocab_size)]
    calls += [lambda: engine.score([3] * 9, vocab_size), lambda: start([3], 2**32 - 1)]
    if name == "pair":
        other, start = start, other
        calls = [lambda: other([3], 2), lambda: start([], 2), lambda: start([3] * 9, 2)]
    for token in (-1, vocab_size, 2**31 - 1):
        with pytest.raises(UserError):
            engine.set_sampling(TextSettings(banned_tokens=[token]), 0)
        with pytest.raises(UserError):
            start([3, token], 2)
    for call in calls:
        with pytest.raises(UserError):
            call()
    generate_and_score(engine)


@pytest.mark.parametrize("name", MODELS)
def test_weights_that_are_not_numbers(files, limited, name, tmp_path):
    """The tokens are in the vocabulary all the same."""
    file = files[name]
    # NaN and the infinities of float16.
    halves = [half << 16 | half for half in (0x7E00, 0x7C00, 0xFC00)]
    for bits in (*FLOATS, *halves):
        content = struct.pack("<I", bits) * (len(file.content) // 4)
        (tmp_path / "model.gguf").write_bytes(File(file.keys, file.tensors, content).data())
        assert use(tmp_path / "model.gguf") == "used"
