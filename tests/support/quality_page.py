"""docs/quality.md, made of the checks and the planted defects.

`python -m tests.support.quality_page > docs/quality.md`
"""

from __future__ import annotations

from quality.catalogue import CHECKS
from tests.support.planted import PLANTED

HEAD = """# Quality

Generated from `quality/catalogue.py:CHECKS` and the tests' planted defects by `python -m tests.support.quality_page`.

`kraft-forensics quality` (and `run`) checks every table of a cluster. An expectation is a statement about rows. The
rows that break it are worked out with Arrow and NumPy, without Spark (`quality/run.py:run`), and each one is expected
not to exist. Great Expectations reads these violations with pandas, or with Spark from `quality.spark_from_rows` rows
of `partition_history` on: one suite and one checkpoint for each table (`quality/suites.py:suite`,
`quality/checkpoint.py:run_suites`).

- Exit code 4: an expectation of severity `error` is not met. The message names table, expectation, number of rows, the
  first rows and what to do. `warn` is shown and does not fail the run.
- `quality_results` keeps every run: its id and time, the fingerprint of each suite, for each expectation the number of
  rows that broke it, the first of them, and what to do. Nothing is checked again if no table and no setting of
  `[quality]` has changed.
- `_data_docs/<cluster>/` in the lake: `index.html` is Data Docs of the newest run, `trend.html` shows the newest 30
  runs.
- A defect of the cluster is a finding, not a defect of a table: a state that breaks an invariant and is in
  `invariant_violations`, or a gap of the log that is in `findings`, meets the expectations.
- Up to `replay.rows_per_bucket` rows are held in memory. More are read in Spark tasks: piece by piece, by bucket of
  topics, by span of a key's values, or as small digests of a large table (`quality/digests.py:DIGESTS`).

Settings, in `[quality]` of conf/defaults.toml:

| setting | is |
|---|---|
| `severity` | severity of single expectations by name, e.g. `"log_end_offsets.fresh" = "error"` |
| `reading_gap_ms`, `covered_share` | thresholds of `log_end_offsets.windows_covered` |
| `reading_age_ms` | threshold of `log_end_offsets.fresh` |
| `print_delay_ms` | threshold of `described_partitions.agrees_with_history` |
| `sample_rows` | how many rows are named |

All other expectations have the threshold 0: no row may break them.

## Expectations
"""
PLANTS = """
## Planted defects

Each line is a defect that `tests/unit/quality/test_planted_defects.py` plants in the tables of a real capture, and the
expectation that catches it. The captures themselves break none.

| table | defect | expectation |
|---|---|---|
"""


def page() -> str:
    parts = [HEAD]
    for table in dict.fromkeys(check.table for check in sorted(CHECKS, key=lambda check: check.table)):
        parts.append(
            f"\n### `{table}`\n\n| expectation | about | severity | must hold | otherwise |\n|---|---|---|---|---|\n"
        )
        for check in sorted((c for c in CHECKS if c.table == table), key=lambda c: c.name):
            severity = "warn" if check.warns else "error"
            parts.append(f"| `{check.name}` | {check.kind} | {severity} | {check.meaning} | {check.action} |\n")
    parts.append(PLANTS)
    for plant in sorted(PLANTED, key=lambda plant: plant.check):
        parts.append(f"| `{plant.table}` | {plant.defect} | `{plant.check.partition('.')[2]}` |\n")
    return "".join(parts)


if __name__ == "__main__":
    print(page(), end="")
