"""Settings of `[training]`. The defaults are a recipe with Muon, which most shipped configurations vary."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from minigpt.config.section import Positive, Rate, Section


def _in_one_line(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Replaces the errors of both types by one."""
    try:
        return validate(value)
    except ValidationError:
        raise PydanticCustomError(
            "count_or_auto", "should be 'auto' or an integer from 1 to 1,000,000"
        ) from None


Steps = Annotated[int, Field(ge=0, le=1_000_000_000)]
Step = Annotated[int, Field(ge=0, le=10**15)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
CountOrAuto = Annotated[Literal["auto"] | Count, WrapValidator(_in_one_line)]
StepLimit = Annotated[list[Step], Field(min_length=2, max_length=2)]


class TrainingConfig(Section):
    init_from: str | None = Field(None, min_length=1)
    """what training starts from, with its sizes and its tokenizer: a run, a portable file, or the name of a
    base, such as english; auto: the base of the package if it helps"""
    lora_rank: Positive | None = None
    """with init_from: train only low-rank updates (LoRA) of this rank"""
    sequence_length: int | None = Field(None, ge=2, le=1_000_000_000)
    """maximum length of a training sequence, in tokens; model.max_len if unset; shorter only if
    positions are not learned, or with init_from"""
    epochs: Count = 5
    """number of epochs; each ends with validation, samples and a checkpoint"""
    steps_per_epoch: Positive | None = None
    """weight updates in an epoch; one pass over the training text if unset"""
    max_minutes: float | None = Field(None, gt=0, le=10_000_000)
    """time limit in minutes; a schedule that ends with training still decays to its end"""
    step_limits: list[StepLimit] = Field([])
    """written by a run whose max_minutes changed the number of steps: [step, last step] means that
    from `step` on, training ends at `last step`; repeats such a run without a clock"""
    batch_size: Count = 16
    """B, sequences in a batch"""
    accumulate_steps: Count = 1
    """batches whose gradients are averaged for one weight update"""
    learning_rate: float = Field(4e-3, gt=0)
    """maximum learning rate"""
    schedule: Literal["constant", "linear", "cosine", "wsd", "inverse_sqrt"] = "cosine"
    """learning rate after the warm-up; linear and cosine decay to min_learning_rate until the end of
    training; wsd is constant and decays linearly in the last fifth; inverse_sqrt is learning_rate *
    sqrt(warmup_steps / step), whatever the length of training"""
    min_learning_rate: float = Field(0.0, ge=0)
    """the schedule does not go below it after the warm-up"""
    warmup_steps: int = Field(50, ge=0, le=1_000_000_000)
    """updates over which the learning rate rises from zero"""
    optimizer: Literal["adam", "adamw", "muon", "sgd"] = "muon"
    """optimizer; muon: Muon for the matrices of the blocks, AdamW for the rest"""
    adam_beta_2: Rate = 0.99
    """decay rate of Adam's mean of squared gradients"""
    adam_epsilon: float = Field(1e-7, gt=0, le=1)
    """added to the root of Adam's mean of squared gradients"""
    weight_decay: float = Field(0.1, ge=0, le=1_000_000)
    """decoupled weight decay; matrices only"""
    clip_norm: float | None = Field(1.0, gt=0, le=1e30)
    """maximum global norm of the gradients; no clipping if unset"""
    label_smoothing: Rate = 0.0
    """for pairs: share of a target's probability spread over all tokens"""
    r_drop: float = Field(0.0, ge=0, le=1000)
    """weight of R-Drop (Liang et al. 2021): in the last 40% of training, each second sequence of a batch is
    a copy of the one before, and the divergence of their predictions, with different dropout, is added to
    the loss"""
    eval_every_steps: Steps = 0
    """validate after every so many updates within an epoch too; 0: do not"""
    sample_every_steps: Steps = 0
    """show samples after every so many updates within an epoch too; 0: do not"""
    loss_on: Literal["answers", "all"] = "answers"
    """for dialogues: the tokens that are learned; answers: those of the assistant"""
    early_stopping_patience: Positive | None = None
    """stop after this many validations without a lower validation loss"""
    checkpoint_every_steps: Positive | None = None
    """save a checkpoint after this many updates, however long saving takes"""
    checkpoint_every_seconds: float | None = Field(120.0, gt=0, le=1_000_000_000)
    """save a checkpoint at this interval; less often if saving would exceed 2% of the time"""
    keep_checkpoints: Positive = 2
    """newest checkpoints to keep, in addition to the best by validation loss"""
    keep_snapshots: bool | None = None
    """keep the weights after updates 0, 1, 3, 10, 30, ... as portable files with matrices in int8; if
    unset, only for models of up to 20 million parameters, and with `init_from` only after update 0"""
    tensorboard: bool = False
    """write losses and histograms of the weights for TensorBoard, which must be installed, into the
    folder tensorboard of the run"""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """data type of the matrix products"""
    device: str = Field("auto", pattern=r"^(auto|cpu|gpu(:\d+)?)$")
    """device for training; auto or gpu: the GPUs that training.devices selects; gpu:N: only GPU N,
    counted from 0; auto uses the CPU if there is no GPU"""
    devices: CountOrAuto = "auto"
    """number of devices that each process uses; auto: all its GPUs (at most one per row of its share
    of the batch), or one CPU; a number above 1 on a CPU simulates devices (one process only)"""
    workers: CountOrAuto = "auto"
    """number of processes that share each batch; auto: those that TF_CONFIG or Slurm's variables
    describe, or one"""
    jit_compile: bool | None = None
    """compile with XLA; if unset, true unless training.deterministic is set or, on a CPU, training takes
    less than about a minute"""
    seed: int = Field(0, ge=0, lt=2**31)
    """seed of initial weights, batches and dropout"""
    deterministic: bool = False
    """the same bits in every run on one machine; slower; without XLA unless training.jit_compile =
    true"""

    @property
    def updates_per_epoch(self) -> int:
        """`steps_per_epoch` of a run, which has a number: one pass has been counted if it was unset."""
        assert self.steps_per_epoch is not None
        return self.steps_per_epoch

    @property
    def uses_xla(self) -> bool:
        """Whether a training step may be compiled with XLA: `jit_compile`, or its default."""
        return not self.deterministic if self.jit_compile is None else self.jit_compile

    def _conflict(self) -> tuple[str, str] | None:
        if self.min_learning_rate > self.learning_rate:
            should = f"should not exceed training.learning_rate = {self.learning_rate:g}"
            return "min_learning_rate", should
        if self.r_drop and self.label_smoothing:
            return "r_drop", "should be 0 with training.label_smoothing"
        if self.r_drop and self.batch_size < 2:
            return "r_drop", "should be 0 with training.batch_size = 1"
        if self.lora_rank and self.init_from in (None, "auto"):
            return "lora_rank", "needs training.init_from with the run or base to adapt, not auto"
        return None
