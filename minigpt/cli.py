"""The commands; each a few lines over a public function."""

import json
import re
import shlex
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer._click.exceptions import ClickException

import minigpt
from minigpt.config import SamplingConfig, load_config, shipped_configs
from minigpt.corpus.sizes import config_for_text
from minigpt.errors import UserError
from minigpt.interrupts import remember_interrupts

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Trains miniature GPTs: point it at text, watch it learn to write, ship the model.",
)

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON objects, one a line.")]
Texts = Annotated[
    list[str] | None,
    typer.Option(
        "--text", metavar="PATH", help="Text files, folders of *.txt, globs, .gz. Repeatable."
    ),
]


class Format(StrEnum):
    saved_model = "saved_model"
    keras = "keras"
    huggingface = "huggingface"


@app.command()
def train(
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A TOML file, or the name of a shipped configuration."),
    ] = None,
    text: Texts = None,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run directory. Default: runs/NAME-N.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting. Repeatable."),
    ] = None,
) -> None:
    """Train a model, show what it writes after every epoch, export it."""
    if text and not config:
        settings = config_for_text(text, overrides or (), report=print)
        name = re.sub(r"[^\w.-]+", "", Path(text[0]).stem) or "text"
    else:
        settings = load_config(config or "default", overrides or (), text or ())
        name = Path(config or "default").stem
    minigpt.train(settings, run, name=name, command=_command())


@app.command()
def sample(
    run: RunArgument,
    prompt: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Text to continue. Repeatable.")
    ] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens to add at most.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    top_k: Annotated[int | None, typer.Option(help="0: no limit.")] = None,
    top_p: Annotated[float | None, typer.Option(help="1: no limit.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    num_samples: Annotated[int, typer.Option(min=1, help="Sample i uses seed + i.")] = 1,
    as_json: Json = False,
) -> None:
    """Continue prompts with a trained model; without --prompt, ask for them."""
    given = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
    }
    opened = minigpt.Run(run)
    defaults = opened.config.sampling.model_dump()
    chosen = {name: defaults[name] if value is None else value for name, value in given.items()}
    settings = load_config({"sampling": chosen}).sampling
    model = minigpt.load(opened)

    def answer(text: str) -> None:
        unknown = model.unknown_tokens(text)
        if unknown:
            _warn(
                f"--prompt {text!r}: {unknown} of its tokens are unknown to the tokenizer and "
                "read as [UNK]"
            )
        for found in model.samples([text] * num_samples, **_sampler(settings, num_samples)):
            if as_json:
                print(json.dumps(found.as_dict(), ensure_ascii=False), flush=True)
            else:
                print(found.prompt + found.text, flush=True)

    if prompt:
        for text in prompt:
            answer(text)
    elif sys.stdin.isatty() and sys.stdout.isatty():
        _warn("Type a prompt and press Enter; Ctrl-D ends.")
        while True:
            try:
                answer(input("> "))
            except EOFError:
                print()
                break
    else:
        answer("")


@app.command()
def evaluate(run: RunArgument, text: Texts = None, as_json: Json = False) -> None:
    """Score a model on its held-out text, or on other text."""
    scored = minigpt.evaluate_run(minigpt.Run(run), text, report=_warn)
    if as_json:
        print(json.dumps(scored.as_dict()))
        return
    bits = scored.bits_per_byte
    print(
        f"loss {scored.loss:.4f} nats per token, perplexity {scored.perplexity:.4g}, "
        f"{'–' if bits is None else f'{bits:.4f}'} bits per byte, "
        f"over {scored.tokens:,} tokens of {scored.bytes:,} bytes"
    )


@app.command()
def export(
    run: RunArgument,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Becomes the exported model.")],
    format: Annotated[Format, typer.Option(help="What to write.")] = Format.saved_model,
) -> None:
    """Write a run's best model for other programs."""
    minigpt.export_run(minigpt.Run(run), format.value, output)
    print(f"Wrote {output}")


@app.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A Hugging Face GPT-2 folder.")],
    run: Annotated[Path, typer.Option(metavar="DIR", help="Becomes the run directory.")],
) -> None:
    """Make a run of a GPT-2 that another program has saved."""
    made = minigpt.import_run(folder, run, report=_warn)
    print(f"Wrote {made.path}. Sample from it with: {_command()} sample {made.path}")


@app.command()
def configs() -> None:
    """List the shipped configurations."""
    for name, path in shipped_configs().items():
        with path.open(encoding="utf-8") as lines:
            print(f"{name:<24}{next(lines).lstrip('# ').strip()}")


def main() -> None:
    """Runs a command. What a user gave and cannot be used ends with one line a problem, status 2."""
    remember_interrupts()
    try:
        sys.exit(app(standalone_mode=False))
    except UserError as error:
        for problem in error.problems:
            print(f"minigpt: {problem}", file=sys.stderr)
        sys.exit(2)
    except ClickException as error:
        print(f"minigpt: {error.format_message()}", file=sys.stderr)
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)


def _sampler(settings: SamplingConfig, num_samples: int) -> dict[str, Any]:
    return {
        "max_new_tokens": settings.max_new_tokens,
        "temperature": settings.temperature,
        "top_k": settings.top_k,
        "top_p": settings.top_p,
        "seed": [settings.seed + number for number in range(num_samples)],
    }


def _command() -> str:
    """What the user types to get this program, as far as that can be told."""
    program = Path(sys.argv[0])
    if program.stem != "minigpt" or shutil.which("minigpt") == str(program.absolute()):
        return "minigpt"
    program = program.absolute()
    below = program.is_relative_to(Path.cwd())
    return shlex.quote(str(program.relative_to(Path.cwd()) if below else program))


def _warn(line: str) -> None:
    print(line, file=sys.stderr)
