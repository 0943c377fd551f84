"""New, known and acknowledged findings, and the levels that alarms look at."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from jobs.console.options import FailOn, levels_from
from jobs.lake.lake import Lake
from jobs.queries.listing import acknowledge, listed, undo
from jobs.verdict.status import KEY, levels, remember, with_status
from replay.arrow.schemas import PARTITION_HISTORY
from tests.support.invoked import invoke
from tests.support.report_rows import evidence_file, lake_of

CLUSTER = "c1"
LOSS = {"finding_id": "loss-000", "kind": "hwm_regression", "verdict": "possible", "severity": "medium"}
GAP = {"finding_id": "gap-0000", "kind": "evidence_gap", "verdict": "undetermined", "severity": "low"}
OTHER = {"finding_id": "other-00", "kind": "leaderless", "verdict": "proven", "severity": "low"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    state = {"topic_id": "T", "topic": "t", "partition": 0, "offset": 1}
    return lake_of(tmp_path, CLUSTER, evidence_files=[evidence_file()], partition_history=[state])


def find(lake: Lake, *rows: dict[str, Any]) -> None:
    """Replace the cluster's findings, as detect does."""
    lake_of(Path(str(lake.root)), CLUSTER, findings=[{"topic": "t", "partition": 0, **row} for row in rows])


def statuses(lake: Lake, running: bool = False) -> dict[str, str]:
    rows = with_status(lake, CLUSTER, lake.read("findings", CLUSTER, KEY), running).to_pylist()
    return {row["finding_id"]: row["status"] for row in rows}


def cli(lake: Lake, *words: str) -> Result:
    return invoke([*words, "--lake", str(lake.root)])


def test_a_finding_is_new_once(lake: Lake) -> None:
    find(lake, LOSS, GAP)
    assert statuses(lake, running=True) == {"loss-000": "new", "gap-0000": "new"}
    remember(lake, CLUSTER, 1000)
    assert statuses(lake) == {"loss-000": "new", "gap-0000": "new"}  # of the newest run
    assert statuses(lake, running=True) == {"loss-000": "known", "gap-0000": "known"}
    version = lake.version("finding_first_seen")
    remember(lake, CLUSTER, 2000)
    assert lake.version("finding_first_seen") == version
    find(lake, LOSS, GAP, OTHER)
    remember(lake, CLUSTER, 3000)
    assert statuses(lake) == {"loss-000": "known", "gap-0000": "known", "other-00": "new"}


def test_replacing_the_findings_loses_nothing(lake: Lake) -> None:
    find(lake, LOSS)
    remember(lake, CLUSTER, 1000)
    find(lake)
    remember(lake, CLUSTER, 2000)
    find(lake, LOSS, OTHER)
    assert statuses(lake, running=True) == {"loss-000": "known", "other-00": "new"}
    remember(lake, CLUSTER, 3000)
    seen = lake.rows("finding_first_seen", CLUSTER)
    assert {row["finding_id"]: row["first_seen_ms"] for row in seen} == {"loss-000": 1000, "other-00": 3000}


def test_runs_at_once_record_each_finding_once_and_none_fails(lake: Lake) -> None:
    find(lake, LOSS, GAP)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda now: remember(lake, CLUSTER, now), range(8)))
    assert len(lake.rows("finding_first_seen", CLUSTER)) == 2


def test_acknowledgements_at_once_are_all_kept(lake: Lake) -> None:
    find(lake, LOSS, GAP, OTHER)
    ids = ["loss-000", "gap-0000", "other-00"]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda each: acknowledge(lake, [each], CLUSTER, "", "me", 1), ids))
    assert [row["finding_id"] for row in listed(lake, CLUSTER)] == sorted(ids)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda each: undo(lake, [each], CLUSTER), ids))
    assert listed(lake, CLUSTER) == []


def test_a_loss_that_is_proven_later_is_new_again_and_no_longer_acknowledged(lake: Lake) -> None:
    find(lake, LOSS)
    remember(lake, CLUSTER, 1000)
    assert cli(lake, "acknowledge", "loss-0", "--note", "INC-1").exit_code == 0
    assert statuses(lake, running=True) == {"loss-000": "acknowledged"}
    find(lake, LOSS | {"verdict": "proven", "severity": "critical"})
    assert statuses(lake, running=True) == {"loss-000": "new"}


def alarms(lake: Lake, level: FailOn, running: bool = True) -> bool:
    return bool(levels(lake, running) & levels_from(level))


def test_new_levels_alarm_once_and_the_others_every_time(lake: Lake) -> None:
    find(lake, LOSS)
    first = [alarms(lake, level) for level in ("possible", "new-possible", "new-medium", "new-proven", "new-unknown")]
    remember(lake, CLUSTER, 1000)
    again = [alarms(lake, level) for level in ("possible", "new-possible", "new-medium", "new-proven", "new-unknown")]
    assert first == [True, True, True, False, True]
    assert again == [True, False, False, False, False]


