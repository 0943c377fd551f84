"""Evidence that names topics, sorted by topic id into files that only one detection reads.

Files and scrapes name topics, and a name may have been used again, so which topic a row belongs to is known only when
the log has been replayed. The files are below the lake, where every task can read them, and are deleted at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from evidence.tables import BROKER_LOG_EVENTS, DESCRIBED_PARTITIONS, LOG_END_OFFSETS
from jobs.lake.lake import Lake
from jobs.lake.row_groups import FilePart, SlicedFile, Slices, TopicBucket
from replay.offsets.topic_ids import with_topic_ids

LOG_ENDS, PRINTED, LINES = "log_ends", "printed", "lines"
TOPICS = ("topic_id",)
_FOLDER = "_scratch"


@contextmanager
def write_evidence(
    lake: Lake, cluster: str, count: int, lines: pa.Table, lifetimes: pa.Table
) -> Iterator[Callable[[TopicBucket], dict[str, list[FilePart]]]]:
    """Write the log end offsets (LOG_ENDS), the printed states (PRINTED) and the lines of nodes' logs (LINES) of a
    cluster; yields a function that gives the parts to read for a bucket, by these names.

    count: number of buckets. lines: BROKER_LOG_EVENTS rows with a topic id. lifetimes: LIFETIMES of the cluster's
    topics. A printed state without a topic id is written once for each topic of its name.
    """
    files: dict[str, str] = {}
    try:
        for name, schema, parts in _evidence(lake, cluster, lines, lifetimes):
            files[name] = f"{_FOLDER}/{uuid4().hex}.parquet"
            file = SlicedFile(lake.storage, files[name], schema, count, TOPICS)
            for part in parts:
                file.write(part)
            file.close()
        slices = {name: Slices(lake.storage, [file]) for name, file in files.items()}
        yield lambda bucket: {name: of_file.parts(bucket) for name, of_file in slices.items()}
    finally:
        for path in files.values():
            lake.storage.delete(path)


def _evidence(
    lake: Lake, cluster: str, lines: pa.Table, lifetimes: pa.Table
) -> Iterator[tuple[str, pa.Schema, Iterable[pa.Table]]]:
    ends = lake.parts("log_end_offsets", cluster, LOG_END_OFFSETS.names)
    yield LOG_ENDS, LOG_END_OFFSETS, (with_topic_ids(part.cast(LOG_END_OFFSETS), lifetimes) for part in ends)
    timed = pc.field("captured_at_ms").is_valid()
    printed = lake.read("described_partitions", cluster, DESCRIBED_PARTITIONS.names, timed)
    yield PRINTED, DESCRIBED_PARTITIONS, [_with_every_id(printed, lifetimes)]
    yield LINES, BROKER_LOG_EVENTS, [lines.cast(BROKER_LOG_EVENTS)]


def _with_every_id(printed: pa.Table, lifetimes: pa.Table) -> pa.Table:
    named = printed.filter(printed["topic_id"].is_valid())
    ids: dict[str, list[str]] = {}
    for row in lifetimes.to_pylist():
        ids.setdefault(row["topic"], []).append(row["topic_id"])
    unnamed = printed.filter(printed["topic_id"].is_null()).to_pylist()
    rows = [{**row, "topic_id": topic_id} for row in unnamed for topic_id in ids.get(row["topic"], ())]
    return pa.concat_tables([named.cast(DESCRIBED_PARTITIONS), pa.Table.from_pylist(rows, DESCRIBED_PARTITIONS)])
