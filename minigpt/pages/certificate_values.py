"""The certificates in a run directory as the report shows them: every value has its type."""

from typing import Any

from minigpt.runs.checkpoints import best_state
from minigpt.runs.records import count, mapping, number, read_object, text
from minigpt.runs.run import Run

_MOST_CERTIFICATES, _MOST_PROBLEMS = 50, 10
_NAME_CHARACTERS, _SENTENCE_CHARACTERS = 300, 500


def certificate_values(run: Run) -> list[dict[str, Any]]:
    """Returns the recorded certificates, newest first.

    Args:
      run: the run. Its files may be damaged, or come from somebody else.
    Returns:
      Every key; None stands for what is missing or has a wrong type. "is_current" says whether the best
      model of the run is still the one that was exported; None if that is not known.
    """
    found = [read_object(file) for file in run.certificates_folder.glob("*.json")]
    records = [record for record in found if isinstance(record.get("format"), str)]
    # Dates in ISO 8601 and UTC are sorted as strings.
    records.sort(key=lambda record: str(record.get("date")), reverse=True)
    best = best_state(run.checkpoints_folder) if records else None
    return [_values(record, best) for record in records[:_MOST_CERTIFICATES]]


def _values(record: dict[str, Any], best: dict[str, str] | None) -> dict[str, Any]:
    logits, bits, greedy, tokenizer, checkpoint = (
        mapping(record.get(name))
        for name in ("logits", "bits_per_byte", "greedy", "tokenizer", "checkpoint")
    )
    graph_greedy = mapping(mapping(record.get("text_to_text")).get("greedy"))
    sha256, problems = checkpoint.get("sha256"), record.get("problems")
    sentences = [
        sentence
        for problem in (problems if isinstance(problems, list) else [])[:_MOST_PROBLEMS]
        if (sentence := text(problem, _SENTENCE_CHARACTERS)) is not None
    ]
    return {
        **{
            name: text(record.get(name), _NAME_CHARACTERS) for name in ("name", "format", "weights")
        },
        "date": text(record.get("date"), 40),
        "bytes": count(record.get("bytes")),
        "has_logits": bool(logits),
        "largest_difference": number(logits.get("largest_difference")),
        "same_texts": count(greedy.get("same_texts")),
        "prompts": count(greedy.get("prompts")),
        "same_texts_of_graph": count(graph_greedy.get("same_texts")),
        "source_bits": number(bits.get("source")),
        "export_bits": number(bits.get("export")),
        "same_lines": count(tokenizer.get("same")),
        "lines": count(tokenizer.get("lines")),
        "tokens_per_second": number(record.get("tokens_per_second")),
        "problems": sentences if isinstance(problems, list) else None,
        "checkpoint": text(checkpoint.get("name"), 100),
        "is_current": sha256 == best["sha256"] if best and isinstance(sha256, str) else None,
    }
