"""Text in, batches out: sources → documents → split → token ids on disk → batch(seed, step).

`token_store.open_corpus` goes all the way to the token ids; `batches` takes it from there. Text and
ids live in memory-mapped files, so a corpus larger than memory costs no memory.
"""
