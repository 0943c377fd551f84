"""Run the stages in order, for every cluster of a lake."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from evidence.capture import remote
from evidence.capture.files import capture_name, check_location
from evidence.capture.remote import Location, Remote, location
from evidence.errors import KraftForensicsError
from evidence.kinds import DUMP_LOG, METADATA_CHECKPOINT, METADATA_SEGMENT
from jobs.config.settings import load_settings
from jobs.console.log import WARNING, about, show_message
from jobs.console.progress import progress_steps
from jobs.detect.stage import DetectSummary, run_detect
from jobs.ingest.stage import Ingested, ingest
from jobs.lake.integrity import digest_of
from jobs.lake.lake import Lake, Row
from jobs.lake.runs import Run
from jobs.lake.storage import shown
from jobs.lake.tables import CLUSTER_ID
from jobs.quality.library import prepare
from jobs.quality.stage import QualityResult, run_quality
from jobs.replay.cluster_state import EARLIEST, LogConflictError, replayed_from
from jobs.replay.stage import Replayed, replay
from jobs.report.stage import page_of, report_in, write_pages
from jobs.spark.processes import release
from jobs.spark.tasks import engine, start_early
from jobs.verdict.document import document, report_of, write_document
from jobs.verdict.status import levels, remember

# A record of the metadata log takes more bytes than this, unless the capture is compressed.
_LEAST_RECORD_BYTES = 40
_LOGS = (METADATA_SEGMENT, METADATA_CHECKPOINT, DUMP_LOG)
# A damaged text may have thousands: they would bury what else is printed.
_MOST_MESSAGES = 100


class Pipeline:
    """A lake, and the captures to ingest.

    root, captures: paths, or URLs as text. Errors: LakeError for a root that cannot be a lake, CaptureError for a
    capture that is missing. record: takes what the stages do; the caller writes it. engine_name: of
    --engine; None: as the settings say. Of what has run: documents: the verdict of each cluster; levels: what --fail-on
    checks (jobs/verdict/status.py); failed: unmet expectations; summary: lines to print.
    """

    def __init__(
        self,
        root: str | Location,
        captures: Sequence[str | Location] = (),
        record: Run | None = None,
        engine_name: str | None = None,
    ) -> None:
        self.root = location(root)
        self.captures = [location(given) for given in captures]
        self.lake = Lake(self.root)
        self.record = record or Run("")
        self.record.captures = [capture_name(capture) for capture in self.captures]
        for capture in self.captures:
            check_location(capture)
        self.settings = load_settings(engine_name)
        self.documents: dict[str, Row] = {}
        self.levels: set[str] = set()
        self.failed: list[str] = []
        self.summary: list[str] = []

    def run(self, report: Path | None = None, start: str = EARLIEST) -> None:
        """Run every stage, with a progress bar. report: the file to write; None: in the lake. Errors: as the stages;
        KraftForensicsError if no metadata log of a capture's cluster is in the lake."""
        with progress_steps(len(self.captures) + 4) as (describe, advance):
            given = self._ingest(describe, advance, is_checked=True)
            missing = set(without_log(self.lake))
            for each in given:
                if each.cluster_id in missing:
                    raise KraftForensicsError(f"{each.capture}: cluster {each.cluster_id} has {_NO_LOG}")
            self._judge(describe, advance, report or report_in(self.lake), lambda _: start)

    def remake(self) -> None:
        """Like `run`, but of what is in the lake: each replay begins where the one before it began."""
        with progress_steps(4) as (describe, advance):
            self._judge(describe, advance, report_in(self.lake), lambda cluster: replayed_from(self.lake, cluster))

    def _judge(
        self,
        describe: Callable[[str], None],
        advance: Callable[[], None],
        report: Location,
        start_of: Callable[[str], str],
    ) -> None:
        """Replay, detect, quality and report."""
        clusters = self._clusters()
        for cluster in clusters:
            self._replay(cluster, describe, start_of(cluster))
        advance()
        for cluster in clusters:
            self._detect(cluster, describe, shown(page_of(report, cluster, clusters)))
        advance()
        with ThreadPoolExecutor(1) as pool:  # it waits for the process of Great Expectations
            docs = [pool.submit(self._quality(cluster, describe).write_docs) for cluster in clusters]
            advance()
            began = time.monotonic()
            pages = write_pages(self.lake, clusters, report, describe, documents=self.documents)
        for cluster in clusters:
            self.record.took("report", cluster, (time.monotonic() - began) / len(clusters))
        advance()
        self.summary += [f"report:    {page}" for page in pages]
        self.summary += [f"data docs: {shown(each.result())}" for each in docs]
        self.summary.append(f"tables:    {shown(self.root)}")
        if self.record.engine is not None:
            self.summary.append(f"tasks:     {self.record.engine}")
        self._find_levels(clusters)

    def ingest(self) -> None:
        with progress_steps(len(self.captures)) as (describe, advance):
            self._ingest(describe, advance)

    def _ingest(
        self, describe: Callable[[str], None], advance: Callable[[], None], is_checked: bool = False
    ) -> list[Ingested]:
        """Ingest every capture. Spark starts while a large one is unpacked and hashed, unless the lake already has
        captures of all these names. is_checked: quality follows, so what it needs is imported meanwhile, too."""
        done, named = [], {capture_name(source) for source in self.captures}
        known = self.lake.read("evidence_files", None, ("capture",))["capture"] if self.lake.exists() else pa.array([])
        with ThreadPoolExecutor(1) as pool:
            if not named <= set(known.unique().to_pylist()):
                pool.submit(copy_context().run, self._start_early, is_checked)
            for source in self.captures:
                began = time.monotonic()
                with about(stage="ingest"):
                    done.append(found := ingest(self.lake, source, self.settings, describe))
                digest = digest_of(self.lake, found.cluster_id, found.capture)
                self.record.ingested(found.cluster_id, found.capture, digest, found.added)
                self.record.took("ingest", found.cluster_id, time.monotonic() - began)
                _report_ingested(found)
                self._stage_ended(found.cluster_id)
                advance()
        return done

    def _start_early(self, is_checked: bool) -> None:
        # A capture has at most so many records, by its size.
        start_early(sum(map(_size_bytes, self.captures)) // _LEAST_RECORD_BYTES, self.settings)
        if is_checked:
            prepare()  # it is needed later than Spark, and there are few cores

    def _stage_ended(self, cluster: str) -> None:
        release()
        self.record.stage_ended(cluster, engine(self.settings))

    def replay(self, start: str = EARLIEST) -> None:
        for cluster in self._clusters():
            with progress_steps(1) as (describe, _):
                self._replay(cluster, describe, start)

    def _replay(self, cluster: str, describe: Callable[[str], None], start: str) -> None:
        try:
            with self.record.timed("replay", cluster) as known:
                done = replay(self.lake, cluster, self.settings, describe, start)
                known["counts"]["partition_history"] = done.rows
        except LogConflictError:
            self._write_verdict(cluster, None)  # the command fails, but the conflict is a finding
            raise
        self._stage_ended(cluster)
        _report_replayed(done)

    def detect(self) -> None:
        """Detect, and write the verdicts. Errors: KraftForensicsError if no cluster has a log."""
        clusters = self._clusters()
        if set(without_log(self.lake)) >= set(clusters):
            raise KraftForensicsError(f"{self.root}: {_NO_LOG}")
        with progress_steps(len(clusters)) as (describe, advance):
            for cluster in clusters:
                self._detect(cluster, describe, report_of(self.lake, cluster))
                advance()
        self._find_levels(clusters)

    def _find_levels(self, clusters: Sequence[str]) -> None:
        """Of this run. Then its findings count as seen: what fails before is new again in the next run."""
        self.levels, now_ms = levels(self.lake, running=True), time.time_ns() // 1_000_000
        for cluster in clusters:
            remember(self.lake, cluster, now_ms)

    def _detect(self, cluster: str, describe: Callable[[str], None], report: str | None) -> None:
        try:
            with self.record.timed("detect", cluster) as known:
                found = run_detect(self.lake, cluster, self.settings, describe)
                known["counts"]["findings"] = self.lake.count("findings", cluster)
            _report_detected(found)
            self._stage_ended(cluster)
        except LogConflictError:
            self._replay(cluster, describe, EARLIEST)  # writes the finding, then raises the same error
            raise
        self._write_verdict(cluster, report)

    def _write_verdict(self, cluster: str, report: str | None) -> None:
        since = None
        while since != (since := self.lake.cluster_version("findings", cluster)):  # another run may change them
            found = document(self.lake, cluster, report, running=True)
            path = write_document(self.lake, found, self.lake.clusters())
        self.documents[cluster] = found
        self.record.of(cluster)["valid"] = str(found["valid"]).lower()
        self.summary.append(f"verdict:   {shown(path)}")

    def quality(self) -> None:
        """Run the suites."""
        for cluster in self._clusters():
            with progress_steps(1) as (describe, _):
                checked = self._quality(cluster, describe)
            met = checked.expectations - len(checked.failed)
            show_message(
                f"{cluster}: {met} of {checked.expectations} expectations met; data docs: {shown(checked.write_docs())}"
            )

    def _quality(self, cluster: str, describe: Callable[[str], None]) -> QualityResult:
        with self.record.timed("quality", cluster) as known:
            checked = run_quality(self.lake, cluster, self.settings, describe)
            known["quality_failed"] = len(checked.failed)
        self.failed += checked.failed
        self._stage_ended(cluster)
        return checked

    def _clusters(self) -> list[str]:
        self.lake.require()
        self.lake.create()  # those that were deleted are made again
        return self.lake.clusters()


_NO_LOG = (
    "no metadata log, so nothing can be replayed. Capture the folder __cluster_metadata-0 of every controller, and "
    "ingest it with this capture."
)


def without_log(lake: Lake) -> list[str]:
    """The clusters of which no file of a metadata log was captured, readable or not."""
    files = lake.read("evidence_files", None, (CLUSTER_ID, "kind"))
    with_log = files.filter(pc.is_in(files["kind"], pa.array(_LOGS)))[CLUSTER_ID].unique().to_pylist()
    return sorted(set(files[CLUSTER_ID].unique().to_pylist()) - set(with_log))


def _size_bytes(path: Location) -> int:
    """Bytes of a file or of everything in a folder; 0 if the path is missing."""
    if isinstance(path, Remote):
        return remote.size_bytes(path)
    return sum(f.stat().st_size for f in (path, *path.rglob("*")) if f.is_file())


def _report_ingested(result: Ingested) -> None:
    added = ", ".join(f"{count} {name}" for name, count in result.added.items() if count)
    show_message(f"{result.capture}: cluster {result.cluster_id}: added {added or 'nothing: already in the lake'}")
    if not result.has_metadata_log:
        show_message(f"{result.capture}: this capture has no metadata log", WARNING)
    for message in result.quarantined[:_MOST_MESSAGES]:
        show_message(f"{result.capture}: {message}", WARNING)
    if (more := len(result.quarantined) - _MOST_MESSAGES) > 0:
        query = 'kraft-forensics sql "select message from quarantine"'
        show_message(f"{result.capture}: quarantined: {more} more, which `{query}` prints", WARNING)
    for member, reason in result.refused:
        show_message(f"{result.capture}: refused: {member}: {reason}", WARNING)


def _report_replayed(result: Replayed) -> None:
    outcome = f"has {result.rows} states"
    if result.up_to_date:
        outcome = "is up to date"
    elif result.resumed_at is not None:
        outcome = f"was extended from metadata offset {result.resumed_at}: {result.rows} more states"
    show_message(f"{result.cluster_id}: partition_history {outcome}")


def _report_detected(result: DetectSummary) -> None:
    as_predicted = result.predicted - sum(result.differences.values())
    classes = "".join(f", {count} {name}" for name, count in sorted(result.differences.items()))
    broken = ", ".join(f"{name} ({count})" for name, count in sorted(result.violations.items()))
    lines = [
        f"{result.compared} partition states compared with snapshots, {result.mismatches} differ",
        f"{result.predicted} partition changes, {as_predicted} match Kafka's rules{classes}",
        f"broken invariants: {broken or 'none'}",
    ]
    if result.described:
        printed = f"{result.described} partition states compared with the output of Kafka's tools"
        lines.append(f"{printed}, {result.contradicted} differ")
    for line in ["findings are up to date"] if result.up_to_date else lines:
        show_message(f"{result.cluster_id}: {line}")
