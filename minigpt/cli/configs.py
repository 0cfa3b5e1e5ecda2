"""`minigpt configs`: lists the shipped configurations."""

from minigpt.cli.command import JsonOption, command
from minigpt.cli.output import print_json
from minigpt.config import shipped_configs


@command({})
def configs(as_json: JsonOption = False) -> None:
    """List the shipped configurations."""
    for name, path in shipped_configs().items():
        with path.open(encoding="utf-8") as lines:
            description = next(lines).lstrip("# ").strip()
        if as_json:
            print_json({"name": name, "description": description})
        else:
            print(f"{name:<24}{description}")
