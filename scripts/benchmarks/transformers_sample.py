"""Continues a prompt with transformers: `python -m benchmarks.transformers_sample FOLDER PROMPT`.

Its own streamer prints each word as soon as it is complete.
"""

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer

NEW_TOKENS = 40


def main() -> None:
    folder, prompt = sys.argv[1:]
    torch.manual_seed(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    print(prompt, end="", flush=True)
    model.generate(
        **tokenizer(prompt, return_tensors="pt"),
        max_new_tokens=NEW_TOKENS,
        do_sample=True,
        top_k=10,
        streamer=TextStreamer(tokenizer, skip_prompt=True),
    )


if __name__ == "__main__":
    main()
