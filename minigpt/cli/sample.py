"""`minigpt sample`: continues prompts."""

import random
import sys
import warnings
from dataclasses import asdict
from typing import Annotated, Any

import typer

from minigpt.cli.command import JsonOption, ModelArgument, VerboseOption, command
from minigpt.cli.input import is_interactive, prompt_loop, read_lines
from minigpt.cli.opening import OpenedModel
from minigpt.cli.output import SampleHeadings, print_json, print_message, print_text
from minigpt.errors import UserError
from minigpt.generation.prompts import shortened, unknown_tokens_message

OPTIONS = {
    "run": "RUN",
    "prompt": "--prompt",
    "max_new_tokens": "--max-new-tokens",
    "temperature": "--temperature",
    "top_k": "--top-k",
    "top_p": "--top-p",
    "min_p": "--min-p",
    "repetition_penalty": "--repetition-penalty",
    "beams": "--beams",
    "length_penalty": "--length-penalty",
    "stop": "--stop",
    "banned_tokens": "--ban",
    "seed": "--seed",
    "num_samples": "--num-samples",
}


@command(OPTIONS)
def sample(
    run: ModelArgument,
    prompt: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Text to continue. Repeatable.")
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Maximum number of tokens to generate.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Divides the logits; 0 is greedy.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Sample from the k most likely tokens; 0: from all.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Sample from the most likely tokens of this total probability; 1: all."),
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(help="Minimum probability, relative to the most likely token; 0: no limit."),
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Values above 1 penalize tokens already in the text.")
    ] = None,
    beams: Annotated[
        int | None, typer.Option(help="Values above 1: beam search instead of sampling.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="With beams: higher values favor longer texts.")
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="End the text before this. Repeatable.")
    ] = None,
    ban: Annotated[
        list[int] | None,
        typer.Option(metavar="ID", help="Never draw this token (see tokenize). Repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    num_samples: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Samples per prompt; sample i uses seed + i.")
    ] = 1,
    as_stream: Annotated[
        bool, typer.Option("--stream", help="Print text while it is generated.")
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Continue prompts with a trained model.

    Without --prompt, prompts are read from the terminal, or from a pipe or file on standard input,
    one per line. With no input, the prompt is empty.
    """
    options = {
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
    opened = OpenedModel(run, "gpt")
    sampling = opened.sampling_settings(options)
    first_seed = opened.sampling["seed"] if seed is None else seed
    _check_options(sampling.beams, options, as_stream, as_json)
    interactive = not prompt and is_interactive()
    prompts = prompt or ([] if interactive else _piped_prompts())
    if interactive:
        print_message(f"Loading {run} ...")
    model = opened.load(sampling.beams, verbose)
    settings = asdict(sampling)
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
        new_seed = random.randrange(2**31 - num_samples) if seed is None else seed
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
            f"--{name.replace('_', '-')} {options[name]}: has no effect with --beams {beams}, which "
            "draws no random numbers; omit one of the two"
            for name in ("temperature", "top_k", "top_p", "min_p", "seed")
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
