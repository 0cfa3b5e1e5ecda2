"""Writes docs/settings.md: every setting with its type, default, allowed values and description.

    python scripts/make_settings_page.py

The page is made from the classes of minigpt/config/. Run this script after a setting or its description
has changed; tests/scripts/test_settings_page.py fails while the page is out of date. Imports no TensorFlow.
"""

import json
import re
import types
import typing
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic.fields import FieldInfo

from minigpt.config import SECTIONS, TransformerConfig, load_config
from minigpt.config.complete import settings_to_choose
from minigpt.config.sampling import DISTRIBUTION, SETTINGS
from minigpt.config.schema import STORIES_DEFAULTS, selector, variants
from minigpt.config.section import SHA256_PATTERN, Section

FILE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

INTRODUCTION = """\
# Settings

Here you can look up every setting: its type, its default, its allowed values and what it does.
`scripts/make_settings_page.py` generates the page from the classes in `minigpt/config/`.

{contents}

A setting is a key of a section in a TOML file, or an argument of `--set`:

    [training]
    epochs = 3

    minigpt train --set training.epochs=3 --set 'sampling.prompts=["Once upon a time"]'

`minigpt train --config FILE` reads a file, and `--set` changes one setting of it. `"none"` unsets a setting
whose type includes none. Training writes every setting to the `config.toml` of its run.

A setting that is left out has the default of its section below, with two exceptions. In `[model]`, some
defaults depend on `model.block`; that section lists them. In all sections, some depend on the text. The
defaults in the column "stories" suit the bundled stories (`data.source = "stories"`). For any other text,
minigpt chooses the values marked "chosen" to fit the length of the text and the time limit, and records
them. Settings that a configuration sets are kept.

{exceptions}"""
FILTERS = ", ".join(f"`{s.name}`" for s in DISTRIBUTION if s.name != "repetition_penalty")
FOR_PAIRS = ", ".join(f"`{s.name}`" for s in SETTINGS if "encoder_decoder" in s.models)
ABOUT = {
    "data": "Where the text comes from and how it is split.",
    "tokenizer": "How text becomes tokens.",
    "model": """\
Sizes and variants of the transformer. [Systems](systems.md) defines the letters and the variants.
`data.source = "pairs"` needs `model.kind = "encoder_decoder"`; all other sources need `"gpt"`.
`--set data.source=...` selects the matching kind.""",
    "training": "How the model is trained.",
    "sampling": f"""\
How text is generated after an epoch. `minigpt sample` and `minigpt translate` start from these settings.
With `data.source = "pairs"`, only these have an effect: {FOR_PAIRS}. With all other sources,
`translations` has none.

The filters are applied in this order: `repetition_penalty`, `banned_tokens`, {FILTERS}, the draw.
Each filter uses the probabilities of the tokens that the filters before it keep.""",
}
# Name in `SettingRow.formats` → heading of its column.
FORMATS = {
    "saved_model": "SavedModel",
    "gguf": "`model.gguf`, page, server",
    "huggingface": "`generation_config.json`",
}
PATTERNS = {
    SHA256_PATTERN: "64 hexadecimal digits in lower case",
    r"^(auto|cpu|gpu(:\d+)?)$": "`auto`, `cpu`, `gpu`, `gpu:N`",
}
TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}
Row = tuple[str, str, str, str, str]


def toml(value: Any) -> str:
    """Returns a value as `--set` takes it, in backquotes."""
    return f"`{'none' if value is None else json.dumps(value, ensure_ascii=False)}`"


def parts_of(annotation: Any, metadata: list[Any]) -> tuple[Any, list[Any], bool]:
    """Returns the type without `Annotated` and None, all its constraints, and whether it may be None.

    Of several types, the first value is a tuple.
    """
    found, optional = list(metadata), False
    while True:
        if typing.get_origin(annotation) is Annotated:
            annotation, *more = typing.get_args(annotation)
            for item in more:
                found += item.metadata if isinstance(item, FieldInfo) else [item]
        elif typing.get_origin(annotation) in (Union, types.UnionType):
            choices = [choice for choice in typing.get_args(annotation) if choice is not type(None)]
            optional = len(choices) < len(typing.get_args(annotation))
            if len(choices) > 1:
                return tuple(choices), found, optional
            (annotation,) = choices
        else:
            return annotation, found, optional


