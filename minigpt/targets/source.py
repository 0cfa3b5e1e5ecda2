"""ExportSource: what an export reads of a run."""

import json
from functools import cached_property

import minigpt
from minigpt.models import GPT, EncoderDecoder
from minigpt.runs.run import Run
from minigpt.targets.certification.documented_tokenizer import SETTINGS_FILE, TOKENIZER_FOLDER
from minigpt.targets.gguf.run_file import best_facts
from minigpt.targets.gguf.writing import public_settings
from minigpt.targets.huggingface.tokenizer_export import export_problem, tokenizer_files
from minigpt.tokenizers import Tokenizer


class ExportSource:
    """A run, and its best model and tokenizer, which are loaded when they are first needed.

    Args:
      run: the run.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def model(self) -> GPT | EncoderDecoder:
        return self.run.load_model()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self.run.load_tokenizer()

    def documents(self, weights: str) -> dict[str, bytes]:
        """Returns the files that describe a model: settings and tokenizer.

        `tokenizer.json` is for the tokenizers package; a tokenizer that it does not have is written as
        minigpt saves it.

        Args:
          weights: how the matrices of the export are stored.
        """
        model, tokenizer = self.model, self.tokenizer
        files = {
            f"{TOKENIZER_FOLDER}/{name}": data for name, data in tokenizer.saved_files().items()
        }
        if export_problem(tokenizer) is None:
            text = tokenizer_files(tokenizer, model.max_len)["tokenizer.json"]
            files = {"tokenizer.json": text.encode()}
        settings = {
            "format": 1,
            "minigpt": minigpt.__version__,
            "weights": weights,
            "max_len": model.max_len,
            "vocab_size": model.vocab_size,
            "end_id": tokenizer.end_id,
            "undrawable_ids": sorted(tokenizer.never_sampled_ids),
            "config": public_settings(self.run.config),
            "training": best_facts(self.run),
        }
        return {SETTINGS_FILE: (json.dumps(settings, indent=1) + "\n").encode(), **files}
