"""The learning rate and the optimizer: Keras' own, changed for several replicas or for speed."""

import math
from collections import defaultdict
from typing import Any

# Before TensorFlow: its import registers these classes (see minigpt/__init__.py).
import keras
import tensorflow as tf

from minigpt.config import TrainingConfig

# The share of training in which "wsd" decays, at its end. Hägele et al. 2024 (arXiv:2405.18392) find that
# 0.2 and a linear decay come close to longer decays; Hu et al. 2024 decay in the last tenth, exponentially.
WSD_DECAY = 0.2


def learning_rate(config: TrainingConfig, step: int, progress: float) -> float:
    """Returns the learning rate of one weight update.

    After the warm-up, `decay` falls from 1, and the learning rate is not below `min_learning_rate`.

    Sources: "inverse_sqrt" is equation 3 of Vaswani et al. 2017, with a peak of
    1 / sqrt(embed_dim · warmup_steps) in the paper. "wsd" (warm-up, stable, decay) is from Hu et al. 2024,
    "MiniCPM" (arXiv:2404.06395), section 4.

    Args:
      config: peak, floor, warm-up and schedule.
      step: number of the update, from 0.
      progress: share of training that is done, 0 to 1. "inverse_sqrt" depends on the step alone.
    """
    peak, floor = config.learning_rate, config.min_learning_rate
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    progress = min(1.0, progress)
    if config.schedule == "inverse_sqrt":
        decay = math.sqrt(max(1, config.warmup_steps) / max(step + 1, config.warmup_steps))
        return warmup * max(floor, peak * decay)
    decay = {
        "constant": 1.0,
        "linear": 1.0 - progress,
        "cosine": 0.5 * (1.0 + math.cos(math.pi * progress)),
        "wsd": min(1.0, (1.0 - progress) / WSD_DECAY),
    }[config.schedule]
    return warmup * (floor + (peak - floor) * decay)


class LocalUpdates:
    """A mixin for Keras' optimizers, which apply the gradients that they are given as they are.

    Keras sums gradients over the replicas of `tf.distribute` after it has clipped and accumulated those of
    each replica. With this mixin they are summed before `apply`, so that several replicas clip and
    accumulate the same gradients as one. Every replica then updates its own variables, alike.

    Keras has no public way to change how an update is made. tests/test_private_names.py
    fails if a name that is overridden here disappears.

    Attributes:
      compiles_updates: whether an update is compiled with XLA separately. Not needed within a function that
        is compiled as a whole.
    """

    compiles_updates = False

    # Keras clips, decays and updates here. To compile all of it, but not the count of the batches.
    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> None:
        # The implementation of Keras.
        apply_all = super()._backend_apply_gradients  # type: ignore[misc]

        def update(gradients: Any) -> None:
            apply_all(gradients, trainable_variables)

        compiled = tf.function(update, jit_compile=True, autograph=False)
        (compiled if self.compiles_updates else update)(grads)

    # Keras sums the gradients over the replicas here.
    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        self.update_variables(grads, trainable_variables, learning_rate)

    # Keras' own calls the strategy of the replicas, which XLA cannot compile.
    def _backend_increment_gradient_accumulators(self, grads: Any, acc_grads: Any) -> None:
        for gradient, accumulated in zip(grads, acc_grads, strict=True):
            self.assign_add(accumulated, gradient)  # type: ignore[attr-defined]

    def update_variables(self, gradients: Any, variables: Any, learning_rate: Any) -> None:
        """Updates variables from their clipped gradients."""
        for gradient, variable in zip(gradients, variables, strict=True):
            self.update_step(gradient, variable, learning_rate)  # type: ignore[attr-defined]


class LocalDecay(LocalUpdates):
    """`LocalUpdates` for optimizers whose weight decay is that of Keras' base class."""

    # Keras' own calls the strategy of the replicas, which XLA cannot compile.
    def _apply_weight_decay(self, variables: Any) -> None:
        if self.weight_decay is None:  # type: ignore[attr-defined]
            return
        decay, rate = self.weight_decay, self.learning_rate  # type: ignore[attr-defined]
        for variable in variables:
            # Only variables that `exclude_from_weight_decay` has not excluded.
            if self._use_weight_decay(variable):  # type: ignore[attr-defined]
                change = tf.convert_to_tensor(variable.value) * decay * rate
                self.assign_sub(variable, change)  # type: ignore[attr-defined]