def type_name(annotation: Any, plural: str = "") -> str:
    annotation, _, optional = parts_of(annotation, [])
    if isinstance(annotation, tuple):
        return " or ".join(type_name(choice, plural) for choice in annotation)
    if typing.get_origin(annotation) is list:
        return f"list{plural} of {type_name(typing.get_args(annotation)[0], plural='s')}"
    name = "string" if typing.get_origin(annotation) is Literal else TYPES[annotation]
    return f"{name}{plural}" + " or none" * optional


def allowed(annotation: Any, metadata: list[Any]) -> str:
    """Returns the allowed values in words; empty if every value of the type is allowed."""
    annotation, constraints, _ = parts_of(annotation, metadata)
    words = []
    if isinstance(annotation, tuple):
        return " or ".join(allowed(choice, []) for choice in annotation)
    if typing.get_origin(annotation) is Literal:
        words.append(", ".join(toml(value) for value in typing.get_args(annotation)))
    elif typing.get_origin(annotation) is list:
        lengths = limits(constraints, int, "min_length", "max_length")
        item = allowed(typing.get_args(annotation)[0], [])
        words += [f"{lengths} elements"] * bool(lengths) + [f"each {item}"] * bool(item)
    elif annotation in (int, float):
        words.append(limits(constraints, annotation, "ge", "le"))
    elif any(getattr(item, "min_length", None) == 1 for item in constraints):
        words.append("not empty")
    words += [PATTERNS[item.pattern] for item in constraints if hasattr(item, "pattern")]
    return ", ".join(word for word in words if word)


def limits(constraints: list[Any], number: type, least: str, most: str) -> str:
    """Returns the bounds in words; those of integers are inclusive."""

    def bound(name: str) -> Any:
        # If there are several bounds of one kind, pydantic checks the last one only.
        found = [getattr(item, name) for item in constraints if hasattr(item, name)]
        return found[-1] if found else None

    low, high, above, below = bound(least), bound(most), bound("gt"), bound("lt")
    if number is int and above is not None:
        low, above = above + 1, None
    if number is int and below is not None:
        high, below = below - 1, None
    if low is not None and low == high:
        return f"{low:,}"
    if low is not None and high is not None:
        return f"{low:,} to {high:,}"
    words = [f"{low:,} or more"] if low is not None else []
    words += [f"more than {above:,}"] if above is not None else []
    words += [f"at most {high:,}"] if high is not None else []
    words += [f"less than {below:,}"] if below is not None else []
    return ", ".join(words)


def described(text: str) -> str:
    """Returns a description for a cell of a table; names of settings are in backquotes."""
    names = {
        name for section in SECTIONS for v in variants(section).values() for name in v.model_fields
    }
    alone = "|".join(sorted((name for name in names if "_" in name), key=len, reverse=True))
    text = " ".join(text.split())
    text = re.sub(rf"\b(?:(?:{'|'.join(SECTIONS)})\.\w+|{alone})\b", r"`\g<0>`", text)
    text = re.sub(r"``+", "`", text)
    return text.replace("*", r"\*").replace("|", r"\|")


def row(section: str, variant: type[Section], name: str) -> Row:
    """Returns the cells of a setting. The setting that selects a variant has its values elsewhere."""
    field = variant.model_fields[name]
    return (
        f"`{section}.{name}`",
        type_name(field.annotation),
        "required" if field.is_required() else toml(field.default),
        allowed(field.annotation, field.metadata),
        described(field.description or ""),
    )


def selector_row(section: str, name: str) -> Row:
    """Returns the cells of the setting that selects the variant of a section."""
    values, kinds = zip(*variants(section).items(), strict=True)
    first = kinds[0]
    (base,) = first.__bases__
    description = base.model_fields[name].description
    default = toml(first.model_fields[name].default)
    return f"`{section}.{name}`", "string", default, ", ".join(map(toml, values)), description


def table(rows: list[Row]) -> str:
    lines = ["| setting | type | default | allowed values | description |", "|---|---|---|---|---|"]
    lines += [re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(cells)} |") for cells in rows]
    return "\n".join(lines) + "\n"


