"""Measures GPT-2 of `transformers` in PyTorch: training, eager and compiled, and `generate`."""

from typing import Any

import torch
import transformers.models.gpt2.modeling_gpt2  # noqa: F401 - Before memory is counted.

from benchmarks.measuring import DEFAULT, SMALL, Outcome, Sizes, SteadySpeed, timed


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


def speed(compiled: bool, steps: int, seconds: float) -> Outcome:
    """Measures tokens per second with fused AdamW, as transformers' Trainer uses it, and clipping."""
    steady = SteadySpeed(DEFAULT.tokens_per_step, steps, seconds)
    torch.manual_seed(0)
    model = build(DEFAULT).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True
    )
    run = torch.compile(model) if compiled else model
    rows = torch.randint(DEFAULT.vocab_size, (8, DEFAULT.batch_size, DEFAULT.length + 1))
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
    return steady.outcome()


def generation(rows: int, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second of `generate` with top-k 10."""
    torch.manual_seed(0)
    gpt = build(SMALL).eval()
    prompt = torch.ones((rows, 1), dtype=torch.long)

    def call(number: int) -> None:
        out = gpt.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            top_k=10,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
        )
        assert out.shape == (rows, 1 + new_tokens)

    seconds, _ = timed(call, calls)
    return {"value": rows * new_tokens / seconds}
