"""Small texts with something to learn, and settings that learn them in seconds.

Imports nothing of minigpt: scripts/make_run_fixtures.py trains with them by the code of another commit.
"""

import hashlib
import itertools
import json
import random
from pathlib import Path

# The folder that paths in the committed runs lead to.
PLACEHOLDER = "/written"


def tiny_text(sentences: int = 600, seed: int = 0) -> str:
    """Text with something to learn: who sat where, with letters outside ASCII."""
    draw = random.Random(seed)
    names, places = ("Ana", "Béla", "Čeněk", "Dirk"), ("hill", "roof", "boat", "wall")
    return "\n".join(
        f"{draw.choice(names)} sat on the {draw.choice(places)} and ate {draw.randint(2, 9)} figs."
        for _ in range(sentences)
    )


TINY_SETTINGS: dict[str, dict] = {
    "tokenizer": {"kind": "byte_pair", "vocab_size": 320},
    "model": {"max_len": 16, "embed_dim": 16, "num_heads": 2, "num_layers": 2, "dropout_rate": 0.0},
    "training": {
        "epochs": 2,
        "steps_per_epoch": 40,
        "max_minutes": "none",
        "batch_size": 8,
        "optimizer": "adamw",
        "learning_rate": 1e-2,
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "clip_norm": "none",
        "early_stopping_patience": "none",
    },
    # Samples take a third of the time of a short run. `tiny_run` has them.
    "sampling": {"prompts": [], "max_new_tokens": 12},
}


# Where a test reads samples.
SAMPLED = {"prompts": ["Ana sat", ""], "max_new_tokens": 12}


def tiny_settings(file: Path, **sections: dict) -> dict:
    """TINY_SETTINGS on a file, some settings changed."""
    settings = {
        "data": {"source": "files", "paths": [str(file)], "val_fraction": 0.1},
        **TINY_SETTINGS,
    }
    return {name: {**settings.get(name, {}), **sections.get(name, {})} for name in settings}


def tiny_dialogues(count: int = 120) -> list[dict]:
    """Dialogues of one to three questions, in the form of OpenAI."""
    draw = random.Random(0)
    found = []
    for _ in range(count):
        messages = []
        for _ in range(draw.randint(1, 3)):
            who, number = draw.choice("ABCD"), draw.choice(("two", "six"))
            messages.append({"role": "user", "content": f"{who} has {number}. {who}?"})
            messages.append({"role": "assistant", "content": f"{number}."})
        found.append({"messages": messages})
    return found


def dialogue_settings(file: Path) -> dict:
    return tiny_settings(
        file,
        data={"source": "dialogues"},
        tokenizer={"kind": "character", "vocab_size": 64},
        model={"max_len": 64},
    )


def letters(count: int, seed: int) -> list[str]:
    """Strings of letters with spaces between them: "c a b"."""
    draw = random.Random(seed)
    return [" ".join(draw.choices("abcdefgh", k=draw.randint(3, 8))) for _ in range(count)]


def backwards(text: str) -> str:
    return " ".join(reversed(text.split()))


PAIR_SETTINGS: dict[str, dict] = {
    "data": {"source": "pairs", "val_pairs": 200, "length_buckets": 2},
    "tokenizer": {"kind": "character", "vocab_size": 64},
    "model": {
        "kind": "encoder_decoder",
        "block": "post_norm",
        "max_len": 20,
        "embed_dim": 32,
        "num_heads": 4,
        "num_layers": 1,
        "position": "sinusoidal",
        "scale_embeddings": True,
        "activation": "relu",
        "dropout_rate": 0.0,
    },
    "training": {
        "epochs": 2,
        # Twice what most seeds need.
        "steps_per_epoch": 600,
        "max_minutes": "none",
        "batch_size": 64,
        "optimizer": "adamw",
        "weight_decay": 0.0,
        "clip_norm": "none",
        "learning_rate": 1e-2,
        "warmup_steps": 50,
        "adam_beta_2": 0.98,
        "seed": 1,
    },
    "sampling": {"translations": 3},
}


def pair_settings(file: Path, **sections: dict) -> dict:
    """PAIR_SETTINGS on a file, some settings changed."""
    settings = {**PAIR_SETTINGS, "data": {**PAIR_SETTINGS["data"], "paths": [str(file)]}}
    return {name: {**settings[name], **sections.get(name, {})} for name in settings}


def move_runs(folder: Path, old: str, new: str) -> None:
    """Replaces the folder that the paths in runs lead to.

    Args:
      folder: of the runs.
      old: the path of the folder before.
      new: the path of the folder after.
    """
    for file in itertools.chain(folder.glob("*/*.toml"), folder.glob("*/*.json")):
        file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    for file in folder.glob("*/checkpoints/*/manifest.json"):
        content = json.loads(file.read_text(encoding="utf-8").replace(old, new))
        del content["sha256"]
        content["sha256"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
