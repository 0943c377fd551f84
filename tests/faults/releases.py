"""A lake of a newer release, by what Delta says of its tables."""

import json
from collections.abc import Iterator
from pathlib import Path

from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from jobs.lake.tables import TABLES
from tests.faults.ground import Ground, LostError, Trial, ends_clearly, on_a_copy

_FUTURE = "ofTheFuture"


def trials() -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial)."""
    yield "lake of a newer release", "a column that is not known", _more_columns
    for name in ("evidence_files", "metadata_records", "partition_history", "findings", "quality_results"):
        yield "lake of a newer release", "a protocol that is not known", newer_protocol(name)


def _more_columns(ground: Ground) -> int:
    place = ground.place()
    for name in TABLES:
        DeltaTable(str(place / "lake" / name)).alter.add_columns([Field("of_the_future", PrimitiveType("string"))])
    ground.goes_well(place)
    return 1


def newer_protocol(name: str) -> Trial:
    """A table that a later version of Delta changed is refused, and nothing else is changed."""

    def act(ground: Ground, place: Path) -> None:
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

    return on_a_copy(act)
