"""A vocabulary that is published, not learned: GPT-2's."""

from collections.abc import Callable

from minigpt.config import GPT2Config
from minigpt.errors import UserError
from minigpt.storage.downloads import download
from minigpt.tokenizers.gpt2 import GPT2Tokenizer


def published_tokenizer(
    config: GPT2Config, report: Callable[[str], None] = lambda line: None
) -> GPT2Tokenizer:
    """The tokenizer of the two files that a configuration names, downloaded where that is needed.

    Raises:
      UserError: a file cannot be had, is another than expected, does not fit the other, or holds more
        than `config.vocab_size` entries.
    """
    addresses = {
        "encoder": (config.encoder_url, config.encoder_sha256),
        "merges": (config.merges_url, config.merges_sha256),
    }
    files = {}
    for name, (url, sha256) in addresses.items():
        files[name] = download(url, sha256, report).read_bytes()
    names = (str(config.encoder_url), str(config.merges_url))
    tokenizer = GPT2Tokenizer.from_files(files["encoder"], files["merges"], names)
    if tokenizer.vocab_size != config.vocab_size:
        raise UserError(
            f"tokenizer.vocab_size = {config.vocab_size}: should be {tokenizer.vocab_size}, "
            f"the entries of {config.encoder_url}"
        )
    return tokenizer
