"""Settings that fit a text, for those who give a text and nothing else."""

import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from minigpt.config import Config, dump_config, load_config
from minigpt.corpus.text_files import TextFiles

MAX_MINUTES = 10.0
# Bytes of a text that is learned character by character.
LITTLE_TEXT = 300_000


def config_for_text(
    paths: Sequence[str],
    overrides: Sequence[str] = (),
    report: Callable[[str], None] = lambda line: None,
) -> Config:
    """A sensible model for the text of some files, by the number of its bytes.

    Args:
      paths: files, folders, globs, as `data.paths`.
      overrides: `"SECTION.KEY=VALUE"` strings, stronger than what is chosen here.
      report: gets a line about everything that was chosen.
    Raises:
      UserError: if the text cannot be read, or an override is wrong.
    """
    # The overrides are checked first: reading the text can take a while.
    checked = load_config({"data": {"source": "files", "paths": list(paths)}}, overrides)
    size, characters = 0, set[str]()
    for piece in TextFiles(paths).pieces():
        size += len(piece.text)
        if size < LITTLE_TEXT:
            characters.update(piece.text.decode(errors="ignore"))
    chosen = settings_for_size(size, len(characters))
    if checked.tokenizer.kind == "gpt2":
        chosen["tokenizer"] = {"kind": "gpt2"}  # Its size is published too.
    if checked.training.init_from is not None:
        chosen = settings_for_fine_tuning(chosen)
    chosen["data"] |= {"source": "files", "paths": list(paths)}
    config = load_config(chosen, overrides)
    report(f"Chosen for {size:,} bytes of text (--set changes any of it):")
    taken = tomllib.loads(dump_config(config))
    for section, settings in chosen.items():
        for key, value in settings.items():
            if key not in ("source", "paths") and taken[section][key] == value:
                report(f"  {section}.{key} = {value!r}")
    return config


def settings_for_size(size: int, characters: int = 0) -> dict[str, Any]:
    """Sections of a configuration for a text of `size` bytes, with so many different characters.

    Little text: characters, a small model and many passes, with dropout against learning by heart.
    More text: longer pieces, a larger model, fewer passes. The widths are such that two cores get
    through the passes in about ten minutes.
    """
    if size < LITTLE_TEXT:
        embed_dim, num_layers = (
            (64, 2) if size < 30_000 else (96, 3) if size < 100_000 else (128, 4)
        )
        sizes = {
            "max_len": 64 if size < 30_000 else 128,
            "embed_dim": embed_dim,
            "num_layers": num_layers,
        }
        tokenizer: dict[str, Any] = {
            "kind": "character",
            # Padding, [UNK] and the end token are in it too.
            "vocab_size": max(512, characters + 3),
        }
        dropout_rate, batch_size, bytes_per_token = 0.2, 8 if size < 30_000 else 32, 1.0
    else:
        vocab_size = min(8192, max(512, 2 ** round(size / 1000 - 1).bit_length()))
        tokenizer = {"kind": "byte_pair", "vocab_size": vocab_size}
        large = size >= 20_000_000
        sizes = {
            "max_len": 256 if large else 128,
            "embed_dim": 256 if large else 192,
            "num_layers": 4,
        }
        dropout_rate, batch_size = (0.2 if size < 3_000_000 else 0.1 if not large else 0.0), 32
        bytes_per_token = 3.0
    tokens = 0.9 * size / bytes_per_token
    per_step = sizes["max_len"] * batch_size
    # Ten looks at what it writes, over at most thirty passes and at least one.
    steps = max(10, min(3000, int(30 * tokens / per_step)))
    return {
        "data": {"val_fraction": 0.1 if size < 10_000_000 else round(1e6 / size, 6)},
        "tokenizer": tokenizer,
        "model": {**sizes, "num_heads": 4, "dropout_rate": dropout_rate},
        "training": {
            "epochs": 10,
            "steps_per_epoch": max(1, steps // 10),
            "max_minutes": MAX_MINUTES,
            "batch_size": batch_size,
            "learning_rate": 4e-3,
            "optimizer": "muon",
            "warmup_steps": max(1, steps // 20),
            "weight_decay": 0.1,
            "clip_norm": 1.0,
            "adam_beta_2": 0.99,
        },
        "sampling": {"max_new_tokens": 100 if bytes_per_token == 1 else 60},
    }


def settings_for_fine_tuning(chosen: dict[str, Any]) -> dict[str, Any]:
    """The same for a model that is there already: no sizes, and steps that leave it what it is.

    Sequences are short and few: a published model is wide, and two cores should get somewhere.
    """
    training = {name: chosen["training"][name] for name in ("epochs", "max_minutes", "clip_norm")}
    return {
        "data": chosen["data"],
        "training": {
            **training,
            "steps_per_epoch": 20,
            "batch_size": 4,
            "sequence_length": 128,
            "optimizer": "adamw",
            "learning_rate": 1e-4,
            "warmup_steps": 10,
            "weight_decay": 0.01,
        },
        "sampling": chosen["sampling"],
    }
