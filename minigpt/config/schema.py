"""A configuration: all sections, the defaults that depend on the source, and checks across sections."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from minigpt.config.data import AnyData, StoriesConfig
from minigpt.config.model import AnyTransformer, GPTConfig, TransformerConfig
from minigpt.config.sampling import SamplingConfig
from minigpt.config.section import Section, variants_of
from minigpt.config.tokenizer import AnyTokenizer, BytePairConfig
from minigpt.config.training import TrainingConfig

# Defaults that suit the bundled stories only. Other texts get theirs from `corpus.fit`.
STORIES_DEFAULTS: dict[str, dict[str, Any]] = {
    "data": {"val_fraction": 0.05},
    # Training stays within the time limit on slower machines.
    "training": {"steps_per_epoch": 140, "max_minutes": 4.5},
    "sampling": {
        "prompts": ["Once upon a time", "Lily could not find her"],
        "max_new_tokens": 80,
        "temperature": 0.6,
    },
}
# The only settings of [sampling] that have an effect on translation.
TRANSLATION_SAMPLING = {"beams", "length_penalty", "print_every", "translations"}


class Config(Section):
    """All settings of a run."""

    data: AnyData = StoriesConfig()
    tokenizer: AnyTokenizer = BytePairConfig()
    model: AnyTransformer = GPTConfig()
    training: TrainingConfig = TrainingConfig()
    sampling: SamplingConfig = SamplingConfig()

    @property
    def sequence_length(self) -> int:
        """Length of a training sequence, in tokens."""
        return min(self.training.sequence_length or self.model.max_len, self.model.max_len)

    @model_validator(mode="before")
    @classmethod
    def _add_stories_defaults(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or _source_of(values.get("data", {})) != "stories":
            return values
        values = dict(values)
        for section, defaults in STORIES_DEFAULTS.items():
            if isinstance(settings := values.get(section, {}), Mapping):
                values[section] = {**defaults, **settings}
        return values

    @field_validator("model")
    @classmethod
    def _model_suits_the_source(
        cls, model: TransformerConfig, info: ValidationInfo
    ) -> TransformerConfig:
        data = info.data.get("data")
        if data and (data.source == "pairs") != (model.kind == "encoder_decoder"):
            expected = "encoder_decoder" if data.source == "pairs" else "gpt"
            raise _combination(
                "model.kind",
                model.kind,
                f"should be {expected!r} for data.source = {data.source!r}",
            )
        return model

    @field_validator("training")
    @classmethod
    def _training_suits_the_source(
        cls, training: TrainingConfig, info: ValidationInfo
    ) -> TrainingConfig:
        data = info.data.get("data")
        if data and data.source == "pairs" and training.sequence_length:
            raise _combination(
                "training.sequence_length",
                training.sequence_length,
                "has no effect with data.source = 'pairs', whose sentences are not cut to one length",
            )
        if data and data.source != "pairs" and training.label_smoothing:
            raise _combination(
                "training.label_smoothing",
                training.label_smoothing,
                f"should be 0 for data.source = {data.source!r}",
            )
        return training

    @field_validator("sampling")
    @classmethod
    def _sampling_has_an_effect(
        cls, sampling: SamplingConfig, info: ValidationInfo
    ) -> SamplingConfig:
        data = info.data.get("data")
        is_pairs = data is not None and data.source == "pairs"
        for name, field in SamplingConfig.model_fields.items():
            has_effect = name in TRANSLATION_SAMPLING if is_pairs else name != "translations"
            if data and not has_effect and getattr(sampling, name) != field.default:
                raise _combination(
                    f"sampling.{name}",
                    getattr(sampling, name),
                    f"has no effect with data.source = {data.source!r}; should be left out",
                )
        return sampling


SECTIONS = tuple(Config.model_fields)


def variants(section: str) -> tuple[type[Section], ...]:
    """Returns the classes that a section of a configuration may have."""
    field = Config.model_fields[section]
    # pydantic moves the outer `Annotated` of a union into `metadata`.
    return variants_of(field.annotation)


def selector(section: str) -> str | None:
    """Returns the setting that selects the variant of a section; None if it has one variant."""
    return {"data": "source", "tokenizer": "kind", "model": "kind"}.get(section)


def _source_of(data: Any) -> Any:
    if isinstance(data, Mapping):
        return data.get("source", StoriesConfig.model_fields["source"].default)
    return getattr(data, "source", None)


def _combination(setting: str, value: Any, message: str) -> PydanticCustomError:
    """Returns an error about settings of two sections; it names the setting, not its section."""
    return PydanticCustomError("combination", message, {"setting": setting, "value": value})
