"""Decode framed batches into files of metadata_records and snapshot_records. Tasks decode byte ranges and write; the
driver plans them, and commits.

A batch that the lake already holds is not decoded again. Batches whose records may have a key in common, or of which
the lake holds only some records, are decoded by the driver, which compares each record with those of the lake.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evidence import kinds
from evidence.metadata_log.columns import DECODED, decode_arrow
from evidence.metadata_log.rows import PAYLOADS, SNAPSHOT, ByteRange, byte_ranges, bytes_of, work_of
from evidence.metadata_log.scan import DistinctBatches, Scanned
from evidence.redaction import digests_by
from jobs.config.settings import Settings
from jobs.ingest.log_batches import BatchKey, CommitStates, HeldBatches, commit_column, in_order, keys_of, places_of
from jobs.lake.data_files import DataFile, merge_files, write_file
from jobs.lake.lake import Lake, Row
from jobs.lake.row_groups import power_of_two, slice_count
from jobs.lake.row_keys import new_rows
from jobs.lake.runs import Size
from jobs.lake.storage import Storage
from jobs.lake.tables import TABLES
from jobs.spark.tasks import cores, run_tasks
from replay.arrow.ragged import INT64_MAX, Array
from replay.arrow.runs import run_starts
from replay.cluster.branches import COMMIT_STATES

RECORDS, SNAPSHOTS = "metadata_records", "snapshot_records"
# A task decodes about so many bytes: few files and row groups, within the memory of a worker.
_LEAST_BYTES, _MOST_BYTES = 8 << 20, 16 << 20
# More files than this are merged, so many to one.
_MOST_FILES, _FILES_MERGED = 100, 32
_BATCH, _STATE = ["epoch", "batch_base_offset", "batch_crc"], "commit_state"
_PLACED = pc.field("offset").is_valid()


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a task decoded. damage: rows of evidence.tables.QUARANTINE."""

    file: DataFile | None
    damage: list[Row]


@dataclass(frozen=True)
class DecodingTask:
    """The function of a task. usual_state: the commit state of all batches that are not in `states`. known: keys of
    records in the lake that may be decoded again; None: there are none. key_file: for
    evidence/redaction.py."""

    storage: Storage
    table: str
    capture: str
    slices: int
    usual_state: str = ""
    states: Mapping[BatchKey, str] = field(default_factory=dict)
    known: pa.Table | None = None
    key_file: str = ""

    def __call__(self, work: Sequence[ByteRange]) -> Decoded:
        with digests_by(self.key_file):
            rows = decoded(work, self.capture)
        is_damage = rows["damage"].is_valid()
        bad = rows.select(["capture", "path", "sha256", "damage"]).filter(is_damage).to_pylist()
        damage = [{**row, **row.pop("damage")} for row in bad]
        rows = rows.filter(pc.invert(is_damage)) if damage else rows
        if self.table == SNAPSHOTS and (broken := _broken(damage)):
            rows = rows.filter(~pc.field("sha256").isin(sorted(broken)))
        if self.table == RECORDS:
            rows = rows.append_column(_STATE, commit_column(rows, self.states, self.usual_state))
        # The reader ensures that the records of a batch have distinct offsets for bytes, not for text.
        if self.known is not None or (work[0].kind == kinds.DUMP_LOG and work[0].holds != PAYLOADS):
            key = TABLES[self.table].key
            known = TABLES[self.table].file_schema.empty_table().select(key) if self.known is None else self.known
            rows = new_rows(rows, known, key)
        file = write_file(self.storage, self.table, rows, self.slices) if len(rows) else None
        return Decoded(file, damage)


def decoded(
    work: Iterable[ByteRange], capture: str, keep: Callable[[pa.RecordBatch], pa.Array] | None = None
) -> pa.Table:
    """DECODED rows of some ranges. keep: mask of the rows of an Arrow batch to return; None: all."""
    batches = []
    for one in work:
        for batch in decode_arrow(bytes_of(one), one, capture):
            batches.append(batch.filter(keep(batch)) if keep else batch)
    return pa.Table.from_batches(batches, DECODED)


@dataclass(frozen=True, slots=True)
class Decodings:
    """What the tasks of a table decoded. added, removed: files for one commit; damage: evidence.tables.QUARANTINE rows.
    rows: number of new rows."""

    rows: int
    added: list[DataFile]
    removed: list[DataFile]
    damage: list[Row]


