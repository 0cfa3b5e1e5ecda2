"""Tokenizers of the user: sentencepiece models, tokenizer.json, lists of names."""

import io
import json

import pytest
import sentencepiece
import tensorflow as tf
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from minigpt.config import load_config
from minigpt.corpus.token_store import given_tokenizer
from minigpt.errors import UserError
from minigpt.targets.gguf.tokenizer_tables import tokenizer_problem
from minigpt.targets.huggingface.tokenizer_export import export_problem, tokenizer_files
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.huggingface import HuggingFaceTokenizer
from tests.cli.running import called
from tests.conftest import nothing_compiled, tiny_text
from tests.graphs import graph_of

LINES = tiny_text(300).splitlines()
TEXTS = [
    *("Ana sat on the wall.", " two  spaces \n line\n", "日本 café", "", "  ", "naïve 12345"),
    # Names of special tokens are text.
    "<s> </s> <unk> <pad> [SEP] [UNK] <|endoftext|> <|user|>",
]
LOSSLESS = {"byte_fallback": True, "normalization_rule_name": "identity"}
LOSSLESS |= {"remove_extra_whitespaces": False, "user_defined_symbols": ["<sep>"]}
MODELS = {
    "unigram": ("unigram", {}),
    "bpe": ("bpe", {}),
    "unigram_lossless": ("unigram", LOSSLESS),
    "bpe_without_end": ("bpe", LOSSLESS | {"eos_id": -1, "bos_id": -1, "add_dummy_prefix": False}),
}


def sentencepiece_file(folder, name):
    kind, options = MODELS[name]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        model_type=kind,
        vocab_size=320 if "byte_fallback" in options else 70,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    (folder / f"{name}.model").write_bytes(model.getvalue())
    return folder / f"{name}.model"


def trained(model, trainer, **parts):
    tokenizer = tokenizers.Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def gpt2_like(special=("<|endoftext|>", "<|user|>")):
    return trained(
        models.BPE(),
        trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=list(special),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoder=decoders.ByteLevel(),
    )


def llama3_like():
    pattern = tokenizers.Regex(r"\p{N}{1,3}| ?\p{L}+|[^\p{L}\p{N}]+")
    tokenizer = gpt2_like(("<|end_of_text|>", "<|user|>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pattern, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    # The user's tokenizer adds a token to each text; training does not.
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|user|> $A", special_tokens=[("<|user|>", 1)]
    )
    return tokenizer


def unigram():
    return trained(
        models.Unigram(),
        trainers.UnigramTrainer(
            vocab_size=70,
            special_tokens=["<pad>", "</s>", "<unk>"],
            unk_token="<unk>",
            show_progress=False,
        ),
        normalizer=normalizers.NFKC(),
        pre_tokenizer=pre_tokenizers.Metaspace(),
        decoder=decoders.Metaspace(),
    )


def llama2_like():
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer = trained(
        models.BPE(byte_fallback=True, unk_token="<unk>"),
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))],
            show_progress=False,
        ),
        normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        decoder=decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)]),
    )
    described = json.loads(tokenizer.to_str())
    special = [t for t in described["added_tokens"] if not t["content"].startswith("<0x")]
    return tokenizers.Tokenizer.from_str(json.dumps(described | {"added_tokens": special}))


FILES = [llama3_like, unigram, llama2_like]


def given(kind, path, **settings):
    settings |= {"kind": kind, "path": str(path)}
    return given_tokenizer(load_config({"tokenizer": settings}).tokenizer)


def check_decoding(tokenizer, rows):
    for ids in rows:
        for cut in range(len(ids) + 1):
            before = tokenizer.decode(ids[:cut])
            assert before + tokenizer.continuation(ids[:cut], ids[cut:]) == tokenizer.decode(ids)


