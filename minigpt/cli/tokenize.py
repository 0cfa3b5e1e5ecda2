"""`minigpt tokenize`: shows the tokens of a text."""

from typing import Annotated, Any

import typer

import minigpt
from minigpt.cli.command import JsonOption, ModelArgument, command
from minigpt.cli.opening import is_portable, open_run
from minigpt.cli.terminal import print_json, print_text, read_lines
from minigpt.generation.prompts import check_prompt


@command({"run": "RUN", "prompt": "--text", "text": "--text"})
def tokenize(
    run: ModelArgument,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Text to tokenize. Repeatable. Default: lines of standard input."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the tokens of a text: pieces, ids, bytes per token."""
    is_file = is_portable(run)
    tokenizer: Any = (
        minigpt.load_portable(run).tokenizer if is_file else open_run(run).load_tokenizer()
    )
    for line in text or read_lines():
        check_prompt(line)
        ids = tokenizer.encode(line).tolist()
        pieces = [tokenizer.piece(i) for i in ids]
        size = len(line.encode())
        if as_json:
            print_json({"text": line, "tokens": ids, "pieces": pieces, "bytes": size})
            continue
        print_text("|".join(pieces))
        print(" ".join(map(str, ids)))
        ratio = f", {size / len(ids):.2f} bytes per token" if ids else ""
        print(f"{len(ids)} tokens, {size} bytes{ratio}")
