"""Muon, with fewer operations for the same update."""

from typing import Any

import keras
from keras import ops

# Steps from one A. Each makes its rounding errors up to a² = 12 times as large.
AT_ONCE = 3


@keras.saving.register_keras_serializable("minigpt")
class Muon(keras.optimizers.Muon):
    """Keras' Muon (Jordan et al. 2024); its Newton–Schulz steps work on the smaller square.

    A step is X ← (a + b A + c A²) X with A = X Xᵀ. The factors of some steps are polynomials of the first
    A, so they commute: these steps can be taken with matrices of the size of A alone, and X be multiplied
    once, by the product of all factors. That is cheaper for a matrix at least twice as wide as high.
    """

    def zeropower_via_newtonschulz5(self, x: Any, steps: int) -> Any:
        """float[N, M] → float[N, M]: nearly U Vᵀ of its singular value decomposition U S Vᵀ."""
        rows, columns = x.shape
        if rows > columns:
            return ops.transpose(self.zeropower_via_newtonschulz5(ops.transpose(x), steps))
        if columns < 2 * rows:
            return super().zeropower_via_newtonschulz5(x, steps)
        x = x / (ops.norm(x, axis=(-2, -1), keepdims=True) + 1e-7)
        while steps > 0:
            taken = min(steps, AT_ONCE)
            x = self._factors(x @ ops.transpose(x), taken) @ x
            steps -= taken
        return x

    def _factors(self, gram: Any, steps: int) -> Any:
        """The product of the factors of `steps` steps, the first A being `gram`: float[N, N] both."""
        product = identity = ops.eye(gram.shape[0], dtype=gram.dtype)
        for step in range(steps):
            factor = self.muon_a * identity + self.muon_b * gram + self.muon_c * (gram @ gram)
            product = factor @ product if step else factor
            if step < steps - 1:
                gram = factor @ gram @ factor
        return product
