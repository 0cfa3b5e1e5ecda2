"""The tokenizer of a corpus: learned from its training text, or GPT-2's published vocabulary."""

import logging
from collections.abc import Iterator

from minigpt.config import GPT2Config, TokenizerConfig
from minigpt.corpus.documents import Documents, format_size
from minigpt.errors import UserError
from minigpt.storage.downloads import download
from minigpt.tokenizers import KINDS, Tokenizer, learn_tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer

_LEARN_PIECE_BYTES = 64_000

logger = logging.getLogger(__name__)


def learn_from(train: Documents, config: TokenizerConfig) -> Tokenizer:
    """Returns a tokenizer learned from the training documents, or from an even sample of them."""
    limit = KINDS[config.kind].max_learn_bytes
    sample = f", an even sample of {format_size(train.bytes)}" if limit < train.bytes else ""
    logger.info(
        "learning the %s tokenizer from %s%s",
        config.kind,
        format_size(min(train.bytes, limit)),
        sample,
    )
    return learn_tokenizer(even_sample(train, limit), config)


def even_sample(documents: Documents, limit: int) -> Iterator[str]:
    """Yields pieces spread evenly over the documents, at most `limit` bytes; all pieces if they fit."""
    share = limit / documents.bytes if documents.bytes > limit else 1.0
    seen = kept = 0
    for start, stop, _ in documents.piece_spans(_LEARN_PIECE_BYTES):
        size = stop - start
        seen += size
        if kept + size <= seen * share:
            kept += size
            yield documents.text[start:stop].decode()


def published_tokenizer(config: GPT2Config) -> GPT2Tokenizer:
    """Returns the tokenizer of the two files that a configuration names, downloaded if necessary.

    Raises:
      UserError: a file is unavailable, has a wrong checksum, does not match the other one, or the
        vocabulary does not have `config.vocab_size` entries.
    """
    encoder = download(config.encoder_url, config.encoder_sha256).read_bytes()
    merges = download(config.merges_url, config.merges_sha256).read_bytes()
    names = (config.encoder_url, config.merges_url)
    tokenizer = GPT2Tokenizer.from_files(encoder, merges, names)
    if tokenizer.vocab_size != config.vocab_size:
        raise UserError(
            f"tokenizer.vocab_size = {config.vocab_size}: should be {tokenizer.vocab_size}, "
            f"the number of entries in {config.encoder_url}"
        )
    return tokenizer
