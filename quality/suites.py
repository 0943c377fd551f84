"""The expectation suites of Great Expectations, one for each table, made from the checks.

A suite reads a frame of violations: a column for each of its expectations, whose values are the keys of rows that
break it. Every expectation is that there is none. So the library needs no rows of the lake, and its pages show the
violations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
from great_expectations.expectations.metadata_types import FailureSeverity

from quality.check import Check, Outcome


def suite(table: str, checks: Sequence[Check], warns: Mapping[str, bool]) -> gx.ExpectationSuite:
    """The suite of a table. warns: by full name, whether a check only warns."""
    return gx.ExpectationSuite(
        name=table,
        expectations=[
            gxe.ExpectColumnValuesToBeNull(
                column=check.name,
                severity=FailureSeverity.WARNING if warns[check.full_name] else FailureSeverity.CRITICAL,
                notes=f"{check.meaning} Otherwise: {check.action}",
            )
            for check in checks
        ],
    )


def frame(checks: Sequence[Check], found: Mapping[str, Outcome]) -> pd.DataFrame:
    """The violations of a table: its sample of each check as a column, with at least one row."""
    samples = {check.name: found[check.full_name].sample for check in checks}
    rows = max(1, *(len(sample) for sample in samples.values()))
    return pd.DataFrame({n: pd.Series([*s, *[None] * (rows - len(s))], dtype=object) for n, s in samples.items()})
