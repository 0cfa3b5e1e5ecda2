"""GPT-2 as the Hugging Face `transformers` package keeps it: a folder of config, weights and tokenizer.

`shape` is config.json, `tensors` the names of the weights, `weights` their files, `tokenizer_files` what
is read of a tokenizer and `tokenizer_json` what is written; `importing` makes a run of a folder.
`export.huggingface` makes a folder of a model.
"""
