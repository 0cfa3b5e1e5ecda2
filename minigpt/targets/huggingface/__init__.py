"""Models in the folder format of the Hugging Face package `transformers`, written and imported."""
