"""Measures GPT-2 of `transformers` in PyTorch: training, eager and compiled, and `generate`."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measuring import Context, Outcome, SteadySpeed, needs_compiler, resident
from benchmarks.our_training import SIZES
from benchmarks.sizes import GPT2_124M, SMALL, Sizes

FIRST = 2


def build(sizes: Sizes) -> Any:
    """Returns a GPT-2 without dropout; the compared configurations have none."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=sizes.vocab_size,
            n_positions=sizes.context,
            n_embd=sizes.embed_dim,
            n_layer=sizes.num_layers,
            n_head=sizes.num_heads,
            n_inner=sizes.ff_dim,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=None,
            pad_token_id=0,
        )
    )


def speed(context: Context, system: str, compiled: bool, steps: int, seconds: float) -> Outcome:
    """Measures tokens per second of GPT-2; see `training_speed`."""
    import transformers.models.gpt2.modeling_gpt2  # noqa: F401

    return training_speed(build, SIZES[system], compiled, steps, seconds)


def training_speed(
    build: Callable[[Sizes], Any], sizes: Sizes, compiled: bool, steps: int, seconds: float
) -> Outcome:
    """Measures tokens per second with fused AdamW, as transformers' Trainer uses it, and clipping.

    Memory counts from the call of this function: import the model's module before it.

    Args:
      build: returns the model.
      compiled: whether the model is compiled with torch.compile.
      steps, seconds: the measurement ends after at least this many steps and this much time.
    """
    if compiled and (reason := needs_compiler()):
        return {"skipped": reason}
    import torch

    imported = resident()
    torch.manual_seed(0)
    model = build(sizes).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True
    )
    run = torch.compile(model) if compiled else model
    rows = torch.randint(sizes.vocab_size, (8, sizes.batch_size, sizes.length + 1))
    steady = SteadySpeed(sizes.tokens_per_step, FIRST, steps, seconds)
    step, over = 0, False
    while not over:
        batch = rows[step % len(rows)]
        logits = run(batch[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        # Training that shows its loss reads it too.
        loss.item()
        step += 1
        over = steady.seen(step)
    return {
        "value": steady.tokens_per_second,
        "memory": resident("VmHWM") - imported,
        "steps": steady.counted,
    }


def generation(context: Context, model: str, rows: int, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second of `generate` with top-k 10, without the first call."""
    import torch

    sizes = GPT2_124M if model == "124m" else SMALL
    torch.manual_seed(0)
    gpt = build(sizes).eval()
    prompt = torch.ones((rows, 1), dtype=torch.long)

    def call(count: int) -> None:
        out = gpt.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            top_k=10,
            min_new_tokens=count,
            max_new_tokens=count,
        )
        assert out.shape == (rows, 1 + count)

    call(8)
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        call(new_tokens)
        taken.append(time.perf_counter() - began)
    return {"value": rows * new_tokens / statistics.median(taken)}
