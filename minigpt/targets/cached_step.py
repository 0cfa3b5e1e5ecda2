"""One pass of a GPT with the caches as inputs and outputs, for formats whose users run the loop."""

from typing import Any

import tensorflow as tf

from minigpt.models import GPT
from minigpt.targets.opened_keras import in_float32


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
        self.model = in_float32(model)
        parts = ["key", "value"]
        parts += ["attention_input", "ff_input"] * (model.config.convolution > 0)
        self.cache_names = ["ids_0"] * bool(model.config.ngrams)
        self.cache_names += [f"{part}_{i}" for i in range(len(model.blocks)) for part in parts]

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

    def step(self, token_ids: Any, position: Any, *caches: Any, last: Any = None) -> dict[str, Any]:
        """Scores the next tokens of texts.

        Args:
          token_ids: int32[B, T].
          position: int32[B], the position of the first of them in each text.
          *caches: those of the tokens before.
          last: int32[B], the column of each text that is scored, before padding; None for all.
        Returns:
          "logits", float32[B, T, V], or float32[B, V] with `last`, and the caches with these tokens.
        """
        nested = tf.nest.pack_sequence_as(self.model.empty_caches(1), list(caches))
        latents, updated = self.model.call_with_cache(token_ids, nested, position)
        names = [f"new_{name}" for name in self.cache_names]
        new_caches = dict(zip(names, tf.nest.flatten(updated), strict=True))
        if last is not None:
            latents = tf.gather(latents, last[:, None], axis=1, batch_dims=1)
        logits = self.model.logits(latents)
        return {"logits": logits if last is None else logits[:, 0], **new_caches}
