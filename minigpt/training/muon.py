"""Muon, with fewer operations for the same update."""

from typing import Any

import keras
import tensorflow as tf

# Steps from one A. Each makes its rounding errors up to a² = 12 times as large.
AT_ONCE = 3


@keras.saving.register_keras_serializable("minigpt")
class Muon(keras.optimizers.Muon):
    """Keras' Muon (Jordan et al. 2024); its Newton–Schulz steps work on the smaller square.

    The arithmetic is in functions of TensorFlow's, traced once for every shape and not for every
    variable: a training's first step begins sooner.
    """

    def zeropower_via_newtonschulz5(self, x: Any, steps: int) -> Any:
        """float[N, M] → float[N, M]: nearly U Vᵀ of its singular value decomposition U S Vᵀ."""
        return _orthogonalized(x, steps, self.muon_a, self.muon_b, self.muon_c)

    def _adamw_update_step(
        self, gradient: Any, variable: Any, learning_rate: Any, m: Any, v: Any
    ) -> None:
        """For what is no matrix; Keras', too."""
        m_change, v_change, change = _adam_changes(
            tf.convert_to_tensor(gradient),
            tf.convert_to_tensor(m),
            tf.convert_to_tensor(v),
            tf.cast(self.iterations, m.dtype),
            tf.cast(learning_rate, m.dtype),
            self.adam_beta_1,
            self.adam_beta_2,
            self.epsilon,
        )
        self.assign_add(m, m_change)
        self.assign_add(v, v_change)
        self.assign_sub(variable, change)


@tf.function(autograph=False)
def _orthogonalized(x: Any, steps: int, a: float, b: float, c: float) -> Any:
    """`steps` steps X ← (a + b A + c A²) X with A = X Xᵀ.

    The factors of some steps are polynomials of the first A, so they commute: these steps can be taken
    with matrices of the size of A alone, and X be multiplied once, by the product of all factors. That is
    cheaper for a matrix at least twice as wide as high.
    """
    rows, columns = x.shape
    if rows > columns:
        return tf.transpose(_orthogonalized(tf.transpose(x), steps, a, b, c))
    x = x / (tf.norm(x) + 1e-7)
    identity = tf.eye(rows, dtype=x.dtype)
    at_once = AT_ONCE if columns >= 2 * rows else 1
    for first in range(0, steps, at_once):
        gram = tf.matmul(x, x, transpose_b=True)
        product = identity
        taken = min(at_once, steps - first)
        for step in range(taken):
            factor = a * identity + b * gram + c * (gram @ gram)
            product = factor @ product if step else factor
            if step < taken - 1:
                gram = factor @ gram @ factor
        x = product @ x
    return x


@tf.function(autograph=False)
def _adam_changes(
    gradient: Any,
    m: Any,
    v: Any,
    step: Any,
    rate: Any,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> tuple[Any, Any, Any]:
    """What is added to m and v and taken from a weight: Adam (Kingma & Ba 2015, section 2)."""
    root = tf.sqrt(1 - tf.pow(beta_2, step + 1))
    rate = rate * root / (1 - tf.pow(beta_1, step + 1))
    m_change = (gradient - m) * (1 - beta_1)
    v_change = (tf.square(gradient) - v) * (1 - beta_2)
    return m_change, v_change, (m + m_change) * rate / (tf.sqrt(v + v_change) + epsilon)
