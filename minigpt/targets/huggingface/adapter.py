"""The adapter of a run with `training.lora_rank`: a folder for the library peft and for minigpt."""

import json
from pathlib import Path

import numpy as np

from minigpt.errors import ArgumentProblem, UserError
from minigpt.models import lora
from minigpt.runs.checkpoints import write_tensors
from minigpt.runs.run import Run, adapted_model
from minigpt.targets.huggingface.architectures import HEAD, architecture_of_model
from minigpt.targets.huggingface.folders import as_json
from minigpt.targets.huggingface.tokenizer_export import export_problem, tokenizer_files


def write_adapter(run: Run, folder: Path) -> str | None:
    """Writes what LoRA has added to the base of a run into an empty folder.

    Returns:
      In one line why the names are not those of peft; None if they are.
    Raises:
      UserError: the run was trained without LoRA, or it has no checkpoint.
    """
    config, tokenizer = run.config, run.load_tokenizer()
    if (rank := config.training.lora_rank) is None:
        problem = "was trained without training.lora_rank and has no adapter"
        raise UserError(ArgumentProblem("run", run.path, problem))
    model = adapted_model(config.model, tokenizer, rank, run.best_checkpoint())
    architecture, tokens = architecture_of_model(config.model), list(tokenizer.dialogue_tokens)
    problems = architecture.export_problems(config.model)
    layout = {} if problems else architecture.layout(config.model, model.vocab_size)
    # The names and the widths of the tensors in the columns of each matrix.
    names: dict[str, list[tuple[str, int]]] = {}
    for name, (shape, path) in layout.items():
        prefix = "" if name == HEAD else architecture.prefix
        width = shape[0 if architecture.is_transposed(name) else -1]
        whole = f"base_model.model.{prefix}{name.removesuffix('.weight')}"
        names.setdefault(path.rpartition(".")[0], []).append((whole, width))
    tensors, columns = {}, {}
    for path, layer in lora.adapted_layers(model).items():
        factors, first = {w.name: np.array(w).T for w in layer.weights}, 0
        # The bias has the same path, and follows.
        for name, width in names.get(path, [(path, layer.units)]):
            if first < layer.units:
                tensors[name + lora.A] = factors["lora_kernel_a"]
                tensors[name + lora.B] = factors["lora_kernel_b"][first : first + width]
                columns[name] = [path, first, first + width]
            first += width
    vectors = {}
    for weight, is_head in lora.token_tables(model) if tokens else ():
        path = "head" if is_head else "embedding.token_embedding"
        name = f"{names.get(path, [(path, 0)])[0][0]}.token_adapter.trainable_tokens_delta"
        vectors[name] = (np.array(weight).T if is_head else np.array(weight))[tokens]
    described = {"base": lora.mark_of(model), "columns": columns, "vectors": list(vectors)}
    metadata = {"format": "pt", "minigpt": json.dumps(described)}
    write_tensors(folder / lora.ADAPTER_FILE, {**tensors, **vectors}, metadata)
    adapter_config = {
        "fan_in_fan_out": architecture.name == "GPT-2",
        "lora_alpha": rank,
        "peft_type": "LORA",
        "r": rank,
        "target_modules": sorted({name.split(".")[-1] for name in columns}),
        "task_type": "CAUSAL_LM",
        "trainable_token_indices": {name.split(".")[-3]: tokens for name in vectors} or None,
    }
    (folder / "adapter_config.json").write_text(as_json(adapter_config), encoding="utf-8")
    tokenizer.save(folder / lora.TOKENIZER_FOLDER)
    if export_problem(tokenizer) is None:
        for name, content in tokenizer_files(tokenizer, model.max_len).items():
            (folder / name).write_text(content, encoding="utf-8", newline="")
    return "; ".join(problems) or None
