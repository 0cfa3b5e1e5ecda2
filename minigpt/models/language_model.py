"""Base class of models that predict tokens, and their training loss."""

import abc
import reprlib
from typing import Any, ClassVar

import keras
import tensorflow as tf

from minigpt.config import TransformerConfig
from minigpt.models.layers.arguments import MODEL_NAMES, checked_arguments, split_settings
from minigpt.models.layers.dropout import dropout_masks
from minigpt.models.layers.embedding import TokenAndPositionEmbedding
from minigpt.models.losses import (
    SmoothedCrossentropy,
    can_be_chunked,
    chunked_crossentropy,
    r_drop_crossentropy,
)


class LanguageModel(keras.Model, abc.ABC):
    """A model whose logits are a dense projection (the head) of its latents.

    If it is compiled with a mean of `SparseCategoricalCrossentropy(from_logits=True)` or of
    `SmoothedCrossentropy`, no loss weights and no metrics, training computes the loss with
    `chunked_crossentropy`: the full logits are never materialized. Otherwise it trains like any Keras
    model, as do subclasses of the models of minigpt.

    Args:
      config: the description of the model; or its settings as keyword arguments, as in `get_config()`.
        The names of the Keras examples work too: `maxlen`, `rate` or `dropout`, `feed_forward_dim` and
        `key_dim` for `max_len`, `dropout_rate`, `ff_dim` and `head_dim`.
      vocab_size: V.
    Attributes:
      config: the description, resolved.
      uses_chunked_loss: whether training computes the loss with `chunked_crossentropy`.
      plain_loss: the loss without label smoothing and R-Drop; None without them.
    Raises:
      TypeError: `vocab_size` is missing, or an argument is given twice.
      ValueError: a setting is not valid, or `config` does not describe a model of this kind.
    """

    # Defaults of settings that are given as keyword arguments.
    keyword_defaults: ClassVar[dict[str, Any]]
    embedding: TokenAndPositionEmbedding
    head: keras.layers.Dense | None
    built: bool
    uses_chunked_loss = False
    plain_loss: keras.metrics.Mean | None = None
    r_drop = 0.0

    @checked_arguments(MODEL_NAMES)
    def __init__(
        self, config: TransformerConfig | None = None, vocab_size: int | None = None, **kwargs: Any
    ) -> None:
        if config is None:
            config, kwargs = split_settings(kwargs, **self.keyword_defaults)
        if vocab_size is None:
            raise TypeError(f"{type(self).__name__} needs the argument `vocab_size`")
        kind = self.keyword_defaults["kind"]
        if getattr(config, "kind", None) != kind:
            expected = f"`config` should describe a model of the kind {kind!r}"
            raise ValueError(f"{expected}. Received: {reprlib.repr(config)}")
        super().__init__(**kwargs)
        self.config = config.resolved()
        self.vocab_size = vocab_size
        self.max_len = config.max_len

    def build_embedding(self, dropout_rate: float, initializer: Any) -> None:
        """Creates the embedding, with the token table."""
        config = self.config
        sizes = config.max_len, self.vocab_size, config.embed_dim
        self.embedding = TokenAndPositionEmbedding(
            *sizes,
            config.position,
            dropout_rate,
            config.scale_embeddings,
            initializer,
            dtype=self.dtype_policy,
            name="embedding",
        )

    def build_head(self, kernel_initializer: Any) -> None:
        """Creates the head, unless its matrix is the token table."""
        self.head = None
        if not self.config.tie_embeddings:
            self.head = keras.layers.Dense(
                self.vocab_size,
                use_bias=self.config.has_head_bias,
                kernel_initializer=kernel_initializer,
                dtype=self.dtype_policy,
                name="head",
            )

    def build(self, input_shape: Any = None) -> None:
        # In the order of their creation, the embedding first.
        if self.built:
            return
        embedding, *others = self.layers
        embedding.build((None, None))
        for layer in others:
            layer.build((None, None, self.config.embed_dim))
        self.built = True

    @abc.abstractmethod
    def latents(self, inputs: Any, /, training: bool | None = None) -> Any:
        """Computes the input of the head, float[B, T, D]."""

    def logits(self, latents: Any) -> Any:
        """float[B, T, D] → float32[B, T, V]."""
        scores = self.embedding.logits(latents) if self.head is None else self.head(latents)
        return keras.ops.cast(scores, "float32")

    def log_probabilities(self, inputs: Any) -> Any:
        """`inputs` as in `call` → float32[B, T, V]: log-softmax of the logits (docs/systems.md, S2, S5)."""
        return keras.ops.log_softmax(self(inputs, training=False))

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        *args: Any,
        r_drop: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Compiles the model; arguments are those of Keras, and `r_drop`, alpha of `r_drop_crossentropy`.

        `r_drop` counts for rows of a batch that equal the row before. A saved model does not have it. It
        raises a ValueError if it is negative, or if Keras computes the loss, or if labels are smoothed.
        """
        super().compile(optimizer, loss, loss_weights, metrics, weighted_metrics, *args, **kwargs)
        self.uses_chunked_loss = (
            can_be_chunked(loss)
            and loss_weights is None
            and not (metrics or weighted_metrics)
            and type(self).__base__ is LanguageModel  # A subclass may change the logits.
        )
        is_smoothed = isinstance(self.loss, SmoothedCrossentropy)
        if r_drop and (r_drop < 0 or is_smoothed or not self.uses_chunked_loss):
            problem = "should be 0 with label smoothing, metrics, other losses and in subclasses"
            raise ValueError(f"`r_drop` should not be negative, and {problem}. Received: {r_drop}")
        self.r_drop = r_drop
        has_more = self.uses_chunked_loss and (r_drop or is_smoothed)
        # Not tracked: a built layer accepts no more state. Keras does not track its own metrics either.
        plain_loss = keras.metrics.Mean("plain_loss") if has_more else None
        object.__setattr__(self, "plain_loss", plain_loss)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # Keras does this too, but only for models that do not override `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: Any = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the model as `keras.Model.export` does; it need not have been called.

        Without `input_signature`, it accepts any number of rows and any length up to `max_len`.
        """
        signature = self.input_signature() if input_signature is None else input_signature
        super().export(filepath, format, verbose, signature, **kwargs)

    @abc.abstractmethod
    def input_signature(self) -> list[Any]:
        """Returns a list with the `keras.InputSpec` of the inputs, of any batch size and length."""

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The metrics of Keras, and `plain_loss` with label smoothing or R-Drop."""
        return [*super().metrics, *([] if self.plain_loss is None else [self.plain_loss])]

    def train_step(self, data: Any) -> dict[str, Any]:
        """Updates the weights once.

        Args:
          data: inputs, targets int[B, T], and optionally weights: [B] of the sequences or [B, T] of
            the tokens.
        Returns:
          The metrics by name.
        """
        inputs, targets, weights = _unpack(data)
        if not self.uses_chunked_loss:
            return super().train_step((inputs, targets, weights))
        tokens = self.loss_weight(targets, weights)
        # Under a strategy of tf.distribute, this is a replica's part of the batch; gradients are summed.
        replicas = self.distribute_strategy.num_replicas_in_sync
        loss, plain, gradients = self.loss_and_gradients(
            inputs, targets, weights, tokens * replicas
        )
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        self.record_loss(loss * replicas, plain * replicas, tokens)
        return self.get_metrics_result()

    def loss_weight(self, targets: Any, weights: Any) -> Any:
        """Returns what the summed loss of a batch is divided by, float32[].

        `targets` are int[B, T], `weights` float32[B, T] or None.
        """
        if weights is not None and self.loss.reduction == "mean_with_sample_weight":
            return tf.reduce_sum(weights)
        return tf.cast(tf.size(targets), tf.float32)

    def loss_and_gradients(
        self, inputs: Any, targets: Any, weights: Any, tokens: Any, first_row: Any = 0
    ) -> tuple[Any, Any, list[Any]]:
        """Computes the share of some rows in the mean loss of a batch, and its gradients.

        The sum over all rows is the loss of the batch, however the rows are divided.

        Args:
          inputs: what the model is called with.
          targets: int[B, T].
          weights: float32[B, T] of the tokens, or None.
          tokens: float32[], `loss_weight` of the whole batch.
          first_row: int[], number of the first row in the whole batch; dropout depends on it.
        Returns:
          the loss, float32[]; the same without label smoothing and R-Drop; and the gradients of
          `trainable_weights`, multiplied by the loss scale of float16.
        """
        # NumPy's integers are int64.
        targets = tf.cast(targets, tf.int32)
        weights = tf.ones(tf.shape(targets)) if weights is None else weights
        with tf.GradientTape() as tape:
            with dropout_masks(batches_done(self.optimizer), first_row):
                latents = self.latents(inputs, training=True)
            if self.r_drop:
                logits = self.logits(latents)
                loss, plain = r_drop_crossentropy(logits, targets, weights, self.r_drop)
            else:
                latents = tf.reshape(latents, [-1, latents.shape[-1]])
                targets, weights = tf.reshape(targets, [-1]), tf.reshape(weights, [-1])
                head = self._head_weights(latents.dtype)
                smoothing = getattr(self.loss, "label_smoothing", 0.0)
                loss, plain = chunked_crossentropy(latents, *head, targets, weights, smoothing)
            loss = tf.math.divide_no_nan(loss, tokens)
            if self.losses:
                loss += tf.add_n(self.losses) / self.distribute_strategy.num_replicas_in_sync
            scaled = self.optimizer.scale_loss(loss)
        # The gradient of a token table is one slice per token of the batch, and their norm is not its norm.
        gradients = [
            tf.convert_to_tensor(gradient)
            for gradient in tape.gradient(scaled, self.trainable_weights)
        ]
        return loss, tf.math.divide_no_nan(plain, tokens), gradients

    def record_loss(self, loss: Any, plain: Any, tokens: Any) -> None:
        """Adds the loss of a batch to the metrics: `loss` and `plain` as from `loss_and_gradients`.

        `tokens` is `loss_weight` of the batch.
        """
        # Keras puts the mean of the losses first.
        self.metrics[0].update_state(loss, sample_weight=tokens)
        if self.plain_loss is not None:
            self.plain_loss.update_state(plain, sample_weight=tokens)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluates one batch; arguments and result are those of `train_step`."""
        logs = super().test_step(_unpack(data))
        return {name: value for name, value in logs.items() if name != "plain_loss"}

    def _head_weights(self, dtype: Any) -> tuple[Any, Any]:
        """Returns the head's kernel [V, D] and bias [V]; a tied head has no bias (None)."""
        if self.head is None:
            return tf.cast(self.embedding.token_embedding.embeddings, dtype), None
        bias = self.head.bias
        kernel = tf.cast(self.head.kernel, dtype)
        return tf.transpose(kernel), None if bias is None else tf.cast(bias, dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "vocab_size": self.vocab_size, **self.config.model_dump()}


def _unpack(data: Any) -> tuple[Any, Any, Any]:
    """Returns inputs, targets and weights; the weight of a sequence is repeated for its tokens.

    Keras documents weights of shape [B], but does not repeat them for a loss of shape [B, T]. Raises a
    ValueError for another shape.
    """
    inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(data)
    if weights is not None:
        weights = tf.cast(weights, tf.float32)
        if weights.shape.rank == 1:
            weights = weights[:, None]
        shape = tf.TensorShape(targets.shape[:2])
        if weights.shape.is_compatible_with([shape[0], 1]):
            weights = tf.broadcast_to(weights, tf.shape(targets)[:2])
        elif not weights.shape.is_compatible_with(shape):
            raise ValueError(
                "`sample_weight` must have the shape [B] or [B, T] of the targets, "
                f"{list(shape)}. Received: shape {list(weights.shape)}"
            )
    return inputs, targets, weights


def batches_done(optimizer: Any) -> Any:
    """int[], batches that an optimizer was applied to; its `iterations` counts the updates."""
    # An optimizer of Keras creates this variable first.
    return getattr(optimizer, "inner_optimizer", optimizer).variables[0].value
