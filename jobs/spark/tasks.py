"""Run a function for each of several items: on a Spark context, through a Spark session, or on this machine.

Three runners, one contract (tests/slow/test_connect.py): `ContextRunner` runs jobs of the classic context,
`SessionRunner` runs a DataFrame's tasks, which Spark Connect has, too, and `LocalRunner` needs no Spark.
"""

import gc
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache, cached_property, partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from evidence.errors import KraftForensicsError
from jobs.config.settings import Settings, is_remote
from jobs.console.log import DEBUG, show_message
from jobs.console.progress import progress_tasks
from jobs.lake.runs import Size, TaskFigures, current
from jobs.spark.processes import EndedError, forget_peak, peak_bytes, release, started

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")
Task = Callable[[Item], Result]
Ended = list[Result | KraftForensicsError]
Show = Callable[[int], None] | None
_POLLED_SECONDS = 0.5
_ATTEMPTS, _PAUSE_SECONDS = 3, 0.5
# Python's collector looks again and again at the rows that a task holds to its end: a sixth of judging.
_COLLECTED_AFTER = 100_000, 20, 100
_NO_RUN = "kraft-forensics"  # the job group of what is no part of a run
# A result travels in parts, in order: a message of Spark Connect has at most 128 MiB.
_PARTS = pa.schema([("index", pa.int64()), ("part", pa.binary())])
_PART_BYTES = 16 << 20


# What runs tasks. cores: tasks at once. `run` gives the result, or the error that the user is to see, for each item, in
# order. show: takes how many have ended; None: nobody looks. name: of the job.
Runner: TypeAlias = "LocalRunner | ContextRunner | SessionRunner"


class LocalRunner:
    """This machine without Spark. cores 1: this process, one task after the other; it stops at the first error. More:
    so many processes, which stay for the next job."""

    def __init__(self, cores: int = 1) -> None:
        self.cores = cores

    def run(self, function: Task[Item, Result], items: Sequence[Item], name: str, show: Show) -> Ended[Result]:
        if min(self.cores, len(items)) > 1:
            return _in_processes(self.cores, function, items, name, show)
        results: Ended[Result] = []
        for item in items:
            results.append(function(item))
            if show is not None:
                show(len(results))
        return results


def _in_processes(
    count: int, function: Task[Item, Result], items: Sequence[Item], name: str, show: Show
) -> Ended[Result]:
    workers = started(count)
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(workers.call, partial(_outcome, function), item) for item in items]
        try:
            for ended, future in enumerate(as_completed(futures), 1):
                future.result()  # an error that is for no user ends all
                if show is not None:
                    show(ended)
            for _ in range(count):  # they take turns
                workers.call(release)
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            workers.end()
            if isinstance(error, EndedError):
                raise KraftForensicsError(
                    f"{name}: a process ended in the middle of its task, as the system ends one when memory runs out. "
                    "Fewer at once need less: set local_processes = 1."
                ) from None
            raise
    return [future.result() for future in futures]


class ContextRunner:
    """A classic Spark context: a job with a task for each item."""

    def __init__(self, context: "SparkContext") -> None:
        self.context = context
        self.cores = int(context.defaultParallelism)

    def run(self, function: Task[Item, Result], items: Sequence[Item], name: str, show: Show) -> Ended[Result]:
        jobs = current.get()
        self.context.setJobGroup(jobs.run_id if jobs else _NO_RUN, name)
        with _polled(self.context, show):
            return self.context.parallelize(items, len(items)).map(partial(_outcome, function)).collect()


class SessionRunner:
    """Any Spark session: the tasks of a DataFrame with a row and a partition for each item."""

    def __init__(self, session: "SparkSession") -> None:
        self.session = session

    @cached_property
    def cores(self) -> int:
        """As many partitions as Spark itself gives a range: clients of Spark Connect cannot ask otherwise."""
        return self.session.range(1 << 16).selectExpr("spark_partition_id()").distinct().count()

    def run(self, function: Task[Item, Result], items: Sequence[Item], name: str, show: Show) -> Ended[Result]:
        def outcomes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for index in (index for batch in batches for index in batch.column(0).to_pylist()):
                found = memoryview(pickle.dumps(_outcome(function, items[index])))
                for start in range(0, len(found), _PART_BYTES):
                    part = bytes(found[start : start + _PART_BYTES])
                    yield pa.RecordBatch.from_pylist([{"index": index, "part": part}], schema=_PARTS)

        frame = self.session.range(0, len(items), 1, len(items)).mapInArrow(outcomes, "index long, part binary")
        parts: dict[int, list[bytes]] = {}
        with _tagged(self.session, name, show):
            for row in frame.toArrow().to_pylist():
                parts.setdefault(row["index"], []).append(row["part"])
        return [pickle.loads(b"".join(parts[index])) for index in range(len(items))]


def runner(rows: int, settings: Settings) -> Runner:
    """What runs tasks that read so many rows. Errors: SessionError."""
    if is_local(rows, settings):
        return LocalRunner((settings.local_processes or _usable_cores()) if rows >= settings.spark.from_rows else 1)
    from jobs.spark.session import build_context, build_session  # slow to import

    return SessionRunner(build_session(settings.spark)) if is_remote() else ContextRunner(build_context(settings.spark))


def is_local(rows: int, settings: Settings) -> bool:
    """Whether tasks that read so many rows run without Spark, by `engine`: with `auto` so few that starting it would
    take longer than the work."""
    return settings.engine == "local" or (settings.engine == "auto" and rows < settings.spark.from_rows)


