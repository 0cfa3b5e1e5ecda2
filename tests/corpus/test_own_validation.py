"""A validation text of the user's own, and several texts with weights."""

import itertools
import json

import numpy as np
import pytest

from minigpt.config import load_config
from minigpt.corpus.batches import training_batch
from minigpt.corpus.sources import open_source
from minigpt.corpus.token_ids import decode_documents
from minigpt.corpus.token_store import open_corpus, reopen_corpus
from minigpt.errors import UserError
from minigpt.training.start import complete_settings
from tests.corpus.stores import CHARACTERS, TEXTS, decoded
from tests.settings import data_config


def write(path, texts):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return str(path)


def files(paths, **options):
    return data_config(source="files", paths=paths, **options)


def sides(corpus):
    return [decoded(part, corpus.tokenizer)[0] for part in (corpus.train, corpus.val)]


def test_the_validation_text_is_whole_and_its_copies_are_not_trained_on(tmp_path, cache, messages):
    train, val = (
        write(tmp_path / "a.jsonl", TEXTS),
        write(tmp_path / "b.jsonl", ["new", *TEXTS[:3]]),
    )
    data = files([train], val_paths=[val])
    corpus = open_corpus(data, CHARACTERS)
    assert sides(corpus) == [TEXTS[3:], ["new", *TEXTS[:3]]]
    assert "3 documents are also in the validation text; they are left out" in messages()
    again = reopen_corpus(data, CHARACTERS, None, corpus.fingerprint)
    assert again.from_cache and sides(again) == sides(corpus)
    # Another division of the same files is another text.
    other = open_corpus(files([val], val_paths=[train]), CHARACTERS)
    assert other.fingerprint != corpus.fingerprint and sides(other) == [["new"], TEXTS]


def test_problems_of_both_texts_at_once(tmp_path, cache):
    train, val = write(tmp_path / "a.jsonl", TEXTS), write(tmp_path / "b.jsonl", TEXTS)
    with pytest.raises(UserError, match="all documents of the training text are also in the valid"):
        open_corpus(files([train], val_paths=[val]), CHARACTERS)
    with pytest.raises(UserError, match=rf"^{val}: only white space"):
        open_corpus(files([train], val_paths=[write(tmp_path / "b.jsonl", [" "])]), CHARACTERS)
    (tmp_path / "a.jsonl").write_text("{")
    (tmp_path / "b.jsonl").write_text("[")
    with pytest.raises(UserError) as found:
        open_corpus(files([train], val_paths=[val]), CHARACTERS)
    assert sorted(line[len(str(tmp_path)) :][:9] for line in found.value.problems) == [
        "/a.jsonl:",
        "/b.jsonl:",
    ]


def test_dialogues_have_a_validation_text_too(tmp_path, cache):
    def dialogues(name, texts):
        rows = [{"instruction": text, "output": text.upper()} for text in texts]
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    paths = [dialogues("a.jsonl", TEXTS[:9]), dialogues("b.jsonl", TEXTS[9:])]
    val = dialogues("val.jsonl", ["new", *TEXTS[:3]])
    corpus = open_corpus(data_config(source="dialogues", paths=paths, val_paths=[val]), CHARACTERS)
    assert (corpus.train.documents, corpus.val.documents) == (17, 4)
    bundled = open_source(data_config(source="dialogues", val_paths=[val]))
    assert bundled.path_numbers == [0, 1]


def test_sizes_are_chosen_for_the_training_text(tmp_path, cache):
    train, val = write(tmp_path / "a.jsonl", TEXTS * 40), write(tmp_path / "b.jsonl", ["new"] * 900)
    alone = load_config({"data": {"source": "files", "paths": [train], "val_fraction": 1e-6}})
    both = load_config({"data": {"source": "files", "paths": [train], "val_paths": [val]}})
    fitted = [complete_settings(config, measures_speed=False)[0].config for config in (alone, both)]
    assert fitted[0].model == fitted[1].model
    assert fitted[0].training.epochs == fitted[1].training.epochs


def test_each_text_with_a_weight_is_split_and_has_its_ids(tmp_path, cache):
    names = [write(tmp_path / f"{n}.jsonl", TEXTS[n::3] * 4) for n in range(2)]
    # The end of a single document is held out.
    names.append(str(tmp_path / "2.txt"))
    (tmp_path / "2.txt").write_text("zebra " * 50)
    copies = write(tmp_path / "3.jsonl", TEXTS[::3] * 2)
    data = files([*names, copies], weights=[1, 2, 3, 4])
    corpus = open_corpus(data, CHARACTERS)
    train, val = sides(corpus)
    assert not set(train) & set(val)
    ids, ends = corpus.train.ids, corpus.text_ends
    assert ends[-1] == corpus.train.tokens and (ids[list(ends)] == corpus.tokenizer.end_id).all()
    parts = [
        list(decode_documents(ids[begin + 1 : end], corpus.tokenizer))
        for begin, end in itertools.pairwise((0, *ends))
    ]
    assert list(itertools.chain(*parts)) == train
    for part, texts in zip(
        parts, (TEXTS[::3], TEXTS[1::3], ["zebra " * 45 + "zebra"], TEXTS[::3]), strict=True
    ):
        assert part and set(part) <= set(texts)
    # Each of the texts is in the validation text, but not those that are copies of another.
    assert [sum(text in texts for text in val) for texts in (TEXTS[::3], TEXTS[1::3])] == [6, 4]
    assert " zebra" * 4 + " " in val
    assert open_corpus(data, CHARACTERS).text_ends == ends
    # The weights only decide what is drawn.
    assert open_corpus(files(data.paths, weights=[4, 1, 1, 1]), CHARACTERS).from_cache
    assert open_corpus(files(data.paths), CHARACTERS).fingerprint != corpus.fingerprint


# Ids equal their positions, so a window shows where it was taken.
IDS = np.arange(1001, dtype=np.uint16)
ENDS, WEIGHTS = (100, 130, 1000), (1, 2, 5)


def drawn(seed, step, batch_size=50):
    return training_batch(IDS, 7, batch_size, seed, step, WEIGHTS, ENDS)


def test_a_file_that_both_name_is_validation_text(tmp_path, cache):
    val = write(tmp_path / "texts" / "val.jsonl", TEXTS[:2])
    write(tmp_path / "texts" / "train.jsonl", TEXTS[2:])
    corpus = open_corpus(files([str(tmp_path / "texts")], val_paths=[val]), CHARACTERS)
    assert sides(corpus) == [TEXTS[2:], TEXTS[:2]]


def test_weighted_batches_depend_only_on_seed_and_step():
    inputs, targets = drawn(3, 7)
    assert (inputs == drawn(3, 7)[0]).all() and (targets == inputs + 1).all()
    assert (inputs != drawn(3, 8)[0]).any() and (inputs != drawn(4, 7)[0]).any()
    raw = np.random.PCG64([3, 7]).random_raw(100).tolist()
    for row, begin in enumerate(inputs[:, 0].tolist()):
        share = (raw[row] >> 11) / 2**53 * 8
        text = 0 if share < 1 else 1 if share < 3 else 2
        first, size = [(0, 100), (100, 30), (130, 870)][text]
        assert begin == first + raw[50 + row] % (size - 6)
    assert drawn(0, 10**15)[0].shape == (50, 7)