def decode_snapshots(lake: Lake, cluster: str, capture: str, scanned: Scanned, settings: Settings) -> Decodings:
    """Decode the snapshots that the lake does not hold, small ones together. A snapshot with a record that cannot be
    decoded is not a complete state: its rows are left out, also those that another task has written."""
    known = set(lake.read(SNAPSHOTS, cluster, ["sha256"])["sha256"].unique().to_pylist())
    ranges = [w for w in work_of(scanned, _MOST_BYTES) if w.holds == SNAPSHOT and w.sha256 not in known]
    items = list(_packed((w for w in ranges if w.kind != kinds.DUMP_LOG), _LEAST_BYTES))
    text = (w for w in ranges if w.kind == kinds.DUMP_LOG)
    items += [list(of_file) for _, of_file in groupby(text, lambda w: w.sha256)]
    rows = sum(s.batches[-1].last_offset + 1 for s in scanned.snapshots if s.batches)
    task = DecodingTask(lake.storage, SNAPSHOTS, capture, slice_count(rows), key_file=settings.secrets.key_file)
    name = f"ingest: snapshots of {capture}"
    run = partial(run_tasks, task, rows=rows, settings=settings, name=name, size_of=_bytes_of)
    results = run(items)
    damage = [row for result in results for row in result.damage]
    broken = _broken(damage)
    whole = [[work for work in item if work.sha256 not in broken] for item in items]
    again = [n for n, r in enumerate(results) if {work.sha256 for work in items[n]} & (broken - _broken(r.damage))]
    for n in again:
        if file := results[n].file:
            lake.storage.delete(f"{SNAPSHOTS}/{file.path}")
    results = [r for n, r in enumerate(results) if n not in again] + run([whole[n] for n in again if whole[n]])
    files = [r.file for r in results if r.file]
    return Decodings(sum(file.rows for file in files), files, [], damage)


def _broken(damage: Iterable[Row]) -> set[str]:
    """The snapshots that are not complete. Damage without bytes is a note, unless it says that a record is missing."""
    return {row["sha256"] for row in damage if row["length_bytes"] or row["reason"] == "missing_record"}


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """What to decode of the log. new: batches that the lake does not hold. doubtful: batches whose records have to be
    compared with those of the lake and with each other. unplaced: ranges of records without offsets. held: the batches
    that the lake has records of."""

    new: DistinctBatches
    doubtful: DistinctBatches
    unplaced: list[ByteRange]
    held: HeldBatches

    @property
    def rows(self) -> int:
        return self.new.record_count + self.doubtful.record_count


def plan_records(lake: Lake, cluster: str, scanned: Scanned) -> DecodePlan:
    """Compare the capture's batches with what the lake holds."""
    batches, held = scanned.batches, _held(lake, cluster)
    at = places_of(keys_of(batches.heads), held.keys)
    damaged = np.sort([*lake.read("quarantine", cluster, ["offset"], _PLACED)["offset"].to_pylist(), INT64_MAX])
    missing = np.append(held.counts, -1)[at] != batches.heads["record_count"]
    missing |= damaged[np.searchsorted(damaged, batches.heads["base_offset"])] <= batches.heads["last_offset"]
    new = missing & (at < 0)
    epoch, base, crc = (
        np.concatenate([of_held, of_new[new]])
        for of_held, of_new in zip(held.keys, keys_of(batches.heads), strict=True)
    )
    counts = np.concatenate([held.counts, batches.heads["record_count"][new]])
    if overlap(epoch, crc, base, base + counts - 1):
        new[:] = False
    done = set(lake.read(RECORDS, cluster, ["sha256"], ~_PLACED)["sha256"].unique().to_pylist())
    unplaced = [w for w in work_of(scanned) if w.holds == PAYLOADS and w.sha256 not in done]
    return DecodePlan(batches.take(new), batches.take(missing & ~new), unplaced, held)


def _held(lake: Lake, cluster: str) -> HeldBatches:
    """The batches that the lake has records of. The records of a batch are mostly neighbours."""
    found: list[list[Array]] = []
    read = lake.parts(RECORDS, cluster, [*_BATCH, _STATE], _PLACED)
    for rows in chain.from_iterable(part.to_batches() for part in read):
        epoch, base, crc = (rows[name].to_numpy() for name in _BATCH)
        state = pc.index_in(rows[_STATE], pa.array(COMMIT_STATES)).fill_null(-1).to_numpy().astype(np.int8)
        first = np.flatnonzero(run_starts(epoch, base, crc, state))
        counts = np.diff(np.append(first, len(rows))).astype(np.int32)
        found.append([*(column[first] for column in (epoch, base, crc, state)), counts])
    types = (np.int32, np.int64, np.int64, np.int8, np.int32)
    columns = [np.concatenate([np.zeros(0, of), *each]) for of, *each in zip(types, *found, strict=True)]
    order = in_order((columns[0], columns[1], columns[2]))
    if order is not None:
        columns = [column[order] for column in columns]
    epoch, base, crc, state, counts = columns
    first = np.flatnonzero(run_starts(epoch, base, crc))
    if len(first) < len(counts):
        least, most = (lowest.reduceat(state, first) for lowest in (np.minimum, np.maximum))
        state, counts = np.where(least == most, least, np.int8(-1)), np.add.reduceat(counts, first)
        epoch, base, crc = epoch[first], base[first], crc[first]
    return HeldBatches((epoch, base, crc), counts, state)