def section_text(section: str) -> str:
    """Returns the part of the page about a section: what its variants share, then each variant."""
    kinds, chosen_by = list(variants(section).values()), selector(section)
    parts = [f"## {section}\n", ABOUT[section] + "\n"]
    if chosen_by is None:
        parts.append(table([row(section, kinds[0], n) for n in kinds[0].model_fields]))
        return "\n".join([*parts, formats_table()] if section == "sampling" else parts)
    rows = {kind: {n: row(section, kind, n) for n in kind.model_fields} for kind in kinds}
    shared = [
        cells
        for cells in rows[kinds[0]].values()
        if all(cells in r.values() for r in rows.values())
    ]
    parts += [table([selector_row(section, chosen_by), *shared])]
    for kind in dict.fromkeys(kinds):
        # Some names have the same settings.
        names = [json.dumps(name) for name, each in variants(section).items() if each is kind]
        own = [c for n, c in rows[kind].items() if n != chosen_by and c not in shared]
        parts += [f"### {section}.{chosen_by} = {', '.join(names)}\n"]
        parts += [" ".join((kind.__doc__ or "").split()) + "\n"]
        parts += [table(own)] if own else []
        parts += [block_defaults(kind)] if issubclass(kind, TransformerConfig) else []
    return "\n".join(parts)


def formats_table() -> str:
    """Returns the table of the exports that have each sampling setting."""
    lines = [
        "TensorFlow supports every setting, and `minigpt sample` uses it if a setting needs it. These\n"
        "exports support the settings below. The SavedModel of a translation model has `beams` and\n"
        "`length_penalty`.\n",
        f"| setting | {' | '.join(FORMATS.values())} |",
        "|---|" + "---|" * len(FORMATS),
    ]
    for setting in SETTINGS:
        if setting.role in ("distribution", "text"):
            cells = ("yes" if name in setting.formats else "" for name in FORMATS)
            lines.append(re.sub(r"\|  (?=\|)", "| ", f"| `{setting.name}` | {' | '.join(cells)} |"))
    return "\n".join(lines) + "\n"


def block_defaults(kind: type[TransformerConfig]) -> str:
    """Returns the table of the defaults that depend on the block."""
    names, _, _ = parts_of(kind.model_fields["block"].annotation, [])
    blocks = [kind.model_validate({"block": name}) for name in typing.get_args(names)]
    lines = [
        "Defaults that depend on `model.block`:\n",
        f"| setting | {' | '.join(toml(block.block) for block in blocks)} |",
        "|---|" + "---|" * len(blocks),
    ]
    for name in kind.model_fields:
        values = [getattr(block, name) for block in blocks]
        if name != "block" and len(set(map(repr, values))) > 1:
            lines.append(f"| `model.{name}` | {' | '.join(map(toml, values))} |")
    return "\n".join(lines) + "\n"


def exceptions() -> str:
    """Returns the table of defaults that depend on the source."""
    files = {"data": {"source": "files", "paths": ["text.txt"]}}
    pairs = {
        "data": {"source": "pairs", "paths": ["pairs.tsv"]},
        "model": {"kind": "encoder_decoder"},
    }
    tuning = files | {"training": {"init_from": "runs/a"}}
    columns = [
        {
            f"{s}.{n}": toml(value)
            for s, values in STORIES_DEFAULTS.items()
            for n, value in values.items()
        },
        *(
            dict.fromkeys(settings_to_choose(load_config(given)), "chosen")
            for given in (files, pairs, tuning)
        ),
    ]
    order = dict.fromkeys(
        f"{s}.{n}" for s in SECTIONS for v in variants(s).values() for n in v.model_fields
    )
    names = [name for name in order if any(name in column for column in columns)]
    lines = [
        "| setting | stories | other text | pairs | other text from a base or another model |",
        "|---|---|---|---|---|",
    ]
    for name in names:
        cells = " | ".join(column.get(name, "") for column in columns)
        lines.append(re.sub(r"\|  (?=\|)", "| ", f"| `{name}` | {cells} |"))
    return "\n".join(lines) + "\n"


def page() -> str:
    """Returns the whole page."""
    introduction = INTRODUCTION.format(
        contents="\n".join(f"- [{section}](#{section})" for section in SECTIONS),
        exceptions=exceptions(),
    )
    return "\n".join([introduction, *map(section_text, SECTIONS)])


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