@cache
def _usable_cores() -> int:
    """The cores that this process may use. DuckDB knows a container's limit."""
    import duckdb

    with duckdb.connect() as connection:
        ((threads,),) = connection.execute("select current_setting('threads')").fetchall()
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads  # macOS has no affinity
    return min(int(threads), own)


def cores(rows: int, settings: Settings) -> int:
    """The number of tasks that can run at once for so many rows."""
    return runner(rows, settings).cores


def start_early(rows: int, settings: Settings) -> None:
    """Start what tasks that read so many rows run on: Spark and its Python workers, or processes."""
    on = runner(rows, settings)
    on.run(int, range(on.cores), "start Python workers", None)


def engine(settings: Settings) -> str | None:
    """What ran the tasks of this process: 'Spark 4.2.0, local[2]', or 'local'; null if Spark was to, and none ran, or
    another thread is starting it."""
    # A module that another thread is importing has not all of its names.
    remote = getattr(sys.modules.get("pyspark.sql.connect.session"), "SparkSession", None)
    session: Any = getattr(remote, "_default_session", None)
    if session is not None:
        return f"Spark {session.version}, Connect"
    context: Any = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)
    if getattr(context, "_jsc", None) is not None:  # a context is the active one before it has started
        return f"Spark {context.version}, {context.master.replace('*', str(context.defaultParallelism))}"
    return None if settings.engine == "spark" else "local"


def run_tasks(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    rows: int,
    settings: Settings,
    name: str,
    size_of: Callable[[Item], Size] | None = None,
) -> list[Result]:
    """The result for each item, in order. Items and results are pickled and should be small: tasks read and write files
    themselves.

    rows: how many rows all tasks together read. name: of the Spark job, as its UI and event log show it. size_of: what
    a task reads; the largest begin first. A task may run more than once, also at the same time (when an executor is
    lost, with speculation, or after an error of the storage). Only the result that comes back counts.
    """
    if not items:
        return []
    sizes = [None if size_of is None else size_of(item) for item in items]
    order = sorted(range(len(items)), key=lambda n: -(size.size_bytes if (size := sizes[n]) else 0))
    with progress_tasks(len(items)) as show:
        ended = runner(rows, settings).run(partial(_measured, name, function), [items[n] for n in order], name, show)
    results = {}
    for n, outcome in zip(order, ended, strict=True):
        if isinstance(outcome, KraftForensicsError):
            raise outcome
        results[n] = outcome
    figures = [TaskFigures(sizes[n], seconds, peak) for n, (_, seconds, peak) in results.items()]
    show_message(f"{name}: {len(items)} tasks; the slowest: {max(figures, key=lambda task: task.seconds)}", DEBUG)
    if (jobs := current.get()) is not None:
        jobs.figures.setdefault(name, []).extend(figures)
    return [results[n][0] for n in range(len(items))]


_job = ""  # of the last task of this process


def _measured(name: str, function: Callable[[Item], Result], item: Item) -> tuple[Result, float, int | None]:
    """The result, the seconds that it took, and the most memory of this process meanwhile.

    The first task of a job begins with as little memory as a new process. What it frees the next one needs again: from
    the system each page would come anew, full of zeros, a sixth of a task's time."""
    global _job
    if name != _job:
        release()
        _job = name
    forget_peak()
    began, thresholds = time.monotonic(), gc.get_threshold()
    gc.set_threshold(*_COLLECTED_AFTER)
    try:
        result = _again(function, item)
    finally:
        gc.set_threshold(*thresholds)
    return result, time.monotonic() - began, peak_bytes()


def _again(function: Callable[[Item], Result], item: Item) -> Result:
    """The result, after a pause and from the beginning if the storage fails: the same for every engine, where Spark
    would try again on a cluster only."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return function(item)
        except (FileNotFoundError, PermissionError):
            raise
        except OSError:
            time.sleep(_PAUSE_SECONDS)
    return function(item)


@contextmanager
def _tagged(session: "SparkSession", name: str, show: Show) -> Iterator[None]:
    """Name what a session runs in the block, and show its progress where Spark Connect reports it. After a signal the
    server stops it, too; after any other error it has ended, or no server answers."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    if not isinstance(session, RemoteSession):
        yield
        return

    def report(stages: Any, **_: Any) -> None:
        if show is not None:
            show(sum(stage.num_completed_tasks for stage in stages or ()))

    jobs = current.get()
    tag = name.replace(",", ";")
    tags = [tag, *([jobs.run_id] if jobs else [])]
    for each in tags:
        session.addTag(each)
    session.registerProgressHandler(report)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            session.interruptTag(tag)
        raise
    finally:
        session.removeProgressHandler(report)
        for each in tags:
            session.removeTag(each)


@contextmanager
def _polled(context: "SparkContext", show: Show) -> Iterator[None]:
    """Show how many tasks of the running Spark stages have ended, until the block ends."""
    if show is None:
        yield
        return
    ended = Event()

    def poll() -> None:
        tracker = context.statusTracker()
        while not ended.wait(_POLLED_SECONDS):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            show(sum(stage.numCompletedTasks for stage in stages if stage is not None))

    thread = Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _outcome(function: Callable[[Item], Result], item: Item) -> Result | KraftForensicsError:
    """The result, or the error that the user is to see: a retry does not help, and Spark would hide its text."""
    try:
        return function(item)
    except KraftForensicsError as error:
        return error
