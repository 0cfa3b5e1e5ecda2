"""The ONNX graph for transformers.js: its names, its caches, and left padding."""

import json

import numpy as np
import pytest

import minigpt
from minigpt.targets.huggingface.folders import import_run
from minigpt.targets.targets import target_named
from tests.targets.huggingface.folders import difference, huggingface_folder

for package in target_named("transformers_js").packages:
    pytest.importorskip(package, reason="needs the extra transformers_js")

import onnxruntime  # noqa: E402


@pytest.fixture(scope="module", params=["untied", "qwen3/grouped"])
def exported(request, tmp_path_factory):
    """The folder of an imported model, token ids [B, T], and the logits of the model."""
    folder = tmp_path_factory.mktemp("exported")
    huggingface_folder(request.param, folder / "folder")
    run = import_run(folder / "folder", folder / "run")
    minigpt.export_run(run, "transformers_js", folder / "js")
    ids = np.random.default_rng(0).integers(0, 390, (2, 12)).astype("int32")
    return folder / "js", ids, minigpt.load(run).logits(ids)


def session_of(folder) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(folder / "onnx" / "model.onnx")


def caches_of(session, rows: int) -> dict[str, np.ndarray]:
    """Empty caches, made as transformers.js makes them: a length that it does not know is 0."""
    sizes = {"batch_size": rows}
    return {
        each.name: np.zeros(
            [sizes.get(n, 0) if isinstance(n, str) else n for n in each.shape], "f4"
        )
        for each in session.get_inputs()
        if each.name.startswith("past_key_values.")
    }


def score(session, ids, mask, caches) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns logits and caches. A cache is found by its name, as transformers.js finds it."""
    names = [each.name for each in session.get_outputs()]
    inputs = {"input_ids": np.int64(ids), "attention_mask": np.int64(mask)}
    found = dict(zip(names, session.run(names, inputs | caches), strict=True))
    logits = found.pop("logits")
    return logits, {name.replace("present", "past_key_values"): x for name, x in found.items()}


def test_padding_on_the_left_changes_nothing(exported):
    folder, (ids, _), (right, _) = exported
    session, padding, length = session_of(folder), [0, 2, 5], 8
    rows = np.stack([[7] * n + ids[: length - n].tolist() for n in padding])
    mask = np.arange(length) >= np.array(padding)[:, None]
    logits, caches = score(session, rows, mask, caches_of(session, 3))
    for row, n in zip(logits, padding, strict=True):
        assert difference(row[n:], right[: length - n]) < 1e-5
    # The next token of each row, after the padding in the cache.
    following = [[ids[length - n]] for n in padding]
    mask = np.pad(mask, ((0, 0), (0, 1)), constant_values=True)
    logits, _ = score(session, following, mask, caches)
    for row, n in zip(logits, padding, strict=True):
        assert difference(row[0], right[length - n]) < 1e-5


def test_a_text_ends_when_the_context_is_full(exported):
    folder, ids, right = exported
    session, max_len = (
        session_of(folder),
        json.loads((folder / "tokenizer_config.json").read_text())["model_max_length"],
    )
    long = np.resize(ids[0], (1, max_len + 2))
    logits, _ = score(session, long, np.ones_like(long), caches_of(session, 1))
    end = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    assert logits[0, max_len:].argmax(-1).tolist() == [end, end]
    assert np.abs(logits[0, :max_len]).max() < 100  # Those before are the model's.
    assert difference(logits[0, :12], right[0]) < 1e-5
    alone = np.sort(logits[0, max_len:])
    assert (alone[:, -1] - alone[:, -2] > 1e3).all()
