"""Training that starts from a finished run: all weights, or low-rank additions (LoRA)."""

from pathlib import Path

from minigpt.config import Config, TokenizerConfig, TransformerConfig
from minigpt.errors import UserError
from minigpt.models import GPT
from minigpt.runs.layout import check_run
from minigpt.runs.run import Run

# Settings of [model] that may differ from the run's: they affect training only.
CHANGEABLE = {
    *("dropout_rate", "attention_dropout_rate", "ff_dropout_rate", "ngram_dropout_rate"),
    # It only sets other settings.
    "standard_parts",
}


def source_run(init_from: str | None) -> Run | None:
    """Returns the run that `training.init_from` names; None if it is not set.

    Raises:
      UserError: the run does not exist.
    """
    if init_from is None:
        return None
    path = Path(init_from)
    check_run(path, "training.init_from")
    return Run(path)


def load_gpt(run: Run) -> GPT:
    """Returns the best model of a run to start from, which `with_sizes_of` has checked.

    Raises:
      UserError: the run has no finished model.
    """
    model = run.load_model()
    assert isinstance(model, GPT)
    return model


def with_sizes_of(run: Run, config: Config) -> Config:
    """Returns settings with the sizes and the tokenizer of the run that training starts from.

    Raises:
      UserError: a setting contradicts the run; one line each.
    """
    path, run_config = run.path, run.config
    if kinds := [k for k in (run_config.model.kind, config.model.kind) if k != "gpt"]:
        raise UserError(
            f"training.init_from = {config.training.init_from!r}: model.kind = {kinds[0]!r} cannot be "
            "fine-tuned; should be a run of kind 'gpt', trained on text"
        )
    problems = _contradictions(config.model, run_config.model.resolved(), "model", path)
    problems += _contradictions(config.tokenizer, run_config.tokenizer, "tokenizer", path)
    if problems:
        raise UserError(*problems)
    changes = {
        name: getattr(config.model, name) for name in CHANGEABLE & config.model.model_fields_set
    }
    return config.model_copy(
        update={
            "model": run_config.model.resolved().model_copy(update=changes),
            "tokenizer": run_config.tokenizer,
            "training": config.training.model_copy(update={"init_from": str(path.absolute())}),
        }
    )


def _contradictions(
    requested: TransformerConfig | TokenizerConfig,
    existing: TransformerConfig | TokenizerConfig,
    section: str,
    path: Path,
) -> list[str]:
    """Returns a line for every setting that was set and differs from the run's."""
    problems = []
    for name in type(requested).model_fields:
        value, expected = getattr(requested, name), getattr(existing, name, None)
        is_set = name in requested.model_fields_set - CHANGEABLE and value is not None
        if is_set and value != expected:
            problems.append(
                f"{section}.{name} = {value!r}: training.init_from = {str(path)!r} has {expected!r}; "
                "should be equal or left out"
            )
    return problems
