"""What a capture lacks, which verdicts that costs, and where to get it. A pure function of completeness/facts.py; what
it says is data: lacks.toml.

The rules are those of docs/findings.md, by number.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files

from evidence import kinds
from evidence.completeness.facts import Facts
from evidence.limits import MAX_TIME_MS, YEAR_1_MS

# A wall clock whose zone is not known may differ from UTC by as much.
_ANY_ZONE_MS = 14 * 3_600_000
_MOST_NAMED = 5
_SERVER_LOGS = ((kinds.SERVER_LOG, "server.log"), (kinds.STATE_CHANGE_LOG, "state-change.log"))
LACKS = tomllib.loads(files("evidence.completeness").joinpath("lacks.toml").read_text("utf-8"))


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


def _lack(code: str, node_id: int | None = None, needed: bool | None = None, **figures: object) -> Lack:
    """needed: where it depends on more than the code. figures: of its sentences."""
    said = LACKS[code]
    what, where = (said[name].format(**figures) for name in ("what", "where"))
    return Lack(code, node_id, what, said["needed"] if needed is None else needed, tuple(said["rules"]), where)


def _metadata_log(facts: Facts) -> Iterator[Lack]:
    if not facts.has_log:
        yield _lack("no_metadata_log")
        return
    held, count = len(facts.controllers & facts.logs.keys()), len(facts.controllers)
    unnamed = ", and one of an unknown node (meta.properties next to it tells)" if None in facts.logs else ""
    told = {"held": held, "count": count, "unnamed": unnamed}
    for node in sorted(facts.controllers - facts.logs.keys()):
        yield _lack("controller_log_missing", node, 2 * held <= count, node=node, **told)
    for first, end in facts.gaps:
        yield _lack("offset_gap", first=first, last=end - 1)
    start = facts.log_start
    if start > 0:
        is_known = any(end >= start for end in facts.snapshot_ends)
        yield _lack("log_begins_late" if is_known else "no_snapshot", start=start)


def _of_brokers(facts: Facts) -> Iterator[Lack]:
    for broker in sorted(facts.brokers):
        held = facts.files.get(broker, set())
        if not held - {kinds.BOOT_ID, *kinds.BROKER_LOGS, kinds.SERVER_PROPERTIES}:
            yield _lack("broker_missing", broker)
            continue
        of_files = ((code, said["unless"]) for code, said in LACKS.items() if "unless" in said)
        yield from (_lack(code, broker) for code, unless in of_files if held.isdisjoint(unless))
        yield from _epochs(facts, broker)


def _epochs(facts: Facts, broker: int) -> Iterator[Lack]:
    """leader-epoch-checkpoint of each replica that the broker should hold; of any, if the log does not say which."""
    expected, held = facts.replicas.get(broker, set()), facts.epochs.get(broker, set())
    absent = sorted(expected - held)
    if not absent and (held or expected or facts.has_log):
        return
    if not held:
        yield _lack("no_leader_epochs", broker)
        return
    named = ", ".join(f"{topic}-{partition}" for topic, partition in absent[:_MOST_NAMED])
    more = f" and {len(absent) - _MOST_NAMED} more" if len(absent) > _MOST_NAMED else ""
    yield _lack("leader_epochs_missing", broker, named=named + more)


def _own_logs(facts: Facts) -> Iterator[Lack]:
    first_ms = min(facts.exposed_ms, default=None)
    first = "" if first_ms is None else _utc(first_ms)
    windows = f" for the windows from {first} on" if first else ""
    for broker in sorted(facts.brokers):
        for kind, log in _SERVER_LOGS:
            span = facts.own_logs.get(broker, {}).get(kind)
            if span is None:
                said, hint = log, ""
                if kind in facts.files.get(broker, ()):
                    said = f"line of a known layout and message in its {log}"
                    hint = ": evidence.log_patterns tells a layout"
                figures = {"what": said, "log": log, "windows": windows + hint}
                yield _lack("no_broker_log", broker, first_ms is not None, **figures)
                continue
            margin_ms = 0 if span.in_utc else _ANY_ZONE_MS
            if first_ms is not None and span.first_ms - margin_ms > first_ms:
                yield _lack("broker_log_too_late", broker, log=log, at=_utc(span.first_ms), first=first)
            elif first_ms is not None and span.last_ms + margin_ms < first_ms:
                yield _lack("broker_log_too_early", broker, log=log, at=_utc(span.last_ms), first=first)


def _clocks(facts: Facts) -> Iterator[Lack]:
    if facts.clock_error_ms is None:
        yield _lack("clocks_not_measured")
    for broker in sorted(facts.brokers):
        count, local = facts.boot_ids.get(broker, 0), facts.booted.get(broker)
        if local and facts.ran_from_ms.get(broker, 0) > min(facts.exposed_ms, default=MAX_TIME_MS):
            yield _lack("boots_missing", broker, at=_utc(facts.ran_from_ms[broker]))
        if count >= 2 or local:
            continue
        readings = "no boot id" if count == 0 else "one reading of its boot id; two show that its machine ran on"
        yield _lack("boot_ids_missing", broker, readings=readings)
        if broker not in facts.booted:
            yield _lack("boot_time_unknown", broker)
        else:
            lie = "do not all lie" if local is False else "are not known to lie"
            yield _lack("disks_not_local", broker, lie=lie)


def _rest(facts: Facts) -> Iterator[Lack]:
    yield from (_lack("no_configs", node) for node in sorted(facts.controllers - facts.configs))
    for path, holder, message in facts.damaged:
        yield _lack("damaged_file", holder, path=path, message=message)
    for path, reason in facts.refused:
        yield _lack("refused_file", path=path, reason=reason)
    for node, lines in sorted(facts.notes.items()):
        yield from (_lack("not_collected", node, line=line) for line in lines)


def _utc(at_ms: int) -> str:
    if at_ms < YEAR_1_MS:
        return f"{at_ms} ms"
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
