"""A life as a site would hand it over: history, sessions, and what is left of the evidence; and many of them in one
cluster, to be judged at once."""

import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeVar

import pyarrow as pa

from evidence.tables import LOG_END_OFFSETS
from replay.arrow.runs import groups
from replay.arrow.schemas import PARTITION_HISTORY
from replay.cluster.boots import LoggedProcess, boots_of
from replay.cluster.brokers import broker_timeline
from replay.cluster.configs import ConfigSteps, ConfigTimeline, ElectionConfigs
from replay.cluster.facts import Clock, ClusterFacts
from replay.cluster.features import ELR_VERSION, feature_levels
from replay.controller.partition_change_builder import RECOVERING
from tests.simulator import process_lines, session_lines
from tests.simulator.controller import State
from tests.simulator.evidence import NO_ROW
from tests.simulator.node_logs import NO_LINE, LogThinning, Reading, journals
from tests.simulator.node_logs import rows as lines_left
from tests.simulator.setup import Setup, Step
from tests.simulator.truth import Truth
from tests.simulator.world import World

Row = dict[str, Any]
Level = TypeVar("Level")
Place = tuple[str, int]
# Metadata offsets from first up to before last are missing; a snapshot tells the state at last.
Gap = tuple[int, int] | None

_NOTHING: Row = dict.fromkeys(PARTITION_HISTORY.names)


@dataclass(frozen=True)
class Thinning:
    """What is taken away. share: of files, rounds and lines, each; columns: names of what is never there; cut: the
    log's end is; gap: part of the log, in thousandths of it (start, length)."""

    share: float = 0.0
    lonely: bool = False
    columns: tuple[str, ...] = ()
    gap: tuple[int, int] | None = None
    seed: int = 0


