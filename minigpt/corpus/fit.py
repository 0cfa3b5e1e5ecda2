"""Chooses sizes and steps that suit a text, unless the user has set them."""

import logging
from collections.abc import Callable, Sequence

from minigpt.config import Config, load_config
from minigpt.config.fit import CHARACTERS_BELOW, fitted, settings_to_fit
from minigpt.corpus.sources import open_source
from minigpt.errors import ArgumentProblem, UserError
from minigpt.notices import deprecated_report

logger = logging.getLogger(__name__)


def config_for_text(
    paths: Sequence[str],
    overrides: Sequence[str] = (),
    report: Callable[[str], None] | None = None,
) -> Config:
    """Returns settings that suit the text of some files, as `train` chooses them.

    Args:
      paths: files, folders, globs, as `data.paths`.
      overrides: `"SECTION.KEY=VALUE"` strings; what they set is not chosen.
      report: deprecated; messages go through `logging`.
    Raises:
      UserError: if the text cannot be read, or an override is wrong.
    """
    if isinstance(paths, str) or not isinstance(paths, Sequence):
        raise UserError(
            ArgumentProblem("paths", paths, "should be a list of paths, such as ['book.txt']")
        )
    if not paths:
        raise UserError(ArgumentProblem("paths", paths, "should contain at least one path"))
    with deprecated_report(report):
        return fit_to_text(load_config(None, overrides, [str(path) for path in paths]))


def fit_to_text(config: Config) -> Config:
    """Fills in the sizes and steps that the user has not set, by the text's bytes and the time limit.

    The bundled stories have defaults of their own. A configuration that sets everything is returned
    unchanged, without reading the text.

    Raises:
      UserError: if the text cannot be read.
    """
    if not settings_to_fit(config):
        return config
    size, characters = 0, set[str]()
    for piece in open_source(config.data).pieces():
        size += len(piece.text)
        if size < CHARACTERS_BELOW:
            characters.update(piece.text.decode(errors="ignore"))
    result, chosen = fitted(config, size, len(characters))
    logger.info("Chosen for %s bytes of text (each of these can be set):", f"{size:,}")
    for section, settings in chosen.items():
        for key, value in settings.items():
            logger.info("  %s.%s = %r", section, key, value)
    return result
