"""Exported folders, loaded by transformers: `pip install -e '.[parity]'`, then `make test-slow`."""

from pathlib import Path

import pytest

import minigpt
from minigpt.config import load_config
from minigpt.targets.huggingface.folders import import_run
from minigpt.tokenizers.base import Tokenizer
from tests.mixed_lines import code, scraps
from tests.targets.gguf.models import gpt2_tokenizer
from tests.targets.huggingface.folders import write_model
from tests.targets.huggingface.test_chat_template import CHATML, QWEN3, TURNS, folder_with
from tests.targets.huggingface.test_export import KINDS, learned, random_gpt

pytestmark = pytest.mark.slow
transformers = pytest.importorskip("transformers", reason="needs the extra parity")
torch = pytest.importorskip("torch", reason="needs the extra parity")

SIZES = {
    "gpt2": {"embed_dim": 8, "num_heads": 1, "num_layers": 1},
    "qwen3": {
        **{"block": "modern", "embed_dim": 20, "num_heads": 6, "num_kv_heads": 2, "head_dim": 8},
        **{"num_layers": 3, "ff_dim": 17, "rotary_base": 1e6, "tie_embeddings": False},
    },
}


def pair(sizes: dict, tokenizer: Tokenizer, folder: Path):
    """Returns a model, and the same model loaded by transformers."""
    model = random_gpt(tokenizer.vocab_size, max_len=96, norm_epsilon=1e-5, **sizes)
    write_model(model, tokenizer, folder)
    class_name = "Qwen3ForCausalLM" if sizes.get("block") == "modern" else "GPT2LMHeadModel"
    kind = getattr(transformers, class_name)
    theirs, info = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model, theirs.eval()


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(("kind", "vocab_size"), [("gpt2", 400), *KINDS, ("byte_pair", 1200)])
def test_auto_tokenizer_gives_the_same_ids_and_text(kind, vocab_size, name, tmp_path):
    tokenizer = gpt2_tokenizer() if kind == "gpt2" else learned(kind, vocab_size)
    if vocab_size == 1200:
        config = load_config({"tokenizer": {"vocab_size": vocab_size}}).tokenizer
        tokenizer = minigpt.tokenizers.kinds.learn_tokenizer(code(500, 8) + scraps(1000, 9), config)
    pair(SIZES[name], tokenizer, tmp_path / "folder")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    lines = code(1000, 10) + scraps(3000, 11) + ["", " ", "[PAD][UNK] <end><unk> <0x41>"]
    for line in lines:
        ids = tokenizer.encode(line).tolist()
        assert theirs(line)["input_ids"] == ids, repr(line)
        assert theirs.decode(ids, skip_special_tokens=True) == tokenizer.decode(ids)
    assert theirs.eos_token_id == theirs.bos_token_id == tokenizer.end_id
    assert len(theirs) == tokenizer.vocab_size


@pytest.mark.parametrize(("splitting", "template"), [("gpt2", CHATML), ("qwen2", QWEN3)])
def test_a_chat_template_gives_the_same_ids_and_answers(splitting, template, tmp_path):
    folder = folder_with(template, tmp_path / "folder", splitting)
    run = import_run(folder, tmp_path / "run")
    minigpt.export_run(run, "huggingface", tmp_path / "again")
    ours = minigpt.load(run)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again").eval()
    for messages in (TURNS[:2], TURNS[1:2], [*TURNS[1:3], *TURNS[1:2]]):
        encoded = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        (ids,) = ours.tokenizer.encode_dialogues([messages])
        assert list(encoded["input_ids"]) == ids.tolist()
    prompt = torch.tensor([ids.tolist()])
    found = theirs.generate(prompt, max_new_tokens=8, do_sample=False)[0, prompt.shape[1] :]
    assert ours.chat(messages, 8, temperature=0.0) == ours.tokenizer.decode(found.numpy())
