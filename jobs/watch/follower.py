"""Each batch of the stream -> new states and alarms, and what is kept for the next one.

Two Delta tables are in the folder of a watch: partition_states and alarms. Each batch of the stream is committed once:
a commit names the stream and the batch (Delta's transaction identifiers), and one that is there is not repeated.
"""

import json
import os
import pickle
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from evidence.errors import KraftForensicsError
from jobs.incident.plan import WANTED, states_that_wait
from jobs.lake.lake import Row
from jobs.lake.tables import schema_of
from jobs.replay.buckets import changes_from
from replay.arrow.schemas import CHANGES, PARTITION_HISTORY
from replay.cluster.state import CLUSTER_TYPES
from replay.live import ALARMS as ALARM_COLUMNS
from replay.live import PLAN_CHANGED, Live, Piece, advance, alarm
from replay.plan.inputs import PlanInput
from replay.plan.start_order import start_order

STATES, ALARMS = "partition_states", "alarms"
COMMITTED, UNCOMMITTED, UNKNOWN = "committed", "uncommitted", "unknown"
# A file of this size is not written again, so that tidying takes as long after days as after an hour.
_FULL_BYTES = 8 << 20
STANDS, WITHDRAWN = "stands", "withdrawn"
_NOT_KEPT = ("end_offset", "end_timestamp_ms", "capture", "path", "sha256", "position")
SCHEMAS = {
    STATES: pa.schema([*(f for f in PARTITION_HISTORY if f.name not in _NOT_KEPT), *schema_of("watched_states")]),
    ALARMS: pa.schema([*ALARM_COLUMNS, *schema_of("watched_alarms")]),
}


class WatchTables:
    """folder: of the watch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: dict[str, DeltaTable] = {}

    def append(self, name: str, rows: pa.Table, batch: int) -> None:
        """Commit a batch's rows, unless that was done."""
        app, schema, table = f"watch/{name}", SCHEMAS[name], self._table(name)
        last = None if table is None else table.transaction_version(app)
        if last is not None and last >= batch:
            return
        properties = CommitProperties(app_transactions=[Transaction(app, batch)])
        plain = pa.schema([pa.field(f.name, f.type) for f in schema])
        if len(rows) or table is None:
            write_deltalake(
                table or self.folder / name,
                rows.select(plain.names).cast(plain),
                mode="append",
                commit_properties=properties,
            )

    def tidy(self) -> None:
        """Make one file of many, and delete those that nobody needs any more: of more than an hour ago."""
        for name in SCHEMAS:
            if (table := self._table(name)) is not None:
                table.optimize.compact(target_size=_FULL_BYTES)
                table.create_checkpoint()
                table.vacuum(retention_hours=1, dry_run=False, enforce_retention_duration=False)
                table.cleanup_metadata()

    def delete(self, name: str, offset: int, epoch: int | None = None) -> None:
        """Delete the rows from an offset on; epoch: only what an epoch before it wrote. Once or several times is the
        same, and so it is with `settle`."""
        if (table := self._table(name)) is not None:
            table.delete(f"offset >= {offset}" + ("" if epoch is None else f" AND controller_epoch < {epoch}"))

    def settle(self, committed: int) -> None:
        """Mark what is committed by now. committed: offset up to which (exclusive) the log is."""
        for name in SCHEMAS:
            if (table := self._table(name)) is not None:
                where = f"commit_state = '{UNCOMMITTED}' AND offset < {committed}"
                table.update(predicate=where, new_values={"commit_state": COMMITTED})

    def rows(self, name: str, where: pc.Expression | None = None) -> list[dict[str, Any]]:
        """The rows that match."""
        table = self._table(name)
        found = table.to_pyarrow_dataset().to_table(filter=where) if table is not None else SCHEMAS[name].empty_table()
        return found.to_pylist()

    def _table(self, name: str) -> DeltaTable | None:
        """A table; None before its first commit. It is opened once, which reads all commits: nobody else writes it."""
        if name not in self._opened:
            try:
                self._opened[name] = DeltaTable(self.folder / name)
            except TableNotFoundError:
                return None
        return self._opened[name]


Tell = Callable[[Row], None]
Order = tuple[int, ...]
_FORMAT = 1
_TIDY_EVERY = 100  # batches
_BEGIN, _ENDS = "BEGIN_TRANSACTION_RECORD", ("END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD")


class WatchError(KraftForensicsError):
    """What is followed cannot be followed on."""


