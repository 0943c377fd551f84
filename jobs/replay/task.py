"""The replay of one bucket, as a task does it: its records -> its history, and what it adds to the cluster's tables."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from jobs.lake.data_files import DataFile, write_file
from jobs.lake.row_keys import matches
from jobs.lake.storage import Storage
from jobs.lake.tables import TABLES
from jobs.replay.buckets import HISTORY, KEY, STATES, BucketItem, read_changes, read_rows
from replay.arrow.schemas import PARTITION_HISTORY, sorted_history
from replay.cluster.broker_sessions import SESSION_EVIDENCE, session_evidence
from replay.cluster.log import clip_validity
from replay.cluster.state import ClusterState, changes_that_count
from replay.partitions.elections import states_of
from replay.partitions.metrics import ClusterCourse, bands, electable_replicas, moves, summed
from replay.partitions.reducer import build_history
from replay.partitions.resume import as_base, news

_ENDS = ("end_offset", "end_timestamp_ms")


@dataclass(frozen=True, slots=True)
class ReplayedBucket:
    """What a task wrote and found. history: the new file; None if there is none. is_replaced: whether the lake's files
    of this bucket are out of date. rows: new rows of partition_history. electable: rows of cluster_metrics. moves:
    metrics.MOVES, added up, by band, as a compressed stream of Arrow's: those of 10 GB of log are more than Spark's
    driver takes (spark.driver.maxResultSize). sessions: broker_sessions.SESSION_EVIDENCE."""

    history: DataFile | None
    is_replaced: bool
    rows: int
    electable: DataFile | None
    moves: dict[int, bytes]
    sessions: pa.Table


@dataclass(frozen=True)
class ReplayTask:
    """The function of a task. state: as from `for_tasks`. from_offset: extend the history that ends there; None: build
    it from the beginning. rewrites: write the bucket's history even if nothing is added. topic_rows: the setting."""

    storage: Storage
    state: ClusterState
    course: ClusterCourse
    registered: pa.Table
    from_offset: int | None
    rewrites: bool
    topic_rows: int

    @cached_property
    def later(self) -> ClusterState:
        """The state with the events of topics from `from_offset` on."""
        events = self.state.topic_events
        return replace(self.state, topic_events=events.filter(pc.greater_equal(events["offset"], self.from_offset)))

    def __call__(self, item: BucketItem) -> ReplayedBucket:
        if self.from_offset is None:
            changes = read_changes(self.storage, item.parts, item.bucket, self.state)
            self._check(changes)
            history = reduced(changes, self.state)
            new, is_changed = len(history), True
        else:
            history, new, is_changed = self._extended(item, self.from_offset)
        rows, is_replaced = sorted_history(history), is_changed or self.rewrites
        file = self._written(HISTORY, rows, item) if is_replaced else None
        states = states_of(rows)
        metrics = electable_replicas(rows, states)
        moved = moves(rows, states, self.state.configs, self.course)
        sessions = session_evidence(rows, self.registered) if len(self.registered) else SESSION_EVIDENCE.empty_table()
        return ReplayedBucket(
            history=file,
            is_replaced=is_replaced,
            rows=new,
            electable=self._written("cluster_metrics", metrics, item),
            moves={band: _packed(found) for band, found in bands(summed(moved)).items()},
            sessions=sessions,
        )

    def _written(self, name: str, rows: pa.Table, item: BucketItem) -> DataFile | None:
        return write_file(self.storage, name, rows, item.bucket.count) if len(rows) else None

    def _check(self, rows: pa.Table) -> None:
        """Errors: KraftForensicsError for a topic with more rows than the setting allows."""
        if len(rows) <= self.topic_rows:
            return
        for counted in rows["topic_id"].value_counts().to_pylist():
            if counted["counts"] > self.topic_rows:
                named = self.state.configs.topic_names.get(counted["values"]) or counted["values"]
                raise KraftForensicsError(
                    f"topic {named}: {counted['counts']} partition records, limits.topic_rows = {self.topic_rows} "
                    "allows fewer. If you trust the capture and the memory suffices, raise the setting."
                )

    def _extended(self, item: BucketItem, offset: int) -> tuple[pa.Table, int, bool]:
        """The bucket's history with what the log adds from `offset` on, the number of rows added, and whether anything
        changed. States that a later record ends get their end."""
        history = read_rows(self.storage, STATES, TABLES[HISTORY].topics, item.parts[HISTORY], item.bucket)
        changes = changes_that_count(
            read_changes(self.storage, item.parts, item.bucket, self.state, offset), self.later
        )
        self._check(pa.concat_tables([history.select(["topic_id"]), changes.select(["topic_id"])]))
        of_topics = (changes["topic_id"], self.later.topic_events["topic_id"])
        touched = pa.chunked_array([chunk for column in of_topics for chunk in column.chunks], pa.string())
        valid = pc.and_(pc.is_null(history["end_offset"]), pc.invert(history["removed"]))
        base = history.filter(pc.and_(valid, pc.is_in(history["topic_id"], touched)))
        added = news(reduced(pa.concat_tables([as_base(base), changes]), self.later), offset)
        at = matches(history, added, KEY)
        new = np.ones(len(added), dtype=bool)
        new[at[at >= 0]] = False
        for name in _ENDS:
            ended = added[name].combine_chunks().take(pa.array(np.maximum(at, 0), mask=at < 0))
            values = pc.if_else(pa.array(at >= 0), ended, history[name].combine_chunks())
            history = history.set_column(history.schema.get_field_index(name), PARTITION_HISTORY.field(name), values)
        return pa.concat_tables([history, added.filter(pa.array(new))]), int(new.sum()), bool(len(added))


def _packed(rows: pa.Table) -> bytes:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(rows)
    return stream.getvalue().to_pybytes()


def reduced(changes: pa.Table, state: ClusterState) -> pa.Table:
    """The history (schemas.PARTITION_HISTORY) of a bucket's partition records, as `read_changes` gives them."""
    counted = changes_that_count(changes, state)
    history = build_history(counted, state.topic_events, state.configs).table
    return clip_validity(history, state.shape.runs, state.shape.log_end)
