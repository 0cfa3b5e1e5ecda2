"""The example of docs/adding-a-schedule.md works to the end."""

import pytest

from tests.extending import ExtendedPackage

CODE = """
import json, math

chosen = ("schedule=one_minus_sqrt", "learning_rate=0.01", "warmup_steps=0", "steps_per_epoch=4")
train(*(f"training.{setting}" for setting in chosen))
lines = Path("run/steps.jsonl").read_text().splitlines()
rates = [json.loads(line)["learning_rate"] for line in lines]
assert len(rates) == 4, rates
for step, rate in enumerate(rates):
    assert math.isclose(rate, 0.01 * (1 - math.sqrt(step / 4)), rel_tol=1e-5), rates
assert command("sample", "run", "--prompt", "Ana", "--max-new-tokens", "4")
command("export", "run", "--format", "gguf", "--output", "model.gguf")
"""


@pytest.mark.slow
def test_a_new_schedule_trains_samples_and_is_exported(tmp_path):
    package = ExtendedPackage(tmp_path)
    (files,) = package.apply("adding-a-schedule.md")
    assert len(files) == 2
    package.python(CODE)
