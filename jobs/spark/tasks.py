"""Run a function for each of several items: in Spark tasks, or in this process if there is little to do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

from evidence.errors import KraftForensicsError
from jobs.config.settings import Settings
from jobs.console.progress import progress_tasks
from jobs.spark.memory import release

if TYPE_CHECKING:
    from pyspark import SparkContext

Item = TypeVar("Item")
Result = TypeVar("Result")
_POLLED_SECONDS = 0.5


def runs_here(rows: int, settings: Settings) -> bool:
    """Whether tasks that read so many rows run in this process, by `engine`: with `auto` so few that starting Spark
    would take longer than the work."""
    return settings.engine == "local" or (settings.engine == "auto" and rows < settings.spark.from_rows)


def cores(rows: int, settings: Settings) -> int:
    """The number of tasks that can run at once for so many rows."""
    if runs_here(rows, settings):
        return 1
    from jobs.spark.session import build_context  # slow to import

    return int(build_context(settings.spark).defaultParallelism)


def start_early(rows: int, settings: Settings) -> None:
    """Start Spark and its Python workers, if tasks that read so many rows need them."""
    if not runs_here(rows, settings):
        from jobs.spark.session import build_context

        context = build_context(settings.spark)
        context.setJobDescription("start Python workers")
        context.parallelize(range(context.defaultParallelism), context.defaultParallelism).foreach(_nothing)


def _nothing(_: int) -> None:
    pass


def engine(settings: Settings) -> str | None:
    """What ran the tasks of this process: 'Spark 4.2.0, local[2]', or 'local'; null if Spark was to, and none ran."""
    pyspark = sys.modules.get("pyspark")
    context = pyspark.SparkContext._active_spark_context if pyspark else None
    if context is not None:
        return f"Spark {context.version}, {context.master.replace('*', str(context.defaultParallelism))}"
    return None if settings.engine == "spark" else "local"


def run_tasks(
    function: Callable[[Item], Result], items: Sequence[Item], rows: int, settings: Settings, name: str
) -> list[Result]:
    """The result for each item, in order. Items and results are pickled and should be small: tasks read and write files
    themselves.

    rows: how many rows all tasks together read. name: of the Spark job, as its UI and event log show it. A task may run
    more than once, also at the same time (when an executor is lost, or with speculation). Only the result that comes
    back counts.
    """
    if runs_here(rows, settings):
        results = []
        with progress_tasks(len(items)) as show:
            for item in items:
                results.append(function(item))
                if show is not None:
                    show(len(results))
        return results
    if not items:
        return []
    from jobs.spark.session import build_context

    context = build_context(settings.spark)
    context.setJobDescription(name)
    with progress_tasks(len(items)) as show, _polled(context, show):
        results = context.parallelize(items, len(items)).map(partial(_outcome, function)).collect()
    return [_raised(result) for result in results]


@contextmanager
def _polled(context: SparkContext, show: Callable[[int], None] | None) -> Iterator[None]:
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
    finally:
        release()  # the next task of this worker begins with as little memory as this one


def _raised(result: Result | KraftForensicsError) -> Result:
    if isinstance(result, KraftForensicsError):
        raise result
    return result
