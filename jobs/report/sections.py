"""The report's sections beside the windows, from rows of FINDINGS: predictions, exposures, logs that were cut back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from jobs.report.order import KEYS, LASTED_AT_LEAST, lasted_ms
from jobs.report.rows import (
    Row,
    Section,
    Totals,
)
from jobs.report.words import policy_rank
from replay.findings.kinds import LAST_REPLICA, LEADERLESS, of_section

EXPOSURE_NAMES = {LEADERLESS: "without a leader", LAST_REPLICA: "one replica left"}


@dataclass(frozen=True, slots=True)
class PredictedAnswer:
    """A leader that other rules would have elected, with the bounds of what it would have lost; `row` has both."""

    row: Row
    policies: list[str | None]
    kinds: list[str]


@dataclass(frozen=True, slots=True)
class Predicted:
    """What other rules would have done in one window. recorded: the window's finding; anchor: of its detail; each None
    where the page does not show it."""

    row: Row
    recorded: Row | None
    anchor: str | None
    answers: list[PredictedAnswer]


@dataclass(frozen=True, slots=True)
class Exposure:
    """How often and how long partitions were exposed in one way. unended: how many were where the log ends."""

    name: str
    kind: str
    findings: int
    total_ms: int
    longest_ms: int | None
    unended: int


@dataclass(frozen=True, slots=True)
class ReplicaLoss:
    """What a replica had and was left with: its log end, or its high watermark."""

    broker: int | None
    had: int | None
    left: int | None

    @property
    def gone(self) -> int | None:
        return None if self.had is None or self.left is None else self.had - self.left


def window_key(row: Row) -> tuple[Any, ...]:
    """Identifies a judged election: its predictions have the same."""
    return row["topic_id"], row["partition"], row["election_offset"]


def predicted_windows(
    rows: Sequence[Row], windows: Mapping[tuple[Any, ...], Row], anchors: Mapping[tuple[Any, ...], str | None]
) -> list[Predicted]:
    """Predictions by window. rows: in the section's order, which keeps a window's predictions together; windows,
    anchors: of the judged windows, by `window_key`."""
    groups = ((key, list(group)) for key, group in groupby(rows, key=window_key))
    return [Predicted(group[0], windows.get(key), anchors.get(key), _answers(group)) for key, group in groups]


def _answers(rows: Sequence[Row]) -> list[PredictedAnswer]:
    """Rules that come to the same are one answer."""
    answers = []
    for _, group in groupby(rows, key=lambda row: (row["loss_min"], row["loss_max"], row["would_be_leader"])):
        several = list(group)
        policies = sorted({row["policy"] for row in several}, key=policy_rank)
        answers.append(PredictedAnswer(several[0], policies, sorted({str(row["kind"]) for row in several})))
    return answers


def exposures(totals: Totals) -> list[Exposure]:
    """Of each kind that was found, counted over all of them."""
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
    """(milliseconds, whether that is only the least) of an exposure."""
    at_least = any(said["code"] == LASTED_AT_LEAST for said in row["reason"] or [])
    keys = pa.Table.from_pylist([{name: row[name] for name in KEYS.names}], schema=KEYS)
    return lasted_ms(keys)[0].as_py(), at_least or row["end_offset"] is None


def how_it_ended(row: Row) -> str:
    """Of an exposure without an end: why there is none."""
    codes = {said["code"] for said in row["reason"] or []}
    return "then a hole in the log" if "exposed_into_hole" in codes else "still so where the log ends"


def replica_loss(row: Row) -> ReplicaLoss:
    """The figures of a log that was cut back, from its evidence."""
    pieces = {piece["role"]: piece for piece in reversed(row["evidence"] or [])}
    before = pieces.get("before")
    after = pieces.get("after") or pieces.get("epoch_began")
    return ReplicaLoss(
        before["broker_id"] if before else None,
        before["value"] if before else None,
        after["value"] if after else None,
    )
