"""Renders a chat template as transformers does: a program with limits of its own, started by path.

Standard input: the arguments of `rendered` as JSON. Standard output: JSON with `texts` or `problem`.
"""

import json
import resource
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

SECONDS = 2
_MEMORY_BYTES, _MOST_CHARACTERS = 2**29, 100_000


def rendered(template: str, dialogues: list[dict[str, Any]]) -> list[str]:
    """Returns the text of each dialogue. A template may raise any exception."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(
        value, **{"ensure_ascii": False, **options}
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    compiled = environment.from_string(template)
    return [compiled.render(**dialogue) for dialogue in dialogues]


def _refuse(message: Any) -> NoReturn:
    raise TemplateError(str(message))


if __name__ == "__main__":
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    try:
        found: dict[str, Any] = {"texts": rendered(**json.load(sys.stdin))}
        if sum(map(len, found["texts"])) > _MOST_CHARACTERS:
            found = {"problem": "it writes too much text"}
    except Exception as error:
        found = {"problem": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    print(json.dumps(found))
