"""Progress on stderr: a live bar on a terminal, with counts and the time left; otherwise a line for each message."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import progress
from rich.console import Console

from jobs.console.log import DEBUG, allows_bar, show_message

_bar: progress.Progress | None = None


@contextmanager
def progress_steps(total: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """Show progress over the steps of a run; yields (function that shows a message, function that ends a step).

    With --verbose, a line says how long each message's work took.
    """
    global _bar
    console = Console(stderr=True)
    live = console.is_terminal and allows_bar()
    columns = (
        progress.SpinnerColumn(),
        progress.BarColumn(20),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )
    last: tuple[str, float] | None = None

    def ended() -> None:
        if last is not None:
            show_message(f"{last[0]}: {time.monotonic() - last[1]:.1f} s", DEBUG)

    with progress.Progress(*columns, console=console, transient=True, disable=not live) as bar:
        task = bar.add_task("starting", total=total)

        def describe(message: str) -> None:
            nonlocal last
            ended()
            last = message, time.monotonic()
            bar.update(task, description=message)
            if not live:
                show_message(message)

        _bar = bar if live else None
        try:
            yield describe, lambda: bar.advance(task)
            ended()
        finally:
            _bar = None


@contextmanager
def progress_tasks(total: int) -> Iterator[Callable[[int], None] | None]:
    """Show how many of a stage's tasks are done, below the run's bar; yields a function that takes their number, or
    None if no bar is shown."""
    bar = _bar
    if bar is None or total < 2:
        yield None
        return
    task = bar.add_task("tasks", total=total)
    try:
        yield lambda done: bar.update(task, completed=done)
    finally:
        bar.remove_task(task)
