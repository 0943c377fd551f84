"""A cluster's partitions in buckets of whole topics, one for each task. Topics are whole because every partition of a
topic reads its partition 0."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from jobs.config.settings import Settings
from jobs.ingest.records import RECORDS, SNAPSHOTS
from jobs.lake.data_files import DataFile
from jobs.lake.lake import Lake
from jobs.lake.row_groups import FilePart, Slices, TopicBucket, power_of_two, read_bucket
from jobs.lake.runs import Size
from jobs.lake.storage import Storage
from jobs.lake.tables import TABLES
from jobs.spark.tasks import cores
from replay.arrow.schemas import CHANGES, PARTITION_HISTORY, PROVENANCE_NAMES, coded
from replay.cluster.state import ClusterState, offsets_that_count

HISTORY = "partition_history"
KEY = ["topic_id", "partition", "offset"]
STATES = coded(PARTITION_HISTORY)
_COLUMNS = ("offset", "batch_base_offset", "epoch", "timestamp_ms", "type", "partition_change", *PROVENANCE_NAMES)
_LEAST_ROWS = 50_000  # of a bucket that is made only to keep cores busy
_CREATED = pc.field("type") == "PARTITION_RECORD"


def buckets(lake: Lake, cluster: str, settings: Settings, state: ClusterState, rows: int) -> list[TopicBucket]:
    """As many buckets as keep the average one within `partitions_per_bucket` and `rows_per_bucket`; more if cores would
    otherwise be idle, and twice as many as cores if there are enough rows, so that cores that come late or are fast
    get more of them. rows: how many all buckets together have."""
    limits = settings.replay
    partitions = lake.count(RECORDS, cluster, _CREATED)
    for sha256 in state.bases.values():
        partitions += lake.count(SNAPSHOTS, cluster, _CREATED & (pc.field("sha256") == sha256))
    at_once = cores(rows, settings)
    at_once *= 2 if rows >= 2 * at_once * _LEAST_ROWS else 1
    count = power_of_two(max(partitions / limits.partitions_per_bucket, rows / limits.rows_per_bucket, at_once))
    return [TopicBucket(number, count) for number in range(count)]


@dataclass(frozen=True, slots=True)
class BucketItem:
    """A bucket, and the parts of files to read for it: by table, or by name for files of another kind."""

    bucket: TopicBucket
    parts: dict[str, list[FilePart]]

    def size(self) -> Size:
        """What a task reads for it."""
        parts = [part for of_table in self.parts.values() for part in of_table]
        return Size(sum(part.rows for part in parts), sum(part.size_bytes for part in parts))


class BucketFiles:
    """The files of some tables of a cluster, and the parts of them that each bucket reads. wanted: which files to
    read."""

    def __init__(
        self, lake: Lake, cluster: str, names: Sequence[str], wanted: Callable[[DataFile], bool] = lambda _: True
    ) -> None:
        self.files = {name: [f for f in lake.files(name, cluster) if wanted(f)] for name in names}
        self._slices = {n: Slices(lake.storage, [f"{n}/{f.path}" for f in files]) for n, files in self.files.items()}

    def rows(self, *names: str) -> int:
        return sum(file.rows for name in names for file in self.files[name])

    def parts(self, bucket: TopicBucket) -> dict[str, list[FilePart]]:
        """For each table the parts of its files to read for a bucket."""
        return {name: slices.parts(bucket) for name, slices in self._slices.items()}


def read_table(storage: Storage, name: str, parts: Sequence[FilePart], bucket: TopicBucket) -> pa.Table:
    """A bucket's rows of a table."""
    return read_rows(storage, TABLES[name].file_schema, TABLES[name].topics, parts, bucket)


def read_rows(
    storage: Storage, schema: pa.Schema, topics: Sequence[str], parts: Sequence[FilePart], bucket: TopicBucket
) -> pa.Table:
    """A bucket's rows of files with a schema. topics: as in `read_bucket`."""
    found = read_bucket(storage, parts, schema.names, bucket, topics, as_codes=True)
    return pa.concat_tables([rows.select(schema.names).cast(schema) for rows in found] or [schema.empty_table()])


