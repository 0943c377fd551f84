"""Load what a plan follows from (replay/plan/plan.py), and make it the rows that are shown, for the report and for
commands.

Its actions (replay/plan/step.py) become commands of Kafka's tools, and of this one: commands.toml with words filled in.
No topic name that Kafka refuses is in an action."""

import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from importlib.resources import files
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from jobs.incident.lookup import among
from jobs.lake.lake import Lake, Row
from jobs.views.in_duckdb import ask
from replay.cluster.facts import Clock
from replay.controller.acceptable_leaders import UNASSIGNED
from replay.findings.kinds import HWM_REGRESSION
from replay.loss.verdicts import EXCLUDED
from replay.offsets.evidence import Replica, index_rows
from replay.partitions.reducer import MIGRATING
from replay.plan.clients import OFFSETS, TRANSACTIONS
from replay.plan.inputs import PlanInput
from replay.plan.plan import make_plan
from replay.plan.prevention import MOST_LONGEST
from replay.plan.start_order import BY_LOG, ELR, ISR, LAST_KNOWN, NOBODY, Copy, Waiting, to_elect
from replay.plan.step import MOST_PLACES, Action, PlanStep, is_active, joined

Copies = Mapping[tuple[str, int], Mapping[int, Copy]]

# At most this many findings of a kind are read for a plan; a cluster may have one for each of a million partitions.
MOST_READ = 5000
_MOST_ROWS = 1 << 14
_STATE = (
    *("topic_id", "topic", "partition", "leader", "replicas", "isr", "elr", "last_known_elr", "adding_replicas"),
    *("removing_replicas", "directories", "timestamp_ms"),
)
_CONFIG = ("resource_type", "resource_name", "name", "value", "effective_value", "source")
_BROKER = ("offset", "broker_id", "broker_epoch", "incarnation_id", "fenced", "in_controlled_shutdown", "log_dirs")
_SIZE = ("topic", "partition", "broker_id", "size_bytes", "source", "captured_at_ms")
_AT_END = pc.field("end_offset").is_null()
_READ = pc.field("captured_at_ms").is_valid() & pc.field("broker_id").is_valid()
_HOLDERS = pc.list_value_length(pc.field("isr")) + pc.list_value_length(pc.field("elr"))
# The states that a plan follows from.
WANTED = _AT_END & ~pc.field("removed") & ((pc.field("leader") < 0) | (_HOLDERS == 1))


def load_plan(lake: Lake, cluster: str) -> Row:
    """The plan for a cluster as data: keys as in docs/verdict.md."""
    return as_row(make_plan(load_input(lake, cluster)))


def as_row(steps: Iterable[PlanStep]) -> Row:
    """A plan as data: {steps, fill_in}. The keys of a step are those of PlanStep, with `commands` for `actions`."""
    rows = []
    for step in steps:
        row = asdict(step)
        del row["actions"]
        rows.append(row | {"commands": [text for action in step.actions for text in commands_of(action)]})
    return {"steps": rows, "fill_in": fill_in(text for row in rows for text in row["commands"])}


def load_input(lake: Lake, cluster: str) -> PlanInput:
    """What the plan of a cluster follows from."""
    configs = lake.rows("config_history", cluster, _CONFIG, _AT_END)
    states = lake.read("partition_history", cluster, _STATE, WANTED, few=True)
    last_seen, copies = _logs(lake, cluster, states)
    brokers = {row["broker_id"]: row for row in lake.rows("broker_history", cluster, _BROKER, _AT_END)}
    waiting, alone, alone_count = states_that_wait([states], copies, brokers)
    quorum = (lake.rows("quorum_history", cluster, ("offset", "voters")) or [{}])[-1]
    of = lake, cluster
    lost = ask("incident/plan_windows", of, {"most": MOST_READ})
    is_open = (pc.field("kind") == HWM_REGRESSION) & (pc.field("verdict").is_null() | (pc.field("verdict") != EXCLUDED))
    features = lake.rows("feature_history", cluster, ("name", "level"), _AT_END)
    waits = {"topics": sorted({each.topic_id for each in waiting})[:MOST_READ]}
    leaderless = ask("incident/plan_leaderless", of, waits) if waiting else []
    topics = ask("incident/plan_topics", of)
    return PlanInput(
        waiting=waiting,
        alone=alone,
        alone_count=alone_count,
        lost=lost,
        longest=ask("incident/plan_longest", of, {"most": MOST_LONGEST}),
        known_bugs=ask("incident/plan_bugs", of, {"most": MOST_READ}),
        left_out=max(lake.count("findings", cluster, is_open) - MOST_READ, 0),
        current={row["topic"]: row["topic_id"] for row in topics},
        partition_counts={r["topic_id"]: r["partitions"] for r in topics if r["topic"] in (OFFSETS, TRANSACTIONS)},
        single=frozenset(row["topic"] for row in topics if row["replicas"] == 1),
        configs=configs,
        features={row["name"]: row["level"] for row in features},
        voters=frozenset(quorum.get("voters") or ()),
        brokers=brokers,
        active={row["broker_id"]: (row["broker_epoch"], row["offset"]) for row in ask("incident/plan_active", of)},
        last_seen=last_seen,
        sizes=_sizes(lake, cluster, {*(each.topic for each in waiting), *(row["topic"] for row in lost)}),
        finding_ids={(row["topic_id"], row["partition"]): row["finding_id"] for row in leaderless},
    )


