"""`minigpt chat`: a dialogue with a model."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from minigpt.cli import command
from minigpt.cli.terminal import is_interactive, print_json, print_message, print_text, prompt_loop
from minigpt.config.sampling import SETTINGS
from minigpt.errors import UserError
from minigpt.generation.base_models import given_or_drawn

# An answer is printed while it is generated.
_SETTINGS = [s for s in SETTINGS if s.role not in ("training", "search")]
HINT = (
    "Type a question and press Enter. /undo takes back the last one, /help prints this, /quit ends."
)


@command.command({"run": "RUN", "system": "--system", **command.names_of_options(_SETTINGS)})
@command.with_sampling_options(_SETTINGS, before="as_json")
def chat(
    run: command.ModelArgument,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A message before the first question.")
    ] = None,
    as_json: command.JsonOption = False,
    verbose: command.VerboseOption = False,
    **given: Any,
) -> None:
    """Chat with a model that was trained on dialogues.

    From a pipe, each line is a question of one dialogue, and the answer is printed in one line. An empty
    line begins another dialogue.
    """
    source = command.model_source(run, "gpt")
    sampling = source.settings(given)
    settings = {"max_new_tokens": given.get("max_new_tokens"), "sampling": sampling}
    interactive = is_interactive() and not as_json
    model = command.model_of(source, sampling, verbose, interactive)
    dialogue = _Dialogue(model, system, settings)
    if model.tokenizer.chat is None:
        model.chat("")  # Raises a `UserError`.
    if interactive:

        def answer(line: str) -> None:
            if not (line := line.strip()):
                return
            if line.startswith("/"):
                dialogue.obey(line)
                return
            seed = given_or_drawn(given.get("seed"), sampling, says=False)
            dialogue.answer(line, seed, show=lambda piece: print_text(piece, end=""))
            print()

        try:
            prompt_loop(HINT, answer)
        except EOFError:  # After /quit.
            pass
        except KeyboardInterrupt:
            print()
        return
    seed = given_or_drawn(given.get("seed"), sampling, says=False)
    for line in _piped_lines():
        if not line.strip():
            dialogue.messages.clear()
            continue
        text = dialogue.answer(line, seed)
        if as_json:
            print_json({"question": line, "answer": text, "seed": seed})
        else:
            print_text(" ".join(text.splitlines()))
    # After the answers: a refusal is one line.
    if sampling.temperature > 0 and sampling.top_k != 1 and given.get("seed") is None:
        print_message(f"seed {seed}")


def _piped_lines() -> Iterator[str]:
    """Yields the lines of standard input as they arrive."""
    for number, line in enumerate(sys.stdin.buffer if sys.stdin else ()):
        try:
            yield line.decode("utf-8" if number else "utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UserError(f"standard input: {error}") from None


class _Dialogue:
    """The messages of a dialogue with a model, after a message of the system if there is one."""

    def __init__(self, model: Any, system: str | None, settings: dict[str, Any]) -> None:
        self._model, self._settings = model, settings
        self._system = [] if system is None else [{"role": "system", "content": system}]
        self.messages: list[dict[str, str]] = []

    def answer(self, question: str, seed: int, show: Any = None) -> str:
        """Returns the answer to a question, and adds both to the messages.

        `show` is called with each piece of the answer; Ctrl-C then ends the answer, not the dialogue.
        """
        asked = {"role": "user", "content": question}
        pieces = []
        messages = [*self._system, *self.messages, asked]
        try:
            for piece in self._model.stream_chat(messages, seed=seed, **self._settings):
                pieces.append(piece)
                if show is not None:
                    show(piece)
        except KeyboardInterrupt:
            if show is None:
                raise
        answer = "".join(pieces)
        self.messages += [asked, {"role": "assistant", "content": answer}]
        return answer

    def obey(self, line: str) -> None:
        """Follows a command of the user; an `EOFError` ends the dialogue."""
        if line == "/quit":
            raise EOFError
        if line == "/help":
            print_message(HINT)
        elif line == "/undo" and self.messages:
            print_message(f"Took back: {self.messages[-2]['content']}")
            del self.messages[-2:]
        else:
            needs = ", after a question" if line == "/undo" else ""
            raise UserError(
                f"{line}: should be /undo, /help or /quit{needs}; other lines are questions"
            )
