"""Settings of `[training]`."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from minigpt.config.section import Positive, Rate, Section


class TrainingConfig(Section):
    init_from: str | None = Field(
        None, description="a run whose best model, sizes and tokenizer to start from (fine-tuning)"
    )
    lora_rank: Positive | None = Field(
        None, description="with init_from: train additions of this rank to its matrices, no more"
    )
    sequence_length: int | None = Field(
        None, ge=2, description="tokens of a sequence in training at most; model.max_len"
    )
    epochs: Positive = Field(5, description="times samples, validation and a checkpoint are made")
    steps_per_epoch: Positive | None = Field(
        None, description="weight updates in an epoch; once over the training text"
    )
    max_minutes: float | None = Field(
        None, gt=0, description="end in good order after this time, the learning rate decayed"
    )
    plan: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]] = (
        Field(
            [],
            description="what max_minutes made of the steps, written by a run: [at step, last step]",
        )
    )
    batch_size: Positive = Field(32, description="B, sequences in a batch")
    accumulate_steps: Positive = Field(
        1, description="batches whose gradients are averaged for one weight update"
    )
    learning_rate: float = Field(1e-3, gt=0, description="the highest learning rate")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "cosine", description="how the learning rate falls to zero after the warm-up, if it does"
    )
    warmup_steps: int = Field(
        0, ge=0, description="updates over which the learning rate rises from zero"
    )
    optimizer: Literal["adam", "adamw", "muon", "sgd"] = Field(
        "adamw", description="muon: for the blocks' matrices, AdamW for the rest"
    )
    adam_beta_2: Rate = Field(0.999, description="decay of Adam's mean of squared gradients")
    weight_decay: float = Field(0.0, ge=0, description="decoupled; on matrices only")
    clip_norm: float | None = Field(
        None, gt=0, description="largest norm of all gradients together"
    )
    label_smoothing: Rate = Field(
        0.0, description="share of a target's probability spread over all tokens, for pairs"
    )
    early_stopping_patience: Positive | None = Field(
        None, description="stop after so many epochs without a better validation loss"
    )
    checkpoint_every_steps: Positive | None = Field(
        None, description="save the state after so many weight updates, however long that takes"
    )
    checkpoint_every_seconds: float | None = Field(
        120.0,
        gt=0,
        description="save it after so long; less often where that takes over 2% of the time",
    )
    keep_checkpoints: Positive = Field(
        2, description="newest states to keep; the best by validation loss is kept beside them"
    )
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = Field(
        "float32", description="what the products are computed in"
    )
    device: str = Field(
        "auto", pattern=r"^(auto|cpu|gpu(:\d+)?)$", description="auto, cpu, gpu or gpu:N"
    )
    seed: int = Field(0, ge=0, lt=2**31, description="initial weights, batches and dropout")
    deterministic: bool = Field(
        False, description="the same bits on every run on this machine; slower (no XLA)"
    )

    @field_validator("lora_rank")
    @classmethod
    def _lora_adds_to_something(cls, lora_rank: int | None, info: ValidationInfo) -> int | None:
        if lora_rank is not None and info.data.get("init_from") is None:
            raise PydanticCustomError("lora_rank", "needs training.init_from: a run to add to")
        return lora_rank