def read_changes(
    storage: Storage, parts: dict[str, list[FilePart]], bucket: TopicBucket, state: ClusterState, from_offset: int = -1
) -> pa.Table:
    """A bucket's schemas.CHANGES rows: the partition records of the surviving log, and of the snapshots that its runs
    start from. from_offset: leave out those before."""
    found = [CHANGES.empty_table()]
    for rows in _of_log(storage, parts, _COLUMNS, bucket, state):
        rows = rows.filter(pc.greater_equal(rows["offset"], from_offset)) if from_offset >= 0 else rows
        found.append(changes_from(rows, "log"))
    columns = (*_COLUMNS, "snapshot_end_offset", "snapshot_epoch")
    for rows in read_bucket(storage, parts[SNAPSHOTS], columns, bucket, TABLES[SNAPSHOTS].topics, as_codes=True):
        found += [changes_from(base, "checkpoint") for base in _bases(rows, state, from_offset)]
    return pa.concat_tables(found)


def read_change_keys(
    storage: Storage, parts: dict[str, list[FilePart]], bucket: TopicBucket, state: ClusterState
) -> pa.Table:
    """topic_id, partition and offset of a bucket's partition records of the log that count."""
    columns = ("offset", "epoch", "batch_base_offset", "partition_change.topic_id", "partition_change.partition")
    found = [PARTITION_HISTORY.empty_table().select(KEY)]
    for rows in _of_log(storage, parts, columns, bucket, state):
        places = [pc.struct_field(rows["partition_change"], name) for name in ("topic_id", "partition")]
        counts = offsets_that_count(rows["offset"].to_numpy(), state)
        found.append(pa.table([*places, rows["offset"]], names=KEY).filter(pa.array(counts)))
    return pa.concat_tables(found)


def _of_log(
    storage: Storage, parts: dict[str, list[FilePart]], columns: Sequence[str], bucket: TopicBucket, state: ClusterState
) -> Iterator[pa.Table]:
    """A bucket's partition records of the log that no later epoch has truncated."""
    truncated = pa.array([f"{epoch}:{base}" for epoch, base in state.shape.truncated], pa.string())
    for rows in read_bucket(storage, parts[RECORDS], columns, bucket, TABLES[RECORDS].topics, as_codes=True):
        if rows["partition_change"].null_count or rows["offset"].null_count:
            rows = rows.filter(pc.and_(rows["partition_change"].is_valid(), rows["offset"].is_valid()))
        if len(truncated):
            batches = (rows[name].cast(pa.string()) for name in ("epoch", "batch_base_offset"))
            rows = rows.filter(pc.invert(pc.is_in(pc.binary_join_element_wise(*batches, ":"), truncated)))
        yield rows


def _bases(rows: pa.Table, state: ClusterState, from_offset: int) -> Iterator[pa.Table]:
    """The rows of each snapshot that a run starts from, with the offset before the snapshot's end."""
    rows = rows.filter(rows["partition_change"].is_valid())
    for (end, epoch), sha256 in state.bases.items():
        if end - 1 < from_offset:
            continue
        is_base = pc.and_(pc.equal(rows["snapshot_end_offset"], end), pc.equal(rows["snapshot_epoch"], epoch))
        base = rows.filter(pc.and_(is_base, pc.equal(rows["sha256"], sha256)))
        at = pa.array([end - 1] * len(base), pa.int64())
        for name in ("offset", "batch_base_offset"):
            base = base.set_column(base.schema.get_field_index(name), name, at)
        yield base


def changes_from(records: pa.Table, origin: str) -> pa.Table:
    """Records with a partition_change as schemas.CHANGES rows."""
    change = records["partition_change"]
    columns = {field.name: pc.struct_field(change, field.name) for field in change.type}
    columns |= {name: records[name] for name in ("offset", "timestamp_ms", "batch_base_offset", *PROVENANCE_NAMES)}
    columns["controller_epoch"] = records["epoch"]
    columns["full"] = pc.equal(records["type"], "PARTITION_RECORD")
    columns["origin"] = pa.array([origin] * len(records), pa.string())
    return pa.table({field.name: columns[field.name] for field in CHANGES}, schema=CHANGES)
