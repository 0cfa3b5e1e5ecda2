"""`minigpt sample`: continues prompts."""

import inspect
import random
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from minigpt.cli.command import JsonOption, ModelArgument, VerboseOption, command
from minigpt.cli.opening import OpenedModel
from minigpt.cli.terminal import (
    SampleHeadings,
    is_interactive,
    print_json,
    print_message,
    print_text,
    prompt_loop,
    read_lines,
)
from minigpt.config.sampling import SETTINGS, Setting
from minigpt.errors import UserError
from minigpt.generation.prompts import shortened, unknown_tokens_message

_SETTINGS = [setting for setting in SETTINGS if setting.role != "training"]
# Settings whose option has another name.
_NAMES = {"banned_tokens": "ban"}
# A beam search draws nothing.
_NOT_FOR_BEAMS = [
    s.name
    for s in _SETTINGS
    if s.name == "seed" or (s.role == "distribution" and s.name != "repetition_penalty")
]
OPTION_NAMES = {s.name: "--" + _NAMES.get(s.name, s.name).replace("_", "-") for s in _SETTINGS}


def with_sampling_options(before: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a command: its `**options` become the options of the sampling settings.

    They arrive as setting → value, None for those that are not given.

    Args:
      before: the parameter before which they are listed.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        at = [parameter.name for parameter in own].index(before)
        own[at:at] = map(_parameter, _SETTINGS)

        def with_options(**given: Any) -> None:
            options = {s.name: given.pop(_NAMES.get(s.name, s.name)) for s in _SETTINGS}
            function(**given, **options)

        with_options.__name__, with_options.__doc__ = function.__name__, function.__doc__
        with_options.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return with_options

    return decorate


def _parameter(setting: Setting) -> inspect.Parameter:
    """Returns the parameter of a command for a setting."""
    described = setting.description[0].upper() + setting.description[1:] + "."
    metavar = None
    if setting.type in (list[str], list[int]):
        described += " Repeatable."
        metavar = "TEXT" if setting.type == list[str] else "ID"
    option = typer.Option(metavar=metavar, help=described)
    return inspect.Parameter(
        _NAMES.get(setting.name, setting.name),
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation=Annotated[setting.type | None, option],
    )


OPTIONS = {
    "run": "RUN",
    "prompt": "--prompt",
    **OPTION_NAMES,
    "num_samples": "--num-samples",
}


@command(OPTIONS)
@with_sampling_options(before="num_samples")
def sample(
    run: ModelArgument,
    prompt: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Text to continue. Repeatable.")
    ] = None,
    num_samples: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Samples per prompt; sample i uses seed + i.")
    ] = 1,
    as_stream: Annotated[
        bool, typer.Option("--stream", help="Print text while it is generated.")
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    **options: Any,
) -> None:
    """Continue prompts with a trained model.

    Without --prompt, prompts are read from the terminal, or from a pipe or file on standard input,
    one per line. With no input, the prompt is empty.
    """
    opened = OpenedModel(run, "gpt")
    sampling = opened.sampling_settings(options)
    first_seed = opened.sampling["seed"] if options["seed"] is None else options["seed"]
    _check_options(sampling.beams, options, as_stream, as_json)
    interactive = not prompt and is_interactive()
    prompts = prompt or ([] if interactive else _piped_prompts())
    if interactive:
        print_message(f"Loading {run} ...")
    model = opened.load(sampling, verbose)
    settings = vars(sampling)
    draws = sampling.beams == 1 and sampling.temperature > 0

    def print_samples(text: str, seed: int, headings: SampleHeadings) -> None:
        if unknown := model.unknown_tokens(text):
            name = f"{'--prompt' if prompt else 'prompt'} {shortened(text)!r}"
            print_message(unknown_tokens_message(name, unknown, model.tokenizer))
        if as_stream:
            for sample_seed in range(seed, seed + num_samples):
                headings.print_next(sample_seed if draws else None)
                print_text(text, end="")
                for piece in model.stream(text, seed=sample_seed, **settings):
                    print_text(piece, end="")
                print()
            return
        for found in model.iter_samples(text, seed=seed, num_samples=num_samples, **settings):
            if as_json:
                print_json(found.as_dict())
            else:
                headings.print_next(found.seed if draws else None)
                print_text(found.prompt + found.text)

    def answer(text: str) -> None:
        new_seed = (
            random.randrange(2**31 - num_samples) if options["seed"] is None else options["seed"]
        )
        if draws:
            print_message(f"Seed {new_seed}")
        print_samples(text, new_seed, SampleHeadings(num_samples))

    with warnings.catch_warnings():
        # `print_samples` reports them by the option's name.
        warnings.filterwarnings("ignore", ".* unknown to the tokenizer and are read as")
        if interactive:
            prompt_loop("Type a prompt and press Enter.", answer)
        else:
            headings = SampleHeadings(len(prompts) * num_samples)
            for text in prompts:
                print_samples(text, first_seed, headings)


def _check_options(beams: int, options: dict[str, Any], stream: bool, as_json: bool) -> None:
    """Raises a `UserError` if an option of `sample` has no effect or contradicts another one."""
    problems = []
    if beams > 1:
        problems += [
            f"{OPTION_NAMES[name]} {options[name]}: has no effect with --beams {beams}, which "
            "draws no random numbers; omit one of the two"
            for name in _NOT_FOR_BEAMS
            if options[name] is not None
        ]
    elif options["length_penalty"] is not None:
        problems.append(
            f"--length-penalty {options['length_penalty']}: has an effect only with --beams 2 or more"
        )
    if stream and beams > 1:
        problems.append(
            f"--stream: cannot be used with --beams {beams}, which finds the best text at the end"
        )
    if stream and as_json:
        problems.append("--stream: cannot be used with --json, which prints whole objects")
    if problems:
        raise UserError(*problems)


def _piped_prompts() -> list[str]:
    """Returns the lines of standard input; one empty prompt if it is empty, closed or a terminal."""
    terminal = sys.stdin is not None and sys.stdin.isatty()
    return ([] if terminal else read_lines()) or [""]