def states_that_wait(
    parts: Iterable[pa.Table],
    copies: Copies = MappingProxyType({}),
    brokers: Mapping[int, Row] = MappingProxyType({}),
) -> tuple[list[Waiting], list[Row], dict[int, int]]:
    """`waiting`, `alone` and `alone_count` of PlanInput. parts: PARTITION_HISTORY, those of `WANTED`. copies:
    (topic_id, partition) -> broker -> its log, as read since the state began. brokers: of PlanInput. All partitions
    count: one that is left out may be the one whose records an order of starts loses."""
    waiting: dict[Waiting, list[int]] = {}
    alone: list[Row] = []
    alone_count = Counter[int]()
    for part in parts:
        for batch in part.to_batches(_MOST_ROWS):
            for state in batch.to_pylist():
                if state["leader"] < 0:
                    own = copies.get((state["topic_id"], state["partition"]), {})
                    waiting.setdefault(_waiting(state, own, brokers), []).append(state["partition"])
                held = [*state["isr"], *state["elr"]]
                if len(held) == 1 and len(state["replicas"]) > 1:
                    alone_count[held[0]] += 1
                    alone += [state] if len(alone) < MOST_READ else []
    found = [
        replace(each, partitions=tuple(sorted(own)[: None if each.by == BY_LOG else MOST_PLACES]), count=len(own))
        for each, own in waiting.items()
    ]
    return sorted(found, key=lambda each: (each.topic or "", each.topic_id, each.members)), alone, dict(alone_count)


def _waiting(state: Row, copies: Mapping[int, Copy], brokers: Mapping[int, Row]) -> Waiting:
    """What partitions of one class share: all but their numbers. The ELR keeps a broker that a reassignment took from
    the replicas, and only these are elected; the last known leader is, if it is alone in its list and nobody is in the
    ELR (PartitionChangeBuilder.maybePopulateTargetElr, electAnyLeader, canElectLastKnownLeader, 4.3.1)."""
    known = [broker for broker in state["last_known_elr"] if broker >= 0]
    lists = ((ISR, state["isr"]), (ELR, state["elr"]), (LAST_KNOWN, known if len(known) == 1 else []))
    by, found = next(((name, found) for name, found in lists if found), (NOBODY, []))
    members = sorted(set(found).intersection(state["replicas"]))
    by = by if members else NOBODY
    may_lead = {*members, *known} & {*state["replicas"]}
    passed_over = tuple(b for b in members if is_active(brokers, b) and _is_online(state, brokers[b]))
    if (best := to_elect(state["replicas"], may_lead, copies)) is not None:
        by, members = BY_LOG, [best]
    return Waiting(
        *(state["topic_id"], state["topic"], tuple(sorted(state["replicas"])), tuple(members)),
        *(by, passed_over),
        last_known=known[0] if len(known) == 1 else -1,
    )


def _is_online(state: Row, broker: Row) -> bool:
    """Whether the directory that the log has for a broker's replica is online (BrokerRegistration.hasOnlineDir)."""
    placed = dict(zip(state["replicas"], state["directories"] or (), strict=False))
    online = broker["log_dirs"]
    return online is None or placed.get(broker["broker_id"], UNASSIGNED) in (*online, UNASSIGNED, MIGRATING)


def _sizes(lake: Lake, cluster: str, topics: set[str | None]) -> dict[tuple[str, int], dict[int, Row]]:
    """`sizes` of PlanInput, of topics with these names."""
    where = among("topic", topics) & pc.field("size_bytes").is_valid() & _READ
    found: dict[tuple[str, int], dict[int, Row]] = {}
    rows = lake.rows("log_end_offsets", cluster, _SIZE, where) if topics else []
    for row in sorted(rows, key=lambda row: (row["captured_at_ms"], row["source"], row["size_bytes"])):
        found.setdefault((row["topic"], row["partition"]), {})[row["broker_id"]] = row
    return found