@dataclass
class Life:
    """kept, kept_lines, kept_readings: what is left of the rows of evidence, of the brokers' lines and of the readings
    of boot ids, as made by an earlier run (None: what the thinning leaves). logs: None if no node's log was captured.
    """

    setup: Setup
    steps: Sequence[Step]
    thinning: Thinning = Thinning()
    fault: str = ""
    seed: int = 0
    kept: list[Row] | None = None
    logs: LogThinning | None = None
    kept_lines: list[Row] | None = None
    kept_readings: list[Reading] | None = None
    kept_processes: Mapping[tuple[int, int], LoggedProcess] | None = None

    @cached_property
    def world(self) -> World:
        result = World(self.setup, self.steps)
        result.events.clear()  # so that no circle of objects keeps it
        return result

    @property
    def truth(self) -> dict[int, Truth]:
        return self.world.truth

    @property
    def places(self) -> list[Place]:
        """(topic id, partition) of each topic that had the name."""
        return [(topic_id, self.setup.partition) for topic_id in self.world.topic_ids]

    # What is left of the log.

    @cached_property
    def end_offset(self) -> int:
        """Behind the last offset that was captured."""
        controller = self.world.controller
        if self.setup.cut_ms is None:
            return controller.next_offset
        cut_ms = self.setup.cut_ms
        late = [s.batch for s in controller.states if s.at_ms > cut_ms]
        late += [r["batch_base_offset"] for r in controller.records if r["timestamp_ms"] > cut_ms]
        return min(late, default=controller.next_offset)

    @property
    def log_end_ms(self) -> int:
        end_ms = self.world.ended_ms + self.setup.skew_ms(0)
        return end_ms if self.setup.cut_ms is None else min(self.setup.cut_ms, end_ms)

    @cached_property
    def gap(self) -> Gap:
        if self.setup.hidden_first_topic and self.world.deletions:
            return self.setup.base_offset - 1, self.world.deletions[0] + 1
        if self.thinning.gap is None:
            return None
        start, length = self.thinning.gap
        first, count = self.setup.base_offset, self.world.controller.next_offset - self.setup.base_offset
        begin, end = first + start * count // 1000, first + (start + length) * count // 1000
        # Logs begin and end with batches.
        bases = {s.offset: s.batch for s in self.world.controller.states}
        bases |= {r["offset"]: r["batch_base_offset"] for r in self.world.controller.records}
        inside = [b for o, b in bases.items() if b < end <= o]
        end = min(inside, default=end)
        if end >= self.end_offset:
            return None  # no record shows that anything is missing, and no snapshot follows
        inside = [b for o, b in bases.items() if b <= begin < o]
        return min(inside, default=begin), end

    def misses(self, offset: int) -> bool:
        return offset >= self.end_offset or (self.gap is not None and self.gap[0] <= offset < self.gap[1])

    @cached_property
    def history(self) -> list[Row]:
        """Rows of PARTITION_HISTORY, of every topic."""
        result = []
        for topic_id in self.world.topic_ids:
            states = [s for s in self.world.controller.states if s.topic_id == topic_id]
            rows = [history_row(s, self.setup) for s in states if not self.misses(s.offset)]
            before = [s for s in states if self.gap is not None and s.offset < self.gap[1]]
            if before and self.gap and self._at_end_of_gap is not None and not self.misses(self.gap[1]):
                last, known = before[-1], any(r["offset"] < before[-1].offset for r in rows)
                if not last.removed or (known and self.misses(last.offset)):
                    rows.append(_snapshot_row(last, self._at_end_of_gap, self.setup))
            rows.sort(key=lambda r: r["offset"])
            for row in rows:
                row["min_isr_source"] = None if row["removed"] else self.setup.min_isr_layer
            for row, following in pairwise(rows):
                row["end_offset"], row["end_timestamp_ms"] = following["offset"], following["timestamp_ms"]
            result += rows
        return result

    @cached_property
    def _at_end_of_gap(self) -> tuple[int, int, int] | None:
        """(offset, ms, min.insync.replicas) of the snapshot: those of the last record in it."""
        if self.gap is None:
            return None
        controller, end = self.world.controller, self.gap[1]
        times = [s.at_ms for s in controller.states if s.offset < end]
        times += [r["timestamp_ms"] for r in controller.records if r["offset"] < end]
        levels = [v for o, v in controller.min_isr_levels if o < end]
        return end - 1, max(times, default=0), levels[-1] if levels else self.setup.min_isr

    @cached_property
    def session_records(self) -> list[Row]:
        """Of the brokers' registrations, for replay.cluster.brokers.broker_timeline."""
        records = self.world.controller.records
        kept = [r for r in records if not self.misses(r["offset"])]
        if self.gap is not None:
            kept += self._snapshot_sessions(records, self.gap[1])
        return sorted(kept, key=lambda r: r["offset"])

    def _snapshot_sessions(self, records: list[Row], end: int) -> list[Row]:
        """A snapshot has one registration a broker, as it stood."""
        found: dict[int, Row] = {}
        at_ms = max((r["timestamp_ms"] for r in records if r["offset"] < end), default=0)
        for record in records:
            if record["offset"] >= end:
                break
            data = record["data"]
            if record["type"] == "REGISTER_BROKER_RECORD":
                found[data["brokerId"]] = dict(data)
            elif record["type"] == "UNREGISTER_BROKER_RECORD":
                found.pop(data["brokerId"], None)
            else:
                state = found[data["brokerId"]]
                state["fenced"] = data["fenced"] == 1 if data["fenced"] else state["fenced"]
                state["inControlledShutdown"] = bool(data["inControlledShutdown"]) or state["inControlledShutdown"]
        return [{**_record(end - 1, at_ms, "REGISTER_BROKER_RECORD", data), "place": 0} for data in found.values()]

    def elr_levels(self) -> list[tuple[int, bool]]:
        """Since which offset ELR was on or off, as the captured log has it."""
        return self._captured([(self.setup.base_offset, self.setup.elr), *self.world.controller.elr_levels])

    def min_isr_levels(self) -> list[tuple[int, int]]:
        """Since which offset min.insync.replicas had which value, as the captured log has it."""
        return self._captured([(self.setup.base_offset, self.setup.min_isr), *self.world.controller.min_isr_levels])

    def _captured(self, levels: list[tuple[int, Level]]) -> list[tuple[int, Level]]:
        """(offset, value) of the changes in the captured log; the snapshot after a gap has the last value before it."""
        known = [(offset, value) for offset, value in levels if not self.misses(offset)]
        if self.gap is not None:
            known += [(self.gap[1] - 1, value) for offset, value in levels if offset < self.gap[1]][-1:]
        return sorted(known, key=lambda level: level[0])

    # What is left of the evidence.

    @cached_property
    def evidence(self) -> list[Row]:
        """LOG_END_OFFSETS rows after thinning, with topic ids filled in; sources that only know a name have the id of
        the one topic of that name that existed, as far as the log shows."""
        if self.kept is not None:
            return self.kept
        return [row for row in map(self._named, self._thinned()) if row is not None]

    def _named(self, row: Row) -> Row | None:
        if row["topic_id"] is not None:
            return row
        created = self._created
        if row["captured_at_ms"] is not None:
            read_by = row["captured_at_ms"] + row["uncertainty_ms"]
            created = [(topic_id, at_ms) for topic_id, at_ms in created if at_ms <= read_by]
        return {**row, "topic_id": created[0][0]} if len(created) == 1 else None

    @cached_property
    def _created(self) -> list[tuple[str, int]]:
        first: dict[str, int] = {}
        for row in self.history:
            first.setdefault(row["topic_id"], row["timestamp_ms"])
        return list(first.items())

    def _thinned(self) -> list[Row]:
        thinning = self.thinning
        # What clients were told comes last: the fate of other rows stays what it was before there was any.
        rows = sorted(self.world.rows, key=lambda row: row["broker_id"] is None)
        if thinning.columns:
            rows = [{**r, **{c: None for c in thinning.columns if c != "broker_epoch"}} for r in rows]
        if not thinning.share and not thinning.lonely:
            return rows
        rng = random.Random(thinning.seed)
        lonely = rng.choice(self.setup.brokers) if thinning.lonely else None
        fate: dict[str, bool] = {}
        kept = []
        for row in rows:
            number, path = row["path"].partition("/")[0], row["path"]
            for name in (number, path):
                if name not in fate:
                    fate[name] = rng.random() >= thinning.share
            gone = not (fate[number] and fate[path]) or rng.random() < thinning.share
            if not gone and (row["broker_id"] != lonely or rng.random() < 0.4):
                kept.append(row)
        return kept

    @cached_property
    def lines(self) -> list[Row]:
        """BROKER_LOG_EVENTS rows that are left."""
        if self.kept_lines is not None or self.logs is None:
            return self.kept_lines or []
        world = self.world
        of_partition = lines_left(world.logged, world.crashes, self.setup, self.logs)
        of_sessions = session_lines.rows(world.of_sessions, len(world.logged), self.setup, self.logs)
        return _timed(of_partition + of_sessions, self.history, self.setup.clock_error_ms)

    @property
    def readings(self) -> list[Reading]:
        """Readings of boot ids that are left."""
        if self.kept_readings is not None or self.logs is None:
            return self.kept_readings or []
        rng = random.Random(self.logs.seed + 1)
        readings = [*self.world.readings, *journals(self.world.crashes, self.setup)]
        return [r for r in readings if rng.random() >= self.logs.share]

    @property
    def processes(self) -> Mapping[tuple[int, int], LoggedProcess]:
        """What is left of what brokers' logs show of their processes."""
        if self.kept_processes is not None:
            return self.kept_processes
        world = self.world
        lines = [*world.of_processes, *world.logged]  # a start's own line is its first
        return process_lines.processes(lines, world.crashes, self.setup, self.logs)

    def as_json(self) -> Row:
        """All that is needed to live it again."""
        return {
            "fault": self.fault,
            "seed": self.seed,
            "setup": asdict(self.setup),
            "steps": [list(s) for s in self.steps],
            "gap": list(self.thinning.gap) if self.thinning.gap else None,
            "rows": [{k: v for k, v in r.items() if v is not None} for r in self.evidence],
            "lines": [{k: v for k, v in r.items() if v is not None} for r in self.lines],
            "readings": [list(r) for r in self.readings],
            "processes": [[*key, p.last_ms, p.next_ms] for key, p in self.processes.items()],
        }


