"""What a capture lacks, which verdicts that costs, and where to get it. A pure function of completeness/facts.py.

The rules are those of docs/findings.md, by number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from evidence import kinds
from evidence.completeness.facts import Facts
from evidence.limits import YEAR_1_MS

# A wall clock whose zone is not known may differ from UTC by as much.
_ANY_ZONE_MS = 14 * 3_600_000
_MOST_NAMED = 5
_SERVER_LOGS = ((kinds.SERVER_LOG, "server.log"), (kinds.STATE_CHANGE_LOG, "state-change.log"))
_LINES = ("L1", "L2", "L3", "L4", "L5", "L7", "L8", "L9")
_ALL = ("all",)


@dataclass(frozen=True, slots=True)
class Lack:
    """code: a stable name. node_id: None if it is about the whole cluster. needed: verdicts on this capture's own
    windows, or any, may stay open without it; else it only helps with some. rules: of docs/findings.md, or ('all',).
    where: how to get it."""

    code: str
    node_id: int | None
    what: str
    needed: bool
    rules: tuple[str, ...]
    where: str


def lacks_of(facts: Facts) -> list[Lack]:
    """Everything that is missing, what is needed first; then by node."""
    found = [*_metadata_log(facts), *_of_brokers(facts), *_own_logs(facts), *_clocks(facts), *_rest(facts)]
    return sorted(found, key=lambda lack: (not lack.needed, -1 if lack.node_id is None else lack.node_id))


def _metadata_log(facts: Facts) -> Iterator[Lack]:
    place = "__cluster_metadata-0/ in metadata.log.dir, else in the first of log.dirs, of a controller or broker"
    if not facts.has_log:
        yield Lack(
            "no_metadata_log", None, "no segment of the metadata log: nothing can be replayed", True, _ALL, place
        )
        return
    holders = {node for node in facts.logs if node is not None}
    others = facts.controllers - holders
    if others:
        held = f"{len(facts.controllers & holders)} of {len(facts.controllers)} controllers' logs"
        what = f"only {held}: what was committed may stay open, and a gap or damage has no second copy"
        # One of several is little; a majority says what was committed.
        needed = 2 * len(facts.controllers & holders) <= len(facts.controllers)
        for node in sorted(others):
            yield Lack("controller_log_missing", node, what, needed, ("H1", "N11"), f"controller {node}: {place}")
    for first, end in facts.gaps:
        what = f"metadata offsets {first} to {end - 1} are in no copy: nothing is concluded across them"
        where = "the segment with these offsets, from another controller or a broker"
        yield Lack("offset_gap", None, what, True, ("N11", "H1", "H7"), where)
    start = facts.log_start
    if start > 0 and not any(end >= start for end in facts.snapshot_ends):
        what = f"the log begins at offset {start}, and no snapshot gives the state there"
        yield Lack("no_snapshot", None, what, True, _ALL, f"<end offset>-<epoch>.checkpoint files in {place}")
    elif start > 0:
        what = f"the log begins at offset {start}, with a snapshot: who led before is not known"
        yield Lack("log_begins_late", None, what, False, ("H7", "E2"), "older segments, from a backup or another node")


def _of_brokers(facts: Facts) -> Iterator[Lack]:
    for broker in sorted(facts.brokers):
        held = facts.files.get(broker, set())
        if not held - {kinds.BOOT_ID, *kinds.BROKER_LOGS, kinds.SERVER_PROPERTIES}:
            what = "nothing of its log directories"
            yield Lack(
                "broker_missing", broker, what, True, ("P2", "P7", "E2", "E3"), "its log.dirs, also while it is down"
            )
            continue
        if kinds.REPLICATION_OFFSET not in held:
            what = "no replication-offset-checkpoint: no high watermark of its replicas"
            yield Lack("no_high_watermarks", broker, what, True, ("P2",), "each of its log.dirs")
        yield from _epochs(facts, broker)
        if kinds.RECOVERY_POINT not in held:
            what = "no recovery-point-offset-checkpoint: no log end after a clean stop"
            yield Lack("no_recovery_point", broker, what, False, ("E3",), "each of its log.dirs, twice after the stop")
        if not held & {kinds.BATCH_HEADS, kinds.REPLICA_SEGMENT}:
            what = "no heads of its last batches: no log end while it is down"
            where = "`kraft-forensics collect`, before the broker starts again"
            yield Lack("no_batch_heads", broker, what, False, ("P8", "P9", "L6"), where)
        if kinds.JMX_EXPORTER not in held and kinds.JMX_TOOL not in held:
            what = "no scrape of its metrics: no log end of a running leader"
            yield Lack(
                "no_metrics",
                broker,
                what,
                False,
                ("E4", "E5", "P6", "P8"),
                "its JMX exporter's page, twice, as <name>.prom",
            )


def _epochs(facts: Facts, broker: int) -> Iterator[Lack]:
    """leader-epoch-checkpoint of each replica that the broker should hold; of any, if the log does not say which."""
    expected, held = facts.replicas.get(broker, set()), facts.epochs.get(broker, set())
    absent = sorted(expected - held)
    if not absent and (held or expected or facts.has_log):
        return
    rules, where = ("P7", "P8", "E2"), "leader-epoch-checkpoint in each <topic>-<partition>/ of its log.dirs"
    if not held:
        yield Lack("no_leader_epochs", broker, "no leader-epoch-checkpoint: no exact log end", True, rules, where)
        return
    named = ", ".join(f"{topic}-{partition}" for topic, partition in absent[:_MOST_NAMED])
    more = f" and {len(absent) - _MOST_NAMED} more" if len(absent) > _MOST_NAMED else ""
    yield Lack("leader_epochs_missing", broker, f"no leader-epoch-checkpoint of {named}{more}", True, rules, where)


def _own_logs(facts: Facts) -> Iterator[Lack]:
    """Lines are needed only if a partition was exposed: they bound what such a window lost."""
    exposed = (min(facts.exposed_ms), max(facts.exposed_ms)) if facts.exposed_ms else None
    for broker in sorted(facts.brokers):
        for kind, name in _SERVER_LOGS:
            span = facts.own_logs.get(broker, {}).get(kind)
            where = f"{name} and what was rotated, in the folder logs/ of its Kafka or in the log archive"
            margin_ms = 0 if span is None or span.in_utc else _ANY_ZONE_MS
            if span is None:
                what = f"no {name}" + (f" for the windows from {_utc(exposed[0])} on" if exposed else "")
                yield Lack("no_broker_log", broker, what, exposed is not None, _LINES, where)
            elif exposed and span.first_ms - margin_ms > exposed[0]:
                what = f"its {name} begins at {_utc(span.first_ms)}, after the first window ({_utc(exposed[0])})"
                yield Lack("broker_log_too_late", broker, what, True, _LINES, where)
            elif exposed and span.last_ms + margin_ms < exposed[0]:
                what = f"its {name} ends at {_utc(span.last_ms)}, before the first window ({_utc(exposed[0])})"
                yield Lack("broker_log_too_early", broker, what, True, _LINES, where)


def _clocks(facts: Facts) -> Iterator[Lack]:
    if facts.clock_error_ms is None:
        what = "nobody measured the clocks: the setting's value is assumed"
        where = "`kraft-forensics collect` measures them; else clock_error_ms in the manifest (docs/evidence.md)"
        yield Lack("clocks_not_measured", None, what, True, ("N6",), where)
    for broker in sorted(facts.brokers):
        count, local = facts.boot_ids.get(broker, 0), facts.booted.get(broker)
        if count >= 2 or local:
            continue
        what = "no boot id" if count == 0 else "one reading of its boot id; two show that its machine ran on"
        where = "/proc/sys/kernel/random/boot_id, before and after"
        yield Lack("boot_ids_missing", broker, what, False, ("L6", "H7"), where)
        if broker not in facts.booted:
            what = "not known when its machine started: one capture does not show whether a kill lost anything"
            where = "`kraft-forensics collect` notes it; else uptime_s in the manifest (docs/evidence.md)"
            yield Lack("boot_time_unknown", broker, what, False, ("L6",), where)
        else:
            lie = "do not all lie" if local is False else "are not known to lie"
            what = f"its log directories {lie} on disks of its own machine: when that started shows nothing of them"
            where = "nothing, unless `disks` in the manifest is wrong (docs/evidence.md)"
            yield Lack("disks_not_local", broker, what, False, ("L6",), where)


def _rest(facts: Facts) -> Iterator[Lack]:
    for node in sorted(facts.controllers - facts.configs):
        what = "no server.properties: the session timeout is assumed to be Kafka's default, request threads are unknown"
        yield Lack(
            "no_configs",
            node,
            what,
            False,
            ("H6", "P8", "P9", "E4"),
            "its properties file, or [configs] in the manifest",
        )
    for path, holder, message in facts.damaged:
        yield Lack(
            "damaged_file", holder, f"{path}: {message}", True, _ALL, "copy the file again, or from another node"
        )
    for path, reason in facts.refused:
        where = "copy it as a file of its own: no link, unpacked, beside the others"
        yield Lack("refused_file", None, f"{path}: {reason}", False, _ALL, where)
    for node, lines in sorted(facts.notes.items()):
        for line in lines:
            yield Lack("not_collected", node, line, False, _ALL, "collect this node again")


def _utc(at_ms: int) -> str:
    if at_ms < YEAR_1_MS:
        return f"{at_ms} ms"
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
