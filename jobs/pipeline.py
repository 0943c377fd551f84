"""The stages in order, over every cluster of a lake, in one Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

from evidence.errors import CaptureError, KraftForensicsError
from jobs.cluster_state import EARLIEST
from jobs.detect import Found, run_detect
from jobs.ingest import Ingested, ingest
from jobs.lake import Lake
from jobs.output import Format, print_rows, print_table, progress_steps, say, utc
from jobs.quality import run_quality
from jobs.replay import Replayed, replay
from jobs.report import write_report
from jobs.session import build_session
from jobs.settings import load_settings

_WINDOW_QUERY = """
    select topic, partition, verdict, loss_min, loss_max, first_lost_offset, start_offset, election_offset, end_offset,
           start_timestamp_ms, recorded_leader, would_be_leader, finding_id
    from findings where kind = 'hwm_regression' and verdict <> 'excluded'
    order by verdict = 'proven' desc, loss_min desc, topic, partition, election_offset
"""
_JUDGED = "kind = 'hwm_regression' or severity in ('critical', 'high')"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run ends with. summary: lines for people."""

    worst_verdicts: set[str]
    quality_failed: list[str]
    summary: list[str]


class Pipeline:
    """A lake, the captures to ingest, and the session, which starts with the first stage that needs it.

    Errors: CaptureError for a capture that is not there: a wrong path is said before Spark starts.
    """

    def __init__(self, root: Path, captures: Sequence[Path] = ()) -> None:
        _check_paths(captures)
        self.root = root
        self.captures = captures
        self.settings = load_settings()

    @cached_property
    def lake(self) -> Lake:
        size = sum(_size_bytes(p) for p in (self.root, *self.captures))
        small = size < self.settings.spark.codegen_from_mib << 20
        return Lake(build_session(self.settings.spark, small), self.root)

    def run(self, report: Path, start: str = EARLIEST) -> Outcome:
        """Every stage, with a progress bar. Errors: as the stages."""
        with progress_steps(len(self.captures) + 4) as (describe, advance):
            for capture in self.captures:
                _say_ingested(ingest(self.lake, capture, self.settings, describe))
                advance()
            clusters = self.lake.clusters()
            for cluster in clusters:
                _say_replayed(replay(self.lake, cluster, self.settings, describe, start))
            advance()
            for cluster in clusters:
                _say_found(run_detect(self.lake, cluster, self.settings, describe))
            advance()
            checked = [run_quality(self.lake, cluster, describe) for cluster in clusters]
            advance()
            pages = [write_report(self.lake, c, _page(report, c, clusters), describe) for c in clusters]
            advance()
        summary = [f"report:    {page}" for page in pages]
        summary += [f"data docs: {c.docs.resolve()}" for c in checked]
        summary.append(f"tables:    {self.root.resolve()}")
        failed = [line for c in checked for line in c.failed]
        return Outcome(self.verdicts(), failed, summary)

    def ingest(self) -> None:
        with progress_steps(len(self.captures)) as (describe, advance):
            for capture in self.captures:
                _say_ingested(ingest(self.lake, capture, self.settings, describe))
                advance()

    def replay(self, start: str = EARLIEST) -> None:
        for cluster in self._clusters():
            with progress_steps(1) as (describe, _):
                _say_replayed(replay(self.lake, cluster, self.settings, describe, start))

    def detect(self) -> None:
        for cluster in self._clusters():
            with progress_steps(1) as (describe, _):
                _say_found(run_detect(self.lake, cluster, self.settings, describe))

    def quality(self) -> list[str]:
        """Run the suites; returns the unmet expectations."""
        failed = []
        for cluster in self._clusters():
            with progress_steps(1) as (describe, _):
                checked = run_quality(self.lake, cluster, describe)
            met = checked.expectations - len(checked.failed)
            say(f"{cluster}: {met} of {checked.expectations} expectations met; data docs: {checked.docs.resolve()}")
            failed += checked.failed
        return failed

    def report(self, output: Path) -> list[Path]:
        clusters = self._clusters()
        with progress_steps(len(clusters)) as (describe, _):
            return [write_report(self.lake, c, _page(output, c, clusters), describe) for c in clusters]

    def sql(self, query: str) -> tuple[list[str], list[dict[str, Any]]]:
        """Columns and rows of a query. Errors: KraftForensicsError with Spark's message."""
        Lake(None, self.root).require()  # type: ignore[arg-type]
        self.lake.register_views(query)
        try:
            frame = self.lake.spark.sql(query)
            return frame.columns, frame.toArrow().to_pylist()
        except PySparkException as error:
            raise KraftForensicsError(f"the query failed: {error.getMessage() or error}") from error

    def print_windows(self, form: Format) -> None:
        """The flagged windows on stdout."""
        columns, rows = self.sql(_WINDOW_QUERY)
        if form is not Format.TABLE:
            print_rows(columns, rows, form)
            return
        if not rows:
            print("no window was flagged")
            return
        shown = [{"window": f"{r['topic']}-{r['partition']}", **_for_people(r)} for r in rows]
        print_table(list(shown[0]), shown, f"{len(rows)} flagged windows: the high watermark went back, or may have")

    def verdicts(self) -> set[str]:
        """The verdicts that --fail-on looks at: of windows, and of grave faults of the log."""
        _, rows = self.sql(f"select distinct verdict from findings where {_JUDGED}")
        return {r["verdict"] for r in rows}

    def one_cluster(self, wanted: str | None) -> str:
        """The cluster a command is about. Errors: KraftForensicsError when that is not clear."""
        clusters = self._clusters()
        if wanted is None and len(clusters) == 1:
            return clusters[0]
        if wanted in clusters:
            return str(wanted)
        raise KraftForensicsError(f"name a cluster with --cluster; this lake holds {', '.join(clusters)}")

    def _clusters(self) -> list[str]:
        Lake(None, self.root).require()  # type: ignore[arg-type]
        return self.lake.clusters()


