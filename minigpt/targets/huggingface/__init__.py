"""Models in the folder format of the Hugging Face package `transformers`.

- `importing`: creates a run from a folder.
- `architecture`: the common interface of the architectures, `architectures`: their list.
- `gpt2`, `qwen3`: config.json and tensors of one architecture, in both directions.
- `config_reader`: reads settings of config.json.
- `weights`: reads safetensors files, and files of torch.
- `tokenizer_import`, `tokenizer_export`: the tokenizer's files.
- `json_file`: reads JSON objects.

`export.huggingface` writes a folder.
"""
