"""What nodes' own logs and boot ids say of a departure, a start or a smaller ISR: facts for the chain of causes.

Lines are joined by broker epoch, or by leader and ISR, where they name them; else by time, with the node's own clock in
UTC. They explain a verdict and are no evidence for it. A line that is missing says nothing.

Source: docs/broker_logs.md.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from replay.arrow.runs import groups
from replay.cluster.boots import Boots
from replay.incident.words import TROUBLE
from replay.plan.step import Row, moment

# A session ends some seconds after its broker is gone, and a follower lags for replica.lag.time.max.ms (30 s) before it
# leaves the ISR: what its node logs in this time before is listed.
BEFORE_MS = 60_000
# Clocks of nodes, and the time that a line takes.
AFTER_MS = 5_000

_FETCHING = ("fetch_failed", "partition_fetch_failed", "replica_failed")
FENCED, SHRINKING = "broker_fenced", "isr_shrinking"
# What is read of broker_log_events and node_boots.
EVENT_KINDS = (*TROUBLE, *_FETCHING, FENCED, SHRINKING)
EVENTS = (
    *("node_id", "logged_at_ms", "logged_at_utc_ms", "kind", "topic", "partition", "broker_id", "broker_epoch"),
    *("leader", "isr", "previous_isr", "log_end_offset", "out_of_sync", "detail", "directory"),
)
STARTS = ("node_id", "broker_epoch", "unclean_directories", "clean_directories", "load_ms")


@dataclass(frozen=True, slots=True)
class NodeLogs:
    """events: by node, EVENTS of EVENT_KINDS with a time in UTC, by time; fenced: by (broker, broker epoch), the node
    that logged that the session timed out; starts: STARTS by (broker, broker epoch); boots: boot ids of the brokers'
    machines."""

    events: Mapping[int, Sequence[Row]] = field(default_factory=dict)
    fenced: Mapping[tuple[int, int], int] = field(default_factory=dict)
    starts: Mapping[tuple[int, int], Row] = field(default_factory=dict)
    boots: Boots = field(default_factory=dict)

    def departure(self, broker: int, fenced_epoch: int | None, at_ms: int | None) -> str:
        """What was logged of a broker that went away at a time; "" for nothing. fenced_epoch: of its session, if that
        was fenced."""
        found = []
        if fenced_epoch is not None and (broker, fenced_epoch) in self.fenced:
            found.append(f"Controller {self.fenced[broker, fenced_epoch]} logged that its session timed out.")
        trouble = (line for line in self._around(broker, at_ms) if line["kind"] in TROUBLE)
        if by_kind := groups(trouble, itemgetter("kind")):
            what = "; ".join(_listed(kind, lines) for kind, lines in by_kind.items())
            found.append(f"Around that time broker {broker} logged {what}.")
        return " ".join(found)

    def start(self, broker: int, broker_epoch: int) -> str:
        """What the process that registered with that epoch found; "" for nothing."""
        boot = self.starts.get((broker, broker_epoch))
        if boot is None or not (boot["unclean_directories"] or boot["clean_directories"]):
            return ""
        unclean = [str(d) for d in boot["unclean_directories"] or () if d]
        how = f"no clean shutdown file in {', '.join(unclean)}" if unclean else "a clean shutdown file"
        took = f", and loading its logs took {boot['load_ms']} ms" if boot["load_ms"] is not None else ""
        return f"Broker {broker} logged at that start that it found {how}{took}."

    def found_clean(self, broker: int, broker_epoch: int) -> bool | None:
        """Whether the process that registered with that epoch logged that the one before had stopped cleanly, in any
        directory: one that is new or had failed has no file of a clean stop."""
        boot = self.starts.get((broker, broker_epoch), {})
        return True if boot.get("clean_directories") else False if boot.get("unclean_directories") else None

    def smaller_isr(self, place: tuple[str, int], before: Row, after: Row) -> str:
        """Why members left the ISR of (topic, partition), as the leader and they logged it; "" for nothing."""
        gone, leader = set(before["isr"]) - set(after["isr"]), before["leader"]
        lines = [
            line
            for line in self._around(leader, after["timestamp_ms"])
            if line["kind"] == SHRINKING
            and (line["topic"], line["partition"]) == place
            and set(line["isr"] or ()) == set(after["isr"])
            and set(line["previous_isr"] or ()) == set(before["isr"])
        ]
        found = []
        if lines:
            late = (_lag(each, lines[-1]["log_end_offset"]) for each in lines[-1]["out_of_sync"] or ())
            found.append(f"leader {leader} logged that {'; '.join(late)}")
        for broker in sorted(gone):
            own = self._around(broker, after["timestamp_ms"])
            failed = sum(line["kind"] in _FETCHING and line["leader"] in (None, leader) for line in own)
            if failed:
                found.append(f"broker {broker} logged {failed} failed fetches around that time")
        return "; ".join(found)

    def _around(self, node: int, at_ms: int | None) -> list[Row]:
        if at_ms is None:
            return []
        lines = self.events.get(node, ())
        return [line for line in lines if at_ms - BEFORE_MS <= line["logged_at_utc_ms"] <= at_ms + AFTER_MS]


NO_NODE_LOGS = NodeLogs()


def node_logs(events: Iterable[Row], starts: Iterable[Row], boots: Boots) -> NodeLogs:
    """events: EVENTS of EVENT_KINDS; starts: STARTS, of NODE_BOOTS."""
    by_node: dict[int, list[Row]] = defaultdict(list)
    fenced = {}
    # Two captures may hold the same line.
    same = ("node_id", "logged_at_ms", "kind", "topic", "partition", "detail")
    for line in {tuple(line[n] for n in same): line for line in events}.values():
        if line["kind"] == FENCED and line["broker_epoch"] is not None and line["node_id"] is not None:
            fenced[line["broker_id"], line["broker_epoch"]] = line["node_id"]
        elif line["node_id"] is not None and line["logged_at_utc_ms"] is not None:
            by_node[line["node_id"]].append(line)
    for lines in by_node.values():
        lines.sort(key=lambda line: line["logged_at_utc_ms"])
    known = {
        (row["node_id"], row["broker_epoch"]): row
        for row in starts
        if row["node_id"] is not None and row["broker_epoch"] is not None
    }
    return NodeLogs(dict(by_node), fenced, known, boots)


def _listed(kind: str, lines: Sequence[Row]) -> str:
    details = dict.fromkeys(str(d) for line in lines if (d := line["detail"] or line["directory"]))
    shown = f" ({', '.join(list(details)[:2])})" if details else ""
    times = f", {len(lines)} times" if len(lines) > 1 else ""
    return f"{TROUBLE[kind]}{shown} at {moment(lines[0]['logged_at_utc_ms'])} UTC{times}"


def _lag(late: Row, log_end: int | None) -> str:
    caught_up = late["last_caught_up_ms"]
    since = f", and had last caught up at {moment(caught_up)} UTC" if caught_up else ""
    return f"broker {late['broker_id']} was at offset {late['log_end_offset']} of {log_end}{since}"
