"""The report's other sections, from rows of FINDINGS: predictions, exposures and truncated logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from jobs.incident.order import KEYS, LASTED_AT_LEAST, lasted_ms
from jobs.report.rows import Row, Section, Totals
from jobs.report.words import policy_rank
from replay.findings.kinds import LAST_REPLICA, LEADERLESS, of_section

EXPOSURE_NAMES = {LEADERLESS: "without a leader", LAST_REPLICA: "one replica left"}


@dataclass(frozen=True, slots=True)
class PredictedAnswer:
    """A leader that other rules would have elected, and the bounds of the loss; `row` has both."""

    row: Row
    policies: list[str | None]
    kinds: list[str]


@dataclass(frozen=True, slots=True)
class Predicted:
    """What other rules would have done in one window. recorded: the window's finding; anchor: id of its detail; each is
    None if the page does not show it."""

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
    rows: Sequence[Row], windows: Mapping[tuple[Any, ...], Row], anchors: Mapping[tuple[Any, ...], str | None]
) -> list[Predicted]:
    """Predictions by window. rows: in the section's order, which keeps the predictions of a window together; windows,
    anchors: findings and detail ids of the judged windows, by `window_key`."""
    groups = ((key, list(group)) for key, group in groupby(rows, key=window_key))
    return [Predicted(group[0], windows.get(key), anchors.get(key), _answers(group)) for key, group in groups]


def _answers(rows: Sequence[Row]) -> list[PredictedAnswer]:
    """Group the rules with the same leader and loss into one answer."""
    answers = []
    for _, group in groupby(rows, key=lambda row: (row["loss_min"], row["loss_max"], row["would_be_leader"])):
        same = list(group)
        policies = sorted({row["policy"] for row in same}, key=policy_rank)
        answers.append(PredictedAnswer(same[0], policies, sorted({str(row["kind"]) for row in same})))
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
    at_least = any(statement["code"] == LASTED_AT_LEAST for statement in row["reason"] or [])
    keys = pa.Table.from_pylist([{name: row[name] for name in KEYS.names}], schema=KEYS)
    return lasted_ms(keys)[0].as_py(), at_least or row["end_offset"] is None


def how_it_ended(row: Row) -> str:
    """Why an exposure has no end."""
    codes = {statement["code"] for statement in row["reason"] or []}
    return "until a hole in the log" if "exposed_into_hole" in codes else "still exposed at the end of the log"


def replica_loss(row: Row) -> ReplicaLoss:
    """The values before and after a truncation, from the evidence of the finding."""
    pieces = {piece["role"]: piece for piece in reversed(row["evidence"] or [])}
    before = pieces.get("before")
    after = pieces.get("after") or pieces.get("epoch_began")
    return ReplicaLoss(
        before["broker_id"] if before else None,
        before["value"] if before else None,
        after["value"] if after else None,
    )
