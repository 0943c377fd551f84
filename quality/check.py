"""What a check is: an expectation about rows of tables, whose violations are worked out as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from quality.columns import Array, Rows, Tables


class Kind(StrEnum):
    """What a check is about."""

    COMPLETENESS = "completeness"
    VALIDITY = "validity"
    CONSISTENCY = "consistency"
    COVERAGE = "coverage"
    RECONCILIATION = "reconciliation"
    AGREEMENT = "agreement"


class Scope(StrEnum):
    """What a check must see at once. ROWS: any rows of its table, and all of the other tables, which are small or
    digests. VALUE: all rows of its table that have the same value in the last column of its key. TOPIC: all rows of
    some topics, by id. NAME: rows of its table and all rows of the topics that they name in the column `topic`.
    CLUSTER: all rows of a cluster."""

    ROWS = "rows"
    VALUE = "value"
    TOPIC = "topic"
    NAME = "name"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds (conf/defaults.toml, [quality]). reading_gap_ms: a reading covers the time after it for so long.
    covered_share: least share of a window to be covered. reading_age_ms: a source's newest reading may be so much older
    than the log's end. print_delay_ms: a printed state may be so much older than the time it was printed. sample_rows:
    violations to name."""

    reading_gap_ms: int = 60_000
    covered_share: float = 0.5
    reading_age_ms: int = 3_600_000
    print_delay_ms: int = 60_000
    sample_rows: int = 20


@dataclass(frozen=True, slots=True)
class Violations:
    """Rows that break an expectation. at: their numbers in `rows`; checked: how many rows were looked at; text: more
    about the row of that number. measured: figures to keep, met or not."""

    rows: Rows
    at: Array
    checked: int
    text: Callable[[int], str] | None = None
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """An expectation. name: unique in its table. meaning: what must hold. action: what to do where it does not. needs:
    the columns that `find` reads, by table or digest (quality/digests.py); fields of structs as dotted paths. key:
    columns that name a violation."""

    table: str
    name: str
    kind: Kind
    meaning: str
    action: str
    find: Callable[[Tables, Limits], Violations]
    needs: Mapping[str, tuple[str, ...]]
    key: tuple[str, ...]
    scope: Scope = Scope.CLUSTER
    warns: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.table}.{self.name}"


@dataclass(slots=True)
class Outcome:
    """How often a check was broken. sample: the first violations, as text. measured: as in Violations."""

    checked: int = 0
    broken: int = 0
    sample: list[str] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)

    def add(self, check: Check, found: Violations, most: int) -> None:
        self.checked += found.checked
        self.broken += len(found.at)
        self.measured |= found.measured
        for number in found.at[: max(0, most - len(self.sample))]:
            self.sample.append(_text(check, found, int(number)))

    def merge(self, later: Outcome, most: int) -> None:
        self.checked += later.checked
        self.broken += later.broken
        self.measured |= later.measured
        self.sample += later.sample[: max(0, most - len(self.sample))]


def _text(check: Check, found: Violations, number: int) -> str:
    row = found.rows.table.select([n for n in check.key if n in found.rows.table.column_names]).slice(number, 1)
    parts = [f"{name}={_short(value)}" for name, value in row.to_pylist()[0].items() if value is not None]
    if found.text is not None:
        parts.append(found.text(number))
    return ", ".join(parts)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def broken(rows: Rows, mask: Array, text: Callable[[int], str] | None = None) -> Violations:
    """The rows where `mask` is true, of all rows."""
    return Violations(rows, np.flatnonzero(mask), len(rows), text)
