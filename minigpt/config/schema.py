"""A configuration: all sections, the defaults that depend on the source, and checks across sections."""

import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, ValidationInfo, create_model, field_validator, model_validator

from minigpt.config.data import AnyData, StoriesConfig
from minigpt.config.model import AnyTransformer, GPTConfig, TransformerConfig
from minigpt.config.sampling import BY_NAME, SETTINGS, SettingRow
from minigpt.config.section import Section, combination_error, selected_name
from minigpt.config.tokenizer import AnyTokenizer, BytePairConfig
from minigpt.config.training import TrainingConfig

# Defaults for the bundled stories only. Those of other texts are chosen by `config/complete.py`.
STORIES_DEFAULTS: dict[str, dict[str, Any]] = {
    "data": {"val_fraction": 0.05},
    # Two stories fit into the context: a window that begins within a story contains the whole of the next.
    "model": {"max_len": 512, "embed_dim": 128},
    # Training stays within the time limit on slower machines.
    "training": {
        "steps_per_epoch": 500,
        "batch_size": 4,
        "max_minutes": 4.5,
        "learning_rate": 6e-3,
        "warmup_steps": 10,
    },
    "sampling": {
        "prompts": ["Once upon a time", "Lily could not find her"],
        "max_new_tokens": 80,
        "temperature": 0.6,
    },
}


def _field(setting: SettingRow) -> Any:
    """Returns the type and the field of a sampling setting, for `create_model`."""
    limits: Any = {
        # With a length to check, pydantic refuses strings that are not valid Unicode.
        "min_length": (setting.least or 0) if setting.type == list[str] else None,
        "ge": None if setting.type == list[str] else setting.least,
        "gt": setting.above,
        "le": setting.most,
        "lt": setting.below,
    }
    limits = Field(**{name: limit for name, limit in limits.items() if limit is not None})
    type_: Any = Annotated[setting.type, limits]
    if typing.get_origin(setting.type) is list:
        (item,) = typing.get_args(setting.type)
        type_ = list[Annotated[item, limits]]  # type: ignore[valid-type]
    return type_, Field(setting.default, description=setting.description)


_FIELDS: Any = {setting.name: _field(setting) for setting in SETTINGS}
_Sampling: Any = create_model("_Sampling", __base__=Section, **_FIELDS)


class SamplingConfig(_Sampling):
    """The section `[sampling]`: the fields of `config.sampling.TextSettings`."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


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

    def settings(self, mode: str = "python", **how: Any) -> dict[str, Any]:
        """Returns setting → value, such as "training.epochs" → 5; the arguments are `model_dump`'s."""
        return {
            f"{section}.{key}": value
            for section, settings in self.model_dump(mode=mode, **how).items()
            for key, value in settings.items()
        }

    def with_training(self, **changes: Any) -> Self:
        """Returns a copy with other settings of `[training]`, which are not checked."""
        return self.model_copy(update={"training": self.training.model_copy(update=changes)})

    @model_validator(mode="before")
    @classmethod
    def _add_stories_defaults(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        start = selected_name(values.get("training", {}), "init_from", None)
        is_new = start in (None, "none", "auto")
        if selected_name(values.get("data", {}), "source", "stories") != "stories" or not is_new:
            return values
        values = dict(values)
        for section, defaults in STORIES_DEFAULTS.items():
            if isinstance(settings := values.get(section, {}), Mapping):
                values[section] = {**defaults, **settings}
        return values

    @field_validator("model", "training", "sampling")
    @classmethod
    def _suits_the_source(cls, section: Section, info: ValidationInfo) -> Section:
        # A setting whose own check failed is not in `info.data`.
        if "data" in info.data and (conflict := _conflict_with(info.data["data"].source, section)):
            raise combination_error(section, *conflict)
        return section


SECTIONS = tuple(Config.model_fields)


def variants(section: str) -> dict[str | None, type[Section]]:
    """Returns the classes that a section may have, by name; one class has the name None."""
    annotation: Any = Config.model_fields[section].annotation
    # Every member of a union is `Annotated` with its `Tag`.
    members = typing.get_args(annotation)
    return {m.__metadata__[0].tag: m.__origin__ for m in members} or {None: annotation}


def selector(section: str) -> str | None:
    """Returns the setting that selects the variant of a section; None if it has one variant."""
    return {"data": "source", "tokenizer": "kind", "model": "kind"}.get(section)


def _conflict_with(source: str, section: Section) -> tuple[str, str] | None:
    """Returns a setting that does not suit the source, and what is wrong; None if all suit it."""
    is_pairs = source == "pairs"
    kind = "encoder_decoder" if is_pairs else "gpt"
    if isinstance(section, TransformerConfig) and section.kind != kind:
        return "kind", f"should be {kind!r} for data.source = {source!r}"
    if isinstance(section, TrainingConfig):
        if is_pairs and section.sequence_length:
            return (
                "sequence_length",
                "has no effect with data.source = 'pairs', whose sentences are not cut to one length",
            )
        if source != "dialogues" and section.loss_on != "answers":
            return "loss_on", f"has no effect with data.source = {source!r}; should be left out"
        if not is_pairs and section.label_smoothing:
            return "label_smoothing", f"should be 0 for data.source = {source!r}"
    if isinstance(section, SamplingConfig):
        for name, field in SamplingConfig.model_fields.items():
            if kind not in BY_NAME[name].models and getattr(section, name) != field.default:
                return name, f"has no effect with data.source = {source!r}; should be left out"
    return None
