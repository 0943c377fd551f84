"""The table `runs`: what each command did that changes or judges a lake, one row for each run and cluster.

A row is written when a run ends, also if it failed or was stopped by Ctrl-C or SIGTERM. A run that was killed leaves no
row. What cannot be recorded is only a warning: it must not change how a run ends. `measured` takes what a run's tasks
took: how much they read, how long they ran, and how much memory that needed.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa

from jobs.console.log import WARNING, about, log_figures, show_message
from jobs.console.version import tool_version
from jobs.lake.data_files import write_file
from jobs.lake.integrity import CODE_VERSION
from jobs.lake.lake import Lake, Row
from jobs.lake.marks import OtherReleaseError
from jobs.lake.tables import INGESTED, RUNS
from replay.loss.verdict import RULE_VERSION

TABLE = "runs"
DONE, FAILED, STOPPED = "done", "failed", "stopped"
UNKNOWN = "unknown"  # the cluster of a run that ended before it knew one


@dataclass(frozen=True, slots=True)
class Size:
    """How much a task reads. rows: None if that is not known. size_bytes: in files, before Parquet's compression."""

    rows: int | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """What a task took. peak_bytes: the most memory of its process meanwhile; None if the system does not say."""

    size: Size | None
    seconds: float
    peak_bytes: int | None

    def as_row(self) -> dict[str, int | float | None]:
        """What the column `tasks` of the table `runs` has of it."""
        size = {"rows": self.size.rows, "bytes": self.size.size_bytes} if self.size else {}
        return {**size, "seconds": round(self.seconds, 3), "peak_memory_bytes": self.peak_bytes}

    def __str__(self) -> str:
        known = [f"{self.seconds:.1f} s"]
        if self.size is not None:
            known += [f"{self.size.rows:,} rows"] if self.size.rows is not None else []
            known.append(f"{self.size.size_bytes / 1e6:,.1f} MB")
        known += [f"{self.peak_bytes >> 20:,} MiB of memory"] if self.peak_bytes is not None else []
        return ", ".join(known)


# The run that the tasks of now are of; None if no run is recorded.
current: ContextVar["Run | None"] = ContextVar("current", default=None)


def _summary(tasks: Sequence[TaskFigures]) -> dict[str, Any]:
    found: dict[str, Any] = {"tasks": len(tasks), "slowest": max(tasks, key=lambda t: t.seconds).as_row()}
    if all(task.size is not None for task in tasks):
        found["largest"] = max(tasks, key=lambda task: task.size.size_bytes if task.size else 0).as_row()
    return {**found, "peak_memory_bytes": max(t.peak_bytes or 0 for t in tasks) or None}


class Run:
    """A run of a command. run_id: also in Spark's job groups and tags. captures: names of those that it was given.
    engine: what ran its tasks. figures: what these took since they were last noted, by job."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.captures: list[str] = []
        self.run_id, self.started_ms = uuid4().hex[:16], time.time_ns() // 1_000_000
        self.engine: str | None = None
        self.figures: dict[str, list[TaskFigures]] = {}
        self._of: dict[str, Row] = {}

    def of(self, cluster: str) -> Row:
        """What is known of a cluster, to be changed: columns of the table. counts, durations_ms, tasks: dicts."""
        return self._of.setdefault(
            cluster, {"counts": {}, "durations_ms": {}, "tasks": {}, "captures": [], "capture_digests": []}
        )

    def ingested(self, cluster: str, capture: str, digest: str | None, counts: Mapping[str, int]) -> None:
        """Note that a capture was ingested. digest: of its list of files (jobs/ingest/captures.py)."""
        of = self.of(cluster)
        of["captures"].append(capture)
        of["capture_digests"].append(digest)
        for name, count in counts.items():
            of["counts"][name] = of["counts"].get(name, 0) + count

    def stage_ended(self, cluster: str, engine: str | None) -> None:
        """Note what ran a stage's tasks, and what they took."""
        self.engine = engine
        self.of(cluster)["tasks"] |= self.taken()

    def taken(self) -> dict[str, dict[str, Any]]:
        """Of each job the number of its tasks and the slowest, the largest and the hungriest one; then none is known
        any more."""
        found = {name: _summary(tasks) for name, tasks in self.figures.items()}
        self.figures.clear()
        return found

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the tasks of the block."""
        token = current.set(self)
        try:
            yield
        finally:
            current.reset(token)

    @contextmanager
    def timed(self, stage: str, cluster: str) -> Iterator[Row]:
        """Measure a stage, also one that fails. Yields what is known of the cluster."""
        of, began = self.of(cluster), time.monotonic()
        try:
            with about(stage=stage, cluster=cluster):
                yield of
        finally:
            self.took(stage, cluster, time.monotonic() - began)

    def took(self, stage: str, cluster: str, seconds: float) -> None:
        durations = self.of(cluster)["durations_ms"]
        durations[stage] = durations.get(stage, 0) + round(1000 * seconds)
        log_figures(f"{cluster}: {stage} took {seconds:.1f} s", stage=stage, cluster=cluster, seconds=round(seconds, 3))

    def write(self, lake: Lake, outcome: str, exit_code: int, error: str | None) -> None:
        """Write the rows, if there is a lake."""
        try:
            if not lake.exists():
                return
            for cluster in self._of or [UNKNOWN]:
                rows = pa.Table.from_pylist([self._row(lake, cluster, outcome, exit_code, error)], schema=RUNS)
                lake.commit(TABLE, cluster, [write_file(lake.storage, TABLE, rows)])
        except OtherReleaseError:  # which has ended the command
            return
        except Exception as problem:  # noqa: BLE001
            lines = str(problem).splitlines() or [type(problem).__name__]
            show_message(f"the run is not recorded in the table {TABLE}: {lines[0][:300]}", WARNING)

    def _row(self, lake: Lake, cluster: str, outcome: str, exit_code: int, error: str | None) -> Row:
        known: Row = self._of.get(cluster, {"captures": self.captures})
        evidence = lake.head(INGESTED[-1], cluster)
        return {
            **known,
            "run_id": self.run_id,
            "command": self.command,
            "started_ms": self.started_ms,
            "ended_ms": time.time_ns() // 1_000_000,
            "outcome": outcome,
            "exit_code": exit_code,
            "error": error,
            "evidence": evidence.id if evidence.version else None,
            **{name: json.dumps(known.get(name, {})) for name in ("counts", "durations_ms", "tasks")},
            "engine": self.engine,
            "program": tool_version(),
            "code_version": CODE_VERSION,
            "rule_version": str(RULE_VERSION),
        }
