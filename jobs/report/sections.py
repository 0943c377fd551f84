"""The report's other sections: predictions, policies, exposures, truncated logs, brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from jobs.report.rows import Row, Section, Totals
from jobs.report.words import FAMILIES, policy_family, policy_rank
from replay.findings.kinds import LAST_REPLICA, LEADERLESS, of_section

MAX_PIECES = 3  # pieces of evidence to show per finding in a list
MAX_SESSIONS = 100  # rows of a broker's history
EXPOSURE_NAMES = {LEADERLESS: "without a leader", LAST_REPLICA: "one replica left"}


@dataclass(frozen=True, slots=True)
class PredictedAnswer:
    """A leader that other rules would have elected, and the bounds of the loss; `row` has both."""

    row: Row
    policies: list[str | None]
    kinds: list[str]
    findings: list[str]


@dataclass(frozen=True, slots=True)
class Predicted:
    """What other rules would have done in one window. recorded: the window's finding; anchor: id of its place; each
    is None if the page does not show it."""

    row: Row
    recorded: Row | None
    anchor: str | None
    answers: list[PredictedAnswer]


@dataclass(frozen=True, slots=True)
class Exposure:
    """How often and how long partitions were exposed in one way. unended: number of exposures without an end."""

    name: str
    kind: str
    findings: int
    total_ms: int
    longest_ms: int | None
    unended: int


@dataclass(frozen=True, slots=True)
class ReplicaLoss:
    """A replica's log end, or high watermark, before and after it was truncated."""

    broker: int | None
    had: int | None
    left: int | None

    @property
    def gone(self) -> int | None:
        return None if self.had is None or self.left is None else self.had - self.left


def window_key(row: Row) -> tuple[Any, ...]:
    """Key of a judged election, which it shares with its predictions."""
    return row["topic_id"], row["partition"], row["election_offset"]


def predicted_windows(
    rows: Sequence[Row], windows: Mapping[tuple[Any, ...], Row], anchors: Mapping[str, str]
) -> list[Predicted]:
    """Predictions by window. rows: in the section's order, which keeps the predictions of a window together; windows:
    findings of the judged windows, by `window_key`; anchors: finding_id -> id of its place."""
    groups = [(windows.get(key), list(group)) for key, group in groupby(rows, key=window_key)]
    return [
        Predicted(group[0], window, anchors.get(window["finding_id"]) if window else None, _answers(group))
        for window, group in groups
    ]


def _answers(rows: Sequence[Row]) -> list[PredictedAnswer]:
    """Group the rules with the same leader and loss into one answer."""
    answers = []
    for _, group in groupby(rows, key=lambda row: (row["loss_min"], row["loss_max"], row["would_be_leader"])):
        same = list(group)
        policies = sorted({row["policy"] for row in same}, key=policy_rank)
        kinds, findings = sorted({str(row["kind"]) for row in same}), [row["finding_id"] for row in same]
        answers.append(PredictedAnswer(same[0], policies, kinds, findings))
    return answers


def exposures(totals: Totals) -> list[Exposure]:
    """An Exposure for each kind that was found, over all its findings."""
    found = []
    for kind in of_section(Section.EXPOSURES):
        groups = [group for group in totals.groups if group["kind"] == kind]
        if groups:
            found.append(
                Exposure(
                    EXPOSURE_NAMES[kind],
                    kind,
                    sum(group["findings"] for group in groups),
                    sum(group["lasted_ms"] or 0 for group in groups),
                    max((group["longest_ms"] for group in groups if group["longest_ms"] is not None), default=None),
                    sum(group["unended"] for group in groups),
                )
            )
    return found


def lasted(row: Row) -> tuple[int | None, bool]:
    """(milliseconds, whether this is only a lower bound) of an exposure."""
    return row["lasted_ms"], row["lasted_at_least"] or row["end_offset"] is None


def how_it_ended(row: Row) -> str:
    """Why an exposure has no end."""
    return "until a hole in the log" if row["end_reason"] == "hole" else "still exposed at the end of the log"


def replica_loss(row: Row) -> ReplicaLoss:
    """The values before and after a truncation."""
    return ReplicaLoss(row["broker_id"], row["value_before"], row["value_after"])


@dataclass(frozen=True, slots=True)
class ExposureGroup:
    """Exposures of one kind and topic. total: its row of ReportInput.exposure_groups, None for those beyond; items: the
    ones that the page lists."""

    total: Row | None
    items: list[Any]


def exposure_groups(items: Sequence[Any], totals: Sequence[Row]) -> list[ExposureGroup]:
    """The listed exposures by group; those of groups that have no total come last. items: with `row`."""
    by_key: dict[tuple[Any, ...], list[Any]] = {}
    for item in items:
        by_key.setdefault((item.row["kind"], item.row["topic"]), []).append(item)
    groups = [ExposureGroup(total, by_key.pop((total["kind"], total["topic"]), [])) for total in totals]
    rest = [item for found in by_key.values() for item in found]
    return [*groups, ExposureGroup(None, rest)] if rest else groups


def policies_by_family(policies: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """(title of a family, its policies), each in the order of the page."""
    ranked = sorted(policies, key=lambda row: policy_rank(row["policy"]))
    groups = groupby(ranked, key=lambda row: policy_family(row["policy"]))
    return [(FAMILIES[family], list(rows)) for family, rows in groups]


@dataclass(frozen=True, slots=True)
class BrokerLife:
    """A broker's history. rows: at most MAX_SESSIONS, the last ones; state: at the log's end."""

    broker: int
    rows: list[Row]
    count: int
    state: str
    processes: int
    unclean: int


def broker_life(broker: int, rows: Sequence[Row]) -> BrokerLife:
    """Sum up a broker's rows of BROKER_HISTORY, in order."""
    last = rows[-1]
    known = last["end_offset"] is None
    return BrokerLife(
        broker,
        list(rows[-MAX_SESSIONS:]),
        len(rows),
        broker_state(last) if known else "unknown",
        len({row["incarnation_id"] for row in rows if row["incarnation_id"] is not None}),
        sum(1 for row in restarts(rows) if row["restart_class"] == "unclean"),
    )


def restarts(rows: Sequence[Row]) -> list[Row]:
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