def _check_paths(captures: Sequence[Path]) -> None:
    """A wrong path is said before Spark starts."""
    for capture in captures:
        if not capture.exists():
            raise CaptureError(
                f"{capture}: no such file or folder. Name a capture: a folder, an archive or a log segment."
            )


def _size_bytes(path: Path) -> int:
    """Bytes of a file or of everything below a folder; 0 for what is not there."""
    if path.is_file():
        return path.stat().st_size
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def _page(output: Path, cluster: str, clusters: list[str]) -> Path:
    """One page a cluster; with several the cluster id becomes part of the name."""
    return output if len(clusters) == 1 else output.with_name(f"{output.stem}-{cluster}{output.suffix}")


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    low, high = row["loss_min"], row["loss_max"]
    loss = str(low) if low == high else f"{low} or more" if high is None else f"{low} to {high}"
    return {
        "verdict": row["verdict"],
        "lost offsets": loss,
        "from offset": row["first_lost_offset"],
        "exposed at": row["start_offset"],
        "since (UTC)": utc(row["start_timestamp_ms"]),
        "elected at": row["election_offset"],
        "safe at": row["end_offset"],
        "leader": row["recorded_leader"],
        "longest log": row["would_be_leader"],
        "finding": row["finding_id"],
    }


def _say_ingested(result: Ingested) -> None:
    added = ", ".join(f"{count} {name}" for name, count in result.added.items() if count)
    say(f"{result.capture}: cluster {result.cluster_id}: added {added or 'nothing: it is all there already'}")
    if not result.has_metadata_log:
        say(f"{result.capture}: no metadata log in this capture: there is no history to replay")
    for message in result.quarantined:
        say(f"{result.capture}: quarantined: {message}")
    for member, reason in result.refused:
        say(f"{result.capture}: refused: {member}: {reason}")


def _say_replayed(result: Replayed) -> None:
    done = f"has {result.rows} states"
    if result.up_to_date:
        done = "is up to date"
    elif result.resumed_at is not None:
        done = f"was extended from metadata offset {result.resumed_at}: {result.rows} more states"
    say(f"{result.cluster_id}: partition_history {done}")


def _say_found(result: Found) -> None:
    if result.up_to_date:
        say(f"{result.cluster_id}: findings are up to date")
    else:
        compared = f"{result.compared} partition states compared with snapshots"
        say(f"{result.cluster_id}: {compared}, {result.mismatches} differ")
        as_predicted = result.predicted - sum(result.differences.values())
        classes = "".join(f", {count} {name}" for name, count in sorted(result.differences.items()))
        changes = f"{result.predicted} partition changes, {as_predicted} as Kafka's rules predict{classes}"
        say(f"{result.cluster_id}: {changes}")
        broken = ", ".join(f"{name} ({count})" for name, count in sorted(result.violations.items()))
        say(f"{result.cluster_id}: invariants: {broken or 'none is broken'}")
        if result.described:
            printed = f"{result.described} partition states compared with what Kafka's tools printed"
            say(f"{result.cluster_id}: {printed}, {result.contradicted} differ")
