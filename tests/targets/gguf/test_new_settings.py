"""A setting of the model that the portable file does not have: the model is refused."""

from pydantic import create_model

from minigpt.config import GPTConfig
from minigpt.targets.gguf.writing import portable_problem
from tests.targets.gguf.models import GPT_SHAPES, build


def test_settings_and_values_that_the_engine_does_not_know():
    """A new activation is a value, not a setting; a new setting with its default changes nothing."""
    tokenizer = build(GPT_SHAPES["modern"]).tokenizer
    assert portable_problem(GPTConfig(), tokenizer) is None
    for name in ("kind", "block", "position", "activation"):
        config = GPTConfig().model_copy(update={name: "new"})
        assert f"model.{name} = 'new'" in (portable_problem(config, tokenizer) or "")
    newer = create_model("Newer", __base__=GPTConfig, attention_gain=(float, 1.0))
    assert portable_problem(newer(), tokenizer) is None
    problem = portable_problem(newer(attention_gain=-3.0), tokenizer)
    assert problem and "model.attention_gain = -3.0" in problem
