"""Continues a prompt as nanoGPT's `sample.py`: `python -m benchmarks.nanogpt_sample CHECKPOINT PROMPT`.

Two differences are in its favor: each token is printed at once, and the checkpoint has no state of the
optimizer. As in nanoGPT, nothing is compiled, and nothing is kept from one token to the next.
"""

import sys

import torch

from benchmarks.nanogpt_model import Model
from benchmarks.sizes import Sizes

# Those of nanoGPT's script.
TEMPERATURE, TOP_K = 0.8, 200
NEW_TOKENS = 40


@torch.no_grad()
def main() -> None:
    path, prompt = sys.argv[1:]
    torch.manual_seed(1337)
    checkpoint = torch.load(path, map_location="cpu")
    pieces, sizes = checkpoint["pieces"], Sizes(**checkpoint["sizes"])
    model = Model(sizes, len(pieces)).eval()
    model.load_state_dict(checkpoint["model"])
    numbers = {piece: i for i, piece in enumerate(pieces)}
    ids = torch.tensor([[numbers[character] for character in prompt]])
    print(prompt, end="", flush=True)
    for _ in range(NEW_TOKENS):
        logits = model(ids[:, -sizes.context :])[:, -1] / TEMPERATURE
        lowest = torch.topk(logits, TOP_K).values[:, -1:]
        shares = torch.softmax(logits.masked_fill(logits < lowest, -torch.inf), dim=-1)
        new = torch.multinomial(shares, num_samples=1)
        ids = torch.cat((ids, new), dim=1)
        print(pieces[new.item()], end="", flush=True)


if __name__ == "__main__":
    main()
