"""Run a suite on a DataFrame of pandas or Spark, and write Data Docs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

# Set before the import: otherwise the library tries to send usage events.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx
import pandas as pd


def run_suite(frame: Any, suite: gx.ExpectationSuite, docs: Path) -> list[dict[str, Any]]:
    """Validate `frame`, a DataFrame of pandas or of Spark, and write Data Docs to `docs` (docs/index.html).

    Returns one dict per expectation: suite, table, expectation, column, success, unexpected_count, element_count,
    details (JSON text). An unmet expectation is a result, not an error.
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
    sources = context.data_sources
    source = sources.add_pandas(name="lake") if isinstance(frame, pd.DataFrame) else sources.add_spark(name="lake")
    asset = source.add_dataframe_asset(name=suite.name)
    definition = gx.ValidationDefinition(
        name=suite.name, data=asset.add_batch_definition_whole_dataframe("whole"), suite=context.suites.add(suite)
    )
    checkpoint = gx.Checkpoint(
        name=suite.name,
        validation_definitions=[context.validation_definitions.add(definition)],
        # Counts only: sampling the values of a broken invariant (always "false") would cost a Spark job per
        # expectation.
        result_format={"result_format": "BASIC", "partial_unexpected_count": 0},
    )
    outcome = context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": frame})
    context.build_data_docs()
    return [_row(suite.name, result) for run in outcome.run_results.values() for result in run.results]


def _row(suite: str, result: Any) -> dict[str, Any]:
    config, observed = result.expectation_config, result.result or {}
    kwargs = config.kwargs
    column = kwargs.get("column") or ",".join(kwargs.get("column_list", []))
    details = {k: v for k, v in observed.items() if k in ("unexpected_percent", "observed_value")}
    if result.exception_info and result.exception_info.get("raised_exception"):
        details["exception"] = str(result.exception_info.get("exception_message"))
    return {
        "suite": suite,
        "table": suite,
        "expectation": config.type,
        "column": column,
        "success": bool(result.success),
        "unexpected_count": observed.get("unexpected_count"),
        "element_count": observed.get("element_count"),
        "details": json.dumps(details, default=str),
    }
