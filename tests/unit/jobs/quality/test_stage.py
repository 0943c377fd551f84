"""Quality of a lake: runs are kept, severities, the page with the trend, a large lake by bucket, Great Expectations."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.config.settings import Settings, SettingsError, load_settings
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.quality.source import LakeSource, source_of
from jobs.quality.stage import QualityResult, run_quality
from jobs.report.load import load_report
from quality.check import Scope, checks, needs_of, values
from quality.run import InMemory, Outcomes, Part, run
from tests.support.paths import ROOT
from tests.support.planting import LIMITS

MOST = 60
FRESH = "log_end_offsets.fresh"


def with_quality(**values: object) -> Settings:
    settings = load_settings()
    return settings.model_copy(update={"quality": settings.quality.model_copy(update=values)})


def checked(lake: Lake, settings: Settings | None = None) -> QualityResult:
    (cluster,) = lake.clusters()
    result = run_quality(lake, cluster, settings or load_settings(), lambda _: None)
    assert result.write_docs().is_file()
    return result


def break_history(lake: Lake) -> None:
    (cluster,) = lake.clusters()
    rows = lake.read("partition_history", cluster)
    isr = rows["isr"].to_pylist()
    isr[0] = [*isr[0], 99]
    at, field = rows.schema.get_field_index("isr"), rows.schema.field("isr")
    lake.put("partition_history", cluster, rows.set_column(at, field, pa.array(isr, field.type)))


def print_other_leaders(lake: Lake) -> None:
    (cluster,) = lake.clusters()
    printed = lake.rows("described_partitions", cluster)[::5]
    rows = [{**row, "leader": 77, "position": row["position"] + 1_000_000} for row in printed]
    schema = TABLES["described_partitions"].file_schema
    lake.append("described_partitions", cluster, pa.Table.from_pylist(rows, schema=schema))


def test_every_run_is_kept_and_a_failing_one_names_rows_and_what_to_do(
    lake: Lake, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning fails none, until its severity is that of an error."""
    assert load_report(lake, cluster)["quality_runs"] == []
    stopped = {"reading_age_ms": 0}
    first, again = checked(lake, with_quality(**stopped)), checked(lake, with_quality(**stopped))
    assert (first.failed, first.up_to_date) == ([], False)
    assert capsys.readouterr().err.count(f"quality: warning: {FRESH}: ") == 2, "of each run"
    assert again.up_to_date
    assert again.expectations == first.expectations == len(checks())
    break_history(lake)
    broken = checked(lake, with_quality(**stopped, severity={FRESH: "error"}))
    assert [line.partition(":")[0] for line in broken.failed] == [
        "cluster_metrics.electable_reproduced",
        FRESH,
        "partition_history.isr_within_replicas",
    ]
    line = broken.failed[-1]
    assert ": 1 of 148 rows (topic_id=" in line
    assert "99]" in line
    assert line.endswith("See docs/invariants.md for what a violation means.")
    results = lake.rows("quality_results", cluster)
    runs = {row["run_id"]: row["run_at_ms"] for row in results}
    assert len(runs) == 2
    assert len(results) == 2 * len(checks())
    failed = next(row for row in results if row["table"] == "partition_history" and not row["success"])
    assert failed["unexpected_count"] == len(failed["sample"]) == 1
    severities = {(row["run_id"], row["severity"]) for row in results if row["expectation"] == "fresh"}
    assert sorted(severity for _, severity in severities) == ["error", "warn"]
    trend = (Path(lake.storage.root) / "_data_docs" / cluster / "trend.html").read_text(encoding="utf-8")
    assert all(run_id in trend for run_id in runs)
    assert "partition_history.isr_within_replicas" in trend
    assert "http" not in trend
    # The report has the newest runs.
    newest, oldest = load_report(lake, cluster)["quality_runs"]
    assert newest["run_at_ms"] >= oldest["run_at_ms"]
    expectations = len(checks())
    assert newest == {"expectations": expectations, "failed": 3, "warned": 0, "run_at_ms": newest["run_at_ms"]}
    assert oldest == {"expectations": expectations, "failed": 0, "warned": 1, "run_at_ms": oldest["run_at_ms"]}


def test_what_could_not_write_its_pages_is_checked_again(lake: Lake) -> None:
    pages = Path(lake.storage.root) / "_data_docs"
    pages.write_text("no folder")
    with pytest.raises(NotADirectoryError):
        checked(lake)
    pages.unlink()
    assert [checked(lake).up_to_date for _ in range(2)] == [False, True]


