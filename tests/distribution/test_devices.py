"""Which devices training uses, and when they are not available."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from minigpt.config.training import TrainingConfig
from minigpt.distribution import devices
from minigpt.distribution.cluster import Cluster
from minigpt.distribution.devices import Devices, set_up_replicas
from minigpt.distribution.launch import worker_environment
from minigpt.errors import UserError
from minigpt.training.clock import StepLimits


@pytest.fixture
def machine(monkeypatch):
    """Records what TensorFlow is asked for, on a machine with four GPUs that are not there."""
    asked = []
    gpus = [f"gpu{number}" for number in range(4)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: gpus)
    monkeypatch.setattr(
        tf.config, "set_visible_devices", lambda chosen, kind: asked.append(("visible", chosen))
    )
    monkeypatch.setattr(
        tf.distribute, "MirroredStrategy", lambda devices: asked.append(("mirrored", devices))
    )
    monkeypatch.setattr(devices, "connect", lambda cluster: asked.append(("connect", cluster)) or 1)
    monkeypatch.setattr(devices, "Replicas", lambda *arguments: arguments)
    monkeypatch.setattr(devices, "device_name", lambda gpus: "A GPU")
    monkeypatch.setattr(devices, "_used_together", None)
    return asked


def test_all_gpus_by_default(machine):
    name, _ = set_up_replicas(TrainingConfig(), None)
    assert name == "4 x A GPU"
    assert machine == [
        ("visible", ["gpu0", "gpu1", "gpu2", "gpu3"]),
        ("mirrored", ["GPU:0", "GPU:1", "GPU:2", "GPU:3"]),
    ]


@pytest.mark.parametrize("settings", [{"devices": 1}, {"device": "gpu:0"}])
def test_one_gpu_has_no_replicas(machine, settings):
    assert set_up_replicas(TrainingConfig(**settings), None) == ("A GPU", None)
    assert machine == [("visible", ["gpu0"])]


def test_the_devices_of_a_worker_are_chosen_before_it_connects(machine):
    """TensorFlow is initialized by the connection, and refuses later."""
    cluster = Cluster(("a:1", "b:1"), 1)
    name, _ = set_up_replicas(TrainingConfig(devices=2), cluster)
    assert machine == [("visible", ["gpu0", "gpu1"]), ("connect", cluster)]
    assert name == "2 workers, each with 2 x A GPU"


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"devices": 5}, "training.devices = 5: this machine has 4 GPUs"),
        (
            {"devices": 2, "device": "gpu:1"},
            "training.devices = 2: training.device = 'gpu:1' is one",
        ),
        ({"devices": 4, "batch_size": 3}, "training.batch_size = 3: should be at least 4"),
        (
            {"devices": 2, "device": "cpu"},
            "training.devices = 2: should be 1 for each of several CPU",
        ),
    ],
)
def test_devices_that_cannot_be_used(machine, settings, message):
    cluster = Cluster(("a:1", "b:1"), 0) if settings.get("device") == "cpu" else None
    with pytest.raises(UserError, match=message):
        set_up_replicas(TrainingConfig(**settings), cluster)
    assert ("connect", cluster) not in machine


def test_another_number_of_devices_in_the_same_process(machine):
    """TensorFlow would fail at the first sum, and not say why."""
    set_up_replicas(TrainingConfig(devices=3), None)
    set_up_replicas(TrainingConfig(devices=1), None)
    set_up_replicas(TrainingConfig(devices=3), None)
    with pytest.raises(UserError, match="devices = 2: this process has used TensorFlow with 3"):
        set_up_replicas(TrainingConfig(devices=2), None)


def test_tensorflow_was_used_before_with_fewer_devices(monkeypatch):
    """Nothing is replaced here: the other tests of this process have used its only CPU."""
    assert float(tf.constant(1.0) + 1) == 2
    monkeypatch.setattr(devices, "_used_together", None)
    with pytest.raises(UserError, match="devices = 2: this process has used TensorFlow with 1"):
        set_up_replicas(TrainingConfig(devices=2), None)


def test_an_interrupt_during_the_exchange_counts_at_the_next_update():
    """A worker waits in the exchange for most of a checkpoint of the first worker."""
    exchanged = []

    def sum_over_workers(values):
        exchanged.append(list(map(float, values)))
        loop.interrupt.requested = True  # The signal of Ctrl-C, from here on.
        return values

    loop = SimpleNamespace(
        model=SimpleNamespace(stop_training=False),
        interrupt=SimpleNamespace(requested=False),
        clock=SimpleNamespace(step=1, limits=StepLimits(10)),
        checkpointing=SimpleNamespace(batch=1, batches_per_epoch=10),
    )
    of_workers = Devices()
    of_workers.replicas = SimpleNamespace(sum_over_workers=sum_over_workers)
    assert [of_workers.agree(loop), of_workers.agree(loop)] == [False, True]
    assert [values[1] for values in exchanged] == [0, 1]


def test_workers_of_a_launch_share_the_gpus_that_the_driver_lists(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf 'GPU 0: A\\nGPU 1: B\\nGPU 2: C\\nGPU 3: D\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    places = [worker_environment(["a:1", "b:1"], index) for index in (0, 1)]
    assert [place["CUDA_VISIBLE_DEVICES"] for place in places] == ["0,1", "2,3"]
