"""Data flow: source → documents → split → token ids on disk → batch(seed, step).

`token_store.open_corpus` covers everything up to the token ids; `batches`, `pair_batches` and `dialogues`
make batches from them. Ids and large texts are memory-mapped, so a corpus may be larger than memory.
"""
