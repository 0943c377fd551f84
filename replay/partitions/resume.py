"""Resume from an earlier replay: what must be unchanged, and the states to start from.

The law (KIP-630): replay(state at N + what follows N) equals replay(everything). Here the state at N is the history's.
"""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow import schemas
from replay.arrow.schemas import CHANGES
from replay.cluster.state import ClusterState


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a replay ended. offset: its states are known up to here (exclusive). digest: of their complete input."""

    offset: int
    digest: str


def resume_point(state: ClusterState) -> ResumePoint | None:
    """Where the next replay may resume; None if it cannot: nothing was replayed, or the last state is unknown.

    A transaction that is open at the log's end is read again.
    """
    runs = state.shape.runs
    if not runs or runs[-1].end != state.shape.log_end:
        return None
    opened = [p.offset for p in state.problems if p.kind == "open_transaction" and p.offset >= runs[-1].start]
    offset = min([state.shape.log_end, *opened])
    return ResumePoint(offset, _digest(state, offset))


def can_resume(state: ClusterState, point: ResumePoint) -> bool:
    """Whether the log continues from the point without a hole, and everything before it is unchanged.

    Unchanged means the same batches, runs, transactions and files.
    """
    runs = state.shape.runs
    inside = bool(runs) and runs[-1].start < point.offset <= state.shape.log_end
    return inside and _digest(state, point.offset) == point.digest


def _digest(state: ClusterState, offset: int) -> str:
    columns = (state.shape.batches.column(name)[state.shape.live] for name in ("base_offset", "epoch", "crc"))
    kept = np.stack(list(columns), axis=1)
    kept = kept[kept[:, 0] < offset]
    batches = sha256(kept[np.lexsort(kept.T[::-1])].tobytes()).hexdigest()
    runs = [{**asdict(r), "end": min(r.end, offset)} for r in state.shape.runs if r.start < offset]
    dropped = [(start, min(end, offset)) for start, end in state.transactions.dropped if start < offset]
    bases = sorted((*place, sha256_of) for place, sha256_of in state.bases.items() if place[0] < offset)
    files = {str(node): dict(sorted(config.items())) for node, config in sorted(state.static.items())}
    return sha256(json.dumps([batches, runs, bases, dropped, files]).encode()).hexdigest()


def as_base(states: pa.Table) -> pa.Table:
    """Convert schemas.PARTITION_HISTORY rows that are still valid to full CHANGES rows, from which a replay starts."""
    recovering = pc.equal(states["leader_recovery_state"], "RECOVERING").cast(pa.int8())
    columns = {"full": pa.array([True] * len(states)), "leader_recovery_state": recovering}
    columns |= {name: states[name] for name in CHANGES.names if name not in columns}
    return pa.table({f.name: columns[f.name] for f in CHANGES}, schema=CHANGES)


def news(history: pa.Table, offset: int) -> pa.Table:
    """The new rows of a history that was reduced from base states and the log from `offset` on.

    Base states that have ended since are included.
    """
    new = pc.or_(pc.greater_equal(history["offset"], offset), pc.is_valid(history["end_offset"]))
    return history.filter(new).select(schemas.PARTITION_HISTORY.names)
