"""Tables changed by another hand: the next stage notices, and `verify` names what is different."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from evidence.capture.files import open_capture
from jobs.config.settings import load_settings
from jobs.custody.derived import check_sample
from jobs.custody.tables import Difference, can_be_replayed, check_tables, only_in, rewritten
from jobs.ingest.stage import ingest_opened
from jobs.lake.integrity import receipts
from jobs.lake.lake import Lake
from jobs.lake.marks import ChangedTableError
from jobs.lake.tables import TABLES
from jobs.quality.stage import run_quality
from jobs.report.stage import write_report
from tests.support.digests import digests
from tests.support.invoked import invoke
from tests.unit.jobs.conftest import remake

DERIVED = ("findings", "elections", "partition_history", "quorum_history")


def differences(lake: Lake, cluster: str) -> list[Difference]:
    return list(check_tables(lake, cluster))


def codes(lake: Lake, cluster: str) -> set[tuple[str | None, str]]:
    return {(d.table, d.what) for d in differences(lake, cluster)}


def newest_commit(lake: Lake, table: str) -> Path:
    return sorted((Path(lake.storage.url(table)) / "_delta_log").glob("*.json"))[-1]


def ingest_again(lake: Lake, capture: Path) -> None:
    with open_capture(capture) as opened:
        ingest_opened(lake, opened, load_settings(), lambda _: None)


def test_what_the_stages_wrote_is_whole(lake: Lake, cluster: str) -> None:
    assert differences(lake, cluster) == []
    assert remake(lake, cluster) == (True, True)


@pytest.mark.parametrize("table", DERIVED)
def test_a_derived_table_with_a_row_deleted_is_made_again(lake: Lake, cluster: str, table: str) -> None:
    before = digests(lake)
    key = TABLES[table].key[-1]
    value = lake.rows(table, cluster, (key,))[0][key]
    lake.delta(table).delete(f"{key} = {value!r}")
    found = differences(lake, cluster)
    named = [d for d in found if d.what == "row_missing"]
    assert {d.table for d in named} == {table}
    assert all(f"{key}={value}" in str(d.key) for d in named)
    assert ("foreign_commit", True) in {(d.what, d.is_note) for d in found}
    assert remake(lake, cluster) != (True, True)
    assert digests(lake) == before
    assert {d.what for d in differences(lake, cluster)} == {"foreign_commit"}
    assert remake(lake, cluster) == (True, True)


def test_evidence_with_a_row_deleted_is_refused_by_every_stage(lake: Lake, cluster: str, capture: Path) -> None:
    lake.delta("metadata_records").delete("offset = 20")
    said = r"metadata_records of .* was changed by another program \(version 2: DELETE by delta-rs.*verify"
    with pytest.raises(ChangedTableError, match=said):
        remake(lake, cluster)
    with pytest.raises(ChangedTableError, match=said):
        ingest_again(lake, capture)
    with pytest.raises(ChangedTableError, match=said):
        write_report(lake, cluster, lake.root / "page.html", lambda _: None)
    (row,) = [d for d in differences(lake, cluster) if d.what == "row_missing"]
    assert (row.table, row.key is not None and "offset=20" in row.key) == ("metadata_records", True)


def test_quality_does_not_check_a_history_that_another_program_changed(lake: Lake, cluster: str) -> None:
    lake.delta("partition_history").delete("offset > 100")
    with pytest.raises(ChangedTableError, match="`kraft-forensics replay` makes it again"):
        run_quality(lake, cluster, load_settings(), lambda _: None)


def test_a_row_that_was_changed_is_named_before_and_after(lake: Lake, cluster: str) -> None:
    finding = lake.rows("findings", cluster, ("finding_id",))[0]["finding_id"]
    lake.delta("findings").update({"verdict": "'another'"}, predicate=f"finding_id = '{finding}'")
    found = {d.what: d for d in differences(lake, cluster)}
    assert found["row_missing"].key == found["row_added"].key == f"finding_id={finding}"


def test_rows_of_another_program_in_an_empty_table_are_noticed(lake: Lake, cluster: str) -> None:
    assert lake.count("boot_ids", cluster) == 0
    row = {"cluster_id": cluster, "capture": "x", "boot_id": "1e7c8a66-0f4a-4a5e-9a7a-0123456789ab"}
    write_deltalake(lake.storage.url("boot_ids"), pa.Table.from_pylist([row], TABLES["boot_ids"].schema), mode="append")
    assert ("boot_ids", "row_added") in codes(lake, cluster)
    with pytest.raises(ChangedTableError, match="boot_ids"):
        remake(lake, cluster)


@pytest.mark.parametrize("table", ["metadata_records", "findings"])
def test_one_changed_byte_of_a_file_is_named(lake: Lake, cluster: str, table: str) -> None:
    file = next(Path(lake.storage.url(table)).glob("*.parquet"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    (found,) = differences(lake, cluster)
    assert (found.table, found.what, found.file) == (table, "file_changed", file.name)


def test_a_file_that_is_missing_is_named(lake: Lake, cluster: str) -> None:
    file = next(Path(lake.storage.url("elections")).glob("*.parquet"))
    file.unlink()
    found = {d.what: d.file for d in differences(lake, cluster)}
    assert found == {"file_changed": file.name}


@pytest.mark.parametrize("table", ["metadata_records", "findings"])
def test_an_edited_commit_is_named(lake: Lake, cluster: str, table: str) -> None:
    commit = newest_commit(lake, table)
    commit.write_text(commit.read_text().replace('\\"version\\": 1', '\\"version\\": 1, \\"x\\": 1'))
    assert (table, "commit_edited") in codes(lake, cluster)
    if table == "findings":
        assert remake(lake, cluster) == (True, False)
    else:
        with pytest.raises(ChangedTableError, match="edited"):
            remake(lake, cluster)


def test_the_edited_size_of_a_file_is_named(lake: Lake, cluster: str) -> None:
    commit = newest_commit(lake, "elections")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["stats"] = '{"numRecords": 0}'
    commit.write_text("\n".join(map(json.dumps, lines)))
    assert codes(lake, cluster) == {("elections", "log_edited")}
    assert remake(lake, cluster) == (True, False)


@pytest.mark.parametrize("table", ["metadata_records", "evidence_files", "partition_history", "elections"])
def test_a_removed_commit_is_named(lake: Lake, cluster: str, table: str, capture: Path) -> None:
    before = digests(lake)
    newest_commit(lake, table).unlink()
    assert (table, "commits_removed") in codes(lake, cluster)
    if table == "metadata_records":
        with pytest.raises(ChangedTableError, match="its newest commits were removed"):
            remake(lake, cluster)
        return
    if table == "evidence_files":
        ingest_again(lake, capture)
    assert remake(lake, cluster) != (True, True)
    assert digests(lake) == before


def test_a_table_that_another_program_compacted_is_refused_until_it_is_adopted(
    lake: Lake, cluster: str, capture: Path
) -> None:
    """Two captures give two files, which another program makes one. Nothing is made again because of it."""
    other = capture.with_name("second")
    shutil.copytree(capture, other)
    ingest_again(lake, other)
    remake(lake, cluster)
    before = digests(lake)
    lake.delta("evidence_files").optimize.compact()
    found = differences(lake, cluster)
    assert {(d.table, d.what, d.is_note) for d in found} == {
        ("evidence_files", "foreign_commit", True),
        ("evidence_files", "rewritten", True),
    }
    ingested, version = receipts(lake, cluster), lake.version("evidence_files")
    with pytest.raises(ChangedTableError, match=r"evidence_files of .*OPTIMIZE.*`verify --adopt`"):
        remake(lake, cluster)
    assert lake.version("evidence_files") == version
    verify = ["verify", "--lake", str(lake.root), "--sample", "0"]
    for words in ([], ["--adopt"]):
        assert invoke([*verify, *words]).exit_code == 0
    assert lake.version("evidence_files") == version + 1
    assert lake.made("evidence_files", cluster)["adopted"]["of"].startswith(f"version {version}: OPTIMIZE by")
    assert digests(lake) == before
    assert receipts(lake, cluster) == ingested
    assert {(d.table, d.what) for d in differences(lake, cluster)} == {("evidence_files", "foreign_commit")}
    assert remake(lake, cluster) == (True, True)


def test_a_table_with_other_rows_is_not_adopted(lake: Lake, cluster: str) -> None:
    """Nor one with the same rows that differs in anything else."""
    lake.delta("metadata_records").delete("offset = 20")
    version = lake.version("metadata_records")
    assert invoke(["verify", "--lake", str(lake.root), "--adopt", "--sample", "0"]).exit_code == 1
    assert lake.version("metadata_records") == version
    note, other = Difference("findings", "rewritten", "", is_note=True), Difference("findings", "file_changed", "")
    assert (rewritten([note]), rewritten([note, other])) == (["findings"], [])


def test_rows_are_compared_in_any_order_with_how_often_they_are_there() -> None:
    rows = pa.table({"a": [1, 2, 2, None], "b": [["x"], ["y"], ["y"], None]})
    assert only_in(rows, rows.take([3, 2, 1, 0]), ["a", "b"]) == ([], 0)
    assert only_in(rows, rows.slice(0, 2), ["a", "b"]) == ([{"a": 2, "b": ["y"]}, {"a": None, "b": None}], 2)
    assert only_in(rows.slice(0, 2), rows, ["a", "b"]) == ([], 0)
    assert only_in(pa.concat_tables([rows] * 5), rows.slice(0, 0), ["a"])[1] == 20


def vacuumed(lake: Lake, table: str) -> None:
    """Rewrite a table with the same rows, and delete the files that its commits name."""
    rows = lake.delta(table).to_pyarrow_table()
    write_deltalake(lake.storage.url(table), rows, mode="overwrite")
    lake.delta(table).vacuum(0, dry_run=False, enforce_retention_duration=False)


@pytest.mark.parametrize(
    ("table", "way"),
    [
        ("partition_history", "`kraft-forensics verify --all` compares them with a replay; `replay` makes them again"),
        (
            "metadata_records",
            "`kraft-forensics verify --all --capture` compares them with the rows that a capture gives",
        ),
    ],
)
def test_after_vacuum_the_other_ways_are_named(lake: Lake, cluster: str, table: str, way: str) -> None:
    count = lake.count(table, cluster)
    vacuumed(lake, table)
    (found,) = [d for d in differences(lake, cluster) if not d.is_note]
    assert (found.table, found.what) == (table, "not_comparable")
    assert f"with {count} rows instead of" in found.text
    assert found.text.endswith(way)
    assert can_be_replayed([found]) == (table == "partition_history")
    if table == "partition_history":
        assert list(check_sample(lake, cluster, load_settings(), 2)) == []


def test_a_sample_of_the_history_is_replayed(lake: Lake, cluster: str) -> None:
    settings = load_settings()
    assert list(check_sample(lake, cluster, settings, 2)) == []
    lake.delta("partition_history").update({"leader": "7"}, predicate="offset = 107 and partition = 0")
    vacuumed(lake, "partition_history")
    found = list(check_sample(lake, cluster, settings, 1))
    assert {d.what for d in found} == {"row_not_replayed", "row_missing"}
    assert all("offset=107" in str(d.key) for d in found)
    small = settings.model_copy(update={"replay": settings.replay.model_copy(update={"rows_per_bucket": 10})})
    assert list(check_sample(lake, cluster, small, 0)) == []
    assert list(check_sample(lake, cluster, small, 10_000)) == found
