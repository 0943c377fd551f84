"""Replay a lake's evidence again, and compare with what the lake has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from pyarrow.fs import copy_files

from jobs.config.settings import Settings
from jobs.custody.tables import MOST_ROWS, Difference, key_of
from jobs.detect.stage import run_detect
from jobs.lake.lake import Lake
from jobs.lake.row_digests import RowSet, rows_with, table_rows
from jobs.lake.tables import DETECTED, INGESTED, REPLAYED, TABLES
from jobs.replay.cluster_state import LogConflictError, replayed_from
from jobs.replay.stage import replay


def check_histories(lake: Lake, cluster: str, settings: Settings) -> Iterator[Difference]:
    """Rows of the derived tables that a replay and detection of the lake's evidence, in a temporary folder, do not
    give. Of two different rows both are named."""
    with TemporaryDirectory(prefix="kraft-forensics-") as folder:
        again = Lake(Path(folder) / "lake")
        for name in INGESTED:
            target = again.storage.path(name)
            Path(target).mkdir(parents=True)
            copy_files(lake.storage.path(name), target, lake.storage.system, again.storage.system)
        try:
            replay(again, cluster, settings, lambda _: None, replayed_from(lake, cluster))
        except LogConflictError:
            return  # a finding is all that the lake has
        run_detect(again, cluster, settings, lambda _: None)
        for name in (*REPLAYED, *DETECTED):
            yield from _compare(lake, again, cluster, name)


def _compare(lake: Lake, again: Lake, cluster: str, name: str) -> Iterator[Difference]:
    columns = TABLES[name].file_schema.names
    stored, derived = (RowSet(table_rows(where.parts(name, cluster, columns))) for where in (lake, again))
    if stored.same_as(derived):
        return
    for row in rows_with(table_rows(lake.parts(name, cluster, columns)), stored.without(derived), MOST_ROWS):
        yield Difference(name, "row_not_replayed", "the evidence does not give this row", key=key_of(name, row))
    for row in rows_with(table_rows(again.parts(name, cluster, columns)), derived.without(stored), MOST_ROWS):
        yield Difference(name, "row_missing", "the evidence gives a row that the table lacks", key=key_of(name, row))
