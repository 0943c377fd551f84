"""Evidence that names topics, sorted by topic id into files that only one detection reads.

Files and scrapes name topics, and a name may have been used again, so which topic a row belongs to is known only when
the log has been replayed. The files are below the lake, where every task can read them, and are deleted at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from evidence.tables import BROKER_LOG_EVENTS, DESCRIBED_PARTITIONS, LOG_END_OFFSETS
from jobs.lake.lake import Lake
from jobs.lake.row_groups import Bucket, FilePart, SlicedFile, Slices
from jobs.lake.storage import Storage
from replay.offsets.topic_ids import with_topic_ids

LOG_ENDS, PRINTED, LINES = "log_ends", "printed", "lines"
TOPICS = ("topic_id",)
_FOLDER = "_scratch"


class Scratch:
    """The files, while the context is open. count: number of buckets."""

    def __init__(self, storage: Storage, count: int) -> None:
        self.storage = storage
        self.count = count
        self._names: dict[str, str] = {}
        self._slices: dict[str, Slices] = {}

    def write(self, name: str, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
        """Write rows with the column topic_id."""
        self._names[name] = f"{_FOLDER}/{uuid4().hex}.parquet"
        file = SlicedFile(self.storage, self._names[name], schema, self.count, TOPICS)
        for part in parts:
            file.write(part)
        file.close()
        self._slices[name] = Slices(self.storage, [self._names[name]])

    def parts(self, bucket: Bucket) -> dict[str, list[FilePart]]:
        """The parts to read for a bucket, by the name given to `write`."""
        return {name: slices.parts(bucket) for name, slices in self._slices.items()}

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name in self._names.values():
            self.storage.delete(name)


def write_evidence(lake: Lake, cluster: str, scratch: Scratch, lines: pa.Table, lifetimes: pa.Table) -> None:
    """Write the log end offsets (LOG_ENDS), the printed states (PRINTED) and the lines of nodes' logs (LINES) of a
    cluster. lines: BROKER_LOG_EVENTS rows with a topic id. lifetimes: LIFETIMES of the cluster's topics. A printed
    state without a topic id is written once for each topic of its name."""
    ends = lake.parts("log_end_offsets", cluster, LOG_END_OFFSETS.names)
    scratch.write(LOG_ENDS, LOG_END_OFFSETS, (with_topic_ids(part.cast(LOG_END_OFFSETS), lifetimes) for part in ends))
    timed = pc.field("captured_at_ms").is_valid()
    printed = lake.read("described_partitions", cluster, DESCRIBED_PARTITIONS.names, timed)
    scratch.write(PRINTED, DESCRIBED_PARTITIONS, [_with_every_id(printed, lifetimes)])
    scratch.write(LINES, BROKER_LOG_EVENTS, [lines.cast(BROKER_LOG_EVENTS)])


def _with_every_id(printed: pa.Table, lifetimes: pa.Table) -> pa.Table:
    named = printed.filter(printed["topic_id"].is_valid())
    ids: dict[str, list[str]] = {}
    for row in lifetimes.to_pylist():
        ids.setdefault(row["topic"], []).append(row["topic_id"])
    unnamed = printed.filter(printed["topic_id"].is_null()).to_pylist()
    rows = [{**row, "topic_id": topic_id} for row in unnamed for topic_id in ids.get(row["topic"], ())]
    return pa.concat_tables([named.cast(DESCRIBED_PARTITIONS), pa.Table.from_pylist(rows, DESCRIBED_PARTITIONS)])