class DamagedLog(WatchError):
    """A record that cannot be read."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a restart needs. batch: of the stream, the last one that was processed; generation: how often the stream was
    begun anew. waiting: rows of an open transaction. ends: folder -> (epoch, offset) of its log's last record. voters:
    how many there are; 0: not known. plan: the order of starts that was told last; None: it was withdrawn. unsettled:
    some rows are uncommitted so far."""

    live: Live
    generation: int = 0
    batch: int = -1
    waiting: pa.Table | None = None
    ends: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    voters: int = 0
    plan: Order | None = ()
    unsettled: bool = False


class Follower:
    """folder: of the watch. reread: for a log that was cut off, the state with which it begins, and all its rows before
    an offset. tell: is called for each alarm, before its row is written; only if the process dies within that, it is
    called again."""

    def __init__(self, folder: Path, live: Live, reread: Callable[[int], tuple[Live, pa.Table]], tell: Tell) -> None:
        self.folder, self.reread, self.tell = folder, reread, tell
        self._file, self._told = folder / "kept.pickle", folder / "told.jsonl"
        self.kept = self._read() or Kept(live)
        self._done: Mapping[str, tuple[int, int]] = {}
        self.observers: Collection[str] = ()
        self.tables = WatchTables(folder)

    def _read(self) -> Kept | None:
        try:
            form, kept = pickle.loads(self._file.read_bytes())
        except FileNotFoundError:
            return None
        if form != _FORMAT:
            raise WatchError(f"{self._file}: of another release. Give --into another folder, or remove this one.")
        return kept if isinstance(kept, Kept) else None

    def _write(self, kept: Kept) -> None:
        new = self._file.with_suffix(".new")
        with new.open("wb") as file:
            pickle.dump((_FORMAT, kept), file, protocol=pickle.HIGHEST_PROTOCOL)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._file)
        self._told.unlink(missing_ok=True)
        self.kept = kept

    @property
    def checkpoint(self) -> Path:
        return self.folder / f"checkpoint-{self.kept.generation}"

    def read_up_to(self, folder: Path) -> int:
        """The offset up to which (exclusive) the log in a folder was read, in batches that Spark reads no more."""
        return self._done.get(str(folder), (-1, -1))[1] + 1

    def configure(self, static: Mapping[int, Mapping[str, str]], observers: Collection[str] = ()) -> None:
        """Use nodes' server.properties as they are now. observers: folders of logs that no vote counts."""
        live, self.observers = self.kept.live, observers
        self.kept = replace(self.kept, live=replace(live, static={**(live.static or {}), **static}))

    def begin_anew(self) -> None:
        """A file was cut off: the stream reads all files again. What was read before is known by its offset; a batch
        that was written, and not noted, comes in other batches."""
        for name in (STATES, ALARMS):
            self.tables.delete(name, self.kept.live.position)
        self._done = {}
        self._write(replace(self.kept, generation=self.kept.generation + 1, batch=-1, ends={}))

    def process(self, rows: pa.Table, batch: int) -> None:
        """One batch of the stream: rows of `kraft`, of every folder that is followed."""
        kept = self.kept
        if batch <= kept.batch:
            return  # the process died after this batch and before Spark had noted that
        self._done = kept.ends
        damage = rows["_corrupt_record"].drop_null()
        if len(damage):
            raise DamagedLog(f"{damage[0]}. A log that cannot be read cannot be followed.")
        rows = rows.filter(rows["snapshot_end_offset"].is_null())
        ends = {**kept.ends, **_ends(rows)}
        rows = rows if kept.waiting is None else pa.concat_tables([kept.waiting, rows])
        rows, cut = _new_rows(rows, kept.live)
        number = (kept.generation << 32) + batch
        live, withdrawn = kept.live, list[Row]()
        if cut is not None:
            live, withdrawn, opened = self._back_to(*cut)
            rows = rows if opened is None else pa.concat_tables([opened.cast(rows.schema), rows])
        voters = _voters(rows) or kept.voters
        live, piece, waiting = step(live, rows)
        committed = _committed(live, {f: end for f, end in ends.items() if f not in self.observers}, voters)
        is_withdrawn = any(alarm["kind"] == PLAN_CHANGED for alarm in withdrawn)
        plan, alarms = self._plan(live, piece, None if is_withdrawn else kept.plan)
        now_ms = time.time_ns() // 1_000_000
        written = [
            {**a, "commit_state": _commit_state(a["offset"], committed), "status": STANDS, "seen_ms": now_ms}
            for a in [*(piece.alarms if piece else ()), *alarms]
        ]
        written += [{**a, "status": WITHDRAWN, "seen_ms": now_ms} for a in withdrawn]
        if piece is not None:
            marks = pa.array([_commit_state(o, committed) for o in piece.states["offset"].to_pylist()], pa.string())
            self.tables.append(STATES, piece.states.append_column("commit_state", marks), number)
        if written:
            self._tell(written)
            self.tables.append(ALARMS, pa.Table.from_pylist(written, schema=SCHEMAS[ALARMS]), number)
        if kept.unsettled and committed is not None:
            self.tables.settle(committed)
        if batch % _TIDY_EVERY == _TIDY_EVERY - 1:
            self.tables.tidy()
        unsettled = committed is not None and committed < live.position
        self._write(Kept(live, kept.generation, batch, waiting, ends, voters, plan, unsettled))

    def _back_to(self, offset: int, epoch: int) -> tuple[Live, list[Row], pa.Table | None]:
        """(the state before an offset, the alarms from there on, rows of a transaction that is open there): a later
        epoch replaced what was read, which was never committed. Source: KIP-595, truncation of a follower's log."""
        self.tables.delete(STATES, offset, epoch)
        of_alarms = self.tables.rows(ALARMS, pc.field("offset") >= offset)
        gone = {a["alarm_id"] for a in of_alarms if a["status"] == WITHDRAWN}
        stood = [a for a in of_alarms if a["alarm_id"] not in gone and a["controller_epoch"] < epoch]
        begun, rows = self.reread(offset)
        if begun.position > offset:
            raise WatchError(f"the log was cut off at offset {offset}, before the oldest one that is left of it")
        rows = rows.filter(pc.greater_equal(rows["offset"], begun.position))
        _check_whole(begun.position, rows)
        live, _, opened = step(begun, rows)
        return live, stood, opened

    def _plan(self, live: Live, piece: Piece | None, known: Order | None) -> tuple[Order | None, list[Row]]:
        """(brokers in the order in which to start them, an alarm if that is not the known one)."""
        if piece is None:
            return known, []
        waiting, _, _ = states_that_wait([live.base.filter(WANTED)])
        given = PlanInput(waiting, brokers={s.broker_id: asdict(s) for s in piece.facts.brokers.latest()})
        plan = start_order(waiting, given.down - given.candidates)
        if plan == known:
            return plan, []
        count = sum(each.count for each in waiting)
        lack = "1 partition has" if count == 1 else f"{count} partitions have"
        start = f"start brokers in the order {', '.join(map(str, plan))}" if plan else "no start of a broker helps"
        text = f"{start}: {lack} no leader" if waiting else "every partition has a leader"
        last = live.position - 1
        at = {"offset": last, "controller_epoch": live.epoch_at(last), "timestamp_ms": piece.end_ms}
        return plan, [alarm(PLAN_CHANGED, at, text)]

    def _tell(self, alarms: Sequence[Row]) -> None:
        """Tell of a batch's alarms, except those that were told before the process died in this batch."""
        lines = self._told.read_text().splitlines() if self._told.exists() else []
        with self._told.open("a") as file:
            for each in alarms:
                if (line := json.dumps([each["alarm_id"], each["status"]])) in lines:
                    continue
                self.tell({"cluster_id": self.kept.live.cluster_id, **each})
                file.write(f"{line}\n")
                file.flush()
                os.fsync(file.fileno())


