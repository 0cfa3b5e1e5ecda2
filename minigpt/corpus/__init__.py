"""Data flow: source → documents → split → token ids on disk → batch(seed, step).

`token_store.open_corpus` covers everything up to the token ids; `batches` and `pair_batches` make
batches from them. Text and ids are memory-mapped, so a corpus may be larger than memory. Only
`datasets` imports TensorFlow.
"""
