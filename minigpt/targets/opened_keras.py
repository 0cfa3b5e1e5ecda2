"""A Keras model and its tokenizer as `Opened`: the source of an export, and exports that Keras reads."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from minigpt.config.sampling import TextSettings
from minigpt.generation.base_models import Prompt, chat_prompt
from minigpt.generation.decoding import Decoder
from minigpt.generation.decoding_loop import padded
from minigpt.generation.sampler import Sampler
from minigpt.generation.step_models import CachedGPT
from minigpt.generation.text_models import TranslationModel
from minigpt.models import GPT, EncoderDecoder, build_model
from minigpt.targets.targets import Opened, Sources, Texts
from minigpt.tokenizers.base import Tokenizer

# The size of the logits that are computed at a time.
_BATCH_BYTES = 2**27


def opened_keras(
    model: GPT | EncoderDecoder,
    tokenizer: Tokenizer,
    packages: tuple[str, ...] = ("keras", "tensorflow"),
) -> Opened:
    """Returns a model and its tokenizer in this process; `packages` read the format."""

    def encode(lines: Sequence[str]) -> list[list[int]]:
        return [ids.tolist() for ids in tokenizer.encode_many(list(lines))]

    def logits(texts: Texts, sources: Sources) -> Iterator[np.ndarray]:
        longest = max(map(len, texts), default=1)
        # In batches: a call without a graph takes 0.2 s for eight blocks, whatever it computes.
        rows = max(1, _BATCH_BYTES // (4 * longest * model.vocab_size))
        for start in range(0, len(texts), rows):
            batch = texts[start : start + rows]
            # The model is causal: no token sees the padding after it.
            inputs: Any = padded(batch)[0]
            if sources[start] is not None:
                read = [ids for ids in sources[start : start + rows] if ids is not None]
                inputs = (*padded(read), inputs)
            scores = model(inputs).numpy()
            yield from (row[: len(ids)] for row, ids in zip(scores, batch, strict=True))

    @cache
    def decoder() -> Decoder:
        # The texts are generated once: compiling the loop would take longer.
        assert isinstance(model, GPT)
        step_model = CachedGPT(model, jit_compile=False)
        return Decoder(step_model, tokenizer.end_id, tokenizer.never_sampled_ids)

    def continue_greedily(prompts: Sequence[str], max_new_tokens: int) -> list[str]:
        if isinstance(model, EncoderDecoder):
            translator = TranslationModel(model, tokenizer)
            return translator.translate(list(prompts), max_new_tokens=max_new_tokens)
        return continued(
            [Prompt(prompt, tokenizer.encode(prompt)) for prompt in prompts], max_new_tokens
        )

    def answer(questions: Sequence[str], max_new_tokens: int) -> list[str]:
        limits = model.max_len, max_new_tokens
        return continued([chat_prompt(q, tokenizer, *limits) for q in questions], max_new_tokens)

    def continued(prompts: list[Prompt], max_new_tokens: int) -> list[str]:
        sampling = TextSettings(max_new_tokens=max_new_tokens, temperature=0.0)
        samples = Sampler(decoder(), tokenizer, sampling).samples(prompts, [0] * len(prompts))
        return [sample.text for sample in samples]

    return Opened(
        encode,
        continue_greedily,
        packages,
        max_len=model.max_len,
        logits=logits,
        decode=tokenizer.continuation,
        answer=answer if tokenizer.chat else None,
    )


def in_float32(model: Any) -> Any:
    """Returns a model, or its copy if it computes in another precision."""
    if model.compute_dtype == "float32":
        return model
    copy = build_model(model.config, model.vocab_size, "float32")
    copy.set_weights(model.get_weights())
    return copy
