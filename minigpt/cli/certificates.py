"""Certificates of exported models, as the command line prints them."""

from typing import Any


def print_certificate(certificate: dict[str, Any]) -> None:
    """Prints what was compared, in a few lines."""
    logits, bits = certificate["logits"], certificate["bits_per_byte"]
    greedy, tokenizer = certificate["greedy"], certificate["tokenizer"]
    rows = {"Text": certificate["text"]}
    if logits and logits["largest_difference"] is None:
        rows["Logits"] = "are nan or infinite"
    elif logits:
        rows["Logits"] = (
            f"differ by at most {logits['largest_difference']:.2g} over {logits['tokens']:,} tokens; the "
            f"largest is {logits['largest_of_source']:.3g}"
        )
        rows["Bits per byte"] = f"{bits['export']:.4f}; of the run {bits['source']:.4f}"
    rows |= {
        "Greedy texts": f"{greedy['same_texts']} of {greedy['prompts']} are the same",
        "Tokenizer": f"{tokenizer['same']:,} of {tokenizer['lines']:,} lines have the same tokens",
        "Size": f"{certificate['bytes'] / 1e6:.1f} MB",
        "Speed": f"{certificate['tokens_per_second']:,.0f} tokens/s, one text at a time",
    }
    if graph := certificate.get("text_to_text"):
        greedy, tokenizer = graph["greedy"], graph["tokenizer"]
        rows["Text to text"] = (
            f"{greedy['same_texts']} of {greedy['prompts']} greedy texts and {tokenizer['same']:,} of "
            f"{tokenizer['lines']:,} lines are the same; {graph['tokens_per_second']:,.0f} tokens/s"
        )
    for name, value in rows.items():
        print(f"{name:14}{value}")
