"""How commands open a lake whose finished tables they show, and record what they did in its table `runs`."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from evidence.capture.remote import Location
from evidence.errors import KraftForensicsError
from jobs.console.log import WARNING, about, show_message
from jobs.console.signals import received

if TYPE_CHECKING:
    from jobs.lake.lake import Lake
    from jobs.lake.runs import Run


def lake_to_show(root: Location, cluster: str | None = None) -> "Lake":
    """A lake whose tables are as this program wrote them. cluster: only this one is looked at; None: all of them.
    Errors: LakeError; ChangedTableError if another program has changed a table."""
    from jobs.lake.integrity import require_as_written
    from jobs.lake.lake import Lake

    lake = Lake(root)
    lake.require()
    for each in lake.clusters() if cluster is None else [lake.one_cluster(cluster)]:
        for line in require_as_written(lake, each):
            show_message(line, WARNING)
    return lake


@contextmanager
def recorded(command: str, root: Location) -> "Iterator[Run]":
    """Run a command; yields what takes its figures. What it raises is recorded and raised."""
    from jobs.lake.lake import Lake
    from jobs.lake.runs import DONE, FAILED, STOPPED, Run
    from jobs.lake.storage import LakeError

    run, error = Run(command), None
    outcome, exit_code = DONE, 0
    try:
        with run.measured(), about(command=command, run_id=run.run_id):
            yield run
    except BaseException as raised:
        if isinstance(raised, typer.Exit):
            exit_code = raised.exit_code
        elif (number := received()) is not None:
            outcome, exit_code = STOPPED, 128 + number
        else:
            outcome = FAILED
            exit_code = raised.exit_code if isinstance(raised, KraftForensicsError) else KraftForensicsError.exit_code
            error = (str(raised).splitlines() or [type(raised).__name__])[0]
        raise
    finally:
        with suppress(LakeError):  # no lake can be there, which is the error that ended the command
            run.write(Lake(root), outcome, exit_code, error)