@pytest.mark.parametrize("name", MODELS)
def test_sentencepiece_encodes_as_the_package(tmp_path, name):
    path = sentencepiece_file(tmp_path, name)
    expected = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = given("sentencepiece", path)
    rows = [ids.tolist() for ids in tokenizer.encode_many(TEXTS)]
    assert rows == expected.encode(TEXTS)
    unknown = expected.unk_id()
    for ids, text in zip(rows, TEXTS, strict=True):
        if unknown not in ids:
            assert tokenizer.decode(ids) == expected.decode(ids)
        if tokenizer.lossless:
            assert tokenizer.decode(ids) == text
    assert tokenizer.lossless == ("byte_fallback" in MODELS[name][1])
    check_decoding(tokenizer, rows)
    end = expected.eos_id()
    assert tokenizer.end_id == (end if end >= 0 else expected.vocab_size())
    assert not {tokenizer.end_id, expected.bos_id()} & {i for row in rows for i in row}
    # A long text is encoded as a whole.
    text = "\n".join(LINES * 8)
    assert tokenizer.encode(text).tolist() == expected.encode(text)
    graph = graph_of(tokenizer)
    assert graph.encode(TEXTS).to_list() == rows
    decoded = graph.decode(tf.ragged.constant(rows, tf.int32, row_splits_dtype=tf.int64))
    assert [text.decode() for text in decoded.numpy()] == [tokenizer.decode(ids) for ids in rows]
    assert tokenizer_problem(tokenizer).startswith("tokenizer.kind = 'sentencepiece': has no form")


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_tokenizer_json_encodes_as_the_package(tmp_path, make):
    expected = make()
    expected.save(str(tmp_path / "tokenizer.json"))
    tokenizer = given("huggingface", tmp_path / "tokenizer.json")
    assert type(tokenizer) is HuggingFaceTokenizer
    expected.encode_special_tokens = True
    rows = [ids.tolist() for ids in tokenizer.encode_many(TEXTS)]
    # A unigram model of the package finds the names of special tokens, whatever it is told.
    count = len(TEXTS) - (make is unigram)
    expected_rows = [expected.encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert rows[:count] == expected_rows[:count]
    assert [tokenizer.decode(ids) for ids in rows] == [expected.decode(ids) for ids in rows]
    check_decoding(tokenizer, rows)
    drawn = {i for row in rows for i in row} - {tokenizer.unknown_id}
    assert not drawn & {tokenizer.end_id, *tokenizer.never_sampled_ids}
    assert tokenizer.lossless == (make is llama3_like)
    # The exported file gives the same ids, also with the tokens that it would add to a text.
    assert export_problem(tokenizer) is None
    files = tokenizer_files(tokenizer, 16)
    exported = tokenizers.Tokenizer.from_str(files["tokenizer.json"])
    exported.encode_special_tokens = True
    assert [exported.encode(text).ids for text in TEXTS[:count]] == rows[:count]
    end = json.loads(files["tokenizer_config.json"])["eos_token"]
    assert exported.token_to_id(end) == tokenizer.end_id


def test_the_kind_of_gpt2_needs_no_package(tmp_path):
    expected = gpt2_like()
    expected.add_tokens(["Béla"])
    expected.save(str(tmp_path / "tokenizer.json"))
    tokenizer = given("huggingface", tmp_path / "tokenizer.json")
    assert type(tokenizer) is GPT2Tokenizer and tokenizer_problem(tokenizer) is None
    expected.encode_special_tokens = True
    texts = [*TEXTS, "Béla sat"]
    assert [ids.tolist() for ids in tokenizer.encode_many(texts)] == [
        expected.encode(text).ids for text in texts
    ]
    assert tokenizer.end_id == expected.token_to_id("<|endoftext|>")
    assert expected.token_to_id("Béla") in tokenizer.encode("Béla sat")


def test_saved_ones_are_complete(tmp_path):
    unigram().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "names.txt").write_text("do re mi\n".replace(" ", "\n"))
    for kind, path in (
        ("sentencepiece", sentencepiece_file(tmp_path, "unigram")),
        ("huggingface", tmp_path / "tokenizer.json"),
        ("listed", tmp_path / "names.txt"),
    ):
        tokenizer = given(kind, path)
        path.unlink()
        tokenizer.save(tmp_path / kind)
        loaded = Tokenizer.load(tmp_path / kind)
        assert loaded.fingerprint() == tokenizer.fingerprint() and loaded.kind == kind
        assert loaded.encode("mi re Ana").tolist() == tokenizer.encode("mi re Ana").tolist()
        (tmp_path / kind / tokenizer.file_name).write_bytes(b"{}")
        with pytest.raises(UserError, match="damaged: not the file that belongs to"):
            Tokenizer.load(tmp_path / kind)
        with pytest.raises(UserError, match=f"tokenizer.kind = '{kind}': is read from a file"):
            type(tokenizer).learn(["a"])


