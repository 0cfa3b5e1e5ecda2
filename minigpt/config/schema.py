"""A configuration: all sections, and the checks between them."""

from typing import Any

from pydantic import ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from minigpt.config.data import DataConfig
from minigpt.config.model import AnyTransformer, GPTConfig, TransformerConfig
from minigpt.config.sampling import SamplingConfig
from minigpt.config.section import Section
from minigpt.config.tokenizer import TokenizerConfig
from minigpt.config.training import TrainingConfig


class Config(Section):
    """All settings of a run."""

    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: AnyTransformer = GPTConfig()
    training: TrainingConfig = TrainingConfig()
    sampling: SamplingConfig = SamplingConfig()

    @property
    def sequence_length(self) -> int:
        """Tokens of a sequence in training."""
        most = self.model.max_len
        return min(self.training.sequence_length or most, most)

    @field_validator("model")
    @classmethod
    def _kind_of_the_source(
        cls, model: TransformerConfig, info: ValidationInfo
    ) -> TransformerConfig:
        data = info.data.get("data")
        if data and (data.source == "pairs") != (model.kind == "encoder_decoder"):
            right = "encoder_decoder" if data.source == "pairs" else "gpt"
            raise _combination(
                "model.kind", model.kind, f"should be {right!r} for data.source = {data.source!r}"
            )
        return model

    @field_validator("training")
    @classmethod
    def _smoothing_is_for_pairs(cls, value: TrainingConfig, info: ValidationInfo) -> TrainingConfig:
        data = info.data.get("data")
        if data and data.source == "pairs" and value.sequence_length:
            raise _combination(
                "training.sequence_length",
                value.sequence_length,
                "plays no part for data.source = 'pairs', whose sentences have their own lengths",
            )
        if data and data.source != "pairs" and value.label_smoothing:
            raise _combination(
                "training.label_smoothing",
                value.label_smoothing,
                f"should be 0 for data.source = {data.source!r}",
            )
        return value

    @field_validator("sampling")
    @classmethod
    def _no_idle_sampling(cls, value: SamplingConfig, info: ValidationInfo) -> SamplingConfig:
        data = info.data.get("data")
        pairs = data is not None and data.source == "pairs"
        acting = {"beams", "length_penalty", "print_every", "translations"}
        for name in SamplingConfig.model_fields:
            acts = name in acting if pairs else name != "translations"
            default = SamplingConfig.model_fields[name].default
            if data and not acts and getattr(value, name) != default:
                raise _combination(
                    f"sampling.{name}",
                    getattr(value, name),
                    f"plays no part for data.source = {data.source!r}; should be left out",
                )
        return value


def _combination(setting: str, given: Any, message: str) -> PydanticCustomError:
    """Two sections that do not go together; `_problem` names the setting, not its section."""
    return PydanticCustomError("combination", message, {"setting": setting, "given": given})


SECTIONS = tuple(Config.model_fields)