@keras.saving.register_keras_serializable("minigpt")
class SGD(LocalDecay, keras.optimizers.SGD):
    """`keras.optimizers.SGD` with local updates."""


@keras.saving.register_keras_serializable("minigpt")
class Adam(LocalDecay, keras.optimizers.Adam):
    """`keras.optimizers.Adam` with local updates."""


@keras.saving.register_keras_serializable("minigpt")
class AdamW(LocalDecay, keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` with local updates."""


# Newton–Schulz steps that share one A. Each step multiplies the rounding errors by up to a² = 12.
STEPS_PER_GRAM = 3


@keras.saving.register_keras_serializable("minigpt")
class Muon(LocalUpdates, keras.optimizers.Muon):
    """Keras' Muon (Jordan et al. 2024), with fewer operations to trace, to compile and to run.

    Matrices of equal shape are updated together, and their Newton–Schulz steps are computed on the
    smaller square matrix. The update of all other variables is traced once per shape instead of once
    per variable.

    A Keras variable with an attribute `muon_parts`, the widths of several matrices side by side, is
    updated as if each of them were a separate variable.
    """

    def update_variables(self, gradients: Any, variables: Any, learning_rate: Any) -> None:
        # Matrices of equal shapes and parts.
        matrices, others = defaultdict(list), []
        for gradient, variable in zip(gradients, variables, strict=True):
            # Keras' Muon keeps a velocity for exactly the variables that Adam updates.
            if self._slots(variable)[1] is not None:
                others.append((gradient, variable))
            else:
                # The widths of the matrices that it consists of.
                parts = getattr(variable, "muon_parts", (variable.shape[1],))
                kind = variable.dtype, tuple(variable.shape), parts
                matrices[kind].append((gradient, variable))
        adam_rate = learning_rate * self.adam_lr_ratio * self._bias_correction()
        for gradient, variable in others:
            self.update_step(gradient, variable, adam_rate)
        for (_, _, parts), pairs in matrices.items():
            directions = self._directions(*zip(*pairs, strict=True))
            updates = tf.unstack(self._orthogonalize_parts(directions, parts))
            for (_, variable), update in zip(pairs, updates, strict=True):
                self.assign_sub(variable, self.lr_adjust(learning_rate * update))

    def _slots(self, variable: Any) -> tuple[Any, Any]:
        """Returns the momentum and the velocity of a variable; None if it has no velocity."""
        # As Keras' Muon finds them.
        index = self._get_variable_index(variable)
        return self.momentums[index], self.adam_velocities[index]

    def _bias_correction(self) -> Any:
        """float32[], the factor of Adam's learning rate (Kingma & Ba 2015, end of section 2)."""
        updates = tf.cast(self.iterations + 1, tf.float32)
        return tf.sqrt(1 - self.adam_beta_2**updates) / (1 - self.adam_beta_1**updates)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Adam's update of one variable, from the bias-corrected learning rate."""
        m, v = self._slots(variable)
        m_change, v_change, change = _adam_changes(
            tf.convert_to_tensor(gradient),
            tf.convert_to_tensor(m),
            tf.convert_to_tensor(v),
            tf.cast(learning_rate, m.dtype),
            self.adam_beta_1,
            self.adam_beta_2,
            self.epsilon,
        )
        self.assign_add(m, m_change)
        self.assign_add(v, v_change)
        self.assign_sub(variable, change)

    def _directions(self, gradients: Any, variables: Any) -> Any:
        """Updates the momentums of N equal shapes; returns float[N, R, C], what is orthogonalized."""
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        momentums = [self._slots(variable)[0] for variable in variables]
        for momentum, gradient in zip(momentums, gradients, strict=True):
            self.assign_add(momentum, gradient - (1 - self.momentum) * momentum)
        direction = tf.stack([tf.convert_to_tensor(momentum) for momentum in momentums])
        if self.nesterov:
            direction = tf.stack(gradients) + self.momentum * direction
        return direction

    def _orthogonalize_parts(self, x: Any, parts: tuple[int, ...]) -> Any:
        """float[N, R, C] → the same shape: the updates, before `lr_adjust` for matrices [R, C]."""
        if len(parts) == 1:
            return self.zeropower_via_newtonschulz5(x, self.ns_steps)
        matrices = tf.split(x, parts, axis=-1)
        if len(set(parts)) == 1:
            together = self.zeropower_via_newtonschulz5(tf.concat(matrices, 0), self.ns_steps)
            updates = tf.split(together, len(parts), axis=0)
        else:
            updates = [self.zeropower_via_newtonschulz5(m, self.ns_steps) for m in matrices]
        rows, columns = x.shape[1:]
        # `lr_adjust` multiplies by the root of the longer side, here of the side of each part.
        scales = [(max(rows, width) / max(rows, columns)) ** 0.5 for width in parts]
        return tf.concat([s * u for s, u in zip(scales, updates, strict=True)], -1)

    def zeropower_via_newtonschulz5(self, x: Any, steps: int) -> Any:
        """float[..., R, C] → the same shape: approximately U Vᵀ, where each matrix is U S Vᵀ."""
        return _orthogonalized(x, steps, self.muon_a, self.muon_b, self.muon_c)


def _orthogonalized(x: Any, steps: int, a: float, b: float, c: float) -> Any:
    """Takes `steps` steps X ← (a + b A + c A²) X with A = X Xᵀ.

    The factors of consecutive steps are polynomials of the first A and therefore commute. Several steps
    are computed with matrices of the size of A alone, and X is multiplied once by the product of their
    factors. That is cheaper for a matrix at least twice as wide as it is high.
    """
    rows, columns = x.shape[-2:]
    if rows > columns:
        transposed = _orthogonalized(tf.linalg.matrix_transpose(x), steps, a, b, c)
        return tf.linalg.matrix_transpose(transposed)
    x = x / (tf.norm(x, axis=(-2, -1), keepdims=True) + 1e-7)
    identity = tf.eye(rows, dtype=x.dtype)
    steps_per_gram = STEPS_PER_GRAM if columns >= 2 * rows else 1
    for first in range(0, steps, steps_per_gram):
        gram = tf.matmul(x, x, transpose_b=True)
        product = identity
        count = min(steps_per_gram, steps - first)
        for step in range(count):
            factor = a * identity + b * gram + c * (gram @ gram)
            product = factor @ product if step else factor
            if step < count - 1:
                gram = factor @ gram @ factor
        x = product @ x
    return x


@tf.function(autograph=False)
def _adam_changes(
    gradient: Any, m: Any, v: Any, rate: Any, beta_1: float, beta_2: float, epsilon: float
) -> tuple[Any, Any, Any]:
    """Adam (Kingma & Ba 2015, section 2): returns what to add to m and v, and to subtract from a weight."""
    m_change = (gradient - m) * (1 - beta_1)
    v_change = (tf.square(gradient) - v) * (1 - beta_2)
    return m_change, v_change, (m + m_change) * rate / (tf.sqrt(v + v_change) + epsilon)


def build_optimizer(
    config: TrainingConfig, model: keras.Model, *, compiles_updates: bool = False
) -> keras.optimizers.Optimizer:
    """Returns the optimizer of a configuration, built for `model`.

    Its learning rate is only the peak; the training loop sets it before every update.

    Args:
      model: built.
      compiles_updates: whether an update is compiled with XLA separately, and not with the whole step.
    """
    batches = config.accumulate_steps
    shared: dict[str, Any] = {
        "learning_rate": config.learning_rate,
        "weight_decay": config.weight_decay,
        "global_clipnorm": config.clip_norm,
        "gradient_accumulation_steps": batches if batches > 1 else None,
    }
    adam = {"beta_2": config.adam_beta_2, "epsilon": config.adam_epsilon}
    optimizer: keras.optimizers.Optimizer
    if config.optimizer == "sgd":
        optimizer = SGD(momentum=0.9, nesterov=True, **shared)
    elif config.optimizer == "muon":
        # Muon updates the blocks' matrices, AdamW the tables and the head (Jordan et al. 2024).
        optimizer = Muon(
            adam_beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
            adam_weight_decay=config.weight_decay,
            exclude_layers=["embedding", "head", "convolution"],
            # Fine-tuning learns as well with fewer Newton–Schulz steps (EXPERIMENTS.md).
            ns_steps=3 if config.init_from else 5,
            **shared,
        )
    else:
        kind = AdamW if config.optimizer == "adamw" else Adam
        optimizer = kind(**adam, **shared)
    # No decay of gains and biases, as in GPT-2 (Loshchilov & Hutter 2019 decay all weights).
    optimizer.exclude_from_weight_decay(
        var_list=[v for v in model.trainable_variables if len(v.shape) < 2]
    )
    optimizer.compiles_updates = compiles_updates
    if model.dtype_policy.name == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")
    optimizer.build(model.trainable_variables)
    return optimizer