def test_names_in_the_graph(tmp_path):
    for names, are_words in (("e2e4 e7e5 <end>", True), ("Nf3+ O-O e2e4", False)):
        (tmp_path / "names.txt").write_text(names.replace(" ", "\n"))
        tokenizer = given("listed", tmp_path / "names.txt")
        assert tokenizer.are_words == are_words
        texts = ["e2e4 e2e5\te7e5", "O-O  Nf3+ ", "", "<end> [UNK] 日本"]
        rows = [ids.tolist() for ids in tokenizer.encode_many(texts)]
        assert graph_of(tokenizer).encode(texts).to_list() == rows
        assert tokenizer.decode(rows[0]) == ("e2e4 e7e5" if are_words else "e2e4")
        assert tokenizer.count_unknown("e2e4 e9e9") == 1
        assert tokenizer.end_id not in tokenizer.encode("<end>")
        problem = (
            "tokenizer.kind = 'listed': a name has signs, which a portable file reads as names"
        )
        assert tokenizer_problem(tokenizer) == (None if are_words else problem)


@pytest.mark.parametrize(
    ("kind", "content", "problem"),
    [
        ("sentencepiece", b"", "not a model of sentencepiece"),
        ("sentencepiece", b"\x07no model", "not a model of sentencepiece"),
        ("huggingface", b"[1]", "not a tokenizer.json"),
        ("huggingface", b"[" * 100_000, "not a tokenizer.json"),
        ("huggingface", b"\xff", "not a tokenizer.json"),
        ("listed", b"\xff\xfe", "'utf-8' codec"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, kind, content, problem):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        given(kind, path)
    (line,) = caught.value.problems
    assert line.startswith(f"{path}: ") and problem in line and "\n" not in line


SETTINGS = ["max_len=16", "embed_dim=8", "num_heads=2", "num_layers=1", "block=qwen3"]
SETTINGS = [f"model.{setting}" for setting in SETTINGS[:4]] + ["model.standard_parts=true"]
SETTINGS += ["training.epochs=1", "training.steps_per_epoch=2", "training.batch_size=4"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sentencepiece", "huggingface"])
def test_from_training_to_the_export(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(tiny_text(200), encoding="utf-8")
    if kind == "sentencepiece":
        path = sentencepiece_file(tmp_path, "unigram")
        ids = sentencepiece.SentencePieceProcessor(model_file=str(path)).encode("Ana sat")
    else:
        path = tmp_path / "tokenizer.json"
        learned = unigram()
        learned.save(str(path))
        ids = learned.encode("Ana sat").ids
    settings = [*SETTINGS, f"tokenizer.kind={kind}", f"tokenizer.path={path.name}"]
    options = [part for setting in settings for part in ("--set", setting)]
    with nothing_compiled():
        done = called("train", "--run", "run", "--text", "text.txt", *options)
        assert done.returncode == 0, done.stderr
    path.unlink()
    shown = json.loads(called("tokenize", "run", "--text", "Ana sat", "--json").stdout)
    assert shown["tokens"] == ids
    assert called("sample", "run", "--prompt", "Ana", "--max-new-tokens", "3").returncode == 0
    (name, other) = ("saved_model", "huggingface")[:: 1 if kind == "sentencepiece" else -1]
    exported = called("export", "run", "--format", name, "--output", "exported")
    assert "2,000 of 2,000 lines have the same tokens" in exported.stdout, exported
    refused = called("export", "run", "--format", other, "--output", "other")
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
    assert f"tokenizer.kind = '{kind}': has no" in refused.stderr
