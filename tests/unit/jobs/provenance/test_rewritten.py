"""Files with other bytes than were written, also in a lake that an earlier release has begun."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from evidence.tables import EVIDENCE_FILES
from jobs.lake.lake import Lake
from jobs.provenance.rewritten import changed_file, replaced

CLUSTER, TABLE = "c", "evidence_files"


def file_row(sha256: str) -> dict[str, object]:
    counts = {"size_bytes": 1, "parsed_bytes": 1, "quarantined_bytes": 0, "trailing_bytes": 0}
    return {"capture": "c", "path": sha256, "sha256": sha256, "kind": "other", "status": "parsed", **counts}


@pytest.fixture
def older(tmp_path: Path) -> Lake:
    """Rows without a mark, as an earlier release wrote them, and then some of this one."""
    rows = pa.Table.from_pylist([{"cluster_id": CLUSTER, **file_row("00")}])
    said = CommitProperties(custom_metadata={"userMetadata": json.dumps({"cluster_id": CLUSTER})})
    write_deltalake(tmp_path / TABLE, rows, partition_by=["cluster_id"], commit_properties=said)
    lake = Lake(tmp_path)
    lake.append(TABLE, CLUSTER, pa.Table.from_pylist([file_row("01")], schema=EVIDENCE_FILES))
    return lake


def test_files_of_an_earlier_release_have_no_known_bytes(older: Lake) -> None:
    assert len(older.rows(TABLE, CLUSTER)) == 2
    assert older.head(TABLE, CLUSTER).link is not None
    assert changed_file(older, TABLE, CLUSTER) is None


def test_changed_bytes_beside_them_are_found(older: Lake, tmp_path: Path) -> None:
    files = {file.path: tmp_path / TABLE / file.path for file in older.files(TABLE, CLUSTER)}
    newest = max(files, key=lambda name: files[name].stat().st_mtime_ns)
    files[newest].write_bytes(files[newest].read_bytes()[::-1])
    assert changed_file(older, TABLE, CLUSTER) == newest


def test_older_files_can_be_rewritten_with_the_same_rows(older: Lake, tmp_path: Path) -> None:
    DeltaTable(tmp_path / TABLE).optimize.compact()
    found = replaced(older, TABLE, CLUSTER)
    assert (len(found.gone), len(found.new), found.lost, found.is_same()) == (2, 1, [], True)
