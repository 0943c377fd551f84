"""A run that dies between two commits, whichever they are: repeated, it gives what an undisturbed run gives."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence.capture.remote import Location
from jobs.config.settings import load_settings
from jobs.detect.stage import run_detect
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.replay.stage import replay
from jobs.spark.tasks import is_local
from tests.support.digests import digests
from tests.support.small_captures import diverged


class DiedError(Exception):
    pass


class WatchedLake(Lake):
    """Before each commit `happens` is called with its number. names: the tables of all commits."""

    def __init__(self, root: Location, happens: Callable[[int], object]) -> None:
        super().__init__(root)
        self.happens = happens
        self.names: list[str] = []

    def commit(self, name: str, *rest: Any, **options: Any) -> None:
        self.names.append(name)
        self.happens(len(self.names) - 1)
        super().commit(name, *rest, **options)


class DyingLake(WatchedLake):
    """Dies at its commit number `last`, before it (written: False) or after it."""

    def __init__(self, root: Location, last: int, written: bool) -> None:
        super().__init__(root, lambda number: self.die(number == last and not written))
        self.last, self.written = last, written

    def commit(self, name: str, *rest: Any, **options: Any) -> None:
        super().commit(name, *rest, **options)
        self.die(self.written and len(self.names) == self.last + 1)

    def die(self, now: bool) -> None:
        if now:
            raise DiedError


def run(lake: Lake, capture: Path) -> str:
    """Ingest, replay and detect without Spark; returns the cluster."""
    settings = load_settings()
    assert is_local(1000, settings)
    cluster = ingest(lake, capture, settings, lambda _: None).cluster_id
    replay(lake, cluster, settings, lambda _: None)
    run_detect(lake, cluster, settings, lambda _: None)
    return cluster


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(a lake that has the log of one controller, the capture of all of them). The capture corrects commit states,
    extends the log and has damage that only decoding finds."""
    folder = tmp_path_factory.mktemp("diverged")
    whole, alone, _ = diverged(folder)
    run(Lake(folder / "lake"), alone)
    return folder / "lake", whole


Undisturbed = tuple[WatchedLake, dict[str, tuple[int, str]]]


@pytest.fixture(scope="module")
def undisturbed(before: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """(the lake, its digests). Before each commit it is copied, as a process that ends there leaves it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    shutil.copytree(before[0], folder / "lake")
    copies = folder / "copies"
    lake = WatchedLake(folder / "lake", lambda number: shutil.copytree(folder / "lake", copies / str(number)))
    run(lake, before[1])
    return lake, digests(lake)


COMMITS = 22


def test_the_run_makes_so_many_commits_and_the_mark_of_a_stage_is_the_last(undisturbed: Undisturbed) -> None:
    names, found = undisturbed[0].names, undisturbed[1]
    assert len(names) == COMMITS
    stages = [names.index(name) for name in ("evidence_files", "quorum_history", "findings")]
    assert stages == [9, 15, 21]
    # After a crash in between, batches are known, and are not decoded again to find their damage.
    assert names.index("quarantine") < names.index("metadata_records") < names.index("log_batches")
    assert min(found[n][0] for n in ("quarantine", "partition_history", "elections", "findings")) > 0


@pytest.mark.parametrize("last", range(COMMITS))
def test_a_run_that_died_converges(before: tuple[Path, Path], undisturbed: Undisturbed, last: int) -> None:
    """Before a commit, whose files are written."""
    died, expected = undisturbed
    lake = Lake(Path(died.root).with_name("copies") / str(last))
    run(lake, before[1])
    assert digests(lake) == expected


def test_runs_that_die_one_after_the_other_converge(
    before: tuple[Path, Path], undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """The first one at its first commit, the next one at its second, and so on; half of them after it."""
    shutil.copytree(before[0], tmp_path / "lake")
    deaths = 0
    while True:
        try:
            run(DyingLake(tmp_path / "lake", deaths, written=bool(deaths % 2)), before[1])
            break
        except DiedError:
            deaths += 1
    assert deaths > 5
    assert digests(Lake(tmp_path / "lake")) == undisturbed[1]
