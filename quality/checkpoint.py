"""Run the suites on violations, and write Data Docs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

# Set before the import: otherwise the library tries to send usage events.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx

from quality.check import Check
from quality.run import Outcome
from quality.suites import frame, suite


def run_suites(
    checks: Sequence[Check],
    found: Mapping[str, Outcome],
    warns: Mapping[str, bool],
    docs: Path,
) -> dict[str, bool]:
    """Validate what was found against the suite of each table, and write Data Docs to `docs` (docs/index.html).

    warns: as in `suite`. Returns by full name whether the expectation is met. Errors: OSError for pages that cannot be
    written.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    site = {
        "class_name": "SiteBuilder",
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs.resolve())},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }
    context.add_data_docs_site(site_name="lake", site_config=site)
    context.delete_data_docs_site(site_name="local_site")
    source = context.data_sources.add_pandas(name="lake")
    met = {}
    for table in dict.fromkeys(check.table for check in checks):
        own = [check for check in checks if check.table == table]
        violations = frame(own, found)
        asset = source.add_dataframe_asset(name=table)
        definition = gx.ValidationDefinition(
            name=table,
            data=asset.add_batch_definition_whole_dataframe("whole"),
            suite=context.suites.add(suite(table, own, warns)),
        )
        checkpoint = gx.Checkpoint(
            name=table,
            validation_definitions=[context.validation_definitions.add(definition)],
            result_format={"result_format": "BASIC", "partial_unexpected_count": len(violations)},
        )
        outcome = context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": violations})
        for run in outcome.run_results.values():
            for result in run.results:
                met[f"{table}.{result.expectation_config.kwargs['column']}"] = bool(result.success)
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
