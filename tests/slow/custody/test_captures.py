"""A capture compared with the lake: changed files are named, and rows are derived from bytes again."""

import json
import os
from pathlib import Path

import pytest

from evidence.capture.files import open_capture
from jobs.config.settings import load_settings
from jobs.custody.derived import check_capture, check_histories
from jobs.custody.manifest import manifest
from jobs.custody.tables import Difference
from jobs.ingest.captures import person
from jobs.ingest.stage import ingest_opened
from jobs.lake.integrity import made_from
from jobs.lake.lake import Lake
from jobs.report.stage import write_report
from tests.support.invoked import invoke
from tests.support.nodes import state
from tests.support.small_captures import write_files
from tests.unit.jobs.conftest import remake


def compared(lake: Lake, cluster: str, capture: Path, sample: int | None = None) -> list[Difference]:
    return list(check_capture(lake, cluster, capture, load_settings(), sample))


def test_a_capture_gives_the_lakes_rows_and_is_not_touched(lake: Lake, cluster: str, capture: Path) -> None:
    before = state(capture)
    assert compared(lake, cluster, capture) == []
    assert state(capture) == before


def test_records_of_a_text_without_offsets_are_compared_by_their_place(tmp_path: Path) -> None:
    """Payloads alone, as people cut them out of kafka-dump-log's output."""
    given = tmp_path / "capture"
    given.mkdir()
    configs = [{"resourceType": 4, "resourceName": "", "name": f"log.{n}", "value": "1"} for n in range(3)]
    records = [{"type": "CONFIG_RECORD", "version": 0, "data": data} for data in configs]
    lines = [json.dumps(record, separators=(",", ":")) for record in records]
    (given / "payloads.txt").write_text("\n".join([*lines, ""]))
    lake = Lake(tmp_path / "lake")
    with open_capture(given) as opened:
        cluster = ingest_opened(lake, opened, load_settings(), lambda _: None).cluster_id
    assert [row["offset"] for row in lake.rows("metadata_records", cluster)] == [None] * 3
    assert compared(lake, cluster, given) == []


def test_a_log_that_two_captures_copied(tmp_path: Path) -> None:
    """The second one copied it later: that its node wrote nothing until then is of no row."""
    lake, line = Lake(tmp_path / "lake"), "[2026-11-21 00:00:00,123] INFO Kafka version: 4.3.1 (AppInfoParser)\n"
    places = [tmp_path / f"{number}" for number in (1, 2)]
    for place in places:
        told = f'captured_at = 179522154500{place.name}\ncluster_id = "c"\ncollected_by = "kraft-forensics 1"\n'
        with open_capture(write_files(place, {"capture.toml": told, "node-1/logs/server.log": line})) as opened:
            cluster = ingest_opened(lake, opened, load_settings(), lambda _: None).cluster_id
    assert [row["whole_until_ms"] is None for row in lake.rows("node_boots", cluster)] == [False]
    assert [compared(lake, cluster, place) for place in places] == [[], []]


def test_ingest_does_not_touch_its_source(capture: Path, tmp_path: Path) -> None:
    for file in capture.rglob("*"):
        os.chmod(file, 0o555 if file.is_dir() else 0o444)
    before = state(capture)
    with open_capture(capture) as opened:
        ingest_opened(Lake(tmp_path / "new"), opened, load_settings(), lambda _: None)
    assert state(capture) == before
    for folder in [capture, *(f for f in capture.rglob("*") if f.is_dir())]:
        os.chmod(folder, 0o755)


def test_changed_missing_and_new_files_of_a_capture_are_named(lake: Lake, cluster: str, capture: Path) -> None:
    changed, missing = sorted(capture.glob("cli/*quorum*"))[:2]
    data = bytearray(changed.read_bytes())
    data[-2] ^= 1
    changed.write_bytes(data)
    missing.unlink()
    (capture / "new.txt").write_text("x")
    found = {d.what: d.file for d in compared(lake, cluster, capture, 0) if d.table is None}
    assert found == {
        "evidence_changed": f"cli/{changed.name}",
        "evidence_missing": f"cli/{missing.name}",
        "evidence_added": "new.txt",
    }


def test_a_changed_file_is_one_difference_and_not_all_of_its_rows(lake: Lake, cluster: str, capture: Path) -> None:
    """Its rows cannot be compared. Of this one another file of the capture has the bytes that were ingested."""
    changed = capture / "disks" / "broker-1" / "replication-offset-checkpoint"
    changed.write_bytes(changed.read_bytes().replace(b"1", b"2", 1))
    assert [(d.what, d.file) for d in compared(lake, cluster, capture)] == [
        ("evidence_changed", "disks/broker-1/replication-offset-checkpoint")
    ]


def test_of_very_many_rows_that_differ_ten_are_named(lake: Lake, cluster: str, capture: Path) -> None:
    rows = [row for row in lake.rows("metadata_records", cluster) if 20 <= row["offset"] < 60]
    count = sum(row["payload"] != "{}" for row in rows)
    lake.delta("metadata_records").update({"payload": "'{}'"}, predicate="offset >= 20 and offset < 60")
    found = compared(lake, cluster, capture)
    assert {(d.table, d.what) for d in found} == {("metadata_records", "row_differs")}
    assert len(found) == 11
    assert (found[-1].text, found[-1].key) == (f"{count - 10} more rows", None)


