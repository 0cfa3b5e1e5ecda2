"""The names that minigpt uses and that their libraries do not promise: they exist, and are all."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import keras
import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "minigpt"
# Private methods of Keras' optimizers → their parameters, and how often minigpt uses them.
METHODS = {
    "_backend_apply_gradients": (["grads", "trainable_variables"], 2),
    "_backend_update_step": (["grads", "trainable_variables", "learning_rate"], 1),
    "_backend_increment_gradient_accumulators": (["grads", "acc_grads"], 1),
    "_apply_weight_decay": (["variables"], 1),
    "_use_weight_decay": (["variable"], 1),
    "_get_variable_index": (["variable"], 1),
}
# Modules that are private in Keras, TensorFlow and typer → the name that minigpt imports.
IMPORTS = {"keras.src.export.tf2onnx_lib": "patch_tf2onnx"}


def uses() -> list[str]:
    """Returns the private names of Keras' optimizers and the private modules in the package."""
    private = {name for name in dir(keras.optimizers.Adam()) if re.match("_[a-z]", name)}
    private.remove("_lock")  # Classes of minigpt have an attribute of this name.
    found = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr in private:
                found.append(node.attr)
            elif isinstance(node, ast.FunctionDef) and node.name in private:
                found.append(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                modules = [getattr(node, "module", None) or "", *(a.name for a in node.names)]
                pattern = r"keras\.src\b|tensorflow\.python\b|typer\._"
                found += [module for module in modules if re.match(pattern, module)]
    return found


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Muon"])
def test_the_optimizers_of_keras_have_it(name, kind):
    method = getattr(getattr(keras.optimizers, kind), name, None)
    assert method, f"Keras {keras.__version__} has no {kind}.{name}: see training/optimizers.py"
    assert list(inspect.signature(method).parameters) == ["self", *METHODS[name][0]]


def test_the_accumulators_have_the_name_by_which_they_are_found():
    variable = keras.Variable([1.0])
    optimizer = keras.optimizers.Adam(gradient_accumulation_steps=2)
    optimizer.build([variable])
    names = [v.name for v in optimizer.variables if v.name.endswith("_gradient_accumulator")]
    assert len(names) == 1, "see distribution/fit.py"


@pytest.mark.parametrize("module", IMPORTS)
def test_the_private_modules_have_it(module):
    name = IMPORTS[module]
    assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_there_are_no_others():
    expected = [name for name, (_, count) in METHODS.items() for _ in range(count)]
    assert sorted(uses()) == sorted([*expected, *IMPORTS])
    assert len(uses()) <= 8