def _logs(
    lake: Lake, cluster: str, states: pa.Table
) -> tuple[dict[tuple[str, int], dict[int, Row]], dict[tuple[str, int], dict[int, Copy]]]:
    """(`last_seen` of PlanInput, and the same logs as copies), of the first MOST_READ partitions without a leader. What
    was read before that may have grown since, or be of an earlier topic of that name. states: as of
    `states_that_wait`, with their times."""
    keys = ("topic_id", "topic", "partition", "timestamp_ms")
    order = [(name, "ascending") for name in keys[:3]]
    since = {
        (row["topic"], row["partition"]): (row["topic_id"], row["timestamp_ms"])
        for row in states.filter(pc.field("leader") < 0).select(keys).sort_by(order).slice(0, MOST_READ).to_pylist()
    }
    errors = (row["clock_error_ms"] or 0 for row in lake.rows("captures", cluster, ("clock_error_ms",)))
    clock = Clock(max(errors, default=0))
    wanted = among("topic", (topic for topic, _ in since)) & _READ
    by_place: dict[tuple[str, int], list[Row]] = {}
    for row in lake.rows("log_end_offsets", cluster, (), wanted) if since else ():
        topic_id, since_ms = since.get((row["topic"], row["partition"]), (None, 0))
        if topic_id is not None and row["topic_id"] in (None, topic_id) and clock.surely_after(row, since_ms):
            by_place.setdefault((topic_id, row["partition"]), []).append(row)
    seen: dict[tuple[str, int], dict[int, Row]] = {}
    copies: dict[tuple[str, int], dict[int, Copy]] = {}
    for place, rows in by_place.items():
        evidence = index_rows(rows)
        marks = {row["broker_id"]: row["high_watermark"] for row in evidence.high_watermarks}
        ends = {broker: observed.latest[-1] for broker, observed in evidence.observations.items() if observed.latest}
        seen[place] = {
            broker: {
                "log_end_offset": ends[broker].log_end_offset if broker in ends else None,
                "high_watermark": marks.get(broker),
            }
            for broker in {*marks, *ends}
        }
        copies[place] = {
            broker: _copy(end, evidence.epoch_rows.get(broker, ()), marks.get(broker, -1))
            for broker, end in ends.items()
            if end.last_written_leader_epoch is not None or not end.log_end_offset
        }
    return seen, copies


def _copy(end: Replica, lines: Iterable[Row], high_watermark: int) -> Copy:
    """lines: of the replica's leader-epoch-checkpoint. One that begins above the log's end was cut off with it."""
    written = -1 if end.last_written_leader_epoch is None else end.last_written_leader_epoch
    opened = (row["leader_epoch"] for row in lines if row["epoch_start_offset"] <= end.log_end_offset)
    return Copy(max(written, *opened, -1), end.log_end_offset, written, high_watermark)


# What is to be filled in.
BOOTSTRAP, CONTROLLERS = "$BOOTSTRAP", "$CONTROLLERS"
_HOST = re.compile(r"\$HOST_([0-9]+)")
_TEXTS = tomllib.loads(files(__package__).joinpath("commands.toml").read_text("utf-8"))


def commands_of(action: Action) -> tuple[str, ...]:
    """The commands, in the order in which to run them."""
    topic = shlex.quote(action.topic or "")
    server = ("controller", CONTROLLERS) if action.by_controller else ("server", BOOTSTRAP)
    words = {
        **{name: getattr(action, name) for name in ("partition", "broker", "name", "value")},
        "server": '--bootstrap-{} "{}"'.format(*server),
        "entity": "brokers --entity-default" if action.topic is None else f"topics --entity-name {topic}",
        "topic": f"--topic {topic}",
        "text": shlex.quote(action.value or ""),
        "more": f"  # and {action.more} partitions more" if action.more else "",
        "when": _when(action),
        "only": _only(action),
    }
    return tuple(command.format_map(words) for command in _TEXTS["commands"][action.what])


def _when(action: Action) -> str:
    """When to run an election, as a comment of the shell."""
    if action.broker is None:
        return "  # while of its replicas only the one that has most runs"
    # A last known leader that runs is elected as soon as a broker's registration empties the ELR; and beside a member
    # that leads, with less, the replica that has most truncates as it starts.
    first = f"first stop {joined(action.brokers)}, then " if action.brokers else ""
    return f"  # {first}once broker {action.broker} has started, before the next"


def _only(action: Action) -> str:
    """Keep the ids that belong to the partitions."""
    if action.value is None:
        return ""
    only = ",".join(map(str, action.partitions))
    return f" | kraft-forensics coordinator --partitions {action.value} --only {only}"


def fill_in(commands: Iterable[str]) -> dict[str, str]:
    """What the commands leave open -> what to write there."""
    text = "\n".join(commands)
    hosts = sorted({int(number) for number in _HOST.findall(text)})
    known = {name: _TEXTS["fill_in"][name] for name in (BOOTSTRAP, CONTROLLERS) if name in text}
    return known | {f"$HOST_{number}": _TEXTS["fill_in"]["$HOST_"].format(number) for number in hosts}
