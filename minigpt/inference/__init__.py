"""Inference: models together with their tokenizers, text in, text out."""
