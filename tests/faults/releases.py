"""A lake of an older release, an upgrade that is cut off, and a lake of a newer release."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from jobs.lake.lake import Lake
from jobs.lake.tables import CLUSTER_ID, TABLES
from tests.faults.ground import Ground, LostError, Trial, ends_clearly, removed
from tests.faults.kills import killed_at_call

_LACKED = ("rule_differences", "invariant_violations", "node_clocks", "acknowledgements")
_FUTURE = "ofTheFuture"


def trials(seed: int, moments: int) -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial). moments: number of upgrades that are cut off."""
    yield "lake of an older release", "tables and columns are missing, no marks", older
    source = random.Random(seed)
    for _ in range(moments):
        share = source.random()
        yield "upgrade cut off", "kill -9 at a random write of the first run (injector)", _cut_off(share)
    yield "lake of a newer release", "a column that is not known", _more_columns
    for name in ("evidence_files", "metadata_records", "partition_history", "findings", "quality_results"):
        yield "lake of a newer release", "a protocol that is not known", newer_protocol(name)


def _as_older_release(lake: Path) -> None:
    """Rewrite the tables as a release without marks left them: tables are missing, and so are columns of the others
    that hold no value and identify no row."""
    opened = Lake(lake)
    for name, table in TABLES.items():
        rows = opened.read(name, None)
        shutil.rmtree(lake / name)
        kept = {CLUSTER_ID, *table.key, *table.topics}
        empty = [c for c in rows.column_names if rows[c].null_count == len(rows) and c not in kept]
        for cluster in rows[CLUSTER_ID].unique().to_pylist():
            made = CommitProperties(custom_metadata={"userMetadata": json.dumps({CLUSTER_ID: cluster})})
            write_deltalake(
                opened.storage.url(name),
                rows.drop_columns(empty).filter(pa.compute.equal(rows[CLUSTER_ID], cluster)),
                partition_by=[CLUSTER_ID],
                commit_properties=made,
            )
    for name in _LACKED:
        shutil.rmtree(lake / name, ignore_errors=True)


def older(ground: Ground) -> int:
    place = ground.place()
    _as_older_release(place / "lake")
    ground.goes_well(place)
    return 1


def _cut_off(share: float) -> Trial:
    def go(ground: Ground) -> int:
        place = ground.place()
        _as_older_release(place / "lake")
        killed = killed_at_call(ground, place, share)
        ground.converges(place)
        removed(place)
        return int(killed)

    return go


def _more_columns(ground: Ground) -> int:
    place = ground.place()
    for name in TABLES:
        DeltaTable(str(place / "lake" / name)).alter.add_columns([Field("of_the_future", PrimitiveType("string"))])
    ground.goes_well(place)
    return 1


def newer_protocol(name: str) -> Trial:
    """A table that a later version of Delta changed is refused, and nothing else is changed."""

    def go(ground: Ground) -> int:
        place = ground.place()
        log = place / "lake" / name / "_delta_log"
        features = {"readerFeatures": [_FUTURE], "writerFeatures": [_FUTURE]}
        newer = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
        version = int(max(file.stem for file in log.glob("*.json"))) + 1
        added = log / f"{version:020d}.json"
        added.write_text(json.dumps(newer) + "\n")
        ends_clearly(ground.run(place).ended(), (1,))
        if (log / f"{version + 1:020d}.json").exists():
            raise LostError(f"{name}: committed on top of a protocol that is not known")
        added.unlink()
        ground.recovers(place)
        return 1

    return go
