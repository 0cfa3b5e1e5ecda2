"""The commands; each a few lines over a public function."""

import json
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer._click.exceptions import ClickException, NoArgsIsHelpError

import minigpt
from minigpt.cli.input import read_lines
from minigpt.config import load_config, shipped_configs
from minigpt.corpus.text_files import TextFiles
from minigpt.errors import UserError, gathering
from minigpt.inference.prompts import check_prompt, unknown_tokens_message
from minigpt.runs.paths import check_run, refuse_taken

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Trains miniature GPTs: point it at text, watch it learn to write, ship the model.",
)

INTERRUPTED = 130

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
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Go on with this run; --set may change some settings."),
    ] = None,
) -> None:
    """Train a model, show what it writes after every epoch, export it."""
    if resume:
        _resume(resume, {"--config": config, "--text": text, "--run": run}, overrides or ())
        return
    problems: list[str] = []
    with gathering(problems):
        settings = load_config(config, overrides or (), text or ())
    with gathering(problems):
        if run:
            refuse_taken(run)
    if problems:
        with gathering(problems):
            TextFiles(text or ()).check_found()
        raise UserError(*problems)
    if text and not config:
        name = re.sub(r"[^\w.-]+", "", Path(text[0]).stem) or "text"
    else:
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
    min_p: Annotated[
        float | None, typer.Option(help="Share of the likeliest token's probability; 0: no limit.")
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1: what the text holds comes less often.")
    ] = None,
    beams: Annotated[
        int | None, typer.Option(help="Above 1: search for the likeliest text, draw nothing.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Of the search; higher favours longer texts.")
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Ends a text. Repeatable.")
    ] = None,
    ban: Annotated[
        list[int] | None,
        typer.Option(metavar="ID", help="A token never to draw; see tokenize. Repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    num_samples: Annotated[int, typer.Option(min=1, help="Sample i uses seed + i.")] = 1,
    as_stream: Annotated[bool, typer.Option("--stream", help="Show text as it is made.")] = False,
    as_json: Json = False,
) -> None:
    """Continue prompts with a trained model; without --prompt, ask for them."""
    given = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "beams": beams,
        "length_penalty": length_penalty,
        "stop": stop,
        "banned_tokens": ban,
        "seed": seed,
    }
    opened = _run_of_kind(run, "gpt")
    defaults = opened.config.sampling.model_dump()
    chosen = {name: defaults[name] if value is None else value for name, value in given.items()}
    settings = load_config({"sampling": chosen}).sampling
    _refuse_idle(settings.beams, given, as_stream, as_json)
    how = settings.model_dump(exclude={"prompts", "print_every"})
    model = minigpt.load(opened, _warn)
    assert isinstance(model, minigpt.TextModel)
    # Said here by the option's name.
    warnings.filterwarnings("ignore", ".* unknown to the tokenizer and are read as")

    def answer(text: str) -> None:
        if unknown := model.unknown_tokens(text):
            _warn(unknown_tokens_message(f"--prompt {text!r}", unknown))
        if as_stream:
            for number in range(num_samples):
                print(text, end="", flush=True)
                for piece in model.stream(text, **how | {"seed": settings.seed + number}):
                    print(piece, end="", flush=True)
                print()
            return
        for found in model.samples(text, num_samples=num_samples, **how):
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
def translate(
    run: RunArgument,
    text: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="A sentence. Repeatable.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sentences, one a line.")
    ] = None,
    beams: Annotated[
        int | None, typer.Option(help="Translations followed at once; 1 is greedy.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Of the beams; more favours longer translations.")
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(min=0, help="Tokens of a translation at most.")
    ] = None,
) -> None:
    """Translate sentences, one a line; from standard input without --text and --file."""
    opened = _run_of_kind(run, "encoder_decoder")
    given = {"beams": beams, "length_penalty": length_penalty}
    defaults = opened.config.sampling.model_dump()
    chosen = {name: defaults[name] if value is None else value for name, value in given.items()}
    settings = load_config({"sampling": chosen}).sampling
    if length_penalty is not None and settings.beams == 1:
        raise UserError(f"--length-penalty {length_penalty}: is of --beams 2 or more")
    asked = not (text or file) and sys.stdin.isatty()
    sources = [
        *(text or []),
        *(read_lines(file) if file else []),
        *(read_lines(None) if not (text or file or asked) else []),
    ]
    model = minigpt.load(opened, _warn)
    assert isinstance(model, minigpt.TranslationModel)

    def answer(texts: list[str]) -> None:
        for source in texts:
            check_prompt(source)
        for number, source in enumerate(texts, start=1):
            if unknown := model.unknown_tokens(source):
                _warn(unknown_tokens_message(f"source {number}", unknown))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UserWarning)
            found = model.translate(texts, settings.beams, settings.length_penalty, max_new_tokens)
        for warning in said:
            _warn(str(warning.message))
        for translation in found:
            # A line is a line, whatever characters a model strings together.
            print(re.sub(r"[\r\n]+", " ", translation), flush=True)

    if not asked:
        answer(sources)
        return
    _warn("Type a sentence and press Enter; Ctrl-D ends.")
    while True:
        try:
            answer([input("> ")])
        except EOFError:
            print()
            break


