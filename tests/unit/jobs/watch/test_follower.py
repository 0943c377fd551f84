"""A log that is followed piece by piece gives the states and alarms of the whole log, whatever the pieces."""

import json
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.wire.batches import scan_batches
from jobs.spark.kraft_source import read_rows
from jobs.watch.follower import ALARMS, STATES, Follower, WatchError, step, surviving_rows
from jobs.watch.stream import _reread, begin, configure, identity, rows_before
from replay.live import Live
from tests.support.paths import CAPTURES
from tests.support.pure import decode, history_of

Row = dict[str, Any]
CHURN, ELR = (CAPTURES / f"{name}.tar.xz" for name in ("churn", "elr"))
_COMPARED = ("topic_id", "partition", "offset", "leader", "leader_epoch", "partition_epoch", "isr", "elr", "min_isr")


_PLACES: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def _place(tmp_path_factory: pytest.TempPathFactory) -> None:
    _PLACES.append(tmp_path_factory.mktemp("captures"))


@cache
def folders(capture: Path) -> list[Path]:
    """The metadata logs of a capture."""
    place = _PLACES[-1] / capture.name
    with tarfile.open(capture) as archive:
        wanted = (member for member in archive if "controllers" in Path(member.name).parts)
        archive.extractall(place, wanted, filter="data")
    return sorted(place.rglob("__cluster_metadata-0"))


@cache
def logged(capture: Path) -> pa.Table:
    rows = read_rows([str(folder) for folder in folders(capture)])
    return surviving_rows(rows.filter(rows["snapshot_end_offset"].is_null()))


@cache
def played(capture: Path, cuts: Sequence[int] = ()) -> tuple[list[Row], list[Row]]:
    """(states, alarms) of a log in pieces that end at some rows."""
    rows = logged(capture)
    cluster, static = identity(folders(capture))
    live, states, alarms, waiting = begin(folders(capture), cluster, static), [], [], rows.slice(0, 0)
    for first, end in pairwise(sorted({0, *(cut % len(rows) for cut in cuts), len(rows)})):
        live, piece, left = step(live, pa.concat_tables([waiting, rows.slice(first, end - first)]))
        waiting = rows.slice(0, 0) if left is None else left
        if piece is not None:
            states += piece.states.select(_COMPARED).to_pylist()
            alarms += piece.alarms
    return _sorted(states), sorted(alarms, key=lambda a: a["alarm_id"])


def _sorted(states: Sequence[Row]) -> list[Row]:
    return sorted(states, key=lambda r: (r["offset"], r["topic_id"], r["partition"]))


@pytest.mark.parametrize("capture", [CHURN, ELR], ids=lambda path: path.name)
def test_the_states_are_those_of_a_replay(capture: Path) -> None:
    states, _ = played(capture, range(0, 8_000, 211))

    history, _ = history_of(decode(folders(capture)[0].parents[2]))
    assert states == _sorted(history.table.select(_COMPARED).to_pylist())


def copied(folder: Path) -> Path:
    """One controller's log."""
    (source,) = (each for each in folders(CHURN) if each.parent.name == "3000")
    shutil.copytree(source, folder / source.name)
    shutil.copy(source.parent / "meta.properties", folder)
    return folder / source.name


def without_its_begin(folder: Path) -> tuple[int, Path]:
    """Delete the segment up to the newest snapshot. Returns that one's end, and the segment that is left."""
    first = folder / f"{0:020d}.log"
    data, end = first.read_bytes(), int(max(folder.glob("0*-0*.checkpoint")).name[:20])
    batch = next(batch for batch in scan_batches(data).batches if batch.base_offset >= end)
    segment = folder / f"{batch.base_offset:020d}.log"
    segment.write_bytes(data[batch.position :])
    first.unlink()
    return end, segment


