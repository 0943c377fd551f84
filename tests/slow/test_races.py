"""Two runs at once on one cluster: a whole run of another process happens before any one commit of this one. Both end
well, and the tables are those of the two runs one after the other."""

import shutil
from pathlib import Path

import pytest

from jobs.lake import marks
from jobs.lake.lake import Lake
from jobs.lake.marks import ChangedMeanwhileError, undisturbed
from tests.slow.test_crashes import COMMITS, WatchedLake, run
from tests.support.digests import digests
from tests.support.small_captures import diverged

Captures = tuple[Path, Path]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "_LONGEST_PAUSE_S", 0.0)


def overtaken(root: Path, at: int, capture: Path) -> WatchedLake:
    """A lake into which another run ingests and judges a capture before its commit number `at`."""
    return WatchedLake(root, lambda number: number == at and run(Lake(root), capture))


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Captures:
    """(all controllers of a cluster, one of them), with damage, and batches that the whole shows to be cut off."""
    whole, alone, _ = diverged(tmp_path_factory.mktemp("diverged"))
    return whole, alone


Digests = dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def one_after_the_other(captures: Captures, tmp_path_factory: pytest.TempPathFactory) -> list[Digests]:
    """The tables after both captures, in either order. A batch that both have is stored from the first one."""
    found = []
    for order in (captures, captures[::-1]):
        lake = Lake(tmp_path_factory.mktemp("order") / "lake")
        for capture in order:
            run(lake, capture)
        found.append(digests(lake))
    return found


@pytest.mark.parametrize(("mine", "at"), [(at % 2, at) for at in range(COMMITS - 1)])
def test_a_run_that_another_capture_overtakes(
    captures: Captures, one_after_the_other: list[Digests], tmp_path: Path, mine: int, at: int
) -> None:
    """mine: 0 if the whole is overtaken, 1 if the one node is."""
    other = captures[1 - mine]
    lake = overtaken(tmp_path / "lake", at, other)
    run(lake, captures[mine])
    assert len(lake.names) > at
    found = digests(lake)
    for name in found:
        # A batch of which both had records to write may be listed from one capture and stored from the other.
        if name != "log_batches":
            assert found[name] in [each[name] for each in one_after_the_other], name
    assert found["log_batches"][0] == one_after_the_other[0]["log_batches"][0]


@pytest.fixture(scope="module")
def alone(captures: Captures, tmp_path_factory: pytest.TempPathFactory) -> Digests:
    lake = Lake(tmp_path_factory.mktemp("alone") / "lake")
    run(lake, captures[0])
    return digests(lake)


@pytest.mark.parametrize("at", range(0, COMMITS - 1, 4))
def test_a_run_that_the_same_capture_overtakes(captures: Captures, alone: Digests, tmp_path: Path, at: int) -> None:
    lake = overtaken(tmp_path / "lake", at, captures[0])
    run(lake, captures[0])
    assert digests(lake) == alone


def test_an_evidence_table_that_is_ingested_during_a_replay(captures: Captures, tmp_path: Path) -> None:
    """The history is not extended from a state that no single version of the evidence shows."""
    base = tmp_path / "base"
    run(Lake(base), captures[1])
    shutil.copytree(base, tmp_path / "lake")
    run(Lake(base), captures[0])
    lake = overtaken(tmp_path / "lake", 12, captures[0])
    run(lake, captures[0])
    assert digests(lake) == digests(Lake(base))


def test_a_stage_that_is_always_disturbed_ends_with_an_error() -> None:
    rounds = []

    def stage() -> None:
        rounds.append(1)
        raise ChangedMeanwhileError("another run")

    with pytest.raises(ChangedMeanwhileError):
        undisturbed(stage)()
    assert 1 < len(rounds) < 100