@app.command()
def tokenize(
    run: RunArgument,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Text to take apart. Repeatable. Default: standard input."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how text falls apart: pieces, ids, bytes per token."""
    tokenizer = minigpt.Run(run).load_tokenizer()
    for line in text or read_lines(None):
        check_prompt(line)
        ids = tokenizer.encode(line).tolist()
        pieces = [tokenizer.piece(i) for i in ids]
        size = len(line.encode())
        if as_json:
            shown = {"text": line, "tokens": ids, "pieces": pieces, "bytes": size}
            print(json.dumps(shown, ensure_ascii=False))
            continue
        print("|".join(pieces))
        print(" ".join(map(str, ids)))
        ratio = f", {size / len(ids):.2f} bytes a token" if ids else ""
        print(f"{len(ids)} tokens, {size} bytes{ratio}")


@app.command()
def evaluate(run: RunArgument, text: Texts = None, as_json: Json = False) -> None:
    """Score a model on its held-out text, or on other text."""
    scored = minigpt.evaluate_run(minigpt.Run(run), text, report=_warn)
    if as_json:
        print(json.dumps(scored.as_dict()))
        return
    if isinstance(scored, minigpt.PairEvaluation):
        bits, bleu = scored.bits_per_byte, scored.bleu
        print(
            f"loss {scored.loss:.4f} nats per target token, perplexity {scored.perplexity:.4g}, "
            f"{'–' if bits is None else f'{bits:.4f}'} bits per byte, over {scored.tokens:,} tokens "
            f"of {scored.bytes:,} bytes; BLEU {'–' if bleu is None else f'{bleu:.2f}'} with {scored.beams} "
            f"beam{'s' * (scored.beams > 1)}, over {scored.pairs:,} pairs"
        )
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
    minigpt.export_run(minigpt.Run(run), format.value, output, _warn)
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


def run_command() -> None:
    """Runs a command. What a user gave and cannot be used ends with one line a problem, status 2."""
    try:
        status = app(standalone_mode=False, prog_name="minigpt")
    except UserError as error:
        for problem in error.problems:
            print(f"minigpt: {problem}", file=sys.stderr)
        sys.exit(2)
    except NoArgsIsHelpError as error:
        print(error.format_message())
        sys.exit(2)
    except ClickException as error:
        message = (
            error.format_message()
            .replace("Value error, ", "")
            .replace(" is not one of", ": should be one of")
        )
        print(f"minigpt: {message}", file=sys.stderr)
        sys.exit(2)
    except typer.Abort:
        status = INTERRUPTED
    # typer has turned the exception into a number.
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    sys.exit(status)


def _resume(run: Path, others: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Goes on with a run; refuses what only a new one can be given."""
    problems = [
        f"{name}: is for a new run; --resume {run} has its own"
        for name, given in others.items()
        if given
    ]
    with gathering(problems):
        check_run(run)
        load_config(run / "config.toml", overrides)
    if problems:
        raise UserError(*problems)
    minigpt.resume(run, overrides, command=_command())


def _refuse_idle(beams: int, given: dict[str, Any], stream: bool, as_json: bool) -> None:
    """Raises a `UserError` for options that would change nothing, or contradict one another."""
    problems = []
    if beams > 1:
        problems += [
            f"--{name.replace('_', '-')} {given[name]}: plays no part with --beams {beams}, which "
            "draws nothing; leave out one of the two"
            for name in ("temperature", "top_k", "top_p", "min_p", "seed")
            if given[name] is not None
        ]
    elif given["length_penalty"] is not None:
        problems.append(f"--length-penalty {given['length_penalty']}: is of --beams 2 or more")
    if stream and beams > 1:
        problems.append(f"--stream: the best of --beams {beams} is known at the end only")
    if stream and as_json:
        problems.append("--stream: cannot be with --json, which prints whole objects")
    if problems:
        raise UserError(*problems)


def _run_of_kind(path: Path, kind: str) -> "minigpt.Run":
    """Opens a run whose model is for this command."""
    run = minigpt.Run(path)
    if run.config.model.kind != kind:
        other = {"gpt": "translates; use `minigpt translate`", "encoder_decoder": "continues text"}
        use = {"gpt": "", "encoder_decoder": "; use `minigpt sample`"}
        raise UserError(f"RUN {path}: its model {other[kind]}{use[kind]}")
    return run


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
