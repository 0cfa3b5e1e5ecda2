"""What workers compare, and how the loss of one is reported."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from minigpt.distribution import connection
from minigpt.distribution.cluster import Cluster
from minigpt.distribution.connection import check_equal, lost_workers
from minigpt.distribution.launch import free_ports
from minigpt.errors import UserError


def replicas(addresses: list[str], index: int = 0, records: Any = ()) -> Any:
    return SimpleNamespace(
        cluster=Cluster(tuple(addresses), index), gather=lambda record: [record, *records]
    )


def test_each_difference_names_its_worker():
    mine = {"minigpt": "0.2.0", "text": "abc", "training.seed": 0}
    others = [mine, mine | {"minigpt": "0.1.0", "training.seed": 3}, {"text": "abd"}]
    with pytest.raises(UserError) as raised:
        check_equal(replicas(["a:1", "b:2", "c:3", "d:4"], 0, others), mine)
    assert list(raised.value.problems) == [
        "worker 2 (c:3): minigpt = '0.1.0'; worker 0 has '0.2.0'",
        "worker 2 (c:3): training.seed = 3; worker 0 has 0",
        "worker 3 (d:4): minigpt = None; worker 0 has '0.2.0'",
        "worker 3 (d:4): text = 'abd'; worker 0 has 'abc'",
        "worker 3 (d:4): training.seed = None; worker 0 has 0",
    ]


@pytest.fixture
def no_grace(monkeypatch):
    monkeypatch.setattr(connection, "GRACE_SECONDS", 0.0)


def test_the_worker_that_does_not_answer_is_named(no_grace):
    """TensorFlow may name another one, which only passed the error on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        alive, dead = listening.getsockname()[1], free_ports(1)[0]
        addresses = ["127.0.0.1:1", f"127.0.0.1:{alive}", f"127.0.0.1:{dead}"]
        error = tf.errors.UnavailableError(None, None, "target /job:worker/replica:0/task:1")
        with (
            pytest.raises(UserError, match=rf"^worker 2 \(127.0.0.1:{dead}\): has ended or cannot"),
            lost_workers(Cluster(tuple(addresses), 0)),
        ):
            raise error


def test_a_worker_that_does_not_start_is_named(monkeypatch, capsys):
    monkeypatch.setattr(connection, "REPORT_SECONDS", 0.1)
    monkeypatch.setattr(connection, "START_SECONDS", 0.6)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        own, missing = free_ports(2)
        addresses = [f"127.0.0.1:{port}" for port in (listening.getsockname()[1], own, missing)]
        with pytest.raises(UserError) as raised:
            connection.connect(Cluster(tuple(addresses), 1))
    worker = f"worker 2 (127.0.0.1:{missing}): "
    assert str(raised.value) == worker + "did not start within 0.01 minutes"
    assert capsys.readouterr().err == f"minigpt: {worker}not started yet; waiting\n"


def test_other_errors_keep_their_traceback():
    for error in (ValueError("ours"), tf.errors.InternalError(None, None, "no worker is named")):
        with pytest.raises(type(error)), lost_workers(None):
            raise error
