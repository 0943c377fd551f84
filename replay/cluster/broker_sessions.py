"""Broker sessions as a table: every broker's registration over metadata offsets, and how each session began.

No metadata record holds whether a broker had stopped cleanly (the controller compares the registration request's
previousBrokerEpoch, then drops it). Only the ELR shows it. A controller that treats a restart as unclean
removes the broker from every ISR and ELR in the same atomic batch, right before its RegisterBrokerRecord. After a clean
restart the broker stays in its ELRs. So `unclean` means that the controller treated the restart as unclean. It also
does so for a clean stop that the broker cannot report (registration request below version 3), and, in development
builds of October 2024, for every new incarnation (KAFKA-18635).

Sources: Kafka's ClusterControlManager.registerBroker, ReplicationControlManager.handleBrokerUncleanShutdown,
PartitionChangeBuilder.maybePopulateTargetElr; KIP-966, KIP-858; KAFKA-18106 (a clean restart leaves the ISR, too).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow import schemas
from replay.arrow.ragged import INT64_MAX, Array, Row, bools, to_lengths, to_matrix
from replay.arrow.runs import Events, place_in_run, ranges, run_starts
from replay.arrow.sets import all_within, has
from replay.cluster.brokers import BROKER_TYPES, BrokerState, broker_of, broker_timeline
from replay.cluster.features import ELR_VERSION
from replay.cluster.histories import place, with_validity

FIRST, CLEAN_SHUTDOWN, UNCLEAN_SHUTDOWN, UNKNOWN = "first", "clean", "unclean", "unknown"
EVIDENCE_LIMIT = 32

REGISTRATIONS, SESSION_EVIDENCE = schemas.schema("registrations"), schemas.schema("session_evidence")
_PARTITION_TYPES = frozenset({"PARTITION_RECORD", "PARTITION_CHANGE_RECORD"})


def registrations(records: Sequence[Row]) -> pa.Table:
    """Build REGISTRATIONS. records: ClusterState.records, those that count, in offset order."""
    switches = [r for r in records if r["type"] == "FEATURE_LEVEL_RECORD" and r["data"]["name"] == ELR_VERSION]
    offsets = [r["offset"] for r in switches]
    on = [False, *(r["data"]["featureLevel"] > 0 for r in switches)]
    others = np.array([-1, *(r["offset"] for r in records if r["type"] not in _PARTITION_TYPES)], dtype=np.int64)
    rows = [
        {
            "broker_id": state.broker_id,
            "offset": state.offset,
            "batch_base_offset": state.batch_base_offset,
            "after_offset": max(state.batch_base_offset - 1, int(others[np.searchsorted(others, state.offset) - 1])),
        }
        for record, state, before in _applied(records)
        if _begins(before, state)
        and "place" not in record
        and on[int(np.searchsorted(offsets, state.offset, side="right"))]
    ]
    return pa.Table.from_pylist(rows, schema=REGISTRATIONS)


def session_evidence(history: pa.Table, registered: pa.Table) -> pa.Table:
    """Build SESSION_EVIDENCE from whole partitions; at most EVIDENCE_LIMIT rows per registration and class.

    history: schemas.PARTITION_HISTORY sorted by (topic_id, partition, offset), e.g. of one bucket. registered:
    REGISTRATIONS of the whole cluster.
    """
    if not len(history) or not len(registered):
        return SESSION_EVIDENCE.empty_table()
    found = [_taken_off(history, registered), _still_eligible(history, registered)]
    row = np.concatenate([f[0] for f in found])
    registration = np.concatenate([f[1] for f in found])
    clean = np.repeat([False, True], [len(f[0]) for f in found])
    offset = history["offset"].to_numpy()[row]
    order = np.lexsort((offset, clean, registration))
    kept = order[place_in_run(registration[order], clean[order]) < EVIDENCE_LIMIT]
    columns = {
        "broker_id": registered["broker_id"].take(pa.array(registration[kept])),
        "registration_offset": registered["offset"].take(pa.array(registration[kept])),
        "offset": pa.array(offset[kept]),
        "proves": pa.array([UNCLEAN_SHUTDOWN, CLEAN_SHUTDOWN]).take(pa.array(clean[kept].astype(np.int64))),
    }
    return pa.table(columns, schema=SESSION_EVIDENCE)


def _taken_off(history: pa.Table, registered: pa.Table) -> tuple[Array, Array]:
    """(row, registration) of changes right before a registration, in its batch, that only an unclean restart explains.

    The broker left ISR or ELR, nothing else about them changed, and it is not in the ELR although |ISR| < min ISR:
    after any other event a broker that leaves the ISR joins the ELR. At or above min ISR, and in an unclean election,
    the ELR is emptied whatever the broker did. Requests that set new directories or replicas also empty it. So does a
    ClearElrRecord, which is not a partition record: a change after it, or after a broker record, is another event.
    """
    nothing = np.empty(0, dtype=np.int64)
    by_batch = np.argsort(registered["batch_base_offset"].to_numpy(), kind="stable")
    batches = registered["batch_base_offset"].to_numpy()[by_batch]
    batch = history["batch_base_offset"].to_numpy()
    low, high = np.searchsorted(batches, batch, "left"), np.searchsorted(batches, batch, "right")
    rows = np.flatnonzero((low < high) & _continues(history))
    if not len(rows):
        return nothing, nothing
    change, at = ranges(low[rows], (high - low)[rows])
    registration = by_batch[at]
    broker = registered["broker_id"].to_numpy().astype(np.int64)[registration]

    both = history.take(pa.array(np.concatenate([rows - 1, rows])))
    half = len(rows)
    isr, elr, replicas = (to_matrix(both[n]) for n in ("isr", "elr", "replicas"))
    was_isr, is_isr, was_elr, is_elr = (has(of[at], broker) for of in (isr, elr) for at in (change, half + change))
    isr_size, elr_size = to_lengths(both["isr"]), to_lengths(both["elr"])
    directories = pc.fill_null(pc.binary_join(both["directories"].combine_chunks(), ","), "")
    steady = (replicas[:half] == replicas[half:]).all(axis=1)
    steady &= pc.equal(directories[:half], directories[half:]).to_numpy(zero_copy_only=False)
    steady &= all_within(isr[half:], isr[:half]) & all_within(elr[half:], elr[:half])
    only_it = steady[change]
    for size, was in ((isr_size, was_isr), (elr_size, was_elr)):
        only_it &= size[half:][change] == size[:half][change] - was
    below = (isr_size[half:] < pc.fill_null(both["min_isr"], 1).to_numpy()[half:]) | (elr_size[half:] > 0)
    offset = history["offset"].to_numpy()[rows][change]
    beside = offset < registered["offset"].to_numpy()[registration]
    beside &= offset > registered["after_offset"].to_numpy()[registration]
    proof = (was_isr | was_elr) & ~is_isr & ~is_elr & only_it & below[change] & beside
    return rows[change[proof]], registration[proof]


def _continues(history: pa.Table) -> Array:
    """True for rows whose state follows from the previous row: same partition, no snapshot, no removal."""
    topic = history["topic_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    partition = history["partition"].to_numpy()
    removed = bools(history["removed"])
    same = ~run_starts(topic, partition) & ~removed & ~np.append(False, removed)[:-1]
    return same & bools(pc.equal(history["origin"], "log"))


def _still_eligible(history: pa.Table, registered: pa.Table) -> tuple[Array, Array]:
    """(row, registration) of states, valid at the registration, with the broker in the ELR: not an unclean restart."""
    elr = history["elr"].combine_chunks()
    row = pc.list_parent_indices(elr).to_numpy().astype(np.int64)
    broker = pc.list_flatten(elr).to_numpy().astype(np.int64)
    start = history["offset"].to_numpy()
    end = pc.fill_null(history["end_offset"], INT64_MAX).to_numpy()
    member = np.isin(broker, registered["broker_id"].to_numpy())
    row, broker = row[member], broker[member]
    places = (registered[name].to_numpy().astype(np.int64) for name in ("broker_id", "offset"))
    which, registration = Events(*places).between(broker, start[row], end[row])
    return row[which], registration


def broker_history(
    records: Sequence[Row], evidence: pa.Table, clean_shutdowns: Iterable[Mapping[str, Any]]
) -> pa.Table:
    """Build schemas.BROKER_HISTORY.

    records: ClusterState.records, those that count, in offset order. evidence: SESSION_EVIDENCE of all partitions,
    made with `registrations` of the same records. clean_shutdowns: captured .kafka_cleanshutdown files, dicts with
    broker_id, broker_epoch, capture, path, sha256 (rows of log_end_offsets whose source is clean_shutdown).

    A file with the previous session's epoch means that session ended cleanly. The log overrides the file, since the
    broker may have started, and died, before it registered. States with one incarnation id are one session.
    """
    proofs: dict[tuple[int, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in evidence.to_pylist():
        proofs[row["broker_id"], row["registration_offset"]][row["proves"]].append(row["offset"])
    # Of several files for a session the first by name, so that input order has no effect.
    by_name = sorted(clean_shutdowns, key=lambda f: (f["capture"], f["path"], f["sha256"]), reverse=True)
    files = {(f["broker_id"], f["broker_epoch"]): f for f in by_name if f["broker_epoch"] is not None}
    # The first base snapshot: the history before it is incomplete.
    known_up_to = min((r["offset"] for r in records if "place" in r and r["offset"] >= 0), default=INT64_MAX)
    sessions: dict[int, Row] = {}
    rows: list[Row] = []
    for record, state, before in _applied(records):
        broker, anchored = state.broker_id, "place" in record
        if _begins(before, state):
            file = files.get((broker, before.broker_epoch)) if before else None
            found = proofs.get((broker, state.offset), {})
            first = before is None and not anchored and state.offset < known_up_to
            sessions[broker] = _session(first, found, None if anchored else file)
        shown = _shown(state, sessions.get(broker))
        if anchored or before is None or shown != _shown(before, sessions.get(broker)):
            rows.append({**place(record), **shown})
    return with_validity(rows, lambda row: (row["broker_id"],), schemas.BROKER_HISTORY)


def _session(first: bool, found: Mapping[str, list[int]], file: Mapping[str, Any] | None) -> Row:
    """How a session began, as columns of schemas.BROKER_HISTORY."""
    shown, proofs = ({}, {}) if first else (file or {}, found)
    offsets = [offset for of_class in proofs.values() for offset in of_class]
    if len(proofs) > 1:  # a contradiction that no controller writes
        offsets = list(set(offsets))
    by_file = CLEAN_SHUTDOWN if file else UNKNOWN
    return {
        "restart_class": FIRST if first else UNKNOWN if len(proofs) > 1 else next(iter(proofs), by_file),
        "restart_evidence": sorted(offsets)[:EVIDENCE_LIMIT],
        "clean_shutdown_broker_epoch": shown.get("broker_epoch"),
        **{f"clean_shutdown_{n}": shown.get(n) for n in ("capture", "path", "sha256")},
    }


def _begins(before: BrokerState | None, state: BrokerState) -> bool:
    """Whether a new incarnation registered. A repeated registration of the same one does not begin a session."""
    return state.incarnation_id is not None and (before is None or before.incarnation_id != state.incarnation_id)


def _applied(records: Sequence[Row]) -> Iterator[tuple[Row, BrokerState, BrokerState | None]]:
    """(record, state after it, state before it) of each broker record that could be applied.

    If a broker has several records at one offset (a snapshot's resets and its own records), the last one counts.
    """
    about = [r for r in records if r["type"] in BROKER_TYPES]
    last = {(broker_of(r["data"]), r["offset"]): r for r in about}
    after = {(s.broker_id, s.offset): s for states in broker_timeline(about).states.values() for s in states}
    current: dict[int, BrokerState] = {}
    for at, record in last.items():
        if at in after:
            yield record, after[at], current.get(at[0])
            current[at[0]] = after[at]


def _shown(state: BrokerState, session: Row | None) -> Row:
    """The columns of a state; for a broker that is not registered, all but its id are null."""
    if state.incarnation_id is None or session is None:
        return {"broker_id": state.broker_id}
    names = ("broker_id", "incarnation_id", "broker_epoch", "fenced", "in_controlled_shutdown", "rack")
    log_dirs = None if state.log_dirs is None else list(state.log_dirs)
    return {**{name: getattr(state, name) for name in names}, "log_dirs": log_dirs, **session}
