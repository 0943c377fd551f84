"""Digests: small tables made of a large one, piece by piece, for checks that ask only one thing of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quality.columns import Array, Rows, encoded

_RECORDS = "metadata_records"
_MARKERS = tuple(f"{verb}_TRANSACTION_RECORD" for verb in ("BEGIN", "END", "ABORT"))
_RANGE = ("first", "last", "uncommitted")
TRANSACTIONS, RECORD_OFFSETS, BATCH_ROWS, TOPIC_NAMES = (
    *("transaction_records", "record_offsets"),
    *("batch_rows", "topic_names"),
)


@dataclass(frozen=True, slots=True)
class Digest:
    """How a small table is made. table: the large one; columns: of it. of: makes the digest of some rows; merged: makes
    one of the rows of several. of_topics: False if only rows of no topic are needed."""

    table: str
    columns: tuple[str, ...]
    of: Callable[[pa.Table], pa.Table]
    merged: Callable[[pa.Table], pa.Table]
    of_topics: bool = True


def covered(ranges: Rows, offsets: Array) -> Array:
    """Which offsets one of the ranges `first` to `last` has."""
    first, last = ranges.ints("first"), ranges.ints("last")
    if not len(first):
        return np.zeros(offsets.shape, dtype=bool)
    order = np.argsort(first)
    at = np.searchsorted(first[order], offsets, "right") - 1
    found: Array = (at >= 0) & (offsets <= np.maximum.accumulate(last[order])[at])
    return found


def _transactions(records: pa.Table) -> pa.Table:
    return Rows(records).where(Rows(records).in_set("type", _MARKERS)).table


def _offsets(records: pa.Table) -> pa.Table:
    rows = Rows(records)
    offset = rows.ints("offset")
    return _ranges(pa.table([offset, offset, rows.in_set("commit_state", ("uncommitted",))], names=_RANGE))


def _ranges(ranges: pa.Table) -> pa.Table:
    """The ranges that these make together, those of uncommitted records apart."""
    found = []
    for uncommitted in (False, True):
        rows = Rows(ranges.filter(pc.equal(ranges["uncommitted"], uncommitted)))
        order = np.argsort(rows.ints("first"), kind="stable")
        first, last = rows.ints("first")[order], np.maximum.accumulate(rows.ints("last")[order])
        begins = np.append(True, first[1:] > last[:-1] + 1)[: len(first)]
        ends = np.append(begins[1:], True)[: len(first)]
        columns = [first[begins], last[ends], np.full(begins.sum(), uncommitted)]
        found.append(pa.table(columns, names=_RANGE))
    return pa.concat_tables(found)


def _batch_rows(records: pa.Table) -> pa.Table:
    keys = records.rename_columns(["epoch", "base_offset", "crc"])
    return _summed(keys.append_column("rows", pa.repeat(1, len(keys))))


def _summed(rows: pa.Table) -> pa.Table:
    keys = ["epoch", "base_offset", "crc"]
    return rows.group_by(keys).aggregate([("rows", "sum")]).rename_columns([*keys, "rows"])


def _names(rows: pa.Table) -> pa.Table:
    return pa.table({"topic": encoded(rows["topic"]).unify_dictionaries().unique().cast(pa.string())})


DIGESTS = {
    # The records that begin, end or abort transactions.
    TRANSACTIONS: Digest(_RECORDS, ("offset", "type"), _transactions, lambda rows: rows, of_topics=False),
    # The offsets of all records, as ranges.
    RECORD_OFFSETS: Digest(_RECORDS, ("offset", "commit_state"), _offsets, _ranges),
    # The number of records of each batch.
    BATCH_ROWS: Digest(_RECORDS, ("epoch", "batch_base_offset", "batch_crc"), _batch_rows, _summed),
    # The topics that the log has, or had.
    TOPIC_NAMES: Digest("partition_history", ("topic",), _names, _names),
}
