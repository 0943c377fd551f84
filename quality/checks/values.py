"""The checks that every table has: of single values, of its key, and of the files that its rows are from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from quality.check import Check, Kind, Limits, Scope, Violations, broken
from quality.checks.specs import SPECS, Spec
from quality.columns import NULL, Array, Rows, Tables, repeated, unknown

FILE = ("capture", "path", "sha256")
# Tables whose files are cut by topics.
_OF_TOPICS = ("partition_history", "cluster_metrics", "elections", "rule_differences")


def checks() -> Iterator[Check]:
    for table, spec in SPECS.items():
        yield Check(
            table,
            "values_valid",
            Kind.VALIDITY,
            _meaning(spec),
            "The row was not written by this release, or was changed: build the table again (derived tables), or "
            "ingest the capture into a new lake (evidence).",
            partial(_invalid, table, spec),
            {table: spec.columns},
            spec.key,
            Scope.ROWS,
        )
        yield Check(
            table,
            "key_unique",
            Kind.VALIDITY,
            f"No two rows have the same {', '.join(spec.key)}.",
            "A file of the table was added twice, e.g. by a copy of another lake: ingest the captures into a new lake.",
            partial(_twice, table, spec.key),
            {table: spec.key},
            spec.key,
            Scope.TOPIC if table in _OF_TOPICS else Scope.VALUE,
        )
        if spec.place:
            yield Check(
                table,
                "file_known",
                Kind.VALIDITY,
                "The file that a row names is in evidence_files.",
                "Evidence was removed while rows that rest on it were kept: run replay and detect again, or ingest the "
                "capture again.",
                partial(_strange_file, table),
                {table: tuple(dict.fromkeys((*FILE, *spec.key))), "evidence_files": FILE},
                (*FILE[1:2], *(name for name in spec.key if name not in FILE)),
                Scope.ROWS,
            )


def _meaning(spec: Spec) -> str:
    parts = [f"{', '.join(spec.present)}: not null"] if spec.present else []
    parts += [f"{name}: one of {', '.join(values)}" for name, values in spec.one_of.items()]
    parts += [f"{name}: at least {least}" for name, least in spec.least.items()]
    parts += [f"{low} not above {high}" for low, high in spec.ordered]
    return "; ".join(parts) + "."


def _invalid(table: str, spec: Spec, tables: Tables, _: Limits) -> Violations:
    rows = tables[table]
    rules = list(_rules(rows, spec))
    wrong = np.zeros(len(rows), dtype=bool)
    for _, mask in rules:
        wrong |= mask
    return broken(rows, wrong, lambda number: "; ".join(text for text, mask in rules if mask[number]))


def _rules(rows: Rows, spec: Spec) -> Iterator[tuple[str, Array]]:
    """What is wrong, and where."""
    for name in spec.present:
        yield f"{name} is null", ~rows.valid(name)
    for name, values in spec.one_of.items():
        yield f"{name} is none of its values", rows.valid(name) & ~rows.in_set(name, values)
    for name, least in spec.least.items():
        values = rows.ints(name)
        yield f"{name} is below {least}", (values < least) & (values != NULL)
    for low, high in spec.ordered:
        values, most = rows.ints(low), rows.ints(high)
        yield f"{low} is above {high}", (values > most) & (most != NULL)


def _twice(table: str, key: tuple[str, ...], tables: Tables, _: Limits) -> Violations:
    rows = tables[table]
    return broken(rows, repeated(rows, key))


def _strange_file(table: str, tables: Tables, _: Limits) -> Violations:
    rows = tables[table]
    strange = rows.valid("sha256") & unknown(rows, FILE, (tables["evidence_files"], FILE))
    return broken(rows, strange)
