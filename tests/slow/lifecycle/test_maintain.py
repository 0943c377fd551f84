"""Maintenance changes no row, keeps the chain of digests whole, and deletes only what nothing needs."""

import json
import os
from pathlib import Path

import pytest

from jobs.custody.maintain import GROWING, maintain
from jobs.custody.tables import check_tables
from jobs.lake.integrity import made_from, receipts
from jobs.lake.lake import Lake, Row
from jobs.lake.marks import ChangedTableError
from jobs.lake.tables import TABLES
from tests.slow.test_crashes import run
from tests.support.digests import digests
from tests.support.invoked import invoke
from tests.unit.jobs.conftest import remake


def maintained(lake: Lake, days: int = 7) -> dict[str, Row]:
    return {each["table"]: each for each in maintain(lake, days, lambda _: None, least_files=2)}


def parquet_files(lake: Lake, table: str) -> set[str]:
    return {file.name for file in Path(lake.storage.url(table)).glob("*.parquet")}


def test_compaction_keeps_rows_chain_and_stages(lake: Lake, cluster: str) -> None:
    before, custody, done_by = digests(lake), made_from(lake, cluster)["captures"], receipts(lake, cluster)
    heads = {name: lake.head(name, cluster).id for name in TABLES}
    found = maintained(lake)
    compacted = {name for name, each in found.items() if each["after"] < each["before"]}
    assert {"evidence_files", "metadata_records"} <= compacted <= set(GROWING)
    assert all(len(lake.files(name, cluster)) == 1 for name in compacted)
    assert digests(lake) == before
    assert list(check_tables(lake, cluster)) == []
    assert {name: lake.head(name, cluster).id for name in TABLES} == heads
    assert (made_from(lake, cluster)["captures"], receipts(lake, cluster)) == (custody, done_by)
    assert remake(lake, cluster) == (True, True)
    assert not any(each["before"] != each["after"] for each in maintained(lake).values())


def test_a_capture_after_a_compaction_is_ingested_as_ever(
    captures: tuple[Path, Path], tmp_path: Path, lake: Lake
) -> None:
    other = Lake(tmp_path / "other")
    run(other, captures[1])
    maintained(other, days=0)
    run(other, captures[0])
    assert digests(other) == digests(lake)
    assert list(check_tables(other, other.clusters()[0])) == []


def test_replaced_files_are_deleted_when_they_are_old_enough(lake: Lake, cluster: str) -> None:
    before, live = digests(lake), {file.name for file in lake.files("findings", cluster)}
    replaced = parquet_files(lake, "findings") - live
    assert replaced
    assert maintained(lake)["findings"]["deleted"] == 0
    found = maintained(lake, days=0)
    assert (found["findings"]["deleted"], parquet_files(lake, "findings")) == (len(replaced), live)
    assert found["findings"]["deleted_bytes"] > 0
    assert all(parquet_files(lake, name) == {f.name for f in lake.files(name, cluster)} for name in GROWING)
    assert digests(lake) == before
    assert list(check_tables(lake, cluster)) == []


def test_files_that_no_commit_names_are_deleted_by_their_age(lake: Lake, cluster: str) -> None:
    """A run that is going on has files that it has not committed yet. The oldest files stay if they are used."""
    used = lake.files("findings", cluster)[0]
    folder, scratch = Path(lake.storage.url("findings")), lake.root / "_scratch" / "run"
    scratch.mkdir(parents=True, exist_ok=True)
    names = [folder / "new.parquet", folder / "old.parquet", scratch / "new", scratch / "old"]
    for file in names:
        file.write_bytes(b"rows")
    for file in (names[1], names[3], folder / used.name):
        os.utime(file, (1, 1))
    found = maintained(lake)
    assert [file.exists() for file in names] == [True, False, True, False]
    assert (found["findings"]["deleted"], found["findings"]["deleted_bytes"]) == (1, 4)
    assert found["_scratch"]["deleted"] == 1
    assert (folder / used.name).exists()


def test_many_commits_get_a_checkpoint_and_stay(lake: Lake, cluster: str) -> None:
    rows = lake.read("acknowledgements", cluster).drop_columns(["cluster_id"])
    for _ in range(25):
        lake.put("acknowledgements", cluster, rows)
    maintained(lake)
    log = Path(lake.storage.url("acknowledgements")) / "_delta_log"
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == lake.version("acknowledgements")
    assert lake.cluster_version("acknowledgements", cluster) == 25
    assert len(list(lake.commits("acknowledgements"))) == lake.version("acknowledgements") + 1
    lake.put("acknowledgements", cluster, rows)
    assert list(check_tables(lake, cluster)) == []


def test_the_traces_of_another_program_are_not_deleted(lake: Lake, cluster: str) -> None:
    lake.delta("metadata_records").delete("offset = 20")
    files = parquet_files(lake, "metadata_records")
    with pytest.raises(ChangedTableError, match=r"metadata_records of .* was changed by another program"):
        maintained(lake, days=0)
    assert parquet_files(lake, "metadata_records") == files


def test_the_command(lake: Lake, tmp_path: Path) -> None:
    result = invoke(["maintain", "--lake", str(lake.root), "--retention-days", "0", "--format", "json"])
    assert result.exit_code == 0, result.output
    rows = {row["table"]: row for row in json.loads(result.stdout)}
    assert rows["findings"]["deleted"] > 0
    assert "files deleted" in result.stderr
    assert invoke(["maintain", "--lake", str(tmp_path / "none")]).exit_code == 1
