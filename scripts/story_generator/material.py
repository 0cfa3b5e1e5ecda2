"""Reads the hand-written material of the stories."""

import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

Entry = dict[str, str]


@dataclass(frozen=True)
class Plot:
    """A plot: the cast it needs, and its text in the template language."""

    name: str
    cast: tuple[str, ...]
    text: str
    episodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Material:
    """All material: groups of people and things, phrases by name, plots in a fixed order."""

    groups: dict[str, list[Entry]] = field(default_factory=dict)
    phrases: dict[str, list[str]] = field(default_factory=dict)
    plots: list[Plot] = field(default_factory=list)


def material_folder() -> Path:
    """Returns the folder with the material."""
    return Path(__file__).resolve().parents[2] / "data" / "stories"


@lru_cache(maxsize=2)
def load_material(folder: Path | None = None) -> Material:
    """Returns the material of all files of a folder, read in order of their names.

    The table `phrases` contains phrases, the tables `plot` contain plots, any other list is a group.
    """
    material = Material()
    for path in sorted((folder or material_folder()).glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        for key, value in data.items():
            if key == "phrases":
                material.phrases.update(value)
            elif key == "plot":
                material.plots.extend(_plot(table) for table in value)
            else:
                material.groups.setdefault(key, []).extend(value)
    return material


def _plot(table: dict[str, object]) -> Plot:
    def strings(key: str) -> tuple[str, ...]:
        values = table.get(key, [])
        assert isinstance(values, list)
        return tuple(str(value) for value in values)

    return Plot(str(table["name"]), strings("cast"), str(table["text"]), strings("episodes"))
