"""Texts that the engine continues together get the tokens that they get alone."""

from pathlib import Path

import numpy as np
import pytest

import minigpt
from minigpt.config.sampling import TextSettings
from minigpt.errors import UserError
from minigpt.targets.gguf.instance import ENDED, NOTHING_NEW, BatchEngine
from tests.targets.gguf.models import GPT_SHAPES, PAIR_SHAPES, Built, build

SLOTS, MOST = 5, 120


def opened(built: Built, folder: Path, weights: str = "float32") -> tuple[BatchEngine, Path]:
    path = built.write(folder / "model.gguf", weights)
    engine = BatchEngine(path)
    engine.open_batch(SLOTS, MOST)
    return engine, path


def some_texts(vocab_size: int, count: int) -> list[tuple[list[int], TextSettings]]:
    """Prompts of 0 to 70 tokens, which is beyond the context of some models, with different settings."""
    draw = np.random.default_rng(3)
    texts = []
    for i in range(count):
        prompt = draw.integers(0, vocab_size, draw.integers(0, 71)).tolist()
        settings = TextSettings(
            max_new_tokens=int(draw.integers(1, 40)),
            temperature=float(draw.choice([0.0, 0.8, 1.5])),
            top_k=int(draw.choice([0, 5])),
            top_p=float(draw.choice([1.0, 0.9])),
            typical_p=(1.0, 0.5, 1.0)[i % 3],
            repetition_penalty=float(draw.choice([1.0, 1.3])),
            banned_tokens=tuple(draw.integers(0, vocab_size, i % 3).tolist()),
        )
        texts.append((prompt, settings))
    return texts


def alone(engine: BatchEngine, prompt: list[int], settings: TextSettings, seed: int) -> list[int]:
    engine.set_sampling(settings, seed)
    engine.start(prompt, settings.max_new_tokens)
    return engine.add_tokens(settings.max_new_tokens)


@pytest.mark.parametrize(
    ("shape", "weights"),
    [
        ("keras", "float32"),
        ("annotated", "float32"),
        ("additions", "float32"),
        ("modern", "int8"),
        ("odd", "float16"),
    ],
)
def test_together_as_alone(shape, weights, tmp_path):
    engine, path = opened(build(GPT_SHAPES[shape]), tmp_path, weights)
    texts = some_texts(minigpt.load_portable(path).vocab_size, 14)
    single = BatchEngine(path)
    expected = [alone(single, *text, seed) for seed, text in enumerate(texts)]
    found: list[list[int]] = [[] for _ in texts]
    running: dict[int, int] = {}  # Slot → text.
    waiting = list(range(len(texts)))
    while waiting or running:
        free = set(range(SLOTS)) - set(running)
        # Texts begin while others run.
        if waiting and free:
            slot = min(free)
            running[slot] = waiting.pop(0)
            engine.start_slot(slot, *texts[running[slot]], running[slot])
        for slot, token in enumerate(engine.step()):
            if slot not in running:
                assert token == NOTHING_NEW
                continue
            text = running[slot]
            found[text] += [token] if token >= 0 else []
            if token == ENDED or len(found[text]) == texts[text][1].max_new_tokens:
                del running[slot]
                engine.close_slot(slot)
    assert found == expected


def one_step(engine: BatchEngine, slot: int = 0) -> int:
    while True:
        token = engine.step()[slot]
        if token != NOTHING_NEW:
            return token


def test_a_prompt_is_read_in_parts(tmp_path):
    """A running text gets a token in every step while a long prompt is read."""
    engine, _ = opened(build(GPT_SHAPES["gpt2"]), tmp_path)
    greedy = TextSettings(max_new_tokens=40, temperature=0.0, banned_tokens=(1,))
    engine.start_slot(0, [5], greedy, 0)
    assert engine.step()[0] >= 0
    for slot in range(1, SLOTS):
        engine.start_slot(slot, [4] * 80, greedy, 0)
    results = [engine.step() for _ in range(4)]
    assert all(result[0] != NOTHING_NEW for result in results)
    assert any(result[slot] == NOTHING_NEW for result in results for slot in range(1, SLOTS))