def test_what_is_acknowledged_before_the_next_run_does_not_alarm_as_new(lake: Lake) -> None:
    find(lake, LOSS)
    assert cli(lake, "acknowledge", "loss-000", "--note", "INC-1").exit_code == 0
    assert (alarms(lake, "new-possible"), alarms(lake, "possible")) == (False, True)


@pytest.mark.parametrize(
    ("row", "alarming"),
    [
        (GAP, {"unknown", "low", "info"}),
        (LOSS | {"verdict": "undetermined"}, {"unknown", "low", "medium", "info"}),
        (LOSS | {"verdict": "excluded", "severity": "info"}, set()),
    ],
    ids=["gap", "undetermined window", "excluded window"],
)
def test_what_alarms_where_no_loss_was_found(lake: Lake, row: dict[str, Any], alarming: set[FailOn]) -> None:
    find(lake, row)
    every: tuple[FailOn, ...] = ("proven", "possible", "unknown", "high", "medium", "low", "info")
    assert {level for level in every if alarms(lake, level)} == alarming


def test_unknown_is_where_nothing_was_replayed(lake: Lake) -> None:
    find(lake, OTHER)
    assert not alarms(lake, "unknown")
    lake.put("partition_history", CLUSTER, PARTITION_HISTORY.empty_table())
    assert (alarms(lake, "unknown"), alarms(lake, "new-unknown"), alarms(lake, "possible")) == (True, True, False)


def test_acknowledgements_are_listed_and_undone(lake: Lake) -> None:
    find(lake, LOSS, OTHER)
    words = ("--note", "restored", "--by", "ann", "--format", "json")
    (row,) = json.loads(cli(lake, "acknowledge", "loss-000", *words).stdout)
    about = {"finding_id": "loss-000", "verdict": "possible", "severity": "medium"}
    assert {name: row[name] for name in row if name != "acknowledged_ms"} == {
        "cluster_id": CLUSTER,
        **about,
        "note": "restored",
        "acknowledged_by": "ann",
    }
    cli(lake, "acknowledge", "loss-000", "other-00", "--note", "both", "--by", "bob")
    listed = json.loads(cli(lake, "acknowledge", "--list", "--format", "json").stdout)
    assert [(r["finding_id"], r["note"]) for r in listed] == [("loss-000", "both"), ("other-00", "both")]
    assert json.loads(cli(lake, "acknowledge", "--all", "--note", "first night", "--format", "json").stdout) == []
    assert cli(lake, "acknowledge", "loss-0", "--undo").exit_code == 0
    listed = json.loads(cli(lake, "acknowledge", "--list", "--format", "json").stdout)
    assert [r["finding_id"] for r in listed] == ["other-00"]
    (row,) = json.loads(cli(lake, "acknowledge", "--all", "--note", "baseline", "--format", "json").stdout)
    assert (row["finding_id"], row["note"]) == ("loss-000", "baseline")
    cli(lake, "acknowledge", "loss-0", "--undo")
    again = cli(lake, "acknowledge", "loss-000", "--undo")
    assert (again.exit_code, "no acknowledgement has" in str(again.exception)) == (1, True)


@pytest.mark.parametrize(("setting", "name"), [("ann@example.com", "ann@example.com"), ("", None)])
def test_who_acknowledges_is_who_the_site_names(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, setting: str, name: str | None
) -> None:
    find(lake, LOSS)
    monkeypatch.setenv("KRAFT_FORENSICS_CUSTODY__INGESTED_BY", setting)
    (row,) = json.loads(cli(lake, "acknowledge", "loss-000", "--note", "seen", "--format", "json").stdout)
    assert row["acknowledged_by"] == name


def test_one_wrong_id_acknowledges_nothing(lake: Lake) -> None:
    find(lake, LOSS)
    result = cli(lake, "acknowledge", "loss-000", "nothing-like-it", "--note", "n")
    assert result.exit_code == 1
    assert cli(lake, "acknowledge", "--list").stdout == "nothing is acknowledged\n"


def test_findings_have_their_status_and_cluster(lake: Lake) -> None:
    find(lake, LOSS, OTHER)
    cli(lake, "acknowledge", "other-00", "--note", "n")
    rows = json.loads(cli(lake, "findings", "--format", "json").stdout)
    assert [(r["cluster_id"], r["finding_id"], r["status"]) for r in rows] == [
        (CLUSTER, "loss-000", "new"),
        (CLUSTER, "other-00", "acknowledged"),
    ]
    rows = json.loads(cli(lake, "findings", "--format", "json", "--status", "new").stdout)
    assert [r["finding_id"] for r in rows] == ["loss-000"]


def test_a_note_cannot_control_the_terminal(lake: Lake) -> None:
    find(lake, LOSS)
    assert "\x1b" not in cli(lake, "acknowledge", "loss-000", "--note", "a\x1b[31m").stdout