def from_json(data: Row) -> Life:
    known = {k: tuple(map(_tuples, v)) if isinstance(v, list) else v for k, v in data["setup"].items()}
    thinning = Thinning(gap=tuple(data["gap"]) if data["gap"] else None)  # type: ignore[arg-type]
    rows = [{**NO_ROW, **r} for r in data["rows"]]
    lines = [{**NO_LINE, **r} for r in data.get("lines", [])]
    readings = [Reading(*r) for r in data.get("readings", [])]
    logged = {(b, e): LoggedProcess(last, _tuples(after)) for b, e, last, after in data.get("processes", [])}
    steps = [Step(*s) for s in data["steps"]]
    return Life(Setup(**known), steps, thinning, data["fault"], data["seed"], rows, None, lines, readings, logged)


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def together(lives: Sequence[Life]) -> tuple[pa.Table, pa.Table, ClusterFacts]:
    """(history, offsets, cluster) of lives that one cluster can have (see `alike`)."""
    offsets = table_of([r for each in lives for r in each.evidence], LOG_END_OFFSETS)
    records = [r for each in lives for r in [*each.session_records, *(_gone(each) if len(lives) > 1 else [])]]
    levels = sorted(level for each in lives for level in each.elr_levels())

    end_ms = max(each.log_end_ms for each in lives)
    clock = Clock(lives[0].setup.clock_error_ms)
    setup = lives[0].setup
    cluster = ClusterFacts(
        "simulated",
        broker_timeline(records),
        feature_levels([(offset, ELR_VERSION, int(on)) for offset, on in levels]),
        clock,
        end_ms,
        session_timeout_ms=setup.session_timeout_ms,
        session_timeout_source="static",
        fail_overs=setup.fail_overs,
        checkpoint_interval_ms=setup.checkpoint_interval_ms,
        configs=_configs(lives),
        boots=boots_of(reading for each in lives for reading in _boot_rows(each)),
        processes={key: logged for each in lives for key, logged in each.processes.items()},
        compacted_topics=frozenset(each.setup.topic for each in lives if each.setup.compacted),
        request_threads={b: each.setup.request_threads for each in lives for b in each.setup.brokers},
        metadata_apart=frozenset(b for each in lives if each.setup.metadata_apart for b in each.setup.brokers),
        knows_all_topics=all(each.gap is None for each in lives),
    )
    return history_of(lives), offsets, cluster


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows that have every column: Table.from_pylist, which asks each of them, takes three times as long."""
    if not rows:
        return schema.empty_table()
    columns = zip(zip(*map(itemgetter(*schema.names), rows), strict=True), schema.types, strict=True)
    none = len(rows)
    arrays = [
        pa.nulls(none, kind) if column.count(None) == none else pa.array(column, kind) for column, kind in columns
    ]
    return pa.table(arrays, schema=schema)


def history_of(lives: Iterable[Life]) -> pa.Table:
    """PARTITION_HISTORY of the lives, sorted by (topic_id, partition, offset)."""
    history = table_of([r for each in lives for r in each.history], PARTITION_HISTORY)
    return history.sort_by([(name, "ascending") for name in ("topic_id", "partition", "offset")]).combine_chunks()


def _boot_rows(each: Life) -> list[Row]:
    return [{"node_id": r.broker, **r._asdict(), "local_disks": True} for r in each.readings]


def _timed(lines: list[Row], history: Iterable[Row], error_ms: int) -> list[Row]:
    """The lines, without times of brokers whose clocks they show to have been set back, from when that may have been:
    one is older than the record of the state that it is about, and there is a newest one before it. The product finds
    such clocks by its anchors (jobs/detect/anchors.sql)."""
    written_ms = {row["partition_epoch"]: row["timestamp_ms"] - error_ms for row in history if not row["removed"]}
    newest, since = dict[int, tuple[int, int]](), dict[int, int]()
    for row in sorted(lines, key=itemgetter("position")):
        node, at_ms = row["node_id"], row["logged_at_utc_ms"]
        if at_ms is not None and node not in since:
            if at_ms < written_ms.get(row["partition_epoch"], 0):
                since[node] = newest.get(node, (0, -1))[1] + 1
            newest[node] = max(newest.get(node, (0, -1)), (at_ms, row["position"]))
    unknown = {"logged_at_utc_ms": None}
    return [{**row, **unknown} if row["position"] >= since.get(row["node_id"], sys.maxsize) else row for row in lines]


def _gone(each: Life) -> list[Row]:
    """Where the log goes on with other lives, nothing is known of this one's brokers after its end."""
    records = each.session_records
    epochs = {r["data"]["brokerId"]: r["data"]["brokerEpoch"] for r in records if r["type"] == "REGISTER_BROKER_RECORD"}
    gone, last = "UNREGISTER_BROKER_RECORD", max((r["offset"] for r in records), default=0) + 1
    return [_record(last, each.log_end_ms, gone, {"brokerId": b, "brokerEpoch": e}) for b, e in epochs.items()]