def test_the_end_token_ends_a_text(tmp_path):
    engine, path = opened(build(GPT_SHAPES["gpt2"]), tmp_path)
    end_id = minigpt.load_portable(path).tokenizer.end_id
    engine.start_slot(1, [5], TextSettings(), 0, biases={end_id: 100.0})
    engine.start_slot(3, [], TextSettings(), 0, biases={end_id: -np.inf})
    results = [engine.step() for _ in range(3)]
    assert [result[1] for result in results] == [ENDED, NOTHING_NEW, NOTHING_NEW]
    assert all(result[3] >= 0 for result in results)


def test_choices_biases_and_penalties(tmp_path):
    """Against the logits that the engine computes of whole texts."""
    engine, path = opened(build(GPT_SHAPES["modern"]), tmp_path)
    model = minigpt.load_portable(path)
    banned = set(range(model.vocab_size)) - set(model.tokenizer.never_sampled_ids)
    biases = {token: float(np.sin(token)) for token in range(0, model.vocab_size, 2)}
    biases[max(banned)] = -np.inf
    greedy = TextSettings(max_new_tokens=20, temperature=0.0)
    prompt = [7, 8, 9]
    options = {"frequency_penalty": 0.7, "presence_penalty": -1.1, "records": True}
    engine.start_slot(2, prompt, greedy, 0, biases=biases, **options)
    ids, seen = list(prompt), dict[int, int]()
    for _ in range(12):
        logits = model.logits([ids])[0, -1].astype(np.float64)
        probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        changed = logits.copy()
        changed[list(model.tokenizer.never_sampled_ids)] = -np.inf
        for token, value in biases.items():
            changed[token] += value
        for token, count in seen.items():
            changed[token] -= 0.7 * count - 1.1
        order = np.argsort(-changed, kind="stable")
        assert changed[order[0]] - changed[order[1]] > 1e-4, "a near tie: choose another seed"
        token = one_step(engine, 2)
        if token == ENDED:
            assert order[0] == model.tokenizer.end_id
            break
        assert token == order[0]
        choice = engine.choice(2)
        assert list(choice.ids) == np.argsort(-logits, kind="stable")[: len(choice.ids)].tolist()
        np.testing.assert_allclose(choice.probabilities, probabilities[list(choice.ids)], 1e-4)
        np.testing.assert_allclose(choice.probability, probabilities[token], 1e-4)
        seen[token] = seen.get(token, 0) + 1
        ids.append(token)
    assert max(seen.values()) > 1, "no token came twice: frequency was not tested"


def test_mean_latents(tmp_path):
    built = build(GPT_SHAPES["gpt2"])
    engine, _ = opened(built, tmp_path)
    ids = np.random.default_rng(0).integers(0, 16, 20)
    latents = built.model.latents(ids[None]).numpy()[0]
    np.testing.assert_allclose(engine.mean_latent(ids), latents.mean(0), atol=1e-5)


def test_errors(tmp_path):
    engine, path = opened(build(GPT_SHAPES["gpt2"]), tmp_path)
    for slot, ids, settings in (
        (SLOTS, [3], TextSettings()),
        (0, [10**6], TextSettings()),
        (0, [3], TextSettings(banned_tokens=(10**6,))),
        (0, [3] * 100, TextSettings(max_new_tokens=21)),
    ):
        with pytest.raises(UserError):
            engine.start_slot(slot, ids, settings, 0)
    with pytest.raises(UserError, match="memory"):
        BatchEngine(path).open_batch(2**26, 2)
    with pytest.raises(UserError):
        opened(build({"kind": "encoder_decoder", **PAIR_SHAPES["paper"]}), tmp_path)
    # The batch goes on after errors.
    engine.start_slot(0, [3] * 100, TextSettings(max_new_tokens=20), 0)
    assert one_step(engine) >= ENDED