def step(live: Live, rows: pa.Table, origin: str = "log") -> tuple[Live, Piece | None, pa.Table | None]:
    """(the state after the rows, what they made, rows of an open transaction). rows: new ones, in order."""
    waiting = None
    kinds = rows["type"].to_pylist()
    opened = max((n for n, kind in enumerate(kinds) if kind == _BEGIN), default=-1)
    if opened >= 0 and not set(kinds[opened:]) & set(_ENDS):
        rows, waiting = rows.slice(0, opened), rows.slice(opened)
    if not len(rows):
        return live, None, waiting
    for name in ("capture", "sha256"):  # a stream's rows are of no capture
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.array([""] * len(rows), pa.string()))
    offsets, epochs = (rows[name].to_numpy() for name in ("offset", "epoch"))
    known = live.epochs[-1][0] if live.epochs else -1
    first = np.unique(epochs, return_index=True)[1]
    begun = [
        (int(epochs[n]), int(offsets[n]), rows["timestamp_ms"][int(n)].as_py()) for n in first if epochs[n] > known
    ]
    of_cluster = rows.filter(pc.is_in(rows["type"], pa.array(sorted(CLUSTER_TYPES))))
    records = [{**row, "data": json.loads(row["payload"])} for row in of_cluster.to_pylist()]
    changes = changes_from(rows.filter(rows["partition_change"].is_valid()), origin).cast(CHANGES)
    live, piece = advance(live, changes, records, begun, int(offsets[-1]) + 1, rows["timestamp_ms"][-1].as_py())
    return live, piece, waiting


