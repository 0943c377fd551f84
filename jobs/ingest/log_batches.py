"""log_batches: every distinct batch, the nodes that hold it, and its commit state, derived from all the evidence."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.capture.files import Capture
from evidence.metadata_log.scan import DistinctBatches, batch_table
from evidence.tables import INT32_LIST
from jobs.lake.lake import Lake, Row
from jobs.lake.row_keys import matches
from jobs.lake.tables import TABLES
from replay.arrow.ragged import Array
from replay.arrow.runs import run_starts
from replay.cluster.branches import COMMIT_STATES, Holders, Point, commit_states

BatchKey = tuple[int, int, int]  # epoch, base offset, CRC

# Records that name the quorum's voters.
VOTER_TYPES = ("KRAFT_VOTERS", "LEADER_CHANGE")
_VOTERS = pc.field("type").isin(VOTER_TYPES) & pc.field("offset").is_valid()


@dataclass(frozen=True, slots=True)
class CommitStates:
    """The commit state of every batch of a cluster. usual: of all batches that are not in `others`. changed: the new
    states of batches whose records in the lake have another one. batches: the rows of log_batches; None if they are in
    the lake already."""

    usual: str
    others: dict[BatchKey, str]
    changed: dict[BatchKey, str]
    batches: pa.Table | None


Keys = tuple[Array, Array, Array]  # epochs (int32), base offsets and CRCs (int64) of batches


@dataclass(frozen=True, slots=True)
class HeldBatches:
    """The batches that the lake has records of, in the order of their keys. counts: of the records. states: int8, the
    place of their commit state in COMMIT_STATES; -1: they differ."""

    keys: Keys
    counts: Array
    states: Array


def keys_of(batches: Array | pa.Table) -> Keys:
    """The keys of batches, as columns epoch, base_offset and crc."""
    types = {"epoch": np.int32, "base_offset": np.int64, "crc": np.int64}
    epoch, base, crc = (np.asarray(batches[name]).astype(of, copy=False) for name, of in types.items())
    return epoch, base, crc


def in_order(keys: Keys) -> Array | None:
    """The row numbers of keys by epoch, base offset and CRC; None if they are in this order."""
    rises = np.zeros(max(len(keys[0]) - 1, 0), dtype=bool)
    for column in reversed(keys):
        rises = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & rises)
    return None if rises.all() else np.lexsort(keys[::-1])


def places_of(keys: Keys, among: Keys) -> Array:
    """For each key its place among others, which are distinct; -1: it is none of them."""
    count = len(keys[0])
    if all(np.array_equal(own, other[:count]) for own, other in zip(keys, among, strict=True)):
        return np.arange(count)
    own, others = (pa.table([*map(pa.array, each)], TABLES["log_batches"].key) for each in (keys, among))
    return matches(own, others, own.column_names)


def merged_batches(
    lake: Lake, capture: Capture, cluster: str, batches: DistinctBatches, control: pa.Table, held: HeldBatches
) -> CommitStates:
    """Merge a capture's batches with log_batches and judge all of them. control: DECODED rows of its control records.
    held: the batches that the lake has records of. The capture's snapshots and quorum reports must already be in the
    lake.

    The result depends on the evidence, not on the order in which it was ingested.
    """
    schema = TABLES["log_batches"].file_schema
    known = lake.read("log_batches", cluster, schema.names, as_codes=True)
    if (order := in_order(keys_of(known))) is not None:
        known = known.take(pa.array(order))
    rows, holders, is_changed = _merged(known, batches, capture.name)
    epoch, base, last = (rows[name].to_numpy().astype(np.int64) for name in ("epoch", "base_offset", "last_offset"))
    reports = lake.rows("quorum_reports", cluster)
    points = _snapshot_points(lake, cluster, capture)
    reported = (r for r in reports if r["high_watermark"] and r["leader_epoch"] is not None)
    points += [Point(r["high_watermark"], r["leader_epoch"]) for r in reported]
    found = commit_states(epoch, base, last, holders, _voters(lake, cluster, control, reports), points)
    states = found.indices.to_numpy()
    is_changed = is_changed or not np.array_equal(_codes(known["commit_state"]), states)
    del known
    usual = int(np.bincount(states).argmax()) if len(states) else -1
    keys = keys_of(rows)
    of_held = np.append(states, np.int8(-1))[places_of(held.keys, keys)]
    changed = (of_held >= 0) & (of_held != held.states)
    return CommitStates(
        COMMIT_STATES[usual] if usual >= 0 else "",
        _states_of(keys, states, states != usual),
        _states_of(held.keys, of_held, changed),
        rows.append_column("commit_state", found).select(schema.names) if is_changed else None,
    )


def _codes(states: pa.ChunkedArray) -> Array:
    """int8 places in COMMIT_STATES of a dictionary-encoded column; -1 for any other value."""
    parts = [np.zeros(0, dtype=np.int8)]
    for chunk in states.chunks:
        place = pc.index_in(chunk.dictionary, pa.array(COMMIT_STATES)).fill_null(-1).to_numpy().astype(np.int8)
        parts.append(np.append(place, np.int8(-1))[chunk.indices.fill_null(-1).to_numpy()])
    return np.concatenate(parts)


def _states_of(keys: Keys, states: Array, mask: Array) -> dict[BatchKey, str]:
    chosen = zip(*(column[mask].tolist() for column in keys), states[mask].tolist(), strict=True)
    return {(epoch, base, crc): COMMIT_STATES[state] for epoch, base, crc, state in chosen}


def _merged(known: pa.Table, batches: DistinctBatches, capture: str) -> tuple[pa.Table, Holders, bool]:
    """The known batches and those of a capture, in order and without commit states; who holds them; whether this is
    more than was known. A batch of both has the place of the known one."""
    at = places_of(keys_of(batches.heads), keys_of(known))
    new = batches.take(at < 0)
    holders = Holders.of_column(known["nodes"])
    sets = {nodes: place for place, nodes in enumerate(holders.sets)}
    places, more = at[at >= 0], batches.holders[at >= 0]
    of = np.concatenate([holders.of, _numbered(sets, batches.nodes)[new.holders]])
    # Few pairs of sets are distinct.
    pairs, which = np.unique(of[places] * len(batches.nodes) + more, return_inverse=True)
    both = (divmod(pair, len(batches.nodes)) for pair in pairs.tolist())
    named = list(sets)
    of[places] = _numbered(sets, [tuple(sorted({*named[a], *batches.nodes[b]})) for a, b in both])[which]
    is_changed = len(new) > 0 or not np.array_equal(of, holders.of)
    rows = pa.concat_tables(
        [known.drop_columns(["nodes", "commit_state"]), batch_table(capture, new).drop_columns("nodes")]
    )
    order = in_order(keys_of(rows))
    if order is not None:
        rows, of = rows.take(pa.array(order)), of[order]
    nodes = pa.array(list(sets), INT32_LIST).take(pa.array(of))
    return rows.append_column("nodes", nodes), Holders(list(sets), of), is_changed


def _numbered(sets: dict[tuple[int, ...], int], found: Iterable[tuple[int, ...]]) -> Array:
    """int32: the number of each set of nodes; a new one gets the next."""
    return np.array([sets.setdefault(nodes, len(sets)) for nodes in found], dtype=np.int32)


def commit_column(records: pa.Table, states: Mapping[BatchKey, str], usual: str | None = None) -> pa.Array:
    """The commit state of each record: of its batch (columns epoch, batch_base_offset, batch_crc), else `usual`; None:
    the one that the record has."""
    names = ("epoch", "batch_base_offset", "batch_crc")
    columns: list[Array] = [pc.fill_null(records[n].cast(pa.int64()), -1).to_numpy() for n in names]
    first = run_starts(*columns)
    at = np.flatnonzero(first)
    keys = zip(*(c[at].tolist() for c in columns), strict=True)
    others = [usual] * len(at) if usual is not None else records["commit_state"].take(pa.array(at)).to_pylist()
    found = pa.array([states.get(key, other) for key, other in zip(keys, others, strict=True)], pa.string())
    return found.take(pa.array(np.cumsum(first) - 1))


def _voters(lake: Lake, cluster: str, control: pa.Table, reports: list[Row]) -> frozenset[int]:
    """The newest voter set in the log (KRaftVotersRecord, else LeaderChangeMessage), else in a quorum report."""
    columns = ("epoch", "offset", "payload")
    logged = control.filter(pc.is_in(control["type"], pa.array(VOTER_TYPES))).select(columns).to_pylist()
    rows = [*lake.rows("metadata_records", cluster, columns, _VOTERS), *logged]
    newest: frozenset[int] = frozenset()
    for row in sorted(rows, key=lambda r: (r["epoch"], r["offset"])):
        newest = frozenset(v["voterId"] for v in json.loads(row["payload"]).get("voters", [])) or newest
    if newest:
        return newest
    named = [r for r in reports if r["voters"] and r["leader_epoch"] is not None]
    return frozenset(max(named, key=lambda r: r["leader_epoch"])["voters"]) if named else frozenset()


def _snapshot_points(lake: Lake, cluster: str, capture: Capture) -> list[Point]:
    """A point per snapshot: a snapshot has only committed records, and the logs of the nodes that hold it led to it."""
    columns = ("snapshot_end_offset", "snapshot_epoch", "sha256")
    known = lake.read("snapshot_records", cluster, columns, pc.field("snapshot_end_offset").is_valid())
    found = known.group_by(columns).aggregate([]).to_pylist()
    holders: dict[str, set[int]] = {}
    files = lake.rows("evidence_files", cluster, ("sha256", "node_id"), pc.field("node_id").is_valid())
    held = [(r["sha256"], r["node_id"]) for r in files] + [(f.sha256, f.node_id) for f in capture.files]
    for sha256, node in held:
        if node is not None:
            holders.setdefault(sha256, set()).add(node)
    return [Point(r[columns[0]], r[columns[1]], frozenset(holders.get(r["sha256"], ()))) for r in found]
