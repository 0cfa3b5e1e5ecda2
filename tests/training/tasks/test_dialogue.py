"""Training on dialogues: the loss, the samples, and runs that start from others."""

import json

import numpy as np
import pytest
import tensorflow as tf

import minigpt
from minigpt.runs.run import open_run_corpus
from minigpt.tokenizers.chat_format import answers
from tests.run_files import records


@pytest.fixture(autouse=True)
def uncompiled(without_xla) -> None:
    """Models of 16 numbers."""


def test_the_loss_is_that_of_the_answers_one_dialogue_after_the_other(chat_run):
    model, tokenizer = chat_run.load_model(), chat_run.load_tokenizer()
    corpus = open_run_corpus(chat_run)
    chat = tokenizer.chat
    ids = np.asarray(corpus.val.ids)
    # Dialogues end with an end token of their own, after that of the last answer.
    ends = np.flatnonzero((ids[1:] == tokenizer.end_id) & (ids[:-1] == tokenizer.end_id)) + 1
    losses = []
    for begin, end in zip([1, *ends[:-1] + 1], ends, strict=True):
        dialogue = ids[begin:end].astype(np.int32)
        logits = model(dialogue[None, :-1])
        of_targets = tf.nn.sparse_softmax_cross_entropy_with_logits(dialogue[None, 1:], logits)[0]
        for first, last in zip(*answers(dialogue, chat), strict=True):
            losses += of_targets.numpy()[first - 1 : last - 1].tolist()
    best = min(record["val_loss"] for record in records(chat_run.metrics_file))
    assert np.mean(losses) == pytest.approx(best, rel=1e-5)


def test_a_model_of_text_learns_dialogues(tiny_run, tmp_path):
    file = tmp_path / "short.jsonl"
    rows = [{"instruction": f"Ana {i}", "output": f"{i} figs"} for i in range(60)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {
        "data": {"source": "dialogues", "paths": [str(file)]},
        "training": {"init_from": str(tiny_run.path), "epochs": 1, "steps_per_epoch": 3}
        | {"batch_size": 4, "sequence_length": 16, "loss_on": "all"},
        "sampling": {"max_new_tokens": 3},
    }
    run = minigpt.train(settings, tmp_path / "run")
    start, tuned = minigpt.load(tiny_run), minigpt.load(run)
    assert tuned.vocab_size == start.vocab_size + 3
    assert isinstance(tuned.chat("A?", 3), str)
    assert tuned.tokenizer.encode("Ana").tolist() == start.tokenizer.encode("Ana").tolist()