def test_a_log_whose_begin_was_deleted_goes_on_from_the_newest_snapshot(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    end, segment = without_its_begin(folder)
    live = begin([folder], *identity([folder]))
    live, piece, _ = step(live, surviving_rows(read_rows([str(segment)])))
    states, _ = played(CHURN)

    assert piece is not None
    assert live.position > end > 0
    found = _sorted(piece.states.select(_COMPARED).to_pylist())
    assert found == [row for row in states if row["offset"] >= end]
    for snapshot in folder.glob("*.checkpoint"):
        snapshot.unlink()
    with pytest.raises(WatchError, match="no snapshot from which to go on"):
        begin([folder], "c", {})


@given(st.lists(st.integers(0, 5_000), max_size=12))
@settings(max_examples=6, deadline=None)
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    assert played(ELR, tuple(cuts)) == played(ELR)


def follower(folder: Path, capture: Path, told: list[Row]) -> Follower:
    cluster, static = identity(folders(capture))
    start = begin(folders(capture), cluster, static)
    return Follower(folder, start, lambda end: (start, rows_before(folders(capture), end)), told.append)


def rows_of_batches(capture: Path, count: int) -> list[pa.Table]:
    rows = read_rows([str(folder) for folder in folders(capture)])
    rows = rows.filter(rows["snapshot_end_offset"].is_null()).sort_by("offset")
    bounds = np.linspace(0, len(rows), count + 1).astype(int).tolist()
    return [rows.slice(first, end - first) for first, end in pairwise(bounds)]


def written(folder: Path) -> tuple[list[Row], list[Row]]:
    tables = follower(folder, ELR, []).tables
    states = [{n: r[n] for n in _COMPARED} for r in tables.rows(STATES)]
    alarms = [{n: v for n, v in r.items() if n != "seen_ms"} for r in tables.rows(ALARMS)]
    return _sorted(states), sorted(alarms, key=lambda a: (a["alarm_id"], a["status"]))


def test_a_watch_that_dies_anywhere_gives_the_same(tmp_path: Path) -> None:
    batches, whole, told = rows_of_batches(ELR, 6), list[Row](), list[Row]()
    left_alone = follower(tmp_path / "whole", ELR, whole)
    for number, batch in enumerate(batches):
        left_alone.process(batch, number)
    killed = follower(tmp_path / "killed", ELR, told)
    for number, batch in enumerate(batches):
        file = tmp_path / "killed" / "kept.pickle"
        kept = file.read_bytes() if file.exists() else None
        killed.process(batch, number)
        file.unlink()  # as if it had died after the tables were written, and before its state was
        if kept is not None:
            file.write_bytes(kept)
        killed = follower(tmp_path / "killed", ELR, told)
        killed.process(batch, number)
        killed = follower(tmp_path / "killed", ELR, told)
        killed.process(batch, number)  # Spark gives a batch again if it did not note that it was done

    assert written(tmp_path / "killed") == written(tmp_path / "whole")
    assert {alarm["kind"] for alarm in told} >= {"window_opened", "window_closed"}
    assert {json.dumps(a["alarm_id"]) for a in told} == {json.dumps(a["alarm_id"]) for a in whole}


def test_folders_that_cannot_be_followed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WatchError, match="no segment of a metadata log"):
        identity([tmp_path])
    with pytest.raises(WatchError, match="no folder"):
        identity([tmp_path / "missing"])
    shutil.copytree(folders(ELR)[0].parent, tmp_path / "copy")
    with pytest.raises(WatchError, match="Give one log of each node"):
        identity([folders(ELR)[0], tmp_path / "copy"])
    with pytest.raises(WatchError, match="several clusters"):
        identity([folders(CHURN)[0].parent, folders(ELR)[0].parent])


def test_tables_that_are_tidied_have_the_same_rows(tmp_path: Path) -> None:
    followed = follower(tmp_path, ELR, [])
    for number, batch in enumerate(rows_of_batches(ELR, 4)):
        followed.process(batch, number)
    before = written(tmp_path)
    followed.tables.tidy()

    assert written(tmp_path) == before
    assert len(list((tmp_path / STATES / "_delta_log").glob("*.checkpoint.parquet"))) == 1


