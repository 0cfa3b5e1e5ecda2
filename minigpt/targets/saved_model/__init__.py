"""The SavedModel: a folder that maps text to text."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.config import TransformerConfig
from minigpt.config.sampling import own_settings
from minigpt.errors import ArgumentProblem, UserError
from minigpt.targets.targets import ExportSource, Opened, Sources, Target, Texts, WeightsType
from minigpt.tokenizers.base import Tokenizer


class SavedModel(Target):
    """A folder that maps text to text, for programs that have TensorFlow and do not have minigpt."""

    name = "saved_model"
    is_folder = True
    keeps_precision = True

    def problem(self, config: TransformerConfig, tokenizer: Tokenizer) -> str | None:
        from minigpt.tokenizers.graph import GRAPHS

        if any(kind in GRAPHS for kind in type(tokenizer).__mro__):
            return None
        return f"tokenizer.kind = {tokenizer.kind!r}: has no TensorFlow graph"

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        from minigpt.targets.saved_model.modules import build_text_module

        own = own_settings(source.run.config.sampling.model_dump())
        build_text_module(source.model, source.tokenizer, own).save(path)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        return (path / "saved_model.pb").is_file()

    def open(self, path: Path) -> Opened:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  # Registers the operations of the tokenizers.

        loaded = tf.saved_model.load(str(path))
        signatures = loaded.signatures
        if not {"tokenize", "logits", "serving_default"} <= set(signatures):
            raise UserError(ArgumentProblem("path", path, "is a SavedModel of another program"))

        def encode(lines: Sequence[str]) -> list[list[int]]:
            found = signatures["tokenize"](text=tf.constant(lines))
            ids, lengths = found["token_ids"].numpy(), found["lengths"].numpy()
            return [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]

        def logits(texts: Texts, sources: Sources) -> Iterator[np.ndarray]:
            for token_ids, source_ids in zip(texts, sources, strict=True):
                inputs = {"token_ids": token_ids[None]}
                if source_ids is not None:
                    lengths = np.array([len(source_ids)], np.int32)
                    inputs = {"source_ids": source_ids[None], "source_lengths": lengths}
                    inputs["target_ids"] = token_ids[None]
                yield _logits(signatures["logits"], inputs)

        def continue_greedily(prompts: Sequence[str], max_new_tokens: int) -> list[str]:
            # The signatures hold no reference to the model; this function does.
            serve = loaded.signatures["serving_default"]
            # One at a time: XLA compiles each number of rows, which takes longer.
            return [_continuation(serve, prompt, max_new_tokens) for prompt in prompts]

        def answer(questions: Sequence[str], max_new_tokens: int) -> list[str]:
            chat = loaded.signatures["chat"]
            return [_continuation(chat, text, max_new_tokens) for text in questions]

        packages = ("tensorflow", "tensorflow-text")
        asked = answer if "chat" in signatures else None
        return Opened(encode, continue_greedily, packages, logits=logits, answer=asked)


def _logits(signature: Any, inputs: dict[str, np.ndarray]) -> np.ndarray:
    import tensorflow as tf

    if inputs.keys() != signature.structured_input_signature[1].keys():
        raise UserError("the export is another kind of model; should be an export of this run")
    try:
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        found: np.ndarray = signature(**tensors)["logits"][0].numpy()
    except tf.errors.InvalidArgumentError as error:
        # It has another context. The reason is the line before the names of the nodes.
        reason = error.message.split("\n\t [[")[0].splitlines()[-1]
        raise UserError(f"the export should be one of this run: {reason}") from None
    return found


def _continuation(serve: Any, prompt: str, max_new_tokens: int) -> str:
    import tensorflow as tf

    # The arguments of a translation, of a continuation, or of a dialogue.
    given: dict[str, Any] = {key: [prompt] for key in ("text", "prompt", "contents")}
    given |= {"roles": ["user"], "beams": 1, "length_penalty": 1.0, "temperature": 0.0, "top_k": 1}
    given |= {"top_p": 1.0, "max_new_tokens": max_new_tokens, "seed": 0}
    names = serve.structured_input_signature[1]
    text: bytes = serve(**{name: tf.constant(given[name]) for name in names})["text"].numpy()[0]
    return text.decode()
