"""The corpus that a run is trained on."""

from dataclasses import replace

from minigpt.corpus.store_files import Corpus
from minigpt.corpus.token_store import reopen_corpus
from minigpt.runs.run import Run


def open_run_corpus(run: Run) -> Corpus | None:
    """Returns the token ids that a run is trained on; None if its text has changed since.

    Raises:
      UserError: the text cannot be read, or corpus.json is damaged.
    """
    config, tokenizer = run.config, run.load_tokenizer()
    # A tokenizer that was not learned from the text is read from the run instead of downloaded again.
    learned = config.training.init_from is None and config.tokenizer.kind != "gpt2"
    existing = None if learned else tokenizer
    corpus = reopen_corpus(config.data, config.tokenizer, existing, run.corpus["fingerprint"])
    # The run's knows whether its vocabulary has a beginning-of-sentence token.
    return corpus and replace(corpus, tokenizer=tokenizer)
