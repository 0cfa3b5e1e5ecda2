"""Folders that transformers writes: imported with its logits and its greedy text, and written back.

`pip install -e '.[parity]'`, then `make test-slow`.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import minigpt
from minigpt.targets.huggingface.folders import import_run
from tests.targets.huggingface.folders import difference, write_model

pytestmark = pytest.mark.slow
transformers = pytest.importorskip("transformers", reason="needs the extra parity")
torch = pytest.importorskip("torch", reason="needs the extra parity")

from tests.targets.huggingface.tokenizers_package import (  # noqa: E402
    END,
    add,
    gpt2_tokenizer,
    qwen3_tokenizer,
)

PARITY = 1e-5
PROMPT = "<user>It's 12 o'clock, Zoe\u0301! <bot> word<think>\n\n<|im_end|> Yes"
GPT2 = {"n_positions": 128, "n_embd": 16, "n_layer": 2, "n_head": 2}
QWEN3 = {
    **{"max_position_embeddings": 128, "hidden_size": 16, "intermediate_size": 24},
    **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8},
}


def tokenizer_of(kind: str, end: str, *added: tuple[str, dict]):
    built = gpt2_tokenizer() if kind == "gpt2" else qwen3_tokenizer()
    for content, flags in added:
        add(built, [content], **flags)
    name = "GPT2Tokenizer" if kind == "gpt2" else "Qwen2Tokenizer"
    settings = {"eos_token": end, "bos_token": END, "unk_token": END, "pad_token": END}
    return getattr(transformers, name)(tokenizer_object=built, **settings)


def write(
    folder: Path,
    model: str,
    *,
    end: str | None = None,
    added: tuple[tuple[str, dict], ...] = (),
    dtype: str = "float32",
    shards: str = "1GB",
    rows: int = 0,
    **config,
) -> None:
    """Writes a folder with transformers.

    Args:
      model: "gpt2" or "qwen3".
      added: tokens that are added to its tokenizer, with their flags.
      rows: ids without a token.
    """
    end = end or (END if model == "gpt2" else "<|im_end|>")
    tokenizer = tokenizer_of(model, end, *added)
    kind, sizes = {
        "gpt2": (transformers.GPT2LMHeadModel, GPT2),
        "qwen3": (transformers.Qwen3ForCausalLM, QWEN3),
    }[model]
    settings = {**sizes, "vocab_size": len(tokenizer) + rows, **config}
    settings |= {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    torch.manual_seed(5)
    built = kind(kind.config_class(**settings))
    with torch.no_grad():
        for parameter in built.parameters():
            scale = 0.1 if parameter.ndim == 1 else 0.6
            parameter.add_(scale * torch.randn_like(parameter))
    built.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size=shards)
    tokenizer.save_pretrained(folder)


def edited(folder: Path, file: str = "config.json", **changes) -> None:
    """Changes entries of a file; those that are None are removed."""
    content = json.loads((folder / file).read_text("utf-8")) | changes
    content = {key: value for key, value in content.items() if value is not None}
    (folder / file).write_text(json.dumps(content))


def then(change: Callable[..., None], *arguments, **settings) -> Callable[[Path], None]:
    return lambda folder: change(folder, *arguments, **settings)


CHAT = (("<user>", {}), ("<bot>", {}))
FLAGGED = (
    ("<user>", {"normalized": False}),
    ("<bot>", {"special": True}),
)
# Name → arguments of `write`, and what is changed afterwards.
WORKING: dict[str, tuple[dict, Callable[[Path], None] | None]] = {
    "gpt2": ({}, None),
    "gpt2, added tokens with flags": ({"added": FLAGGED}, None),
    "gpt2, end token added": (
        {"added": (*CHAT, ("<|im_end|>", {"special": True})), "end": "<|im_end|>"},
        None,
    ),
    "gpt2, gelu and odd sizes": (
        {
            "activation_function": "gelu",
            "n_positions": 127,
            "n_inner": 19,
            "n_embd": 21,
            "n_head": 3,
        },
        None,
    ),
    "gpt2, further settings": (
        {"summary_type": "mean", "use_cache": False, "initializer_range": 0.5},
        then(edited, torch_dtype="float32", n_ctx=64, task_specific_params={"a": 1}),
    ),
    "qwen3": ({"tie_word_embeddings": True}, None),
    "qwen3, added tokens": ({"added": CHAT, "rows": 11}, None),
    "qwen3, sharded bfloat16": ({"dtype": "bfloat16", "shards": "5KB"}, None),
    "qwen3, float16": ({"dtype": "float16"}, None),
}


def model_of(name: str) -> str:
    return name.partition(",")[0]


@pytest.mark.parametrize("name", WORKING)
def test_imported_with_the_same_logits_and_text(name, tmp_path, without_xla):
    arguments, change = WORKING[name]
    folder = tmp_path / "folder"
    write(folder, model_of(name), **arguments)
    if change:
        change(folder)
    ours = minigpt.load(import_run(folder, tmp_path / "run"))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    check(ours, theirs, tokenizer)
    # And back again.
    again = tmp_path / "again"
    write_model(ours.model, ours.tokenizer, again)
    check(
        ours,
        transformers.AutoModelForCausalLM.from_pretrained(again).eval(),
        transformers.AutoTokenizer.from_pretrained(again),
    )


def check(ours, theirs, tokenizer) -> None:
    unknown = list(range(len(tokenizer), theirs.config.vocab_size))
    draw = np.random.default_rng(0)
    ids = draw.integers(0, ours.model.vocab_size, (2, 40)).astype("int32")
    with torch.no_grad():
        right = theirs(torch.tensor(ids.astype("int64"))).logits.numpy()
    assert right.std() > 0.5
    assert difference(ours.logits(ids), right) < PARITY
    for prompt in (PROMPT, "a <user> b", "It was a dark and stormy night"):
        prompt_ids = tokenizer(prompt)["input_ids"]
        assert ours.tokenizer.encode(prompt).tolist() == prompt_ids
        found = theirs.generate(
            torch.tensor([prompt_ids]),
            max_new_tokens=20,
            do_sample=False,
            suppress_tokens=unknown or None,
            pad_token_id=ours.tokenizer.end_id,
        )[0, len(prompt_ids) :].tolist()
        end = ours.tokenizer.end_id
        found = found[: found.index(end)] if end in found else found
        (sample,) = ours.samples(prompt, 20, temperature=0)
        assert sample.tokens == found
        # An incomplete character at the end of a text is left out.
        text = tokenizer.decode(found, clean_up_tokenization_spaces=False)
        assert sample.text.rstrip("\ufffd") == text.rstrip("\ufffd")
