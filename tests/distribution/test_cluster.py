"""Workers that the environment describes."""

import json

import pytest

from minigpt.distribution.cluster import Cluster, find_cluster, worker_place
from minigpt.errors import UserError

ADDRESSES = ["a:1", "b:2", "c:3"]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("TF_CONFIG", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)


def set_tf_config(monkeypatch, jobs: dict, kind: str = "worker", index: int = 0) -> None:
    task = {"type": kind, "index": index}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": task}))


def set_slurm(monkeypatch, nodes: str, tasks: str, count: int, rank: int, node: str) -> None:
    for name, value in {
        "STEP_NUM_TASKS": count,
        "STEP_NODELIST": nodes,
        "STEP_TASKS_PER_NODE": tasks,
        "PROCID": rank,
    }.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    monkeypatch.setenv("SLURMD_NODENAME", node)


def test_alone():
    assert find_cluster() is None
    assert find_cluster(1) is None
    assert worker_place() == (0, 1)


def test_tf_config(monkeypatch):
    set_tf_config(monkeypatch, {"worker": ADDRESSES}, index=2)
    cluster = find_cluster(3)
    assert cluster == Cluster(tuple(ADDRESSES), 2)
    assert cluster.name(1) == "worker 1 (b:2)"
    assert worker_place() == (2, 3)


@pytest.mark.parametrize("kind, index, place", [("chief", 0, 0), ("worker", 1, 2)])
def test_a_chief_is_the_first_worker(monkeypatch, kind, index, place):
    set_tf_config(monkeypatch, {"chief": ["a:1"], "worker": ["b:2", "c:3"]}, kind, index)
    assert find_cluster() == Cluster(tuple(ADDRESSES), place)
    assert worker_place() == (place, 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"cluster": {"worker": ["a:1", "b:2"]}}',
        '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 2}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:2"]}, "task": {"type": "ps", "index": 0}}',
        '{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker", "index": 0}}',
    ],
)
def test_a_wrong_tf_config_is_one_line(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match=r"^TF_CONFIG = .*: should be a JSON object like") as raised:
        find_cluster()
    assert len(raised.value.problems) == 1


def test_another_number_of_workers(monkeypatch):
    with pytest.raises(UserError, match=r"training.workers = 4: this process was started alone"):
        find_cluster(4)
    set_tf_config(monkeypatch, {"worker": ADDRESSES})
    with pytest.raises(UserError, match=r"training.workers = 4: TF_CONFIG describes 3"):
        find_cluster(4)


@pytest.mark.parametrize(
    "nodes, tasks, rank, node, addresses",
    [
        ("n[1-3]", "1(x3)", 1, "n2", ("n1:8888", "n2:8888", "n3:8888")),
        ("n1,n2", "2,1", 1, "n1", ("n1:8888", "n1:8889", "n2:8888")),
    ],
)
def test_slurm(monkeypatch, nodes, tasks, rank, node, addresses):
    """The variables that `srun` sets, without GPUs on the nodes."""
    set_slurm(monkeypatch, nodes, tasks, 3, rank, node)
    assert find_cluster(3) == Cluster(addresses, rank)
    assert worker_place() == (rank, 3)


def test_slurm_and_tensorflow_disagree_about_the_order_of_nodes(monkeypatch):
    set_slurm(monkeypatch, "n[9-10]", "1(x2)", 2, 0, "n9")
    with pytest.raises(UserError, match="runs worker 0 on n9, and TensorFlow expects it on n10"):
        find_cluster()