def _new_rows(rows: pa.Table, live: Live) -> tuple[pa.Table, tuple[int, int] | None]:
    """(the rows from live.position on, as `surviving_rows`; where a later epoch replaced what was read, if it did:
    (offset, epoch))."""
    rows = surviving_rows(rows)
    if not len(rows):
        return rows, None
    offset, epoch = (rows[name].to_numpy() for name in ("offset", "epoch"))
    starts = np.array([e[1] for e in live.epochs], dtype=np.int64)
    numbers = np.array([-1, *(e[0] for e in live.epochs)])
    read = numbers[np.searchsorted(starts, offset, side="right")]
    old = offset < live.position
    replaced = np.flatnonzero(old & (read >= 0) & (epoch > read))
    if len(replaced):
        at = int(replaced[0])
        return rows.slice(at), (int(offset[at]), int(epoch[at]))
    found = rows.filter(pa.array(~old & (epoch >= numbers[-1])))
    _check_whole(live.position, found)
    return found, None


def _check_whole(position: int, rows: pa.Table) -> None:
    """Errors: WatchError if rows that go on from an offset lack one; what was never read may begin anywhere."""
    offsets = np.append(position, rows["offset"].to_numpy() + 1)
    gaps = np.flatnonzero(np.diff(offsets) > 1)
    gaps = gaps if position else gaps[gaps > 0]
    if len(gaps):
        raise WatchError(
            f"the log goes on at offset {offsets[gaps[0] + 1] - 1}, and was read up to {offsets[gaps[0]]}: the "
            "segments in between were deleted meanwhile. Give --into another folder to begin anew."
        )


def surviving_rows(rows: pa.Table) -> pa.Table:
    """Rows of several logs in order: each offset once, without branches that a later epoch replaced."""
    if not len(rows):
        return rows
    rows = rows.take(pc.sort_indices(rows, [("offset", "ascending"), ("epoch", "descending")]))
    offset, epoch = (rows[name].to_numpy() for name in ("offset", "epoch"))
    first = np.append(True, offset[1:] != offset[:-1])
    return rows.filter(pa.array(first & (epoch >= np.maximum.accumulate(epoch))))


def folders_of(rows: pa.Table) -> set[str]:
    """The folders of the logs that rows are of."""
    return {str(Path(path).parent) for path in pc.unique(rows["path"]).to_pylist()}


def _ends(rows: pa.Table) -> dict[str, tuple[int, int]]:
    """Folder -> (epoch, offset) of the last record of the rows that are its."""
    found: dict[str, tuple[int, int]] = {}
    if len(rows):
        last = rows.group_by("path").aggregate([("offset", "max"), ("epoch", "max")])
        for row in last.to_pylist():
            folder = str(Path(row["path"]).parent)
            found[folder] = max(found.get(folder, (-1, -1)), (row["epoch_max"], row["offset_max"]))
    return found


def _voters(rows: pa.Table) -> int:
    """How many voters the newest record names; 0 if none does."""
    kinds = pc.is_in(rows["type"], pa.array(["LEADER_CHANGE", "KRAFT_VOTERS"]))
    named = [json.loads(text).get("voters") or [] for text in rows.filter(kinds)["payload"].to_pylist()]
    return next((len(voters) for voters in reversed(named) if voters), 0)


def _committed(live: Live, ends: Mapping[str, tuple[int, int]], voters: int) -> int | None:
    """The offset up to which (exclusive) a majority of the voters' logs that are followed has the log; None if fewer
    are followed. Sources: KIP-595; a record commits those before it only if it is of the newest epoch."""
    majority = voters // 2 + 1
    if not voters or len(ends) < majority:
        return None
    same = sorted((offset + 1 for epoch, offset in ends.values() if live.epoch_at(offset) == epoch), reverse=True)
    if len(same) < majority:
        return None
    point = same[majority - 1]
    return point if live.epochs and live.epoch_at(point - 1) == live.epochs[-1][0] else None


def _commit_state(offset: int, committed: int | None) -> str:
    return UNKNOWN if committed is None else COMMITTED if offset < committed else UNCOMMITTED
