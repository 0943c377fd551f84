"""Quality: check partition_history against the expectation suite -> quality_results and Data Docs in the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evidence.capture.remote import Location
from jobs.config.settings import Settings
from jobs.lake.conflicts import undisturbed
from jobs.lake.fingerprint import completion, input_fingerprint, is_up_to_date
from jobs.lake.lake import Lake
from jobs.lake.storage import within
from jobs.lake.tables import CHECKED, QUALITY_RESULTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DOCS = "_data_docs"
_INPUTS = ("partition_history",)


@dataclass(frozen=True, slots=True)
class QualityResult:
    """The result of a check. failed: the unmet expectations, as 'expectation(column): n rows'."""

    cluster_id: str
    expectations: int
    failed: list[str]
    docs: Location
    up_to_date: bool


def run_quality(lake: Lake, cluster: str, settings: Settings, progress: Callable[[str], None]) -> QualityResult:
    """Check one cluster's partition_history, unless it is unchanged since the last check. Great Expectations checks a
    small table with pandas, a large one with Spark."""
    return undisturbed(lambda: _checked(lake, cluster, settings, progress))


def _checked(lake: Lake, cluster: str, settings: Settings, progress: Callable[[str], None]) -> QualityResult:
    since, inputs = lake.cluster_version("quality_results", cluster), input_fingerprint(lake, cluster, _INPUTS)
    up_to_date = is_up_to_date(lake, cluster, CHECKED, inputs)
    if not up_to_date:
        # Great Expectations takes seconds to import, so import it only when it is needed.
        from quality.checkpoint import run_suite
        from quality.suites import partition_history_suite

        progress(f"{cluster}: checking partition_history")
        with TemporaryDirectory() as folder:
            rows = run_suite(_frame(lake, cluster, settings), partition_history_suite(), Path(folder))
            lake.storage.copy_in(Path(folder), f"{DOCS}/{cluster}")
        table = pa.Table.from_pylist(rows, schema=QUALITY_RESULTS)
        lake.put("quality_results", cluster, table, completion(lake, cluster, _INPUTS, CHECKED, inputs), since)
    results = lake.rows("quality_results", cluster, ("expectation", "column", "success", "unexpected_count"))
    failed = [f"{r['expectation']}({r['column']}): {r['unexpected_count']} rows" for r in results if not r["success"]]
    return QualityResult(cluster, len(results), failed, within(lake.root, f"{DOCS}/{cluster}/index.html"), up_to_date)


def _frame(lake: Lake, cluster: str, settings: Settings) -> Any:
    """partition_history with its invariants, as a DataFrame of pandas or of Spark."""
    from quality.invariants import COLUMNS, with_invariants

    if lake.count("partition_history", cluster) >= settings.quality.spark_from_rows:
        return _spark_frame(lake, cluster, settings)
    rows = pa.concat_tables(map(with_invariants, lake.parts("partition_history", cluster, COLUMNS)))
    names = [field.name for field in rows.schema if pa.types.is_string(field.type)]
    for name in names:  # pandas keeps each string of a column only once
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].dictionary_encode())
    return rows.to_pandas()


def _spark_frame(lake: Lake, cluster: str, settings: Settings) -> DataFrame:
    from jobs.spark.session import build_session
    from jobs.spark.tables import table_frame
    from jobs.spark.types import spark_schema
    from quality.invariants import COLUMNS, with_invariants

    def checked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from with_invariants(pa.Table.from_batches([batch])).to_batches()

    history = table_frame(build_session(settings.spark), lake, "partition_history", cluster).select(*COLUMNS)
    schema = with_invariants(lake.dataset("partition_history").schema.empty_table().select(COLUMNS)).schema
    return history.mapInArrow(checked, spark_schema(schema)).persist()