def overlap(epoch: Array, crc: Array, first: Array, last: Array) -> bool:
    """Whether two batches, as epoch, CRC, first and last offset, have an offset in common and the same epoch and CRC. A
    CRC does not cover the offset."""
    order = np.lexsort((last, first, crc, epoch))
    epoch, crc, first, last = epoch[order], crc[order], first[order], last[order]
    same = (epoch[1:] == epoch[:-1]) & (crc[1:] == crc[:-1])
    return bool((same & (first[1:] <= last[:-1])).any())


def control_rows(plan: DecodePlan, capture: str) -> pa.Table:
    """DECODED control records of new batches, damage left out."""
    control = [byte_ranges(each.take(each.are_control)) for each in (plan.new, plan.doubtful)]
    return decoded(chain(*control), capture, lambda batch: pc.is_valid(batch["type"]))


def decode_records(
    lake: Lake, cluster: str, capture: str, plan: DecodePlan, states: CommitStates, settings: Settings
) -> Decodings:
    """Decode the log's new records, and write again the files that hold records whose commit state has changed."""
    slices = slice_count(plan.rows)
    split_bytes = min(max(plan.new.size_bytes // (4 * cores(plan.rows, settings)), _LEAST_BYTES), _MOST_BYTES)
    key_file = settings.secrets.key_file
    task = DecodingTask(lake.storage, RECORDS, capture, slices, states.usual, states.others, key_file=key_file)
    items = list(_packed(byte_ranges(plan.new, split_bytes), split_bytes))
    results = run_tasks(task, items, plan.rows, settings, f"ingest: metadata log of {capture}", _bytes_of)
    if len(plan.doubtful):
        known = lake.read(RECORDS, cluster, TABLES[RECORDS].key, _PLACED)
        results.append(replace(task, known=known)(byte_ranges(plan.doubtful)))
    unplaced = replace(task, usual_state="unknown", states={})
    results += [unplaced([work]) for work in plan.unplaced]
    files = _merged(lake, capture, [r.file for r in results if r.file], plan.rows, settings)
    damage = [row for result in results for row in result.damage]
    old, corrected = list[DataFile](), list[DataFile]()
    if offsets := [base for _, base, _ in states.changed]:
        lowest, highest = min(offsets), max(offsets)
        of_cluster = lake.files(RECORDS, cluster)
        old = [f for f in of_cluster if f.highest is None or (f.highest >= lowest and f.lowest <= highest)]
        rows, name = sum(file.rows for file in old), f"ingest: commit states of {cluster}"
        again = partial(_with_states, lake.storage, states.changed)
        corrected = run_tasks(again, old, rows, settings, name, lambda file: Size(file.rows, file.size_bytes))
    return Decodings(sum(file.rows for file in files), [*files, *corrected], old, damage)


def _merged(lake: Lake, capture: str, files: list[DataFile], rows: int, settings: Settings) -> list[DataFile]:
    """The files, or fewer with the same rows: every bucket of a large log reads the footer of each of them."""
    if len(files) <= _MOST_FILES:
        return files
    slices = power_of_two(rows / settings.replay.rows_per_bucket)  # as many as replay has buckets
    task = partial(merge_files, lake.storage, RECORDS, slices)
    groups = [files[at : at + _FILES_MERGED] for at in range(0, len(files), _FILES_MERGED)]
    found = run_tasks(
        *(task, groups, rows, settings, f"ingest: files of {capture}"),
        lambda of: Size(sum(file.rows for file in of), sum(file.size_bytes for file in of)),
    )
    for file in files:
        lake.storage.delete(f"{RECORDS}/{file.path}")
    return found


def _bytes_of(ranges: Sequence[ByteRange]) -> Size:
    return Size(None, sum(work.end - work.start for work in ranges))


def _packed(ranges: Iterable[ByteRange], most_bytes: int) -> Iterator[list[ByteRange]]:
    """The ranges in groups of about `most_bytes`. Ranges of text are not grouped with others."""
    group: list[ByteRange] = []
    size = 0
    for work in ranges:
        if group and (size + work.end - work.start > most_bytes or kinds.DUMP_LOG in (work.kind, group[0].kind)):
            yield group
            group, size = [], 0
        group.append(work)
        size += work.end - work.start
    if group:
        yield group


def _with_states(storage: Storage, changed: Mapping[BatchKey, str], file: DataFile) -> DataFile:
    """The function of a task: write a file again with other commit states."""
    with storage.open(f"{RECORDS}/{file.path}") as source:
        rows = pq.read_table(source, columns=TABLES[RECORDS].file_schema.names, use_threads=False)
    at = rows.schema.get_field_index(_STATE)
    return write_file(storage, RECORDS, rows.set_column(at, _STATE, commit_column(rows, changed)))
