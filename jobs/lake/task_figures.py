"""What the tasks of a run took: how much they read, how long they ran, and how much memory that needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


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


@dataclass(frozen=True, slots=True)
class Jobs:
    """What the jobs of a run took, by name. run_id: as in the table `runs`, and in Spark's job groups and tags."""

    run_id: str
    figures: dict[str, list[TaskFigures]] = field(default_factory=dict)

    def taken(self) -> dict[str, dict[str, Any]]:
        """Of each job the number of its tasks and the slowest, the largest and the hungriest one; then none is known
        any more."""
        found = {name: _summary(tasks) for name, tasks in self.figures.items()}
        self.figures.clear()
        return found


_jobs: ContextVar[Jobs | None] = ContextVar("_jobs", default=None)


def current() -> Jobs | None:
    """What measures the jobs now; None if no run is recorded."""
    return _jobs.get()


@contextmanager
def measured(jobs: Jobs) -> Iterator[None]:
    """Measure the tasks of the block, as those of a run."""
    token = _jobs.set(jobs)
    try:
        yield
    finally:
        _jobs.reset(token)


def _summary(tasks: Sequence[TaskFigures]) -> dict[str, Any]:
    found: dict[str, Any] = {"tasks": len(tasks), "slowest": max(tasks, key=lambda t: t.seconds).as_row()}
    if all(task.size is not None for task in tasks):
        found["largest"] = max(tasks, key=lambda task: task.size.size_bytes if task.size else 0).as_row()
    return {**found, "peak_memory_bytes": max(t.peak_bytes or 0 for t in tasks) or None}
