"""Great Expectations: a suite for each table, made from the checks; run on violations; and Data Docs.

A suite reads a frame of violations: a column for each of its expectations, whose values are the keys of rows that
break it: the first ones. Every expectation is that there is none. So the library needs no rows of the lake, and its
pages show the violations, with the true counts of rows.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quality import main_file  # noqa: F401

# Set before the import: otherwise the library tries to send usage events.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.metadata_types import FailureSeverity

from quality.check import Check, Outcome


def run_suites(
    checks: Sequence[Check], found: Mapping[str, Outcome], warns: Mapping[str, bool], docs: Path
) -> dict[str, bool]:
    """Validate what was found against the suite of each table, and write Data Docs to `docs` (docs/index.html).

    warns: as in `suite`. Returns by full name whether the expectation is met. Errors: OSError for pages that cannot be
    written.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]
    site: Any = {
        "class_name": "SiteBuilder",
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs.resolve())},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }
    context.add_data_docs_site(site_name="lake", site_config=site)
    context.delete_data_docs_site(site_name="local_site")
    # One for all suites: each that is added is written down with all before it.
    asset = context.data_sources.add_pandas(name="lake").add_dataframe_asset(name="violations")
    batch = asset.add_batch_definition_whole_dataframe("whole")
    met = {}
    for table in dict.fromkeys(check.table for check in checks):
        own = [check for check in checks if check.table == table]
        violations = frame(own, found)
        definition = gx.ValidationDefinition(name=table, data=batch, suite=context.suites.add(suite(table, own, warns)))
        outcome = context.validation_definitions.add(definition).run(
            batch_parameters={"dataframe": violations},
            result_format={"result_format": "BASIC", "partial_unexpected_count": len(violations)},
        )
        for result in outcome.results:
            config: Any = result.expectation_config
            met[f"{table}.{config.kwargs['column']}"] = bool(result.success)
    with _failures() as failed:
        context.build_data_docs()
    if failed:
        raise failed[0]
    return met


@contextmanager
def _failures() -> Iterator[list[BaseException]]:
    """Collect the errors of pages that cannot be written (a full disk): Great Expectations only logs them, and goes
    on."""
    failed: list[BaseException] = []

    class Collected(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            failed.append(sys.exception() or RuntimeError(record.getMessage()))

    logger, handler = logging.getLogger("great_expectations.render.renderer.site_builder"), Collected(logging.ERROR)
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield failed
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


class NoViolations(gxe.ExpectColumnValuesToBeNull):  # type: ignore[misc, name-defined]
    """No row of the checked table breaks the expectation that the column is named after. The frame has only the first
    violations, and the true counts as its attributes: nothing is left for the library to compute."""

    def get_validation_dependencies(self, *given: Any, **named: Any) -> Any:
        return Expectation.get_validation_dependencies(self, *given, **named)

    def _validate(
        self, metrics: dict[str, Any], *given: Any, execution_engine: PandasExecutionEngine, **named: Any
    ) -> Any:
        violations: Any = execution_engine.dataframe
        found = violations.attrs[self.column] | {
            "column_values.null.unexpected_values": violations[self.column].dropna().tolist()
        }
        return super()._validate(found, *given, execution_engine=execution_engine, **named)


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
