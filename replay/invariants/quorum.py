"""Check the invariants of the metadata log itself: Raft's guarantees, as far as findings do not cover them.

Findings cover gaps (offset_gap), flipped offsets and epochs inside a file (offset_flip, epoch_flip), different bytes at
one offset of one epoch (log_conflict), diverging logs (controller_divergence) and rival snapshots (two_snapshots).

Sources: KIP-595 (Fetch, Vote, LeaderChangeMessage), KIP-630 (a snapshot holds only committed records).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import Array, Row
from replay.arrow.runs import groups, last_true, run_starts
from replay.arrow.schemas import PROVENANCE_NAMES
from replay.cluster.log import LogBatches
from replay.cluster.state import LogShape
from replay.invariants.catalogue import INVARIANT_VIOLATIONS, INVARIANTS, MOST_EVIDENCE

_LEADER_CHANGE = "LEADER_CHANGE"
_SEGMENT = re.compile(r"[0-9]{20}\.log")


def quorum_violations(shape: LogShape, control: Sequence[Row]) -> pa.Table:
    """INVARIANT_VIOLATIONS of the log, by invariant.

    control: the captured control records, including those of replaced branches: rows with offset, epoch, type, data.
    shape.batches also need is_control, base_timestamp_ms and provenance.
    """
    leaders = _leader_changes(shape.batches, control)
    rows = [*_falling(shape.batches), *_unopened(shape, control), *_rivals(leaders, shape)]
    rows += [*_strangers(leaders, shape), *_lost(shape, control)]
    return pa.Table.from_pylist(rows, schema=INVARIANT_VIOLATIONS)


def _place(batch: Row) -> tuple[int, int]:
    return batch["epoch"], batch["base_offset"]


def _violation(name: str, batches: Sequence[Row], end: int | None, brokers: Iterable[int], detail: str) -> Row:
    """A violation that begins at the first of `batches`; all of them are evidence."""
    first = batches[0]
    return {
        "invariant": name,
        "severity": INVARIANTS[name].severity,
        "start_offset": first["base_offset"],
        "start_timestamp_ms": first["base_timestamp_ms"],
        "end_offset": end,
        "rows": len(batches),
        "brokers": sorted(set(brokers)),
        "detail": detail,
        "evidence_offsets": sorted({b["base_offset"] for b in batches})[:MOST_EVIDENCE],
        **{name: first[name] for name in PROVENANCE_NAMES},
    }


def _leader_changes(batches: LogBatches, control: Iterable[Row]) -> list[tuple[Row, Row]]:
    """(batch, data) of every LeaderChangeMessage, by epoch and offset."""
    named = {(r["epoch"], r["offset"]): r["data"] for r in control if r["type"] == _LEADER_CHANGE}
    offsets = np.array([offset for _, offset in named], dtype=np.int64)
    near = np.flatnonzero(np.isin(batches.column("base_offset"), offsets)).tolist()
    by_place = {_place(batch): batch for batch in (batches[row] for row in near)}
    return [(by_place[place], named[place]) for place in sorted(named) if place in by_place]


def _text(batch: Row) -> str:
    return f"{batch['base_offset']} to {batch['last_offset']} of epoch {batch['epoch']}"


def _highest_so_far(values: Array) -> Array:
    """For each value the place of the highest one up to it: of equal ones the last."""
    before = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(values)[:-1])[: len(values)]
    return last_true(values >= before)


def _falling(batches: LogBatches) -> Iterator[Row]:
    """Batches with a lower epoch than an earlier batch in the same folder of the same capture.

    Such a folder is the log of one node at one time, if it was copied at once.
    """
    base, epoch = batches.column("base_offset"), batches.column("epoch")
    for _, log in sorted(_folders(batches).items()):
        log = log[np.lexsort((epoch[log], base[log]))]
        top = _highest_so_far(epoch[log])
        # True for a batch of a lower epoch after the last one of the highest.
        low = np.append(False, epoch[log] < epoch[log][top])
        for begin, end in np.flatnonzero(np.diff(np.append(low, False))).reshape(-1, 2).tolist():
            run = [batches[row] for row in log[begin:end].tolist()]
            highest = batches[int(log[top[begin]])]
            detail = f"offsets {_text(run[0])} after {_text(highest)}"
            nodes = set.intersection(*(set(b["nodes"]) for b in [*run, highest]))
            yield _violation("log_epochs_never_decrease", run, run[-1]["last_offset"] + 1, nodes, detail)


def _folders(batches: LogBatches) -> dict[tuple[str, str], Array]:
    """The row numbers of the batches in segments, by capture and folder."""
    found: dict[tuple[str, str], list[Array]] = defaultdict(list)
    if not len(batches):
        return {}
    files = batches.table.select(["capture", "path"]).append_column("row", pa.array(np.arange(len(batches))))
    for file in files.group_by(["capture", "path"], use_threads=False).aggregate([("row", "list")]).to_batches():
        rows = file["row_list"]
        for place, (capture, path) in enumerate(zip(*(file[n].to_pylist() for n in ("capture", "path")), strict=True)):
            folder, _, name = path.rpartition("/")
            if _SEGMENT.fullmatch(name):
                found[capture, folder].append(rows[place].values.to_numpy())
    return {key: np.concatenate(parts) for key, parts in found.items()}


def _unopened(shape: LogShape, control: Iterable[Row]) -> Iterator[Row]:
    base, last, epoch = (shape.batches.column(n)[shape.live] for n in ("base_offset", "last_offset", "epoch"))
    types = {(r["epoch"], r["offset"]): r["type"] for r in control}
    follows = base == np.append(0, last[:-1] + 1)[: len(base)]
    for row in shape.live[follows & run_starts(epoch)].tolist():
        batch = shape.batches[row]
        # A control batch whose record could not be read may be a LeaderChangeMessage.
        begins = types.get(_place(batch), _LEADER_CHANGE) if batch["is_control"] else "a metadata record"
        if begins != _LEADER_CHANGE:
            detail = f"epoch {batch['epoch']} begins with {begins}"
            end = _next_epoch(shape, batch)
            yield _violation("epoch_begins_with_leader_change", [batch], end, batch["nodes"], detail)


def _next_epoch(shape: LogShape, batch: Row) -> int | None:
    """The offset at which the next epoch of the surviving log begins; None if there is none."""
    later = shape.live[shape.batches.column("epoch")[shape.live] > batch["epoch"]]
    return int(shape.batches.column("base_offset")[later[0]]) if len(later) else None


def _rivals(leaders: Sequence[tuple[Row, Row]], shape: LogShape) -> Iterator[Row]:
    for epoch, named in groups(leaders, lambda leader: leader[0]["epoch"]).items():
        ids = sorted({data["leaderId"] for _, data in named})
        if len(ids) > 1:
            batches = [batch for batch, _ in named]
            detail = f"epoch {epoch} has the leaders {', '.join(map(str, ids))}"
            yield _violation("one_leader_per_epoch", batches, _next_epoch(shape, batches[0]), ids, detail)


def _strangers(leaders: Sequence[tuple[Row, Row]], shape: LogShape) -> Iterator[Row]:
    for batch, data in leaders:
        voters = sorted(v["voterId"] for v in data.get("voters") or [])
        if voters and data["leaderId"] not in voters:
            end = _next_epoch(shape, batch)
            detail = f"leader {data['leaderId']}, voters {', '.join(map(str, voters))}"
            yield _violation("leader_is_voter", [batch], end, [data["leaderId"]], detail)


def _lost(shape: LogShape, control: Iterable[Row]) -> Iterator[Row]:
    """Entries that were committed and then replaced.

    Committed are entries below a snapshot's end, and entries that a majority of the voters of their epoch held: every
    later leader needs the vote of a node that holds them. Not if an epoch may be missing since they were replaced: a
    majority may have got them in that one only, and the next leader replaced them again (Raft, figure 8). Voters change
    within an epoch (KIP-853): it must be a majority of all sets that the epoch had.
    """
    voters: dict[int, list[set[int]]] = defaultdict(list)
    for record in control:
        if record["type"] in (_LEADER_CHANGE, "KRAFT_VOTERS"):
            voters[record["epoch"]].append({v["voterId"] for v in record["data"].get("voters") or []})
    epochs, first = np.unique(shape.batches.column("epoch")[shape.live], return_index=True)
    firsts = shape.live[first].tolist()
    begins = {epoch: shape.batches[row] for epoch, row in zip(epochs.tolist(), firsts, strict=True)}
    for end, epoch in sorted(shape.snapshots):
        by = min((b for e, b in begins.items() if e > epoch), key=lambda b: int(b["base_offset"]), default=None)
        if by is not None and by["base_offset"] < end:
            detail = f"the snapshot at offset {end} of epoch {epoch}; offsets from {by['base_offset']} on were replaced"
            detail += f" in epoch {by['epoch']}"
            yield _violation("committed_entries_survive", [by], end, by["nodes"], detail)
    for branch in shape.branches:
        replaced = None if branch.replaced_by is None else shape.batches[branch.replaced_by]["epoch"]
        if replaced is None or not begins.keys() >= set(range(replaced, max(begins))):
            continue
        batches = [(b, voters[b["epoch"]]) for b in (shape.batches[i] for i in branch.batches)]
        held = [b for b, sets in batches if sets and all(2 * len(v & set(b["nodes"])) > len(v) for v in sets)]
        if held:
            nodes = {node for batch in held for node in batch["nodes"]}
            detail = (
                f"offsets {held[0]['base_offset']} to {held[-1]['last_offset']} were held by a majority of the voters"
            )
            yield _violation("committed_entries_survive", held, held[-1]["last_offset"] + 1, nodes, detail)
