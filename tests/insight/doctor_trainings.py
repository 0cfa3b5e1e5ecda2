"""Runs that the doctor should judge: bad ones, each with its verdict, and good ones, with none."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import minigpt
from tests.conftest import SHARED_DATA

# A small model that learns tiny Shakespeare in seconds. Without XLA, which would take most of the time.
SMALL: dict[str, Any] = {
    "tokenizer.kind": "character",
    "tokenizer.vocab_size": 128,
    "model.max_len": 64,
    "model.embed_dim": 64,
    "model.num_heads": 2,
    "model.num_layers": 2,
    "training.batch_size": 16,
    "training.epochs": 5,
    "training.steps_per_epoch": 160,
    "training.max_minutes": "none",
    "training.learning_rate": 8e-3,
    "training.warmup_steps": 20,
    "training.deterministic": True,
    "training.early_stopping_patience": "none",
    "sampling.print_every": 5,
}


@dataclass(frozen=True)
class Training:
    """A run.

    Attributes:
      name: a short name.
      verdict: the id of the verdict that it should get; None for a good run.
      settings: changes of `SMALL`.
      innocent_of: a verdict that it should not get.
      text: makes the training text of tiny Shakespeare.
    """

    name: str
    verdict: str | None
    settings: dict[str, Any] = field(default_factory=dict)
    text: Callable[[str], str] = lambda play: play
    innocent_of: str | None = None

    def train(self, play: str, folder: Path) -> Path:
        """Trains, and returns the run directory. The loss may become nan.

        Args:
          play: tiny Shakespeare.
          folder: for the text and the run.
        """
        folder.mkdir()
        file, run = folder / "text.txt", folder / "run"
        file.write_text(self.text(play), encoding="utf-8")
        settings = {"data.source": "files"} | SMALL | self.settings
        if settings["data.source"] == "files":
            settings["data.paths"] = [str(file)]
        sections: dict[str, dict[str, Any]] = {}
        for name, value in settings.items():
            section, key = name.split(".")
            sections.setdefault(section, {})[key] = value
        try:
            minigpt.train(sections, run)
        except minigpt.UserError as error:
            if "the loss is" not in str(error):
                raise
        return run


def _random_letters(play: str) -> str:
    draw = random.Random(1)
    return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz ") for _ in range(300_000))


def _speeches(play: str, count: int) -> list[str]:
    return play[:400_000].split("\n\n")[:count]


def _copies(play: str) -> str:
    """Every speech is there twice, far from its copy and in another order."""
    speeches = _speeches(play, 900)
    return "\n\n".join(speeches + random.Random(1).sample(speeches, len(speeches)))


def _repeated_line(play: str) -> str:
    line = "Sign up today and receive the newsletter of our theatre free of charge."
    return "".join(f"{part}\n{line}\n" for part in _speeches(play, 1000))


def _mixed_encodings(play: str) -> str:
    """Every fifth speech is UTF-8 that was read as Latin-1."""
    speeches = [speech.replace("e", "é").replace("o", "ö") for speech in _speeches(play, 1000)]
    wrong = [speech.encode().decode("latin-1") for speech in speeches]
    return "\n\n".join(
        pair[number % 5 == 0] for number, pair in enumerate(zip(speeches, wrong, strict=True))
    )


def _planted(play: str) -> str:
    """A passage of a play that is there 200 times, in the held-out text, too."""
    passage = play[500_000:501_500]
    parts = _speeches(play, 400)
    return "".join(f"{part}\n\n{passage}\n\n" for part in parts[::2])


def _repeated(play: str) -> str:
    """The same pages again and again; the last tenth, which is held out, has other ones."""
    return 12 * play[:12_000] + play[500_000:516_000]


def _german_end(play: str) -> str:
    """The last tenth, which is held out, is in German."""
    lines = (SHARED_DATA / "eng-deu.tsv").read_text(encoding="utf-8").splitlines()
    german = "\n".join(line.split("\t")[1] for line in lines)
    return play[:450_000] + german[-50_000:]


BAD = [
    Training("rate_far_too_low", "learning_rate_low", {"training.learning_rate": 4e-6}),
    Training(
        "rate_too_low",
        "learning_rate_low",
        {"training.learning_rate": 2e-5, "training.optimizer": "adamw"},
    ),
    Training(
        "rate_too_high",
        "learning_rate_high",
        {"training.learning_rate": 0.2, "training.optimizer": "adamw"},
    ),
    Training("rate_far_too_high", "learning_rate_high", {"training.learning_rate": 4.0}),
    Training(
        "rises_again",
        "diverging",
        {
            "training.learning_rate": 0.6,
            "training.warmup_steps": 400,
            "training.steps_per_epoch": 80,
            "training.optimizer": "adam",
            "training.schedule": "constant",
        },
    ),
    Training(
        "becomes_nan",
        "diverging",
        {
            "training.learning_rate": 1e6,
            "training.optimizer": "sgd",
            "training.clip_norm": "none",
        },
    ),
    Training("nothing_to_learn", "not_learning", text=_random_letters),
    Training("too_short", "too_short", {"training.steps_per_epoch": 16}),
    Training(
        "too_small",
        "too_small",
        {"model.embed_dim": 8, "model.num_heads": 1, "model.num_layers": 1},
    ),
    Training(
        "too_large",
        "too_large",
        {
            "model.embed_dim": 384,
            "model.num_heads": 6,
            "model.num_layers": 6,
            "training.steps_per_epoch": 4,
        },
        lambda play: play[:20_000],
    ),
    Training(
        "by_heart",
        "memorized",
        {"model.embed_dim": 128, "model.num_heads": 4, "training.steps_per_epoch": 240},
        lambda play: play[:8000],
    ),
    Training(
        "repeated",
        "memorized",
        {"model.embed_dim": 128, "model.num_heads": 4, "training.steps_per_epoch": 240},
        _repeated,
    ),
    # 23% of a pass, a pass and a half: nothing is copied, and the gap is that of the languages.
    Training(
        "german_end_early",
        "too_short",
        {"training.steps_per_epoch": 20},
        _german_end,
        innocent_of="memorized",
    ),
    Training("german_end", "unlike", text=_german_end, innocent_of="memorized"),
    Training(
        "part_of_a_pass", "too_short", {"training.steps_per_epoch": 10}, innocent_of="memorized"
    ),
    Training("planted", "suspicious_text", text=_planted),
    Training("copies", "suspicious_text", text=_copies),
    Training("one_line", "suspicious_text", text=_repeated_line),
    Training("encodings", "suspicious_text", text=_mixed_encodings),
]
GOOD = [
    Training("play", None, {"training.steps_per_epoch": 300}),
    Training(
        "words",
        None,
        {
            "tokenizer.kind": "byte_pair",
            "tokenizer.vocab_size": 512,
            "training.steps_per_epoch": 320,
        },
    ),
    Training(
        "adam",
        None,
        {
            "training.optimizer": "adamw",
            "training.learning_rate": 6e-3,
            "training.steps_per_epoch": 400,
        },
    ),
    Training(
        "stories",
        None,
        {"data.source": "stories", "tokenizer.kind": "byte_pair", "tokenizer.vocab_size": 512},
    ),
]
