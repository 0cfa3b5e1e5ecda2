"""`minigpt sample` and `tokenize`: continue prompts, and show the tokens of a text."""

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from minigpt.cli import command, terminal
from minigpt.config.sampling import SETTINGS
from minigpt.errors import UserError
from minigpt.generation import base_models
from minigpt.targets.open_model import ModelSource

_SETTINGS = [setting for setting in SETTINGS if setting.role not in ("training", "search")]
OPTION_NAMES = command.names_of_options(_SETTINGS)
_FORMS = {"grammar": "--grammar", "regex": "--regex", "json_schema": "--json-schema"}


@command.command(
    {"run": "RUN", "prompt": "--prompt", **OPTION_NAMES, **_FORMS, "num_samples": "--num-samples"}
)
@command.with_sampling_options(_SETTINGS, before="num_samples")
def sample(
    run: command.ModelArgument,
    prompt: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Text to continue. Repeatable.")
    ] = None,
    num_samples: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Samples per prompt; sample i uses seed + i.")
    ] = 1,
    grammar: Annotated[Path | None, typer.Option(help="Grammar of the text (GBNF).")] = None,
    regex: Annotated[str | None, typer.Option(help="Regular expression of the text.")] = None,
    json_schema: Annotated[Path | None, typer.Option(help="JSON schema of the text.")] = None,
    as_stream: Annotated[
        bool, typer.Option("--stream", help="Print text while it is generated.")
    ] = False,
    as_json: command.JsonOption = False,
    verbose: command.VerboseOption = False,
    **given: Any,
) -> None:
    """Continue prompts with a trained model.

    Without --prompt, prompts are read from the terminal, or from a pipe or file on standard input,
    one per line. With no input, the first prompt of the run is continued.
    """
    source = command.model_source(run, "gpt")
    sampling = source.settings(given)
    if as_stream and as_json:
        raise UserError("--stream: cannot be combined with --json")
    form = _form(grammar=grammar, regex=regex, json_schema=json_schema)
    interactive = not prompt and terminal.is_interactive()
    own = next(iter(sampling.prompts), "")
    prompts = prompt or ([] if interactive else _piped_prompts(own))
    model = command.model_of(source, sampling, verbose, interactive)
    settings: dict[str, Any] = {"sampling": sampling, "logits_processor": form}
    settings["max_new_tokens"] = sampling.max_new_tokens
    draws = sampling.temperature > 0 and sampling.top_k != 1

    def print_heading(seed: int, number: int, total: int) -> None:
        if total > 1:  # Several samples are numbered and separated.
            suffix = f", seed {seed}" if draws else ""
            line = f"--- sample {number} of {total}{suffix} ---"
            print(line if number == 1 else f"\n{line}", flush=True)

    def print_samples(text: str, seed: int, printed: int, total: int) -> None:
        if unknown := model.unknown_tokens(text):
            name = f"{'--prompt' if prompt else 'prompt'} {base_models.shortened(text)!r}"
            terminal.print_message(
                base_models.unknown_tokens_message(name, unknown, model.tokenizer)
            )
        if as_stream:
            for i in range(num_samples):
                print_heading(seed + i, printed + i + 1, total)
                terminal.print_text(text, end="")
                for piece in model.stream(text, seed=seed + i, **settings):
                    terminal.print_text(piece, end="")
                print()
            return
        samples = model.iter_samples(text, seed=seed, num_samples=num_samples, **settings)
        for number, found in enumerate(samples, start=printed + 1):
            if as_json:
                terminal.print_json(found.as_dict())
            else:
                print_heading(found.seed, number, total)
                ends_whole = text == own and not prompt and "max_new_tokens" not in given
                most = sampling.max_new_tokens if ends_whole else sys.maxsize
                terminal.print_text(found.prompt + base_models.whole_sentences(found, most))
            if form and len(found.tokens) == sampling.max_new_tokens:
                terminal.print_message(f"{OPTION_NAMES['max_new_tokens']} may have cut this text.")

    def answer(*texts: str) -> None:
        seed = base_models.given_or_drawn(given.get("seed"), sampling, says=False)
        for number, text in enumerate(texts):
            print_samples(text, seed, number * num_samples, len(texts) * num_samples)
        # After the texts: a refusal is one line.
        if draws and given.get("seed") is None:
            terminal.print_message(f"seed {seed}")

    with warnings.catch_warnings():
        # `print_samples` reports them by the option's name.
        warnings.filterwarnings("ignore", ".* unknown to the tokenizer and are read as")
        if interactive:
            answer(own)
            terminal.prompt_loop("Type a prompt and press Enter.", answer)
        else:
            answer(*prompts)


def _form(**given: Any) -> Any:
    """Returns the `Grammar` that an option gives; None without one."""
    options = {name: value for name, value in given.items() if value is not None}
    if len(options) > 1:
        raise UserError(f"{' and '.join(_FORMS[name] for name in options)}: only one is possible")
    for kind, value in options.items():
        from minigpt.generation.grammar import Grammar

        source = value if kind == "regex" else "\n".join(terminal.input_lines(value, _FORMS[kind]))
        return Grammar(kind, source, value)
    return None


def _piped_prompts(own: str) -> list[str]:
    """Returns the lines of standard input; the prompt `own` if it is empty, closed or a terminal."""
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    return ([] if is_terminal else terminal.input_lines()) or [own]


@command.command({"run": "RUN", "prompt": "--text", "text": "--text"})
def tokenize(
    run: command.ModelArgument,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Text to tokenize. Repeatable. Default: lines of standard input."
        ),
    ] = None,
    as_json: command.JsonOption = False,
) -> None:
    """Show the tokens of a text: pieces, ids, bytes per token."""
    tokenizer = ModelSource(run).tokenizer
    for line in text or terminal.input_lines():
        base_models.check_prompt(line)
        ids = tokenizer.encode(line).tolist()
        pieces = [tokenizer.piece(i) for i in ids]
        size = len(line.encode())
        if as_json:
            terminal.print_json({"text": line, "tokens": ids, "pieces": pieces, "bytes": size})
            continue
        terminal.print_text("|".join(pieces))
        print(" ".join(map(str, ids)))
        ratio = f", {size / len(ids):.2f} bytes per token" if ids else ""
        print(f"{len(ids)} tokens, {size} bytes{ratio}")
