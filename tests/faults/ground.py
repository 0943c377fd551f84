"""What every fault starts from, and what must hold after it: a lake that has the log of one controller, to which a run
adds the capture of all controllers."""

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from deltalake import DeltaTable

from jobs.custody.tables import check_tables
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from tests.faults.injector import Injection, Mode, build
from tests.faults.program import ALWAYS_SPARK, Ended, Running, serve, started, started_anew
from tests.support.digests import TIMES_OF_RUNS, digests
from tests.support.small_captures import diverged

STEPS = ("opening", "framing", "decoding", "resolving", "replaying", "judging", "checking", "writing the report")
ALLOWED = (0, 1)  # 1: an error that is named in one line
# Tables whose rows depend on how many runs there were, and when.
_OF_RUNS = ("quality_results", "finding_first_seen", "runs")


class LostError(AssertionError):
    """A fault had another outcome than it must have."""


class NotHereError(Exception):
    """This machine cannot do what a fault needs. The text says what it lacks."""


@dataclass
class Ground:
    """folder: to use. before: the lake to start from. capture: what each run adds. after: digests of an undisturbed
    run. states: of each table, digests of its rows after each of that run's commits. writes: calls of that run that
    write below the lake; reads: calls that read, of the run that made `before`. spark: settings of runs in which Spark
    does all it can. said: figures of a row, by fault and place, for the table."""

    folder: Path
    before: Path
    capture: Path
    after: dict[str, tuple[int, str]] = field(default_factory=dict)
    states: dict[str, set[str]] = field(default_factory=dict)
    writes: int = 0
    reads: int = 0
    spark: ClassVar[dict[str, str]] = ALWAYS_SPARK
    _lengths: dict[bool, float] = field(default_factory=dict)
    _measuring: threading.Lock = field(default_factory=threading.Lock)
    said: dict[tuple[str, str], str] = field(default_factory=dict)
    _numbers: Any = field(default_factory=count)

    def place(self) -> Path:
        """A new folder with a copy of the lake `before`."""
        place = self.folder / f"{next(self._numbers)}"
        shutil.copytree(self.before, place / "lake")
        return place

    def run(self, place: Path, **options: Any) -> Running:
        return started(place, self.words(place), **options)

    def run_with_spark(self, place: Path) -> Running:
        return started_anew(place, self.words(place), self.spark)

    def length_s(self, with_spark: bool) -> float:
        """Processor time of a run that is left alone, with all of its processes; measured when first asked."""
        with self._measuring:
            if with_spark not in self._lengths:
                place = self.place()
                running, spent = (self.run_with_spark if with_spark else self.run)(place), 0.0
                while not running.has_ended():
                    spent = max(spent, running.spent_s())
                    time.sleep(0.01)
                assert running.ended().code == 0
                removed(place)
                self._lengths[with_spark] = spent
        return self._lengths[with_spark]

    def words(self, place: Path) -> list[str]:
        return ["run", str(self.capture), "--lake", str(place / "lake")]

    def is_before_or_after(self, lake: Path) -> None:
        """Check what a fault has left: each table has the rows of one of its commits, and each document is whole."""
        opened = Lake(lake)
        for name in TABLES:
            found = opened.version(name), _digest(lake, name)
            if name not in _OF_RUNS and found[1] not in self.states[name]:
                raise LostError(f"{name}: version {found[0]} has rows that no commit of an undisturbed run has")
        for document in lake.glob("verdict*.json"):
            json.loads(document.read_text())
        for page in lake.glob("report*.html"):
            if not page.read_text().rstrip().endswith("</html>"):
                raise LostError(f"{page.name}: cut off")

    def converges(self, place: Path) -> None:
        """Check that a run again gives what an undisturbed run gives."""
        done = self.run(place).ended()
        if done.code:
            raise LostError(f"the run again ended with {done.code}: {done.said[-600:]}")
        self.is_after(place / "lake")

    def recovers(self, place: Path) -> None:
        """Check what a fault has left in `place`, that a run again goes on from there, and remove it."""
        self.is_before_or_after(place / "lake")
        self.converges(place)
        removed(place)

    def goes_well(self, place: Path, **options: Any) -> None:
        """Check that a run ends well with the rows of an undisturbed run, and remove `place`. options: of `run`."""
        ends_clearly(self.run(place, **options).ended(), (0,))
        self.is_after(place / "lake")
        removed(place)

    def is_after(self, lake: Path, without: str = "") -> None:
        """Check that a lake has the rows of an undisturbed run, and that its chain is whole. without: a table."""
        opened = Lake(lake)
        found = digests(opened)
        if different := [name for name in found if found[name] != self.after[name] and name != without]:
            raise LostError(f"other rows than after an undisturbed run: {', '.join(different)}")
        for cluster in opened.clusters():
            if differences := [d for d in check_tables(opened, cluster) if not d.is_note]:
                raise LostError(f"verify: {differences[0]}")


def ends_clearly(done: Ended, codes: tuple[int, ...] = ALLOWED) -> Ended:
    """Check the exit code; that an error is one line and no trace. Returns `done`."""
    problem = None
    if done.code not in codes:
        problem = f"exit code {done.code}"
    elif "Traceback" in done.said or "\n\tat " in done.said or "panicked" in done.said:
        problem = "a trace on stderr"
    elif done.code == 1 and len(done.errors) != 1:
        problem = f"{len(done.errors)} error lines"
    elif done.code == 1 and not done.said.rstrip().splitlines()[-1].startswith("error: "):
        problem = "lines after the error"
    if problem:
        raise LostError(f"{problem}: {done.said[-1500:]}")
    return done


def prepared(folder: Path) -> Ground:
    """Build the injector, start the server of processes, and run once without a fault."""
    serve(build(folder))
    whole, alone, _ = diverged(folder)
    ground = Ground(folder, folder / "before", whole)
    reads = Injection(ground.before, Mode.COUNT, on_reads=True)
    first = started(folder, ["run", str(alone), "--lake", str(ground.before)], injection=reads).ended()
    assert first.code == 0, first.said
    place = ground.place()
    done = ground.run(place, injection=Injection(place / "lake", Mode.COUNT)).ended()
    assert done.code == 0, done.said
    ground.reads, ground.writes = first.calls, done.calls
    ground.after = digests(Lake(place / "lake"))
    for name in TABLES:
        versions = range(Lake(ground.before).version(name), Lake(place / "lake").version(name) + 1)
        ground.states[name] = {_digest(place / "lake", name, version) for version in versions}
    return ground


def _digest(lake: Path, name: str, version: int | None = None) -> str:
    """Of a table's rows, in any order, without the times of runs."""
    from pyarrow import parquet

    table = DeltaTable(str(lake / name), version=version)
    rows: list[str] = []
    for file in sorted(table.file_uris()):
        read = parquet.ParquetFile(file).read()
        rows += map(str, read.select([c for c in read.column_names if c not in TIMES_OF_RUNS]).to_pylist())
    return sha256("\n".join(sorted(rows)).encode()).hexdigest()


def removed(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


Trial = Callable[[Ground], int]


def on_a_copy(act: Callable[[Ground, Path], object]) -> Trial:
    """A trial in a new folder with the lake, from which a run again must go on. act: may return how often the fault
    happened; else once."""

    def go(ground: Ground) -> int:
        place = ground.place()
        count = act(ground, place)
        ground.recovers(place)
        return count if isinstance(count, int) else 1

    return go