def test_rows_that_bytes_do_not_give_are_named(lake: Lake, cluster: str, capture: Path) -> None:
    lake.delta("metadata_records").delete("offset = 20")
    lake.delta("metadata_records").update({"payload": "'{}'"}, predicate="offset = 21")
    offsets = lake.delta("log_end_offsets")
    offsets.alter.set_table_properties({"delta.appendOnly": "false"})
    offsets.update({"log_end_offset": "99"}, predicate="source = 'replica_segment' and log_end_offset = 80")
    found = compared(lake, cluster, capture)
    assert {(d.table, d.what) for d in found} == {
        ("metadata_records", "row_missing"),
        ("metadata_records", "row_differs"),
        ("log_end_offsets", "row_differs"),
    }
    assert all(d.file and d.key for d in found)


def test_rows_that_the_evidence_does_not_give_are_named(lake: Lake, cluster: str) -> None:
    assert list(check_histories(lake, cluster, load_settings())) == []
    lake.delta("partition_history").update({"leader": "7"}, predicate="offset = 91")
    found = {(d.table, d.what) for d in check_histories(lake, cluster, load_settings())}
    assert found == {("partition_history", "row_not_replayed"), ("partition_history", "row_missing")}


def test_a_capture_that_was_never_ingested_is_named(lake: Lake, cluster: str, capture: Path) -> None:
    other = capture.rename(capture.with_name("other"))
    assert "capture_unknown" in {d.what for d in compared(lake, cluster, other, 0)}


def test_the_manifest_has_who_with_what_when_and_every_file(lake: Lake, cluster: str, capture: Path) -> None:
    (found,) = manifest(lake, cluster)["captures"]
    assert {f["path"]: f["sha256"] for f in found["files"]} == {
        path: found[0] for path, found in state(capture).items()
    }
    (ingest,) = found["ingests"]
    assert ingest["by"] == person(load_settings().custody.ingested_by)
    assert ingest["with"].startswith("kraft-forensics")
    assert ingest["files"] == len(found["files"])
    assert made_from(lake, cluster)["captures"] == {"unclean": ingest["digest"]}
    remake(lake, cluster)
    assert made_from(lake, cluster)["tables"]["findings"]["version"] == 1
    # The report shows the same, of the tables that it is made from.
    page, document = capture.with_name("page.html"), capture.with_name("report.json")
    write_report(lake, cluster, page, lambda _: None)
    write_report(lake, cluster, document, lambda _: None, "json")
    shown, of_page = json.loads(document.read_text())["made_from"], page.read_text()
    assert shown["captures"] == made_from(lake, cluster)["captures"]
    assert shown["tables"].items() <= made_from(lake, cluster)["tables"].items()
    assert {"findings", "partition_history", "metadata_records"} <= set(shown["tables"])
    digests = [ingest["digest"], *(table["digest"] for table in shown["tables"].values())]
    assert all(f">{digest}</code>" in of_page for digest in digests)


@pytest.mark.parametrize(("pattern", "has"), [("", None), ("SRE on call", "SRE on call"), ("{host}", os.uname()[1])])
def test_who_is_named_is_a_setting(pattern: str, has: str | None) -> None:
    assert person(pattern) == has


def test_the_command_names_what_differs_and_exits_with_1(lake: Lake, cluster: str) -> None:
    good = invoke(["verify", "--lake", str(lake.root), "--format", "json"])
    assert (good.exit_code, good.stdout) == (0, "[]\n")
    lake.delta("findings").delete("partition = 0")
    bad = invoke(["verify", "--lake", str(lake.root), "--format", "csv"])
    assert bad.exit_code == 1
    assert "findings,row_missing," in bad.stdout
    assert "finding_id=" in bad.stdout


def test_a_changed_byte_row_file_and_commit_are_each_named(lake: Lake, cluster: str, capture: Path) -> None:
    byte = next(Path(lake.storage.url("partition_history")).glob("*.parquet"))
    byte.write_bytes(bytes(b ^ (at == 200) for at, b in enumerate(byte.read_bytes())))
    lake.delta("findings").update({"severity": "'low'"}, predicate="partition = 0 and topic = 'ledger'")
    evidence = capture / "disks" / "broker-1" / "replication-offset-checkpoint"
    evidence.write_bytes(evidence.read_bytes().replace(b"1", b"2", 1))
    commit = max(Path(lake.storage.url("log_end_offsets"), "_delta_log").glob("*.json"))
    commit.write_text(commit.read_text().replace("kraft-forensics", "another program"))
    words = ["verify", "--lake", str(lake.root), "--capture", str(capture), "--format", "json"]
    done = invoke(words)
    found = {(d["table"], d["what"], d["file"]) for d in json.loads(done.stdout) if not d["is_note"]}
    assert done.exit_code == 1
    assert {entry for entry in found if entry[0] != "findings"} == {
        ("partition_history", "file_changed", byte.name),
        (None, "evidence_changed", "disks/broker-1/replication-offset-checkpoint"),
        ("log_end_offsets", "commit_edited", f"_delta_log/{commit.name}"),
    }
    assert {what for table, what, _ in found if table == "findings"} == {"row_missing", "row_added", "rows_changed"}
