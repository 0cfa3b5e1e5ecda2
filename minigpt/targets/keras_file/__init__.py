"""The model as a `.keras` file, with its tokenizer inside."""

import tempfile
import zipfile
from pathlib import Path

from minigpt.targets.model_documents import TOKENIZER_FOLDER, saved_tokenizer
from minigpt.targets.targets import ExportSource, Opened, Target, WeightsType


class KerasFile(Target):
    """A file that `keras.models.load_model` opens in a process that imported minigpt.

    It is a zip archive, as all files of Keras are; the tokenizer is in its folder `minigpt_tokenizer`.
    """

    name = "keras"
    is_folder = False
    keeps_precision = True

    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        # Keras writes only names that end so.
        named = path.with_name("model.keras")
        source.model.save(named)
        with zipfile.ZipFile(named, "a") as archive:
            for name, data in source.tokenizer.saved_files().items():
                archive.writestr(f"{TOKENIZER_FOLDER}/{name}", data)
        named.rename(path)

    def recognizes(self, path: Path, beginning: bytes) -> bool:
        if not beginning.startswith(b"PK") or not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            return "model.weights.h5" in archive.namelist()

    def open(self, path: Path) -> Opened:
        import keras

        from minigpt.targets.opened_keras import opened_keras

        with tempfile.TemporaryDirectory() as folder:
            # Keras opens only names that end so.
            named = Path(folder) / "model.keras"
            named.symlink_to(path.absolute())
            model = keras.models.load_model(named)
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.startswith(TOKENIZER_FOLDER + "/")]
            return opened_keras(model, saved_tokenizer({n: archive.read(n) for n in names}))
