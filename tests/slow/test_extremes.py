"""Times, offsets and epochs at the end of their range: the same verdicts as for small numbers, which Python's integers
would give, too. NumPy's int64 overflows without a word."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evidence.limits import MAX_INT32, MAX_INT64, MAX_TIME_MS
from replay.bucket import Detected, detect
from replay.whatif.counterfactuals import Question
from tests.support.detection import Whole
from tests.support.paths import capture
from tests.support.pure import Decoded, decode, history_of

Row = dict[str, Any]
TIMES = ("timestamp_ms", "base_timestamp_ms", "max_timestamp_ms", "captured_at_ms", "process_start_ms")
TIMES += ("logged_at_ms", "logged_at_utc_ms", "printed_at_ms", "read_by_ms")
OFFSETS = ("log_end_offset", "high_watermark", "log_start_offset", "recovery_point_offset", "epoch_start_offset")
OFFSETS += ("leader_end_offset", "previous_high_watermark", "truncated_to")
EPOCHS = ("leader_epoch", "last_written_leader_epoch", "current_leader_epoch", "previous_leader_epoch")
NAMED = {**dict.fromkeys(TIMES, "ms"), **dict.fromkeys(OFFSETS, "offset"), **dict.fromkeys(EPOCHS, "epoch")}


def moved_rows(rows: list[Row], by: Mapping[str, int]) -> list[Row]:
    def moved(row: Row) -> Row:
        new = {n: v + by[NAMED[n]] if n in NAMED and v is not None else v for n, v in row.items()}
        change = row.get("partition_change")
        if change and change["leader_epoch"] is not None:
            new["partition_change"] = {**change, "leader_epoch": change["leader_epoch"] + by["epoch"]}
        return new

    return [moved(row) for row in rows]


def moved_table(table: pa.Table, by: Mapping[str, int]) -> pa.Table:
    for name in set(NAMED) & set(table.column_names):
        field = table.schema.field(name)
        values = pc.add_checked(table[name], pa.scalar(by[NAMED[name]], field.type))
        table = table.set_column(table.schema.get_field_index(name), field, values)
    return table


def moved(found: Decoded, by: Mapping[str, int]) -> Decoded:
    """The same capture with every time, offset of records and leader epoch so much later."""
    lists = {name: moved_rows(getattr(found, name), by) for name in ("batches", "records", "snapshots")}
    tables = {name: moved_table(getattr(found, name), by) for name in ("offsets", "events", "boot_ids")}
    return replace(found, **lists, **tables)


def judged(found: Decoded) -> Detected:
    whole = Whole.of(found)
    return detect(whole.history, whole.offsets, whole.cluster, Question((), (1, 2)), whole.events)


def claims(found: Detected, by: Mapping[str, int]) -> list[Row]:
    names = ("kind", "topic", "partition", "election_offset", "verdict", "severity", "loss_min", "loss_max")
    rows = [
        {
            **{name: row[name] for name in names},
            "first_lost": row["first_lost_offset"] and row["first_lost_offset"] - by["offset"],
            "start_ms": row["start_timestamp_ms"] and row["start_timestamp_ms"] - by["ms"],
            "end_ms": row["end_timestamp_ms"] and row["end_timestamp_ms"] - by["ms"],
            "codes": [statement["code"] for statement in row["reason"]],
        }
        for row in found.findings.to_pylist()
    ]
    return sorted(rows, key=str)


def room(found: Decoded) -> dict[str, int]:
    """How far times, offsets and epochs may be moved until the largest one is the last of its type."""
    tables = [pa.Table.from_pylist(found.batches), found.offsets, found.events, found.boot_ids]
    history, _ = history_of(found)
    limits = {"ms": MAX_TIME_MS, "offset": MAX_INT64, "epoch": MAX_INT32}
    most = dict(limits)
    for table in (*tables, history.table):
        for name in set(NAMED) & set(table.column_names) - ({"high_watermark"} if table is tables[0] else set()):
            largest = pc.max(table[name]).as_py()
            if largest is not None:
                most[NAMED[name]] = min(most[NAMED[name]], limits[NAMED[name]] - largest)
    return most


@pytest.mark.parametrize("name", ["unclean", "elr", "logs-unclean"])
def test_the_last_times_offsets_and_epochs_give_the_same_verdicts(name: str) -> None:
    found = decode(capture(name))
    nowhere, by = {"ms": 0, "offset": 0, "epoch": 0}, room(found)
    for kind in by:
        # Compared with a small move: the offset 0 and the epoch 0 mean more than their distance to others.
        near, far = {**nowhere, kind: 1000}, {**nowhere, kind: by[kind]}
        expected = claims(judged(moved(found, near)), near)
        assert expected
        assert claims(judged(moved(found, far)), far) == expected, kind
