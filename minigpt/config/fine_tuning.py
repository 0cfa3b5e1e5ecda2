"""How training goes on from a model that exists, chosen from measurements (EXPERIMENTS.md)."""

from typing import Any

# The measurements had models of 5 million weights.
_WEIGHTS, _RATE = 5e6, 6e-4
# Passes over the text, and the least updates.
_PASSES, _LEAST_STEPS = 5, 40
# Models of more weights, such as GPT-2, are trained with AdamW, for few steps with short sequences, so that
# two cores complete a useful number of them.
_LARGE = 30e6


def settings_for(weights: float, tokens: float, max_len: int) -> tuple[dict[str, Any], float, int]:
    """Returns the recipe for a model and a text.

    The learning rate falls with the root of the number of weights, to the usual 1e-4 of GPT-2.

    Args:
      weights: that are multiplied.
      tokens: those of the training text.
      max_len: the context of the model.
    Returns:
      settings of [training], the dropout rate, and the number of updates.
    """
    rate = float(f"{_RATE * (_WEIGHTS / weights) ** 0.5:.1g}")
    if weights >= _LARGE:
        batch = {"batch_size": 4, "sequence_length": 128}
        adam = {"optimizer": "adamw", "adam_beta_2": 0.999, "weight_decay": 0.01}
        return {**batch, **adam, "learning_rate": rate}, 0.0, 200
    batch = {"batch_size": 8 if tokens > 10_000 else 4, "sequence_length": min(256, max_len)}
    steps = _PASSES * tokens / (batch["batch_size"] * batch["sequence_length"])
    muon = {"optimizer": "muon", "adam_beta_2": 0.99, "weight_decay": 0.1}
    return {**batch, **muon, "learning_rate": rate}, 0.1, max(_LEAST_STEPS, round(steps))
