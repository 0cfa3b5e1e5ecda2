"""Measures the training of Qwen3 of `transformers` in PyTorch, eager and compiled."""

from typing import Any

from benchmarks.measuring import Context, Outcome
from benchmarks.sizes import MODERN, Sizes
from benchmarks.torch_gpt2 import training_speed


def build(sizes: Sizes) -> Any:
    """Returns a Qwen3 with a tied head, without grouped queries."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=sizes.vocab_size,
            hidden_size=sizes.embed_dim,
            intermediate_size=sizes.ff_dim,
            num_hidden_layers=sizes.num_layers,
            num_attention_heads=sizes.num_heads,
            num_key_value_heads=sizes.num_heads,
            head_dim=sizes.head_dim,
            max_position_embeddings=sizes.context,
            tie_word_embeddings=True,
            attention_dropout=0.0,
            bos_token_id=0,
            eos_token_id=None,
            pad_token_id=0,
        )
    )


def speed(context: Context, compiled: bool, steps: int, seconds: float) -> Outcome:
    """Measures tokens per second, as `torch_gpt2.speed`."""
    import transformers.models.qwen3.modeling_qwen3  # noqa: F401

    return training_speed(build, MODERN, compiled, steps, seconds)
