"""`minigpt evaluate`: scores a model on text."""

import minigpt
from minigpt.cli.command import JsonOption, RunArgument, TextOption, command
from minigpt.cli.output import print_json


@command({"run": "RUN", "paths": "--text", "text": "--text"})
def evaluate(run: RunArgument, text: TextOption = None, as_json: JsonOption = False) -> None:
    """Score a model on its validation text, or on other text."""
    scores = minigpt.evaluate_run(minigpt.Run(run), text)
    if as_json:
        print_json(scores.as_dict())
        return
    pairs = isinstance(scores, minigpt.PairEvaluation)
    bits = "–" if scores.bits_per_byte is None else f"{scores.bits_per_byte:.4f}"
    line = (
        f"loss {scores.loss:.4f} nats per {'target ' * pairs}token, "
        f"perplexity {scores.perplexity:.4g}, {bits} bits per byte, "
        f"over {scores.tokens:,} tokens of {scores.bytes:,} bytes"
    )
    if isinstance(scores, minigpt.PairEvaluation):
        bleu = "–" if scores.bleu is None else f"{scores.bleu:.2f}"
        beams = f"{scores.beams} beam{'s' * (scores.beams > 1)}"
        line += f"; BLEU {bleu} with {beams}, over {scores.pairs:,} pairs"
    print(line)