def test_a_brokers_log_does_not_count_for_what_is_committed(tmp_path: Path) -> None:
    """It may have records that only the leader has of all voters."""
    found, places = [], folders(CHURN)
    for name in ("controllers", "brokers"):
        for log in places[1:] if name == "brokers" else ():
            (log / "server.properties").write_text("process.roles=broker\n")
        configure(places, followed := follower(tmp_path / name, CHURN, []))
        followed.process(rows_of_batches(CHURN, 4)[0], 0)
        found.append({row["commit_state"] for row in followed.tables.rows(STATES)})
    for log in places[1:]:
        (log / "server.properties").unlink()
    assert ("committed" in found[0], found[1]) == (True, {"unknown"})


def test_a_gap_is_an_error(tmp_path: Path) -> None:
    followed = follower(tmp_path, ELR, [])
    first, second, third, last = rows_of_batches(ELR, 4)
    followed.process(first, 0)

    for rows in (third, pa.concat_tables([second, last])):
        with pytest.raises(WatchError, match="deleted meanwhile"):
            followed.process(rows, 1)


def test_a_log_is_read_when_spark_reads_it_no_more(tmp_path: Path) -> None:
    followed = follower(tmp_path, CHURN, [])
    folder = folders(CHURN)[0]
    rows = read_rows([str(folder)])
    rows = surviving_rows(rows.filter(rows["snapshot_end_offset"].is_null()))
    followed.process(rows.slice(0, 100), 0)
    assert followed.read_up_to(folder) == 0  # Spark may give this batch again
    followed.process(rows.slice(100, 100), 1)
    assert followed.read_up_to(folder) == rows["offset"][99].as_py() + 1
    followed.begin_anew()
    assert followed.read_up_to(folder) == 0


def test_a_log_that_is_cut_after_its_begin_was_deleted_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    """The end of the log comes again in a later epoch, as after a cut. The plan that was told with it is told again."""
    folder = copied(tmp_path)
    place, rows, told = [folder], logged(CHURN), list[Row]()
    followed = Follower(
        tmp_path / "watch", begin(place, *identity(place)), lambda end: _reread(place, end), told.append
    )
    followed.process(rows, 0)
    end, _ = without_its_begin(folder)
    before = [(r["offset"], r["topic"], r["partition"]) for r in followed.tables.rows(STATES)]
    later = rows.filter(pc.greater_equal(rows["offset"], pa.scalar(end + 3)))
    epochs = pc.add(later["epoch"], pa.scalar(9, pa.int32()))
    followed.process(later.set_column(later.column_names.index("epoch"), "epoch", epochs), 1)

    after = followed.tables.rows(STATES)
    assert sorted((r["offset"], r["topic"], r["partition"]) for r in after) == sorted(before)
    wanted = dict(zip(later["offset"].to_pylist(), epochs.to_pylist(), strict=True))
    assert all(r["controller_epoch"] == wanted.get(r["offset"], r["controller_epoch"]) for r in after)
    assert [a["status"] for a in told if a["kind"] == "plan_changed"] == ["stands", "stands", "withdrawn"]


def test_no_order_has_who_starts_only_once_copies_are_compared(tmp_path: Path) -> None:
    """As in the plan of a `run`: nobody's return helps such a partition, and an unclean election takes the first."""
    live, piece, _ = step(begin(folders(ELR), *identity(folders(ELR))), logged(ELR))
    lost = [{**row, "leader": -1, "isr": [], "elr": [], "last_known_elr": []} for row in live.base.to_pylist()]
    live = replace(live, base=pa.Table.from_pylist(lost, schema=live.base.schema))
    plan, (alarm,) = follower(tmp_path, ELR, [])._plan(live, piece, None)

    assert (plan, alarm["text"]) == ((), f"no start of a broker helps: {len(lost)} partitions have no leader")


def test_nothing_is_known_before_the_first_record() -> None:
    assert Live("x").epoch_at(0) == -1
