"""Replay: metadata records -> the cluster's histories, partition_history and cluster_metrics.

An existing history is extended if everything it was derived from is unchanged (replay/partitions/resume.py): only the
new part of the log is read and reduced, and only the files of buckets that it touches are replaced.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from jobs.config.settings import Settings
from jobs.ingest.records import RECORDS, SNAPSHOTS
from jobs.lake import integrity
from jobs.lake.data_files import DataFile, gathered, write_file
from jobs.lake.lake import Lake
from jobs.lake.marks import undisturbed
from jobs.lake.tables import REPLAYED, TABLES
from jobs.replay.buckets import HISTORY, BucketFiles, BucketItem, buckets
from jobs.replay.cluster_state import EARLIEST, LogConflictError, load_cluster_state
from jobs.replay.task import ReplayedBucket, ReplayTask
from jobs.spark.processes import release
from jobs.spark.tasks import run_tasks
from replay.arrow.schemas import FINDINGS
from replay.cluster.broker_sessions import broker_history, registrations
from replay.cluster.histories import config_history, feature_history, quorum_history
from replay.cluster.log import clip_validity
from replay.cluster.state import ClusterState
from replay.findings.faults import conflict
from replay.partitions.metrics import ClusterCourse, anchors, bands, course_of, running, summed
from replay.partitions.resume import ResumePoint, can_resume, resume_point

_INPUTS = ("log_batches", RECORDS, SNAPSHOTS, "static_configs", "quarantine", "log_end_offsets")
# Written last: its input fingerprint shows that the stage is done.
_LAST = "quorum_history"
_METRICS = "cluster_metrics"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay. rows: written to partition_history; up_to_date: nothing had changed, so nothing was
    written; resumed_at: metadata offset from which an earlier history was extended, None for a new history."""

    cluster_id: str
    rows: int
    up_to_date: bool
    resumed_at: int | None = None


@undisturbed
def replay(
    lake: Lake, cluster: str, settings: Settings, progress: Callable[[str], None], start: str = EARLIEST
) -> Replayed:
    """Build or extend the histories of one cluster, unless their inputs are unchanged. start: EARLIEST or
    NEWEST_CHECKPOINT (jobs/replay/cluster_state.py).

    Errors: LogConflictError if captures contradict each other; the history is then empty and the conflict is the only
    finding.
    """
    lake.create()  # those that were deleted are made again
    since = {name: lake.cluster_version(name, cluster) for name in REPLAYED}
    inputs = integrity.input_fingerprint(lake, cluster, _INPUTS, (start,))
    if integrity.is_up_to_date(lake, cluster, REPLAYED, inputs):
        return Replayed(cluster, 0, True)
    integrity.require_bytes(lake, cluster, _INPUTS)
    progress(f"{cluster}: resolving cluster-wide records")
    try:
        state = load_cluster_state(lake, cluster, start)
    except LogConflictError as error:
        integrity.require_unchanged(inputs, lake, cluster, _INPUTS, (start,))
        found = pa.Table.from_pylist([conflict(cluster, str(error), error.batches)], schema=FINDINGS)
        lake.put("findings", cluster, found)
        for name in (HISTORY, "elections", "rule_differences", "invariant_violations", "counterfactuals"):
            lake.put(name, cluster, TABLES[name].file_schema.empty_table())
        raise
    progress(f"{cluster}: replaying partitions")
    course = course_of(state)
    results, removed, about, resumed_at = _partitions(lake, cluster, state, course, settings, start)
    integrity.require_unchanged(inputs, lake, cluster, _INPUTS, (start,))
    lake.commit(HISTORY, cluster, [r.history for r in results if r.history], removed, about, since[HISTORY])
    progress(f"{cluster}: building the cluster-wide histories")
    lake.replace(_METRICS, cluster, _metrics(lake, results, course), since=since[_METRICS])
    columns = ("broker_id", "broker_epoch", "capture", "path", "sha256")
    clean_stops = lake.rows("log_end_offsets", cluster, columns, pc.field("source") == "clean_shutdown")
    histories = {
        "broker_history": broker_history(state.records, pa.concat_tables(r.sessions for r in results), clean_stops),
        "feature_history": feature_history(state.records),
        "config_history": config_history(state.records, state.configs),
        _LAST: quorum_history(state.records, state.shape),
    }
    for name, table in histories.items():
        clipped = clip_validity(table, state.shape.runs, state.shape.log_end)
        done = integrity.completion(lake, cluster, _INPUTS, REPLAYED, inputs) if name == _LAST else None
        lake.put(name, cluster, clipped, done, since[name])
    return Replayed(cluster, sum(r.rows for r in results), False, resumed_at)


def _metrics(lake: Lake, results: list[ReplayedBucket], course: ClusterCourse) -> list[DataFile]:
    """The files of cluster_metrics."""
    of_cluster = bands(summed(anchors(course)))
    numbers = sorted(of_cluster.keys() | {band for r in results for band in r.moves})
    moved = (
        pa.concat_tables(
            [
                *(pa.ipc.open_stream(r.moves[band]).read_all() for r in results if band in r.moves),
                *([of_cluster[band]] if band in of_cluster else []),
            ]
        )
        for band in numbers
    )
    files = [r.electable for r in results if r.electable]
    release()
    return files + [write_file(lake.storage, _METRICS, rows) for rows in gathered(running(moved)) if len(rows)]


def _partitions(
    lake: Lake, cluster: str, state: ClusterState, course: ClusterCourse, settings: Settings, start: str
) -> tuple[list[ReplayedBucket], list[DataFile], dict[str, object], int | None]:
    """Replay all buckets: their results, the files of partition_history that these replace, what its commit says of
    them, and `resumed_at` as in Replayed."""
    point = resume_point(state)
    rules = {"code": integrity.CODE_VERSION, "start": start}
    made = {} if integrity.unchanged_heads(lake, cluster, [HISTORY]) is None else lake.made(HISTORY, cluster)
    earlier = ResumePoint(**made["resume"]) if made.get("resume") and rules.items() <= made.items() else None
    from_offset = earlier.offset if earlier and can_resume(state, earlier) else None

    def is_read(file: DataFile) -> bool:
        return from_offset is None or file.highest is None or file.highest >= from_offset

    files = BucketFiles(lake, cluster, (RECORDS, SNAPSHOTS), is_read)
    old = BucketFiles(lake, cluster, (HISTORY,))
    rows = files.rows(RECORDS) + (0 if from_offset is None else old.rows(HISTORY))
    items = [BucketItem(b, files.parts(b) | old.parts(b)) for b in buckets(lake, cluster, settings, state, rows)]
    read = Counter(part.name for item in items for part in item.parts[HISTORY])
    # The history may have been made with another number of buckets.
    rewrites = any(count > 1 for count in read.values())
    registered, most = registrations(state.records), settings.limits.topic_rows
    task = ReplayTask(lake.storage, state.for_tasks(), course, registered, from_offset, rewrites, most)
    results = run_tasks(task, items, rows, settings, f"replay: {len(items)} buckets of {cluster}", BucketItem.size)
    replaced = {p.name for i, r in zip(items, results, strict=True) if r.is_replaced for p in i.parts[HISTORY]}
    about: dict[str, object] = {**rules, "resume": asdict(point) if point else None}
    removed = [f for f in old.files[HISTORY] if from_offset is None or f"{HISTORY}/{f.path}" in replaced]
    return results, removed, about, from_offset
