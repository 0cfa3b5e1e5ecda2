"""One pass of a GPT with the caches as inputs and outputs, for formats whose users run the loop."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from minigpt.models import GPT, build_gpt


class CachedStep(tf.Module):
    """A GPT whose inputs are token ids, their position and the caches.

    Block i has the caches `key_i`, float32[B, G, max_len, K], and `value_i`, float32[B, G, max_len, U],
    with G heads for keys and values. With convolutions it also has `attention_input_i` and `ff_input_i`,
    float32[B, 1, max_len, D]; with n-grams, the model has `ids_0`, float32[B, 1, max_len, 1]. The cache of
    an empty text is zeros. The outputs `new_key_i` and so on are the caches of the next call.

    Args:
      model: the GPT. Its weights are used in float32.
    Attributes:
      cache_names: `key_0`, `value_0`, `key_1`, ..., in the order of `empty_caches`.
    """

    def __init__(self, model: GPT) -> None:
        super().__init__(name="minigpt")
        if model.compute_dtype != "float32":
            copy = build_gpt(model.config, model.vocab_size)
            copy.set_weights(model.get_weights())
            model = copy
        self.model = model
        parts = (
            "key",
            "value",
            *(("attention_input", "ff_input") * (model.config.convolution > 0)),
        )
        blocks = range(len(model.blocks))
        self.cache_names = ["ids_0"] * bool(model.config.ngrams)
        self.cache_names += [f"{part}_{i}" for i in blocks for part in parts]

    def signature(self, rows: int | None, tokens: int | None) -> list[tf.TensorSpec]:
        """Returns the inputs of `step`; None for sizes that are not fixed."""
        caches = tf.nest.flatten(self.model.empty_caches(1))
        return [
            tf.TensorSpec([rows, tokens], tf.int32, "token_ids"),
            tf.TensorSpec([rows], tf.int32, "position"),
            *(
                tf.TensorSpec([rows, *cache.shape[1:]], tf.float32, name)
                for name, cache in zip(self.cache_names, caches, strict=True)
            ),
        ]

    def step(self, token_ids: Any, position: Any, *caches: Any) -> dict[str, Any]:
        """Scores the next tokens of texts.

        Args:
          token_ids: int32[B, T].
          position: int32[B], the position of the first of them in each text.
          *caches: those of the tokens before.
        Returns:
          "logits", float32[B, T, V], and the caches with these tokens.
        """
        latents, updated = self._latents(token_ids, position, caches)
        return {"logits": self.model.logits(latents), **updated}

    def step_of_last(
        self, token_ids: Any, position: Any, last: Any, *caches: Any
    ) -> dict[str, Any]:
        """Scores the token after one column of each text, and updates the caches.

        Args:
          token_ids, position, *caches: as for `step`.
          last: int32[B], the column of the token whose next token is scored. Those behind it are padding.
        Returns:
          "logits", float32[B, V], and the caches with these tokens.
        """
        latents, updated = self._latents(token_ids, position, caches)
        latents = tf.gather(latents, last[:, None], axis=1, batch_dims=1)
        return {"logits": self.model.logits(latents)[:, 0], **updated}

    def step_of_one(self, token_id: Any, position: Any, *caches: Any) -> dict[str, Any]:
        """Scores the token after int32[B, 1], one token of each text, and updates the caches."""
        return self.step_of_last(token_id, position, tf.zeros_like(position), *caches)

    def _latents(
        self, token_ids: Any, position: Any, caches: Sequence[Any]
    ) -> tuple[Any, dict[str, Any]]:
        nested = tf.nest.pack_sequence_as(self.model.empty_caches(1), list(caches))
        latents, updated = self.model.call_with_cache(token_ids, nested, position)
        names = [f"new_{name}" for name in self.cache_names]
        return latents, dict(zip(names, tf.nest.flatten(updated), strict=True))
