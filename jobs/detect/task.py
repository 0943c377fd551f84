"""The judgement of one bucket, as a task does it: its history and evidence -> rows of the result tables.

Evidence that names topics is sorted by topic id into files before, which only these tasks read: files and scrapes name
topics, and a name may have been used again, so which topic a row belongs to is known only when the log has been
replayed. The files are below the lake, where every task can read them, and are deleted at the end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from evidence.tables import BROKER_LOG_EVENTS, DESCRIBED_PARTITIONS, LOG_END_OFFSETS
from jobs.detect.topic_ids import with_topic_ids
from jobs.ingest.records import SNAPSHOTS
from jobs.lake.data_files import DataFile, write_file
from jobs.lake.lake import Lake
from jobs.lake.row_groups import FilePart, SlicedFile, Slices, TopicBucket
from jobs.lake.row_keys import new_rows
from jobs.lake.storage import SCRATCH, Storage
from jobs.replay.buckets import HISTORY, KEY, STATES, BucketItem, read_change_keys, read_rows, read_table
from jobs.views.in_duckdb import ask, ask_table
from replay.bucket import judge
from replay.cluster.facts import ClusterFacts
from replay.cluster.state import ClusterState
from replay.loss.judged_windows import TooManyWindowsError
from replay.whatif.counterfactuals import Question

# The table that each result of replay.bucket.judge is written to.
WRITTEN = {
    "election": "elections",
    "difference": "rule_differences",
    "violation": "invariant_violations",
    "counterfactual": "counterfactuals",
    "finding": "findings",
}
MAX_ORPHANS = 100_000
LOG_ENDS, PRINTED, LINES = "log_ends", "printed", "lines"
TOPICS = ("topic_id",)


@dataclass(frozen=True, slots=True)
class JudgedBucket:
    """What a task wrote and found. files: by table. predicted: number of changes compared with the rules. counts: rows
    of a table by class. compared, mismatches: see `snapshot_differences`. printed: see `printed_differences`. orphans:
    (topic_id, partition, offset) of valid records that made no state, at most MAX_ORPHANS."""

    files: dict[str, DataFile]
    predicted: int
    counts: dict[str, dict[str, int]]
    compared: int
    mismatches: list[dict[str, Any]]
    printed: list[dict[str, Any]]
    orphans: list[dict[str, Any]]


@dataclass(frozen=True)
class DetectTask:
    """The function of a task. snapshots: end offset of each snapshot that can be compared -> whether its ELR can.
    state: as from `for_tasks`."""

    storage: Storage
    state: ClusterState
    facts: ClusterFacts
    question: Question
    snapshots: Mapping[int, bool]
    topic_windows: int

    def __call__(self, item: BucketItem) -> JudgedBucket:
        history = read_rows(self.storage, STATES, TOPICS, item.parts[HISTORY], item.bucket)
        offsets = self._scratch(item, LOG_ENDS, LOG_END_OFFSETS)
        lines = self._scratch(item, LINES, BROKER_LOG_EVENTS)
        judged = self._judged(history, offsets, lines)
        found = {WRITTEN[name]: rows for name, rows in judged.items() if name in WRITTEN}
        count = item.bucket.count
        files = {name: write_file(self.storage, name, rows, count) for name, rows in found.items() if len(rows)}
        compared, mismatches = self._compare_with_snapshots(item, history)
        return JudgedBucket(
            files=files,
            predicted=int(pc.sum(judged["predicted"]["changes"]).as_py() or 0),
            counts={
                "rule_differences": counts_of(found["rule_differences"]["difference"]),
                "invariant_violations": counts_of(found["invariant_violations"]["invariant"]),
            },
            compared=compared,
            mismatches=mismatches,
            printed=self._compare_with_printed(item, history),
            orphans=self._orphans(item, history),
        )

    def _judged(self, history: pa.Table, offsets: pa.Table, lines: pa.Table) -> dict[str, pa.Table]:
        try:
            return judge(history, offsets, self.facts, self.question, lines, self.topic_windows)
        except TooManyWindowsError as error:
            raise KraftForensicsError(
                f"topic {error.topic}: {error.count} windows to judge, limits.topic_windows = {self.topic_windows} "
                "allows fewer. If you trust the capture and the memory suffices, raise the setting."
            ) from error

    def _scratch(self, item: BucketItem, name: str, schema: pa.Schema) -> pa.Table:
        return read_rows(self.storage, schema, TOPICS, item.parts[name], item.bucket)

    def _compare_with_snapshots(self, item: BucketItem, history: pa.Table) -> tuple[int, list[dict[str, Any]]]:
        records = read_table(self.storage, SNAPSHOTS, item.parts[SNAPSHOTS], item.bucket)
        return snapshot_differences(history, records, self.snapshots)

    def _compare_with_printed(self, item: BucketItem, history: pa.Table) -> list[dict[str, Any]]:
        printed, end_ms = self._scratch(item, PRINTED, DESCRIBED_PARTITIONS), self.facts.log_end_ms
        if end_ms is None or not len(printed):
            return []
        return printed_differences(history, printed, self.facts.clock.error_ms, end_ms)

    def _orphans(self, item: BucketItem, history: pa.Table) -> list[dict[str, Any]]:
        """Valid records that made no state: the partition was never created, or was removed before."""
        keys = read_change_keys(self.storage, item.parts, item.bucket, self.state)
        of_event = pc.is_in(history["offset"], self.state.topic_events["offset"].combine_chunks())
        of_record = pc.and_not(pc.equal(history["origin"], "log"), of_event)
        # A record makes at most one state: if the numbers are equal, every record made one.
        if len(keys) == np.count_nonzero(of_record):
            return []
        return new_rows(keys, history, KEY).slice(0, MAX_ORPHANS).to_pylist()


def snapshot_differences(
    history: pa.Table, snapshot: pa.Table, ends: Mapping[int, bool]
) -> tuple[int, list[dict[str, Any]]]:
    """Compare replayed states with states that Kafka itself wrote: `compared` and `mismatches` of
    snapshot_differences.sql. history: schemas.PARTITION_HISTORY rows of whole partitions; snapshot: rows of
    snapshot_records of the same topics; ends: end offset of each snapshot to compare with -> whether it has the ELR."""
    values = {"ends": list(ends), "has_elr": list(ends.values())}
    (found,) = ask("detect/snapshot_differences", values=values, history=history, snapshot=snapshot)
    return found["compared"], found["mismatches"]


def printed_differences(
    history: pa.Table, printed: pa.Table, clock_error_ms: int, log_end_ms: int
) -> list[dict[str, Any]]:
    """Compare replayed states with states that Kafka's tools printed: rows of printed_differences.sql. printed:
    DESCRIBED_PARTITIONS rows with a time and with the id of a topic to compare with. log_end_ms: of the last batch."""
    values = {"clock_error_ms": clock_error_ms, "log_end_ms": log_end_ms}
    return ask("detect/printed_differences", values=values, history=history, printed=printed)


def counts_of(values: pa.ChunkedArray) -> dict[str, int]:
    """Number of occurrences of each value."""
    return {c["values"]: c["counts"] for c in values.value_counts().to_pylist()}


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
            files[name] = f"{SCRATCH}/{uuid4().hex}.parquet"
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
    printed = ask_table("detect/printed", printed=printed, lifetimes=lifetimes)
    yield PRINTED, DESCRIBED_PARTITIONS, [printed.cast(DESCRIBED_PARTITIONS)]
    yield LINES, BROKER_LOG_EVENTS, [lines.cast(BROKER_LOG_EVENTS)]
