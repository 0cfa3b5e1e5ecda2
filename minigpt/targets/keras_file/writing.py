"""The model as a `.keras` file, with its tokenizer inside."""

import zipfile
from pathlib import Path

from minigpt.targets.certification.documented_tokenizer import TOKENIZER_FOLDER
from minigpt.targets.source import ExportSource


def write_keras(source: ExportSource, path: Path, weights: str) -> None:
    """Writes a file that `keras.models.load_model` opens in a process that imported minigpt.

    It is a zip archive, as all files of Keras are; the tokenizer is in its folder `minigpt_tokenizer`.
    """
    # Keras writes only names that end so.
    named = path.with_name("model.keras")
    source.model.save(named)
    with zipfile.ZipFile(named, "a") as archive:
        for name, data in source.tokenizer.saved_files().items():
            archive.writestr(f"{TOKENIZER_FOLDER}/{name}", data)
    named.rename(path)
