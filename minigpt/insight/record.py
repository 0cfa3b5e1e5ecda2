"""analysis.json: what was found out about a run after its epochs."""

import json
from typing import Any

from minigpt.runs.records import read_object
from minigpt.runs.run import Run
from minigpt.storage.atomic import replace_file


def read_analysis(run: Run) -> dict[str, Any]:
    """Returns the content of analysis.json; {} if it is missing or damaged.

    The file may come from someone else: readers check the types of the values.
    """
    return read_object(run.analysis_file)


def write_analysis(run: Run, analysis: dict[str, Any]) -> None:
    """Replaces analysis.json, whole or not at all.

    Raises:
      OSError: the file cannot be written; the old one is unchanged.
    """
    text = json.dumps(analysis, ensure_ascii=False, allow_nan=False, indent=1)
    # Half of a surrogate pair, which a sample may contain, has no encoding.
    replace_file(run.analysis_file, (text + "\n").encode(errors="backslashreplace"))
