"""Run the stages in order, for every cluster of a lake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from evidence.capture import remote
from evidence.capture.files import capture_name, check_location, open_capture
from evidence.capture.remote import Location, Remote, location
from jobs.config.settings import load_settings
from jobs.console.output import progress_steps, show_message
from jobs.detect.stage import DetectSummary, run_detect
from jobs.ingest.stage import Ingested, ingest_opened
from jobs.lake.files import shown
from jobs.lake.lake import Lake
from jobs.lake.storage import within
from jobs.quality.stage import run_quality
from jobs.queries.flagged_windows import levels
from jobs.replay.cluster_state import EARLIEST, LogConflictError
from jobs.replay.stage import Replayed, replay
from jobs.report.stage import page_of, report_in, write_report
from jobs.spark.tasks import cores, runs_here
from jobs.verdict.document import document, summarize, write_verdict

# A record of the metadata log takes more bytes than this, unless the capture is compressed.
_LEAST_RECORD_BYTES = 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run. levels: see Pipeline.levels. summary: lines to print."""

    levels: set[str]
    quality_failed: list[str]
    summary: list[str]


class Pipeline:
    """A lake, and the captures to ingest.

    root, captures: paths, or URLs as text. Errors: LakeError for a root that cannot be a lake, CaptureError for a
    capture that is missing.
    """

    def __init__(self, root: str | Location, captures: Sequence[str | Location] = ()) -> None:
        self.root = location(root)
        self.captures = [location(given) for given in captures]
        self.lake = Lake(self.root)
        for capture in self.captures:
            check_location(capture)
        self.settings = load_settings()

    def run(self, report: Path | None = None, start: str = EARLIEST, verdict: Path | None = None) -> Outcome:
        """Run every stage, with a progress bar. report, verdict: files to write; None: in the lake. Errors: as the
        stages."""
        with progress_steps(len(self.captures) + 4) as (describe, advance):
            self._ingest(describe, advance)
            clusters = self.lake.clusters()
            files = self._verdict_files(verdict, clusters)
            for cluster, file in files.items():
                self._replay(cluster, file, describe, start)
            advance()
            verdicts = [self._detect(cluster, file, describe) for cluster, file in files.items()]
            advance()
            checked = [run_quality(self.lake, cluster, self.settings, describe) for cluster in clusters]
            advance()
            pages = [
                write_report(self.lake, c, page_of(report or report_in(self.lake), c, clusters), describe)
                for c in clusters
            ]
            advance()
        summary = [*verdicts, *(f"report:    {page}" for page in pages)]
        summary += [f"data docs: {shown(c.docs)}" for c in checked]
        summary.append(f"tables:    {shown(self.root)}")
        failed = [line for c in checked for line in c.failed]
        return Outcome(self.levels(), failed, summary)

    def ingest(self) -> None:
        with progress_steps(len(self.captures)) as (describe, advance):
            self._ingest(describe, advance)

    def _ingest(self, describe: Callable[[str], None], advance: Callable[[], None]) -> None:
        """Ingest every capture. Spark starts while a large one is unpacked and hashed, unless the lake already has
        captures of all these names."""
        with ThreadPoolExecutor(1) as pool:
            if not self._all_known() and not runs_here(self._most_rows(), self.settings.spark):
                pool.submit(cores, self._most_rows(), self.settings.spark)
            for source in self.captures:
                describe(f"opening {source}")
                with open_capture(source) as capture:
                    _report_ingested(ingest_opened(self.lake, capture, self.settings, describe))
                advance()

    def _most_rows(self) -> int:
        """How many records the captures can hold at most, by their size."""
        return sum(_size_bytes(capture) for capture in self.captures) // _LEAST_RECORD_BYTES

    def _all_known(self) -> bool:
        if not self.lake.exists():
            return False
        known = self.lake.read("evidence_files", None, ("capture",))["capture"].unique().to_pylist()
        return {capture_name(source) for source in self.captures} <= set(known)

    def replay(self, start: str = EARLIEST) -> None:
        for cluster in self._clusters():
            with progress_steps(1) as (describe, _):
                _report_replayed(replay(self.lake, cluster, self.settings, describe, start))

    def detect(self, verdict: Path | None = None) -> list[str]:
        """Detect, and write the verdicts. verdict: as in `run`. Returns lines that name the files written."""
        lines = []
        for cluster, file in self._verdict_files(verdict, self._clusters()).items():
            with progress_steps(1) as (describe, _):
                lines.append(self._detect(cluster, file, describe))
        return lines

    def _verdict_files(self, verdict: Path | None, clusters: list[str]) -> dict[str, Location]:
        return {c: page_of(verdict or within(self.root, "verdict.json"), c, clusters) for c in clusters}

    def _replay(self, cluster: str, verdict: Location, describe: Callable[[str], None], start: str) -> None:
        try:
            _report_replayed(replay(self.lake, cluster, self.settings, describe, start))
        except LogConflictError:
            # The command fails, but the conflict is a finding: replace the verdict of an earlier run.
            self._write_verdict(cluster, verdict)
            raise

    def _detect(self, cluster: str, verdict: Location, describe: Callable[[str], None]) -> str:
        try:
            _report_detected(run_detect(self.lake, cluster, self.settings, describe))
        except LogConflictError:
            self._replay(cluster, verdict, describe, EARLIEST)  # writes the finding, then raises the same error
            raise
        return self._write_verdict(cluster, verdict)

    def _write_verdict(self, cluster: str, path: Location) -> str:
        found = document(summarize(self.lake, cluster))
        write_verdict(found, path)
        return f"verdict:   {shown(path)} (valid: {str(found['valid']).lower()})"

    def quality(self) -> list[str]:
        """Run the suites and return the unmet expectations."""
        failed = []
        for cluster in self._clusters():
            with progress_steps(1) as (describe, _):
                checked = run_quality(self.lake, cluster, self.settings, describe)
            met = checked.expectations - len(checked.failed)
            show_message(
                f"{cluster}: {met} of {checked.expectations} expectations met; data docs: {shown(checked.docs)}"
            )
            failed += checked.failed
        return failed

    def levels(self) -> set[str]:
        """Verdicts and severities that --fail-on checks (jobs.queries.flagged_windows.levels)."""
        self.lake.require()
        return levels(self.lake)

    def _clusters(self) -> list[str]:
        self.lake.require()
        return self.lake.clusters()


