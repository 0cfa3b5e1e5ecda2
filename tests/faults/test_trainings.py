"""A real training that is killed, or whose disk is full, at every operation on its files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.chain import Chain
from tests.faults.operations import NEEDS_SPACE
from tests.faults.warm import Ended, Warm

# Operations of different kinds. The slow tests use all operations.
SOME_GAPS = (
    "rename .scratch/run",
    "write run/snapshots/.scratch/step-N.gguf #1",
    "rename run/snapshots/.scratch/step-N.gguf",
    "write run/checkpoints/.scratch/step-N/state.safetensors #1",
    "rename run/checkpoints/.scratch/step-N",
    "write run/metrics.jsonl #1",
)
SOME_WRITES = SOME_GAPS[1::2]


def test_killed_in_some_gaps_and_a_full_disk_at_some_writes(
    warm: Warm, undisturbed: Chain, faults_folder: Path
):
    chain = Chain(warm, faults_folder / "some", no_export=True)
    for name in SOME_GAPS:
        assert chain.go_on(kill_before=name).was_killed, name
        if name not in SOME_WRITES:
            continue
        ended = chain.go_on(full_from=name)
        assert ended.is_one_clear_line and name in ended.operations, (name, ended)
        assert "run: cannot be written: No space left on device; " in ended.err
        assert "the last checkpoint is run/checkpoints/step-" in ended.err or chain.newest_step < 0
    assert chain.go_on().status == 0
    chain.assert_ended_like(undisturbed)


@pytest.mark.slow
def test_killed_in_every_gap(warm: Warm, undisturbed_with_export: Chain, faults_folder: Path):
    stopped = stop_everywhere(
        warm,
        faults_folder / "gap",
        undisturbed_with_export,
        "kill_before",
        lambda name: True,
        lambda name, ended: ended.was_killed,
    )
    assert stopped.stops >= 100 and not stopped.never_reached, stopped


@pytest.mark.slow
def test_the_disk_is_full_at_every_write(
    warm: Warm, undisturbed_with_export: Chain, faults_folder: Path
):
    stopped = stop_everywhere(
        warm,
        faults_folder / "full",
        undisturbed_with_export,
        "full_from",
        lambda name: name.startswith(NEEDS_SPACE),
        lambda name, ended: name in ended.operations,
    )
    assert stopped.stops >= 40 and not stopped.never_reached, stopped


class Stopped:
    """The numbers of stops and processes, and the operations of `reference` that were never reached."""

    def __init__(self) -> None:
        self.stops = self.rounds = 0
        self.never_reached: list[str] = []

    def __repr__(self) -> str:
        return f"{self.stops} stops in {self.rounds} rounds; not reached: {self.never_reached}"


def stop_everywhere(
    warm: Warm,
    folder: Path,
    reference: Chain,
    fault: str,
    counts: Callable[[str], bool],
    has_stopped: Callable[[str, Ended], bool],
) -> Stopped:
    """Stops runs once at every operation of their processes; each run ends like `reference`.

    Args:
      warm: forks the processes.
      folder: the prefix of the runs' folders.
      reference: an undisturbed run.
      fault: the name of the fault to inject; see `Warm.run`.
      counts: whether to stop at the operation of this name.
      has_stopped: whether a process has reached the operation.
    """
    stopped, seen = Stopped(), dict.fromkeys(filter(counts, reference.operations))
    done: set[str] = set()
    missed: dict[str, int] = {}
    chains = 0
    while todo := [name for name in seen if name not in done and missed.get(name, 0) < 2]:
        chain, chains = Chain(warm, folder.with_name(f"{folder.name}-{chains}")), chains + 1
        here: list[str] = []
        while True:
            # The next process is likely to reach the operations of the last one.
            name = next((n for n in [*here, *todo] if n not in done), None)
            ended = chain.go_on(**({fault: name} if name else {}))
            stopped.rounds += 1
            here = [n for n in dict.fromkeys(ended.operations) if counts(n)]
            seen |= dict.fromkeys(here)
            here = [n for n in here if missed.get(n, 0) < 2]
            if name and has_stopped(name, ended):
                stopped.stops += 1
                done.add(name)
            elif name and "rename run/.scratch/model.keras" in ended.operations:
                # A process that only writes the report reaches few operations.
                missed[name] = missed.get(name, 0) + 1
            if ended.status == 0:
                if name in ended.operations:
                    # A report that cannot be written costs one line. The next process writes it.
                    assert ended.out.count("No space left on device") == 1, (name, ended)
                    assert chain.go_on().status == 0
                break
            assert ended.was_killed or ended.is_one_clear_line, (name, ended)
        chain.assert_ended_like(reference)
    # Operations that only follow a fault, such as clean-up, may never be repeated.
    stopped.never_reached = [n for n in filter(counts, reference.operations) if n not in done]
    return stopped
