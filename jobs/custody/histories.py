"""Replay a lake's evidence again, all of it or a sample, and compare with what the lake has."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset
from pyarrow.fs import copy_files

from jobs.config.settings import Settings
from jobs.custody.tables import Difference, key_of, only_in
from jobs.detect.stage import run_detect
from jobs.ingest.records import RECORDS, SNAPSHOTS
from jobs.lake.lake import Lake
from jobs.lake.tables import CLUSTER_ID, DETECTED, INGESTED, REPLAYED, TABLES
from jobs.replay.buckets import HISTORY, BucketFiles, buckets, read_changes, read_table
from jobs.replay.cluster_state import LogConflictError, load_cluster_state, replayed_from
from jobs.replay.stage import replay
from jobs.replay.task import reduced


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
        of_cluster = pc.field(CLUSTER_ID) == cluster
        for name in (*REPLAYED, *DETECTED):
            yield from _differences(name, *(each.dataset(name).filter(of_cluster) for each in (lake, again)))


def check_sample(lake: Lake, cluster: str, settings: Settings, sample: int) -> Iterator[Difference]:
    """Rows of partition_history that a replay of some buckets, at random, does not give. sample: how many of them.
    Reads the evidence where it is."""
    try:
        state = load_cluster_state(lake, cluster, replayed_from(lake, cluster))
    except LogConflictError:
        return
    files = BucketFiles(lake, cluster, (RECORDS, SNAPSHOTS, HISTORY))
    found = buckets(lake, cluster, settings, state, files.rows(RECORDS, HISTORY))
    for bucket in random.sample(found, min(sample, len(found))):
        parts = files.parts(bucket)
        stored = read_table(lake.storage, HISTORY, parts[HISTORY], bucket)
        yield from _differences(HISTORY, stored, reduced(read_changes(lake.storage, parts, bucket, state), state))


def _differences(name: str, stored: pa.Table | Dataset, derived: pa.Table | Dataset) -> Iterator[Difference]:
    columns = TABLES[name].file_schema.names
    for row in only_in(stored, derived, columns).first:
        yield Difference(name, "row_not_replayed", "the evidence does not give this row", key=key_of(name, row))
    for row in only_in(derived, stored, columns).first:
        yield Difference(name, "row_missing", "the evidence gives a row that the table lacks", key=key_of(name, row))