def test_a_severity_of_no_expectation_is_refused(lake: Lake) -> None:
    with pytest.raises(SettingsError, match=r"no expectation has the name findings\.nonsense"):
        checked(lake, with_quality(severity={"findings.nonsense": "warn"}))


def counted(found: Outcomes) -> dict[str, tuple[int, int, list[str]]]:
    return {name: (each.checked, each.broken, sorted(each.sample)) for name, each in found.items()}


def test_reading_by_bucket_finds_the_same(lake: Lake, cluster: str) -> None:
    break_history(lake)
    print_other_leaders(lake)
    lake.put("elections", cluster, lake.read("elections", cluster).slice(3))
    lake.put("metadata_records", cluster, lake.read("metadata_records", cluster).slice(0, 300))
    settings = load_settings()
    held = source_of(lake, cluster, checks(), settings)
    assert isinstance(held, InMemory)
    whole, parts = (run(checks(), LakeSource(lake, cluster, with_most(n)), LIMITS) for n in (1_000_000, 120))
    assert counted(whole) == counted(parts) == counted(run(checks(), held, LIMITS))
    assert {name for name, found in whole.items() if found.broken} == {
        *("partition_history.isr_within_replicas", "elections.changes_listed"),
        *("described_partitions.agrees_with_history", "described_partitions.state_possible"),
        *("log_batches.records_decoded", "partition_history.record_exists", "cluster_metrics.electable_reproduced"),
        "cluster_metrics.record_exists",
    }


def with_most(rows: int) -> Settings:
    settings = load_settings()
    return settings.model_copy(update={"replay": settings.replay.model_copy(update={"rows_per_bucket": rows})})


def test_no_part_holds_more_rows_than_the_setting_allows(lake: Lake, cluster: str) -> None:
    """And together the parts have every row once. Of a whole table no piece has more, either."""
    source = LakeSource(lake, cluster, with_most(MOST))
    held: Counter[str] = Counter()

    def hold(parts: Sequence[Part]) -> Outcomes:
        for part in parts:
            table = part.checks[0].table
            for tables in part.read(needs_of(part.checks, part.schemas)):
                for batch in pa.RecordBatchReader.from_stream(tables[table]):
                    assert len(batch) <= MOST
                    held[table] += len(batch)
        return {}

    for wanted in (
        [check for check in checks() if check.scope is Scope.ROW and not values()[check.table].by_topic],
        [check for check in checks() if check.full_name == "metadata_records.key_unique"],
    ):
        held.clear()
        list(source.each(wanted, hold))
        assert held["metadata_records"] == lake.count("metadata_records", cluster) > MOST
        assert held == {name: lake.count(name, cluster) for name in held}


def test_an_error_of_reading_is_the_error_of_the_check(lake: Lake, cluster: str) -> None:
    """DuckDB would hide its type, by which the task is tried again, and its text."""
    (file,) = lake.files("metadata_records", cluster)
    (Path(lake.storage.root) / "metadata_records" / file.path).unlink()
    wanted = [check for check in checks() if check.full_name == "metadata_records.key_unique"]
    with pytest.raises(FileNotFoundError, match="metadata_records"):
        run(wanted, LakeSource(lake, cluster, with_most(MOST)), LIMITS)


_PROGRAM = """
import os, signal, sys
from pathlib import Path
from jobs.quality import library
from quality.check import checks
from quality.check import Outcome

check, docs = checks()[0], Path(sys.argv[1])
found = {check.full_name: Outcome(checked=3, broken=1, sample=["a key"])}
ask = lambda: library.run_suites([check], found, {check.full_name: False}, docs)
print(list(ask().values()), sorted(page.name for page in docs.glob("*.html")), "great_expectations" in sys.modules)
for name in ("expectations", "validations"):
    (docs / name).rename(docs / "given")
    (docs / name).write_text("no folder")
    try:
        ask()
    except OSError as error:
        print(type(error).__name__, name in str(error))
    (docs / name).unlink()
    (docs / "given").rename(docs / name)
os.kill(library.prepare()._processes[0].pid, signal.SIGKILL)
try:
    ask()
except ChildProcessError as error:
    print(error)
"""


def test_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "[False] ['index.html'] False",
        "FileExistsError True",
        "NotADirectoryError True",
        "the process of Great Expectations ended with exit status -9",
    ], done.stderr
    assert done.stderr == ""
