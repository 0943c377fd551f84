"""The expectation suites of Great Expectations, one for each table, made from the checks.

A suite reads a frame of violations: a column for each of its expectations, whose values are the keys of rows that
break it: the first ones. Every expectation is that there is none. So the library needs no rows of the lake, and its
pages show the violations, with the true counts of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.metadata_types import FailureSeverity

from quality.check import Check
from quality.run import Outcome


class NoViolations(gxe.ExpectColumnValuesToBeNull):
    """No row of the checked table breaks the expectation that the column is named after. The frame has only the first
    violations, and the true counts as its attributes."""

    def _validate(
        self, metrics: dict[str, Any], *given: Any, execution_engine: PandasExecutionEngine, **named: Any
    ) -> Any:
        counts = execution_engine.dataframe.attrs[self.column]
        return super()._validate(metrics | counts, *given, execution_engine=execution_engine, **named)


def suite(table: str, checks: Sequence[Check], warns: Mapping[str, bool]) -> gx.ExpectationSuite:
    """The suite of a table. warns: by full name, whether a check only warns."""
    return gx.ExpectationSuite(
        name=table,
        expectations=[
            NoViolations(
                column=check.name,
                severity=FailureSeverity.WARNING if warns[check.full_name] else FailureSeverity.CRITICAL,
                notes=f"{check.meaning} Otherwise: {check.action}",
            )
            for check in checks
        ],
    )


def frame(checks: Sequence[Check], found: Mapping[str, Outcome]) -> pd.DataFrame:
    """The violations of a table: its sample of each check as a column, with at least one row."""
    outcomes = {check.name: found[check.full_name] for check in checks}
    rows = max(1, *(len(outcome.sample) for outcome in outcomes.values()))
    columns = {name: outcome.sample + [None] * (rows - len(outcome.sample)) for name, outcome in outcomes.items()}
    violations = pd.DataFrame(columns, dtype=object)
    violations.attrs = {
        name: {"table.row_count": max(o.checked, o.broken), "column_values.null.unexpected_count": o.broken}
        for name, o in outcomes.items()
    }
    return violations
