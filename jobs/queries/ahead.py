"""`ahead`: what steps that are not taken yet would do, from a lake's newest state (replay/whatif/ahead.py)."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow.compute as pc

from evidence.errors import KraftForensicsError, UsageError
from evidence.kinds import CLEAN_SHUTDOWN
from evidence.tables import LOG_END_OFFSETS, NODE_CLOCKS
from jobs.config.settings import Settings
from jobs.console.log import show_message
from jobs.console.options import DocumentFormat
from jobs.console.output import plain, print_table, printable, utc
from jobs.detect.inputs import judging_inputs
from jobs.detect.topic_ids import LIFETIME_COLUMNS, lifetimes_of, with_topic_ids
from jobs.lake.lake import Lake, Row
from jobs.report.rendering import prose
from replay.arrow import schemas
from replay.cluster.configs import MIN_ISR, UNCLEAN_LEADER_ELECTION, is_usable
from replay.cluster.facts import ClusterFacts
from replay.controller.transitions import Bucket
from replay.offsets.partition_rows import evidence_of
from replay.plan.step import joined
from replay.whatif import ahead as model

_UNKNOWN: dict[str, str] = tomllib.loads(files(__package__).joinpath("ahead.toml").read_text("utf-8"))
_STATE = pc.field("end_offset").is_null() & ~pc.field("removed")


@dataclass
class AheadAnswer:
    """rows: of replay.whatif.ahead.rows_of. offset, timestamp_ms: of the metadata log's newest record, after which
    nothing is known. order: of a rolling restart, None if it was not asked for; stuck: broker -> what its stop would
    do. unknown: code -> what the evidence does not say. notes: about steps that change nothing."""

    cluster_id: str
    offset: int
    timestamp_ms: int | None
    steps: list[str]
    rows: list[Row] = field(default_factory=list)
    order: list[int] | None = None
    stuck: dict[int, list[Row]] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def safe(self) -> bool:
        return (
            not self.stuck
            and model.NO_CONTROLLER not in self.unknown
            and all(model.is_safe(r["effects"]) for r in self.rows)
        )


def parse_set(text: str, topic: str | None) -> model.ClusterAction:
    """`min.insync.replicas=1`. Errors: UsageError."""
    key, _, value = (part.strip() for part in text.partition("="))
    if key not in (MIN_ISR, UNCLEAN_LEADER_ELECTION):
        raise UsageError(f"--set {text!r}: only {MIN_ISR} and {UNCLEAN_LEADER_ELECTION} change who may lead")
    value = value.lower()
    if not (value in ("true", "false") if key != MIN_ISR else is_usable(key, value) and int(value) > 0):
        raise UsageError(f"--set {text!r}: {value!r} is no value of {key}")
    return model.ClusterAction(model.SET, topic=topic, key=key, value=value)


def parse_elect(text: str) -> model.ClusterAction:
    """`topic-0=2`. Errors: UsageError."""
    found = re.fullmatch(r"(.+)-(\d+)=(\d+)", text)
    if not found:
        raise UsageError(f"--elect {text!r}: expected PARTITION=BROKER, e.g. orders-0=2")
    return model.ClusterAction(model.ELECT, int(found[3]), found[1], int(found[2]))


def ahead(
    lake: Lake, cluster: str, steps: Sequence[model.ClusterAction], restart_all: bool, settings: Settings
) -> AheadAnswer:
    """What the steps would do, in order. restart_all: also find an order to restart all brokers. Errors:
    KraftForensicsError for a broker, topic or partition that the newest state lacks, or without a state."""
    clocks = lake.read("node_clocks", cluster, NODE_CLOCKS.names)
    state, facts = judging_inputs(lake, cluster, settings, clocks)
    bucket = Bucket(lake.read("partition_history", cluster, schemas.PARTITION_HISTORY.names, _STATE), facts)
    now, configs = model.newest(bucket), facts.known_configs()
    if not len(now.names):
        message = f"{lake.root}: no state at the log's end is known: `replay`, or capture a newer snapshot"
        raise KraftForensicsError(message)
    _check(steps, now, facts)
    answer = AheadAnswer(cluster, state.shape.log_end - 1, facts.log_end_ms, [str(step) for step in steps])
    answer.notes = list(_idle(steps, now.active))
    quorum = (lake.rows("quorum_history", cluster, ("offset", "leader_id", "voters")) or [{}])[-1]
    voters = frozenset(quorum.get("voters") or ())
    timelines = configs.min_isr, configs.unclean
    clean = _stopped_cleanly(lake, cluster, facts)
    possible = model.branches(bucket, steps, clean)
    brokers = sorted(s.broker_id for s in facts.brokers.latest() if s.incarnation_id is not None)
    quorum_of = voters, voters & {*brokers} - now.active
    led = _with_controllers(steps, *quorum_of, answer)
    found = {branch: list(_played(now, led, branch, possible, timelines)) for branch in possible}
    answer.rows = _merged(found, answer.steps)
    if restart_all:
        starts = [model.ClusterAction(model.START, broker) for broker in brokers if broker not in now.active]
        given = model.branches(bucket, starts, clean)
        nows = [(now, branch) for branch in given]
        leader = quorum.get("leader_id")
        order, answer.stuck = model.restart_order(nows, brokers, -1 if leader is None else leader, timelines)
        restarts = [
            model.ClusterAction(kind, broker)
            for broker in order
            for kind in (model.STOP if broker in now.active else model.START, model.START)
        ]
        answer.order = order[: len(_with_controllers(restarts, *quorum_of, answer)) // 2]
    _bound(lake, cluster, bucket, now, clean, answer)
    _note_unknown(answer, bucket, steps, restart_all)
    if voters & {s.broker for s in steps if s.kind == model.STOP} or (restart_all and voters & set(answer.order or ())):
        _note(answer, "quorum")
    return answer


def _stopped_cleanly(lake: Lake, cluster: str, facts: ClusterFacts) -> frozenset[int]:
    """The brokers whose last session left the file of a clean stop."""
    where = pc.field("source") == CLEAN_SHUTDOWN
    files = lake.rows("log_end_offsets", cluster, ("broker_id", "broker_epoch"), where)
    left = {(row["broker_id"], row["broker_epoch"]) for row in files}
    return frozenset(s.broker_id for s in facts.brokers.latest() if (s.broker_id, s.broker_epoch) in left)


def _check(steps: Sequence[model.ClusterAction], now: model.Now, facts: ClusterFacts) -> None:
    places = set(zip(now.names["topic"].to_pylist(), now.names["partition"].to_pylist(), strict=True))
    topics, brokers = {topic for topic, _ in places}, set(facts.brokers.states)
    for step in steps:
        if step.kind == model.ELECT and (step.topic, step.partition) not in places:
            raise KraftForensicsError(f"no partition {step.topic}-{step.partition} in the newest state")
        if step.kind == model.SET and step.topic is not None and step.topic not in topics:
            raise KraftForensicsError(f"no topic {step.topic!r} in the newest state")
        if step.kind != model.SET and step.broker not in brokers:
            known = ", ".join(map(str, sorted(brokers))) or "none"
            raise KraftForensicsError(f"no broker {step.broker} is registered; the metadata log knows {known}")


def _idle(steps: Sequence[model.ClusterAction], active: frozenset[int]) -> Iterator[str]:
    """A sentence about each stop and start that changes nothing."""
    for step in (s for s in steps if s.kind in (model.STOP, model.START)):
        if (step.broker in active) == (step.kind == model.START):
            known = "may lead already" if step.kind == model.START else "has stopped already"
            yield f"broker {step.broker} {known}: '{step}' changes nothing"
        active = active | {step.broker} if step.kind == model.START else active - {step.broker}


def _with_controllers(
    steps: Sequence[model.ClusterAction], voters: frozenset[int], down: frozenset[int], answer: AheadAnswer
) -> Sequence[model.ClusterAction]:
    """The steps before the first one after which no majority of the voters runs. down: those that are brokers and down:
    broker and controller are one process."""
    for number, step in enumerate(steps):
        if step.kind in (model.STOP, model.START):
            down = (down | {step.broker} if step.kind == model.STOP else down - {step.broker}) & voters
        if voters and len(down) > (len(voters) - 1) // 2:
            _note(answer, model.NO_CONTROLLER, step=step, voters=sorted(voters), stopped=joined(sorted(down)))
            return steps[:number]
    return steps


def _played(
    now: model.Now,
    steps: Sequence[model.ClusterAction],
    branch: model.Possibility,
    possible: Sequence[model.Possibility],
    configs: Any,
) -> Iterator[Row]:
    """The rows of all steps."""
    for step in steps:
        then = model.after(now, step, branch, configs)
        yield from model.rows_of(now, then, step, _condition(branch, possible))
        now = then


def _condition(branch: model.Possibility, possible: Sequence[model.Possibility]) -> str | None:
    """What distinguishes a branch from the other possible ones."""
    words = []
    if len({b.profile.name for b in possible}) > 1:
        words.append(f"the rules of {branch.profile.name}")
    for broker in sorted(frozenset().union(*(b.unclean for b in possible))):
        words.append(f"broker {broker} stopped {'uncleanly' if broker in branch.unclean else 'cleanly'}")
    return ", ".join(words) or None


def _merged(found: dict[model.Possibility, list[Row]], steps: Sequence[str]) -> list[Row]:
    """The rows of all branches; those that every branch has, once and without a condition."""

    def key(row: Row) -> str:
        return repr({**row, "condition": None})

    shared = set.intersection(*({key(row) for row in rows} for rows in found.values())) if found else set()
    rows: dict[str, Row] = {}
    for row in (r for of in found.values() for r in of):
        own = {**row, "condition": None} if key(row) in shared else row
        rows[repr(own)] = own
    return sorted(
        rows.values(), key=lambda r: (steps.index(r["step"]), r["topic"], r["partition"], r["condition"] or "")
    )


def _bound(
    lake: Lake, cluster: str, bucket: Bucket, now: model.Now, clean: frozenset[int], answer: AheadAnswer
) -> None:
    """Set loss_max of elections from outside ISR and ELR where log ends bound it."""
    wanted = [r for r in answer.rows if model.UNCLEAN in r["effects"] and r["recorded_leader"] < 0]
    wanted = [r for r in wanted if model.REPLACED_DIRECTORY not in r["effects"]]
    if not wanted:
        return
    topics = pc.field("topic").isin(sorted({r["topic"] for r in wanted}))
    lifetimes = lifetimes_of(lake.read("partition_history", cluster, LIFETIME_COLUMNS, topics))
    offsets = with_topic_ids(lake.read("log_end_offsets", cluster, LOG_END_OFFSETS.names, topics), lifetimes)
    places = zip(now.names["topic_id"].to_pylist(), now.names["partition"].to_pylist(), strict=True)
    numbers = {place: number for number, place in enumerate(places)}
    evidence = evidence_of(bucket.history, bucket.states, offsets, np.unique(bucket.states.key))
    for row in wanted:
        at = numbers[row["topic_id"], row["partition"]]
        holder = int(now.cases.last_known_elr[at][0])
        if now.cases.leader[at] >= 0 or holder not in clean:
            continue
        since_ms = now.names["timestamp_ms"][at].as_py()
        own, brokers = evidence[int(bucket.states.key[at])], bucket.facts.brokers
        row["loss_max"] = model.loss_bound(own, brokers, holder, row["leader"], since_ms, bucket.facts.clock)


def _note(answer: AheadAnswer, code: str, **words: object) -> None:
    """Note something that the evidence cannot say and the answer depends on (ahead.toml)."""
    answer.unknown[code] = _UNKNOWN[code].format(**words)


def _note_unknown(answer: AheadAnswer, bucket: Bucket, steps: Sequence[model.ClusterAction], restart_all: bool) -> None:
    facts, offset = bucket.facts, answer.offset
    at = f"metadata offset {offset}" + (f", {utc(answer.timestamp_ms)}" if answer.timestamp_ms else "")
    _note(answer, "after_log_end", at=at)
    _note(answer, "unreported_stop", timeout_ms=facts.session_timeout_ms, source=facts.session_timeout_source)
    _note(answer, "follower_lag")
    if len(names := bucket.profiles.at(offset)) > 1:
        _note(answer, "release", profiles=", ".join(names))
    rows = len(bucket.history)
    if not bucket.configs(np.arange(rows), np.full(rows, offset + 1)).min_isr_known.all():
        _note(answer, MIN_ISR)
    if any(step.kind == model.START for step in steps) or restart_all:
        _note(answer, "restart")
    if any(model.UNCLEAN in r["effects"] and r["loss_max"] is None for r in answer.rows):
        _note(answer, "log_ends")


_DROP = ("elr", "isr", "lost at most", "if")
_MOST = 100


def print_answer(answer: AheadAnswer, form: DocumentFormat) -> None:
    """As JSON: one object with all rows. As a table: the partitions that change, what that means, and what is not
    known."""
    if form == "json":
        rows = [{**row, "opens_window": bool(set(row["effects"]) & set(model.OPENS_WINDOW))} for row in answer.rows]
        print(json.dumps(plain({"safe": answer.safe, **asdict(answer), "rows": rows}), ensure_ascii=False))
        return
    if answer.rows:
        worst = sorted(_worst_first(answer.rows)[:_MOST], key=lambda row: answer.steps.index(row["step"]))
        shown = [_shown(row) for row in worst]
        names = [name for name in shown[0] if name != "if" or any(row["if"] for row in shown)]
        title = f"predicted from the state at metadata offset {answer.offset} of cluster {printable(answer.cluster_id)}"
        print_table(names, shown, title, _DROP)
        if len(answer.rows) > _MOST:
            show_message(f"{len(answer.rows) - _MOST} more rows are not shown: --format json has all of them")
    of_partitions = {(e, r["topic_id"], r["partition"]) for r in answer.rows for e in r["effects"]}
    worst_of = [(broker, _worst_first(rows)[0], rows) for broker, rows in answer.stuck.items()]
    text = prose(
        "ahead.txt.j2",
        answer=answer,
        effects=model.EFFECTS,
        counts=sorted(Counter(effect for effect, *_ in of_partitions).items()),
        stuck=[
            (b, row, _worst(row), len({(r["topic"], r["partition"]) for r in rows}) - 1) for b, row, rows in worst_of
        ],
    )
    print(text, end="")


def _worst(row: Row) -> str:
    return next((effect for effect in model.EFFECTS if effect in row["effects"]), "")


def _worst_first(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [*model.EFFECTS, ""].index(_worst(row)))


def _shown(row: Row) -> Row:
    leaders = [("none" if n < 0 else str(n)) for n in (row["recorded_leader"], row["leader"])]
    return {
        "step": row["step"],
        "partition": f"{row['topic']}-{row['partition']}",
        "leader": leaders[0] if leaders[0] == leaders[1] else " -> ".join(leaders),
        "isr": ",".join(map(str, row["isr"])),
        "elr": ",".join(map(str, row["elr"])),
        "effects": ", ".join(row["effects"]),
        "lost at most": "no bound" if row["loss_max"] is None else row["loss_max"],
        "if": row["condition"],
    }
