"""`upgrade`: a lake of an earlier release gets this layout and its derived tables anew; a newer lake is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from jobs.cli import app
from jobs.custody.tables import check_tables
from jobs.ingest import stage as ingest_stage
from jobs.lake import chain
from jobs.lake.lake import Lake
from jobs.lake.tables import APPEND_ONLY, SCHEMA_VERSION, TABLES
from jobs.lake.versions import NewerLakeError, layout_of
from jobs.lifecycle.upgrade import to_ingest_again, upgrade_layout
from jobs.provenance import fingerprint
from jobs.replay import stage
from tests.slow.test_crashes import DiedError, DyingLake, run
from tests.support.digests import digests

_LATER = "raw"  # a column of quarantine that the earlier release did not have


def command(lake: Lake, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--lake", str(lake.root)])


@pytest.fixture(scope="module")
def old(captures: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of an earlier release: without the table of runs, a capture's row, a column, a property and the layout's
    version, with a table that was append-only, and with findings that another code made."""
    root = tmp_path_factory.mktemp("old") / "lake"
    table = TABLES["quarantine"]
    fewer = pa.schema([field for field in table.schema if field.name != _LATER])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "SCHEMA_VERSION", 0)
        patch.setattr(fingerprint, "CODE_VERSION", 1)
        patch.setattr(stage, "CODE_VERSION", 1)
        patch.setattr(ingest_stage, "write_row", lambda *_: 0)
        patch.setitem(TABLES, "quarantine", replace(table, schema=fewer))
        cluster = run(Lake(root), captures[1])
        lake = Lake(root)
        lake.put("findings", cluster, lake.read("findings", cluster).slice(0, 0))
    shutil.rmtree(root / "runs")
    lake.delta("captures").alter.set_table_properties({APPEND_ONLY: "true"})
    lake.delta("findings").alter.set_table_properties({"delta.enableExpiredLogCleanup": "true"})
    return root


@pytest.fixture
def lake(old: Path, tmp_path: Path) -> Lake:
    shutil.copytree(old, tmp_path / "lake")
    return Lake(tmp_path / "lake")


def comparable(lake: Lake) -> dict[str, Any]:
    """Without the table whose column stays null, and what is counted in it."""
    return {name: found for name, found in digests(lake).items() if name not in ("quarantine", "quality_results")}


def test_a_lake_of_an_earlier_release(lake: Lake, captures: tuple[Path, Path], tmp_path: Path) -> None:
    fresh = Lake(tmp_path / "fresh")
    assert command(fresh, "run", str(captures[1])).exit_code == 0
    cluster = lake.clusters()[0]
    result = command(lake, "upgrade")
    assert result.exit_code == 0, result.output
    for said in (
        "new tables: runs",
        "quarantine: new columns raw",
        "findings: properties delta.enableExpiredLogCleanup",
        f"captures: properties {APPEND_ONLY}",
        f"{cluster}: captures: 1 new row",
        f"{cluster}: layout {SCHEMA_VERSION} of ",
        "quarantine.raw is null in rows of an earlier release; to fill it, ingest into a new lake: alone",
    ):
        assert said in result.stderr
    assert comparable(lake) == comparable(fresh)
    rows = lake.rows("quarantine", cluster)
    assert [{**row, _LATER: None} for row in fresh.rows("quarantine", cluster)] == rows
    assert list(check_tables(lake, cluster)) == []
    assert {layout_of(lake.made(name, cluster)) for name in TABLES if lake.made(name, cluster)} == {SCHEMA_VERSION}
    assert list(upgrade_layout(lake)) == []
    assert len(list(to_ingest_again(lake))) == 1


def test_an_upgrade_that_died_goes_on(lake: Lake) -> None:
    cluster, deaths = lake.clusters()[0], 0
    while True:
        try:
            list(upgrade_layout(DyingLake(lake.root, deaths % 3, written=bool(deaths % 2))))
            break
        except DiedError:
            deaths += 1
    assert deaths > 2
    assert list(upgrade_layout(lake)) == []
    assert list(check_tables(lake, cluster)) == []


def test_a_lake_of_a_newer_release_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    list(upgrade_layout(lake))
    cluster = lake.clusters()[0]
    monkeypatch.setattr(chain, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    lake.commit("evidence_files", cluster, [])
    monkeypatch.undo()
    for words in (["upgrade"], ["status"], ["detect"], ["windows"], ["maintain"], ["ingest", str(lake.root)]):
        result = command(lake, *words)
        assert isinstance(result.exception, NewerLakeError), words  # whose exit code `main` takes
        assert result.exception.exit_code == 5
        assert "this lake is of a newer release (kraft-forensics" in str(result.exception)


def test_findings_of_a_newer_release_are_not_made_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(lake, "upgrade").exit_code == 0
    monkeypatch.setattr(fingerprint, "CODE_VERSION", fingerprint.CODE_VERSION - 1)
    before = digests(lake)
    result = command(lake, "replay")
    assert isinstance(result.exception, NewerLakeError)
    assert f"code {fingerprint.CODE_VERSION + 1}; this program knows {fingerprint.CODE_VERSION}" in str(
        result.exception
    )
    assert digests(lake) == before


def test_tables_that_are_stored_in_another_way_name_their_captures(lake: Lake) -> None:
    shutil.rmtree(lake.storage.url("findings"))
    DeltaTable.create(lake.storage.url("findings"), TABLES["findings"].schema)
    result = command(lake, "upgrade")
    assert result.exit_code == 1
    assert "the table findings is not partitioned by cluster_id" in str(result.exception)
    assert "Ingest these captures into a new lake: alone." in str(result.exception)
