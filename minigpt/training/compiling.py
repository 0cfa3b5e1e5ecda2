"""Compiles a model for its task."""

import keras

from minigpt.training.optimizers.build import build_optimizer
from minigpt.training.tasks.task import Task


def compile_model(task: Task, model: keras.Model) -> None:
    """Compiles a model, and creates every variable that a checkpoint holds."""
    training = task.config.training
    model.compile(
        optimizer=build_optimizer(training, model),
        jit_compile=not training.deterministic,
        **task.objective(),
    )
    if not model.optimizer.built:
        # For float16 Keras wraps the optimizer in one that scales the loss.
        model.optimizer.build(model.trainable_variables)
    task.set_model(model)
