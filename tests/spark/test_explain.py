"""`explain` on the finished lake: the rows, files and bytes that support real findings."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import Job
from tests.support.invoked import cli
from tests.support.paths import capture, unpacked

LEDGER_0 = "ac156266c75d442c"
CONTROLLER_LOG = "controllers/3000/__cluster_metadata-0/00000000000000000000.log"


@pytest.fixture(scope="module")
def explained(job: Job) -> dict[str, Any]:
    """The finding about ledger-0 as JSON, with its bytes."""
    options = ("--lake", job.pipeline.root, "--capture", capture("unclean"), "--format", "json")
    result = cli("explain", LEDGER_0, *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    (found,) = json.loads(result.stdout)
    return found


def test_every_piece_of_evidence_is_found_in_the_lake_and_in_the_capture(explained: dict[str, Any]) -> None:
    assert len(explained["evidence"]) >= 8
    for row in explained["evidence"]:
        assert row["row"] is not None, row
        assert row["commands"]
        assert row["bytes"]["sha256"] == row["sha256"]
        assert row["bytes"]["file"] == row["path"]
        assert row["bytes"]["note"] is None
        assert bool(row["bytes"]["hex"]) == (row["source"] == "partition_history")
        if row["source"] == "partition_history":
            assert row["record"]["payload"].startswith('{"partitionId":0,"topicId":"')
    assert {c for row in explained["evidence"] for c in row["commands"]} == set(explained["commands"])


def test_the_printed_commands_give_the_values(explained: dict[str, Any], tmp_path: Path) -> None:
    """The commands run in a shell, in the folder of the unpacked capture."""
    folder = unpacked("unclean", tmp_path, *{row["path"].rpartition("/")[0] for row in explained["evidence"]})
    compared = 0
    for row in explained["evidence"]:
        command = row["commands"][-1]
        done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=True)
        if row["bytes"]["text"] is not None:
            assert done.stdout == row["bytes"]["text"] + "\n"
            assert float(done.stdout.split()[-1]) == row["value"]
        else:
            shown = [line[10:57].split() for line in row["bytes"]["hex"]]
            printed = [word for line in done.stdout.splitlines() for word in line.split()[1:]]
            expected = [word for line in shown for word in line]
            assert printed[: len(expected)] == expected
        compared += 1
    assert compared >= 8


def test_a_file_of_another_capture_is_not_taken_for_the_evidence(job: Job) -> None:
    result = cli("explain", LEDGER_0, "--lake", job.pipeline.root, "--capture", capture("elr"), "--format", "json")
    (found,) = json.loads(result.stdout)
    logs = [row["bytes"] for row in found["evidence"] if row["path"] == CONTROLLER_LOG]
    assert all("not the file that was ingested" in shown["note"] for shown in logs)
    # Another file may have the same bytes as a small one: the output names that file.
    shown = [row for row in found["evidence"] if row["bytes"]["hex"] or row["bytes"]["text"]]
    assert not [row for row in shown if row["bytes"]["file"] == row["path"]]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [("ac15", "first 6 characters"), ("feedfeed", "no finding has an id"), ("%' or '1'='1", "no finding has an id")],
)
def test_the_error_for_an_unknown_finding_has_advice(job: Job, wanted: str, message: str) -> None:
    result = cli("explain", wanted, "--lake", job.pipeline.root)
    assert result.exit_code == 1
    assert message in str(result.exception)
    assert f"kraft-forensics findings --lake {job.pipeline.root}" in str(result.exception)


def test_errors_that_need_no_spark(tmp_path: Path) -> None:
    assert "kraft-forensics run" in str(cli("explain", LEDGER_0, "--lake", tmp_path).exception)
    gone = cli("explain", LEDGER_0, "--lake", tmp_path, "--capture", tmp_path / "gone")
    assert "no such file or folder" in str(gone.exception)
    assert cli("explain", LEDGER_0, "--format", "csv").exit_code == 2


def test_evidence_from_every_table_is_found(job: Job) -> None:
    """Checks one finding for each table or kind of file that evidence comes from."""
    pieces = "select finding_id, explode(evidence.source) as source from findings"
    query = f"select distinct min(finding_id) over (partition by source) as id from ({pieces})"
    rows = json.loads(cli("sql", query, "--lake", job.pipeline.root, "--format", "json").stdout)
    assert len(rows) >= 2
    for row in rows:
        result = cli("explain", row["id"], "--lake", job.pipeline.root, "--format", "json")
        assert result.exit_code == 0, (row, result.output)
        (found,) = json.loads(result.stdout)
        assert found["evidence"]
        assert all(piece["row"] is not None for piece in found["evidence"]), row
