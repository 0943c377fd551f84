"""`windows`, `findings` and `verdict`: what filters leave, in the report's order, without a JVM."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from evidence.errors import UsageError
from jobs.console.output import Format
from jobs.lake.integrity import require_as_written
from jobs.lake.lake import Lake
from jobs.queries.flagged_windows import print_windows
from jobs.queries.listing import list_findings
from tests.support.invoked import invoke
from tests.support.report_rows import evidence_file, lake_of

CLUSTER = "c1"
ROWS: list[dict[str, Any]] = [
    {"finding_id": "w1", "kind": "hwm_regression", "verdict": "possible", "severity": "medium", "loss_min": 0},
    {"finding_id": "w2", "kind": "hwm_regression", "verdict": "proven", "severity": "critical", "loss_min": 7},
    {"finding_id": "w3", "kind": "hwm_regression", "verdict": "excluded", "severity": "info", "loss_min": 0},
    {"finding_id": "l1", "kind": "leaderless", "verdict": "proven", "severity": "medium"},
    {"finding_id": "g1", "kind": "evidence_gap", "verdict": "undetermined", "severity": "high", "topic": None},
]
TIMES = {"w1": (100, 200), "w2": (150, None), "w3": (300, 400), "l1": (300, 310), "g1": (None, None)}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    rows = [
        {"topic": "t", "partition": n, "rule_version": 2, "rule": "r", **row}
        | dict(zip(("start_timestamp_ms", "end_timestamp_ms"), TIMES[row["finding_id"]], strict=True))
        for n, row in enumerate(ROWS)
    ]
    return lake_of(tmp_path_factory.mktemp("listing"), CLUSTER, findings=rows)


def ids(lake: Lake, **wanted: Any) -> list[str]:
    more = {name: wanted.pop(name) for name in ("since_ms", "until_ms", "topic", "partition") if name in wanted}
    return [row["finding_id"] for row in list_findings(lake, None, 50, wanted, **more)[0]]


def test_all_findings_come_section_by_section_the_gravest_first(lake: Lake) -> None:
    assert ids(lake) == ["w2", "w1", "w3", "l1", "g1"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"section": ["windows"]}, ["w2", "w1"]),
        ({"section": ["exposures", "excluded"]}, ["w3", "l1"]),
        ({"section": ["windows"], "verdict": ["possible"]}, ["w1"]),
        ({"kind": ["leaderless", "evidence_gap"]}, ["l1", "g1"]),
        ({"verdict": ["proven"]}, ["w2", "l1"]),
        ({"severity": ["critical", "high"]}, ["w2", "g1"]),
        ({"topic": "t"}, ["w2", "w1", "w3", "l1"]),
        ({"topic": "t", "partition": 3}, ["l1"]),
        ({"until_ms": 200}, ["w2", "w1", "g1"]),
        ({"since_ms": 250}, ["w2", "w3", "l1", "g1"]),
        ({"since_ms": 200, "until_ms": 200}, ["w2", "w1", "g1"]),
        ({"topic": "t", "partition": 9}, []),
    ],
)
def test_each_filter(lake: Lake, wanted: dict[str, Any], expected: list[str]) -> None:
    assert ids(lake, **wanted) == expected


def test_the_limit_is_of_rows_and_all_are_counted(lake: Lake) -> None:
    rows, count = list_findings(lake, None, 2, {})
    assert ([row["finding_id"] for row in rows], count) == (["w2", "w1"], 5)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"kind": ["loss"]}, "'loss' is not a kind. Choose from hwm_regression, "),
        ({"verdict": ["sure"]}, "'sure' is not a verdict. Choose from proven, possible, undetermined, excluded."),
        ({"severity": ["fatal"]}, "'fatal' is not a severity. Choose from critical, high, medium, low, info."),
        ({"since_ms": 2, "until_ms": 1}, "--until is before --since"),
    ],
)
def test_what_no_finding_can_have_is_an_error(lake: Lake, wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        ids(lake, **wanted)
    assert str(caught.value).startswith(message)


def cli(lake: Lake, *arguments: str) -> Result:
    result = invoke([*arguments, "--lake", str(lake.root)])
    assert result.exit_code == 0, result.output
    return result


def test_the_commands(lake: Lake) -> None:
    assert [row["finding_id"] for row in json.loads(cli(lake, "windows", "--format", "json").stdout)] == ["w2", "w1"]
    assert len(json.loads(cli(lake, "windows", "--all", "--format", "json").stdout)) == 3
    table = cli(lake, "findings", "--kind", "hwm_regression", "--limit", "1")
    assert "w2" in table.stdout
    assert "w1" not in table.stdout
    assert "2 more findings are not shown: raise --limit or add filters" in table.output
    assert cli(lake, "findings", "--topic", "t", "--partition", "9").stdout == "no findings\n"


@pytest.mark.parametrize("command", ["findings", "report"])
def test_a_topic_of_which_nothing_is_known_is_an_error(lake: Lake, command: str) -> None:
    result = invoke([command, "--topic", "none", "--lake", str(lake.root)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert str(result.exception) == "no history of topic 'none': check the name, or run `kraft-forensics replay`"


def test_stages_that_have_not_run_are_named(lake: Lake) -> None:
    ends = [f"{stage} has not run to its end: run `kraft-forensics {stage}`" for stage in ("replay", "detect")]
    assert list(require_as_written(lake, CLUSTER)) == [f"{CLUSTER}: {end}" for end in ends]


@pytest.mark.parametrize(
    "command", ["windows", "findings", "verdict", "sql select", "replay", "detect", "quality", "report"]
)
def test_a_lake_that_is_not_there_is_named_with_what_makes_one(command: str, tmp_path: Path) -> None:
    result = invoke([*command.split(), "--lake", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert str(result.exception).startswith(f"{tmp_path / 'none'}: no lake here.")
    assert "kraft-forensics run CAPTURE --lake" in str(result.exception)


OPEN = {"kind": "hwm_regression", "topic": "orders", "verdict": "possible", "severity": "medium", "loss_min": 0}


def test_a_window_of_a_deleted_topic_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = [{**OPEN, "finding_id": name, "topic_id": name, "partition": 0} for name in ("old", "new")]
    states = [{"topic": "orders", "topic_id": "old", "offset": 5, "timestamp_ms": 5, "removed": True}]
    lake = lake_of(tmp_path, "c", evidence_files=[evidence_file()], findings=findings, partition_history=states)
    print_windows(lake, Format.TABLE)
    of = {line.split()[-1]: line for line in capsys.readouterr().out.splitlines() if line.startswith("orders-0")}
    assert {name: "(deleted)" in line for name, line in of.items()} == {"old": True, "new": False}


@pytest.mark.parametrize(
    ("likely", "shown"),
    [
        ({"likely": "unknown"}, None),
        ({"likely": "unknown", "likely_rule": "member_had_more", "likely_right": 63, "likely_of": 80}, None),
        ({"likely": "lost", "likely_rule": "a", "likely_right": 299, "likely_of": 309}, "lost (299 of 309)"),
    ],
)
def test_likely_is_a_column_if_a_window_leans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], likely: dict[str, Any], shown: str | None
) -> None:
    rows = [{**OPEN, "finding_id": str(n), "partition": n, **row} for n, row in enumerate(({}, likely))]
    lake = lake_of(tmp_path, "c", evidence_files=[evidence_file()], findings=rows)
    print_windows(lake, Format.TABLE)
    printed = capsys.readouterr().out
    assert "orders-1" in printed
    assert ("likely" in printed.partition("window")[2], shown is not None and shown in printed) == (bool(shown),) * 2
