"""GPT-2 in the folder format of the Hugging Face package `transformers`.

- `importing`: creates a run from a folder.
- `config_json`: config.json, in both directions.
- `tensors`: the names and shapes of the tensors.
- `weights`: reads safetensors files.
- `tokenizer_import`, `tokenizer_export`: the tokenizer's files.
- `json_file`: reads JSON objects.

`export.huggingface` writes a folder.
"""
