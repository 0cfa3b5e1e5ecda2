"""`minigpt translate`: translates sentences."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from minigpt.cli import command, terminal
from minigpt.config.sampling import SETTINGS
from minigpt.generation.base_models import unknown_tokens_message

_SETTINGS = [s for s in SETTINGS if s.role == "search" or s.name == "max_new_tokens"]


@command.command({"run": "RUN", "text": "--text", **command.names_of_options(_SETTINGS)})
@command.with_sampling_options(_SETTINGS, before="as_json")
def translate(
    run: command.ModelArgument,
    text: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Sentence. Repeatable.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of sentences, one per line.")
    ] = None,
    as_json: command.JsonOption = False,
    verbose: command.VerboseOption = False,
    **given: Any,
) -> None:
    """Translate sentences, one per line.

    Without --text and --file, sentences are read from standard input.
    """
    source = command.model_source(run, "encoder_decoder")
    sampling = source.settings(given)
    interactive = not (text or file) and terminal.is_interactive()
    sources = list(text or [])
    if file or not (text or interactive):
        sources += terminal.input_lines(file)
    model = command.model_of(source, sampling, verbose, interactive)

    def translate_all(texts: list[str]) -> None:
        for number, text in enumerate(texts, start=1):
            if unknown := model.unknown_tokens(text):
                name = f"source {number}"
                terminal.print_message(unknown_tokens_message(name, unknown, model.tokenizer))
        translations = model.translate(
            texts, sampling.beams, sampling.length_penalty, given.get("max_new_tokens")
        )
        for text, translation in zip(texts, translations, strict=True):
            if as_json:
                terminal.print_json({"source": text, "translation": translation})
            else:
                # One line per source, whatever characters the model generates.
                terminal.print_text(re.sub(r"[\r\n]+", " ", translation))

    if interactive:
        terminal.prompt_loop("Type a sentence and press Enter.", lambda line: translate_all([line]))
    else:
        translate_all(sources)
