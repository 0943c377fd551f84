"""How commands open a lake whose finished tables they show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence.capture.remote import Location
from jobs.console.log import WARNING
from jobs.console.output import show_message

if TYPE_CHECKING:
    from jobs.lake.lake import Lake


def lake_to_show(root: Location, cluster: str | None = None) -> Lake:
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
