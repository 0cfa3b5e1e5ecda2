"""Arguments that Python functions accept. What they refuse is in tests/test_refusals.py."""

import numpy as np
import pytest

import minigpt


def test_a_report_of_one_run_needs_no_list(tiny_run, tmp_path):
    for number, run in enumerate((tiny_run, tiny_run.path, str(tiny_run.path))):
        minigpt.write_report(run, tmp_path / f"{number}.html")
        page = (tmp_path / f"{number}.html").read_text(encoding="utf-8")
        assert f"<title>{tiny_run.path.name} – report</title>" in page


def test_the_tokenizer_of_a_portable_file(tiny_run, opened_without_xla):
    """It is accepted wherever texts are encoded and decoded."""
    tokenizer = minigpt.load_portable(tiny_run.portable_file).tokenizer
    shown: list[tuple[str, ...]] = []
    generator = minigpt.TextGenerator(tokenizer, ["Ana"], 5, show=lambda *said: shown.append(said))
    generator.set_model(opened_without_xla.model)
    generator.on_epoch_end(0)
    assert shown and "Ana" in shown[0]


@pytest.mark.parametrize("is_portable", [False, True])
def test_numpy_numbers_and_arrays_are_settings(is_portable, tiny_run, opened_without_xla):
    model = minigpt.load_portable(tiny_run.portable_file) if is_portable else opened_without_xla
    numpy = {"top_k": np.int64(3), "temperature": np.float32(0.5), "banned_tokens": np.array([9])}
    numpy["seed"] = np.int64(7)  # Without one, texts differ each time.
    python = {"top_k": 3, "temperature": 0.5, "banned_tokens": [9], "seed": 7}
    found = model.generate("Ana", np.int64(4), num_samples=np.int64(1), **numpy)
    assert found == model.generate("Ana", 4, **python)


def test_pairs_in_an_array(pair_run, without_xla):
    model = minigpt.load(pair_run)
    assert model.evaluate(np.array([["a b", "b a"]])) == model.evaluate([("a b", "b a")])
    assert model.translate("a b c", max_new_tokens=10**6) == model.translate("a b c")