def _record(offset: int, at_ms: int, kind: str, data: Row) -> Row:
    return {"offset": offset, "batch_base_offset": offset, "timestamp_ms": at_ms, "type": kind, "data": data}


def _configs(lives: Sequence[Life]) -> ElectionConfigs:
    """min.insync.replicas of every topic over offsets, as far as the captured log has it."""
    changes = [(i, *level) for each in lives for i in each.world.topic_ids for level in each.min_isr_levels()]
    levels = groups(sorted(changes), itemgetter(0))
    topics = {i: ([o for _, o, _ in own], [str(v) for *_, v in own]) for i, own in levels.items()}
    default = ConfigSteps([-1], [("1", "default")])
    return ElectionConfigs({i: i for i in levels}, ConfigTimeline(dict(topics), default), ConfigTimeline({}, default))


def alike(each: Life) -> tuple[Any, ...]:
    """Lives with the same answer and topics of other names can be in one cluster."""
    setup = each.setup
    cut = setup.cut_ms if setup.cut_ms is None or each.log_end_ms == setup.cut_ms else None
    return setup.clock_error_ms, setup.session_timeout_ms, setup.checkpoint_interval_ms, setup.fail_overs, cut


def history_row(state: State, setup: Setup) -> Row:
    place = {
        **_NOTHING,
        "offset": state.offset,
        "timestamp_ms": state.at_ms,
        "controller_epoch": 1,
        "topic_id": state.topic_id,
        "topic": setup.topic,
        "partition": setup.partition,
        "removed": state.removed,
        "origin": "log",
        "batch_base_offset": state.batch,
        "capture": "c",
        "path": "log",
        "sha256": "00",
        "position": state.offset,
    }
    if state.removed:
        return place
    same = ("replicas", "isr", "elr", "directories", "leader", "leader_epoch", "partition_epoch", "min_isr")
    return place | {
        **{name: getattr(state, name) for name in same},
        "last_known_elr": state.lke,
        "removing_replicas": state.removing,
        "adding_replicas": state.adding,
        "leader_recovery_state": "RECOVERING" if state.recovery == RECOVERING else "RECOVERED",
        "unclean_leader_election_enable": state.unclean,
        "unclean_leader_election_enable_source": "topic",
    }


def _snapshot_row(state: State, place: tuple[int, int, int], setup: Setup) -> Row:
    offset, at_ms, min_isr = place
    own = {"offset": offset, "batch_base_offset": offset, "timestamp_ms": at_ms, "origin": "checkpoint"}
    if not state.removed:
        own["min_isr"] = min(min_isr, len(state.replicas))
    return {**history_row(state, setup), **own}