def _size_bytes(path: Location) -> int:
    """Bytes of a file or of everything in a folder; 0 if the path is missing."""
    if isinstance(path, Remote):
        return remote.size_bytes(path)
    if path.is_file():
        return path.stat().st_size
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def _report_ingested(result: Ingested) -> None:
    added = ", ".join(f"{count} {name}" for name, count in result.added.items() if count)
    show_message(f"{result.capture}: cluster {result.cluster_id}: added {added or 'nothing: already in the lake'}")
    if not result.has_metadata_log:
        show_message(f"{result.capture}: this capture has no metadata log, so there is no history to replay")
    for message in result.quarantined:
        show_message(f"{result.capture}: quarantined: {message}")
    for member, reason in result.refused:
        show_message(f"{result.capture}: refused: {member}: {reason}")


def _report_replayed(result: Replayed) -> None:
    outcome = f"has {result.rows} states"
    if result.up_to_date:
        outcome = "is up to date"
    elif result.resumed_at is not None:
        outcome = f"was extended from metadata offset {result.resumed_at}: {result.rows} more states"
    show_message(f"{result.cluster_id}: partition_history {outcome}")


def _report_detected(result: DetectSummary) -> None:
    if result.up_to_date:
        show_message(f"{result.cluster_id}: findings are up to date")
    else:
        compared = f"{result.compared} partition states compared with snapshots"
        show_message(f"{result.cluster_id}: {compared}, {result.mismatches} differ")
        as_predicted = result.predicted - sum(result.differences.values())
        classes = "".join(f", {count} {name}" for name, count in sorted(result.differences.items()))
        changes = f"{result.predicted} partition changes, {as_predicted} match Kafka's rules{classes}"
        show_message(f"{result.cluster_id}: {changes}")
        broken = ", ".join(f"{name} ({count})" for name, count in sorted(result.violations.items()))
        show_message(f"{result.cluster_id}: broken invariants: {broken or 'none'}")
        if result.described:
            printed = f"{result.described} partition states compared with the output of Kafka's tools"
            show_message(f"{result.cluster_id}: {printed}, {result.contradicted} differ")
