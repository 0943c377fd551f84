"""The report's other sections: policies, exposures, truncated logs, brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from jobs.report.rows import Row
from jobs.report.words import FAMILIES, policy_family, policy_rank
from replay.findings.kinds import LAST_REPLICA, LEADERLESS
from replay.plan.step import groups

MAX_PIECES = 3  # pieces of evidence to show per finding in a list
MAX_SESSIONS = 100  # rows of a broker's history
_ANSWER = ("outcome", "leader", "last_written_leader_epoch", "log_end_offset", "loss_min", "loss_max", "explanation")
EXPOSURE_NAMES = {LEADERLESS: "without a leader", LAST_REPLICA: "one replica left"}


def exposure_groups(items: Sequence[Any], totals: Sequence[Row]) -> list[Row]:
    """The listed exposures by kind and topic: rows {total, listed}. total: the row of ReportInput.exposure_groups; the
    last one, of groups without it, has None. items: with `row`."""
    by_key = groups(items, lambda item: (item.row["kind"], item.row["topic"]))
    found = [{"total": total, "listed": by_key.pop((total["kind"], total["topic"]), [])} for total in totals]
    rest = [item for others in by_key.values() for item in others]
    return [*found, {"total": None, "listed": rest}] if rest else found


def same_answers(counterfactuals: Iterable[Row]) -> list[Row]:
    """Equal answers as one row with all their `policies`."""
    same = groups(counterfactuals, itemgetter(*_ANSWER)).values()
    return [group[0] | {"policies": [row["policy"] for row in group]} for group in same]


def by_family(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """(title of a family of policies, its rows), each in the order of the page."""
    ranked = sorted(rows, key=lambda row: policy_rank(row["policy"]))
    families = groups(ranked, lambda row: policy_family(row["policy"]))
    return [(FAMILIES[family], found) for family, found in families.items()]


def broker_life(broker: int, rows: Sequence[Row]) -> Row:
    """Sum up a broker's rows of BROKER_HISTORY, in order: {broker, rows, count, state, processes, unclean}. rows: at
    most MAX_SESSIONS, the last ones; state: at the log's end."""
    return {
        "broker": broker,
        "rows": rows[-MAX_SESSIONS:],
        "count": len(rows),
        "state": broker_state(rows[-1]) if rows[-1]["end_offset"] is None else "unknown",
        "processes": len({row["incarnation_id"] for row in rows if row["incarnation_id"] is not None}),
        "unclean": sum(row["restart_class"] == "unclean" for row in restarts(rows)),
    }


def restarts(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of a broker's history where another process of it registered."""
    processes = [row for row in rows if row["incarnation_id"] is not None]
    return [now for before, now in pairwise(processes) if now["incarnation_id"] != before["incarnation_id"]]


def broker_state(row: Mapping[str, Any]) -> str:
    """What a broker was, in a word or two."""
    if row["incarnation_id"] is None:
        return "not registered"
    if row["fenced"]:
        return "fenced"
    return "shutting down" if row["in_controlled_shutdown"] else "up"


def pieces(row: Row) -> list[Mapping[str, Any]]:
    """The pieces of evidence to show in a list."""
    return (row["evidence"] or [])[:MAX_PIECES]
