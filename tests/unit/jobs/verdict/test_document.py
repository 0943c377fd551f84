"""The verdict document from counted findings, and its files: one for each cluster, the index, and nothing stale."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from jobs.lake.lake import Lake
from jobs.verdict import document as verdict
from jobs.verdict.document import assembled, report_of, write_document
from tests.support.paths import ROOT
from tests.support.report_rows import evidence_file, lake_of

DOCS = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
KEYS = re.findall(r"^- `(\w+)`: ", DOCS[: DOCS.index("Keys are in this order.")], re.MULTILINE)


def group(kind: str, verdict: str, severity: str = "medium", findings: int = 1, **more: Any) -> dict[str, Any]:
    row = {"kind": kind, "verdict": verdict, "severity": severity, "findings": findings, "rule": kind}
    return {**row, "rule_version": 2, "open_losses": 0, "loss_min": None, "loss_max": None, **more}


def document(*groups: dict[str, Any], states: int = 10, **known: Any) -> dict[str, Any]:
    given = {
        "cluster_id": "c",
        "page_one": {"losses": []},
        "answer": {"status": "not_lost"},
        "plan": {"steps": [], "fill_in": {}},
        "evidence": {"partition_states": states},
        **dict.fromkeys(("log", "report", "status", "made_from")),
    }
    return assembled(given | known, groups, known.get("witnesses", ()))


WINDOW = "hwm_regression"


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((), True),
        ((group(WINDOW, "excluded", "info"),), True),
        ((group(WINDOW, "proven", "critical"),), False),
        ((group(WINDOW, "proven", "low"),), False),
        ((group("log_conflict", "proven", "critical"),), False),
        ((group("snapshot_mismatch", "proven", "critical"), group("evidence_gap", "undetermined")), False),
        ((group("describe_mismatch", "proven", "high"),), True),
        ((group(WINDOW, "possible"),), "unknown"),
        ((group(WINDOW, "undetermined"),), "unknown"),
        ((group("leaderless", "possible", "critical"),), True),
        ((group("evidence_gap", "undetermined", "high"),), "unknown"),
    ],
    ids=lambda value: str(value) if isinstance(value, bool | str) else "+".join(f"{g['kind']}" for g in value),
)
def test_valid(groups: tuple[dict[str, Any], ...], expected: bool | str) -> None:
    assert document(*groups)["valid"] is expected


def test_every_key_is_there_in_its_order() -> None:
    found = document(
        group(WINDOW, "excluded", "info", 5, loss_min=Decimal(0), loss_max=Decimal(0)),
        group(WINDOW, "proven", "critical", 2, loss_min=Decimal(100), loss_max=Decimal(130)),
        group("describe_mismatch", "proven", "high", 1, rule_version=1),
        group(WINDOW, "possible", "medium", 1, loss_min=Decimal(0), loss_max=Decimal(7)),
    )
    assert list(found) == KEYS
    assert found["rule_versions"] == {"describe_mismatch": 1, WINDOW: 2}
    assert found["kinds"] == ["describe_mismatch", WINDOW]
    assert found["counts"] == {"describe_mismatch": {"proven": 1}, WINDOW: {"proven": 2, "possible": 1, "excluded": 5}}
    assert found["severities"] == {"critical": 2, "high": 1, "medium": 1, "low": 0, "info": 5}
    assert found["windows"] == {"judged": 8, "proven": 2, "possible": 1, "undetermined": 0, "excluded": 5}
    assert found["loss"] == {"acks_all_min": 100, "acks_all_max": 137, "by_topic": []}


HIDDEN = group(WINDOW, "excluded", loss_min=0, loss_max=0)


@pytest.mark.parametrize(
    ("groups", "states", "low", "high"),
    [
        ([], 10, 0, 0),
        # One open window opens the whole loss; only windows have one.
        (
            [group(WINDOW, "proven", loss_min=70, loss_max=80, open_losses=1), group("leaderless", "proven")],
            10,
            70,
            None,
        ),
        ([group(WINDOW, "proven", loss_min=70, loss_max=80), group("leaderless", "proven", open_losses=4)], 10, 70, 80),
        # A window may be hidden.
        ([HIDDEN, group("evidence_gap", "proven", "high")], 4, 0, None),
        ([HIDDEN, group("log_conflict", "proven", "critical")], 4, 0, None),
        ([HIDDEN], 0, 0, None),
    ],
)
def test_the_bounds_of_the_loss(groups: list[dict[str, Any]], states: int, low: int, high: int | None) -> None:
    """In any order of the groups."""
    found = document(*groups, states=states)
    assert found["loss"] == {"acks_all_min": low, "acks_all_max": high, "by_topic": []}
    assert found["valid"] == ("unknown" if not states else found["valid"])
    assert json.dumps(found) == json.dumps(document(*reversed(groups), states=states))


def test_witnesses_are_listed_by_kind() -> None:
    witness = {"kind": "leaderless", "finding_id": "f", "topic": "t", "explanation": "why"}
    found = document(group("leaderless", "proven"), witnesses=[witness])
    assert found["witnesses"] == {"leaderless": [{"finding_id": "f", "topic": "t", "explanation": "why"}]}


def test_the_loss_by_topic_is_that_of_the_answer() -> None:
    topics = [
        {"topic": "a", "topic_id": "A", "partitions_lost": 2, "records_min": 140, "records_max": None, "proven": 2},
        {"topic": "b", "topic_id": "B", "partitions_lost": 0, "records_min": 0, "records_max": 9, "proven": 0},
    ]
    found = document(group(WINDOW, "proven"), answer={"status": "lost", "topics": topics})
    lost = {"topic": "a", "topic_id": "A", "partitions": 2, "acks_all_min": 140, "acks_all_max": None}
    assert found["loss"]["by_topic"] == [lost]


def test_what_the_evidence_consists_of_is_counted(tmp_path: Path) -> None:
    files = [evidence_file(capture=capture, path=str(n)) for capture, n in zip("bbaaa", range(5), strict=True)]
    states = [{"topic_id": "T", "partition": 0, "offset": n} for n in range(10)]
    lake = lake_of(tmp_path, "c", evidence_files=files, partition_history=states, quarantine=[{"reason": "r"}])
    found = verdict.document(lake, "c")
    assert list(found) == KEYS
    assert found["evidence"] == {"captures": ["a", "b"], "files": 5, "quarantined": 1, "partition_states": 10}
    assert (found["valid"], found["answer"]["status"]) == (True, "not_lost")


PAGE = '<!DOCTYPE html><meta name="kraft-forensics-fingerprint" content="0123456789abcdef">'


def found(cluster: str, valid: bool | str = True, report: Path | None = None) -> dict[str, Any]:
    counts = {"new": 1, "known": 2, "acknowledged": 0}
    more = {"status": {**counts, "new_finding_ids": ["f"]}, "log": {}, "answer": {"text": ["why", "more"]}}
    return {"cluster_id": cluster, "valid": valid, "report": None if report is None else str(report), **more}


def names(folder: Path) -> list[str]:
    return sorted(f.name for f in folder.iterdir())


def index(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "verdict.json").read_text())
    return result


def test_one_cluster_has_a_file_of_its_own_and_an_index(tmp_path: Path) -> None:
    assert write_document(Lake(tmp_path), found("a/b", False), ["a/b"]) == tmp_path / "verdict-a%2Fb.json"
    assert names(tmp_path) == ["verdict-a%2Fb.json", "verdict.json"]
    assert index(tmp_path)["valid"] is False
    assert index(tmp_path)["clusters"] == [
        {
            "cluster_id": "a/b",
            "valid": False,
            "answer": "why",
            "verdict": "verdict-a%2Fb.json",
            "report": None,
            "log": {},
            "status": {"new": 1, "known": 2, "acknowledged": 0},
        }
    ]


@pytest.mark.parametrize(
    ("valid", "expected"), [((True, True), True), ((True, "unknown"), "unknown"), (("unknown", False), False)]
)
def test_the_index_is_as_valid_as_its_worst_cluster(
    tmp_path: Path, valid: tuple[bool | str, ...], expected: bool | str
) -> None:
    for cluster, each in zip("ab", valid, strict=True):
        write_document(Lake(tmp_path), found(cluster, each), ["a", "b"])
    assert index(tmp_path)["valid"] == expected


def test_nothing_stale_is_left_when_a_cluster_is_removed_or_added(tmp_path: Path) -> None:
    first, second = tmp_path / "report.html", tmp_path / "report-a.html"
    first.write_text(PAGE)
    write_document(Lake(tmp_path), found("a", report=first), ["a"])
    second.write_text(PAGE)
    for each in (found("a", report=second), found("b")):
        write_document(Lake(tmp_path), each, ["a", "b"])
    assert names(tmp_path) == ["report-a.html", "verdict-a.json", "verdict-b.json", "verdict.json"]
    write_document(Lake(tmp_path), found("b"), ["b"])
    assert names(tmp_path) == ["verdict-b.json", "verdict.json"]
    assert [row["cluster_id"] for row in index(tmp_path)["clusters"]] == ["b"]


def test_only_a_report_is_deleted(tmp_path: Path) -> None:
    """The index is a file like any other: a path in it may name something else."""
    mine = tmp_path / "mine.html"
    mine.write_text("<h1>mine</h1>")
    write_document(Lake(tmp_path), found("a", report=mine), ["a"])
    write_document(Lake(tmp_path), found("b"), ["b"])
    assert mine.exists()


def test_a_report_stays_known_to_a_later_detect(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(PAGE)
    lake = Lake(tmp_path)
    assert report_of(lake, "a") is None
    write_document(lake, found("a", report=page), ["a"])
    assert report_of(lake, "a") == str(page)
    page.unlink()
    assert report_of(lake, "a") is None


def test_the_document_of_an_earlier_release_becomes_an_index(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text(json.dumps(found("a")))
    write_document(Lake(tmp_path), found("a", "unknown"), ["a"])
    assert [row["valid"] for row in index(tmp_path)["clusters"]] == ["unknown"]


def test_files_are_written_whole_replace_older_ones_and_are_ascii(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "new")
    for report in (None, "\x1b[31m\u202e"):
        written = write_document(lake, found("a", report=Path(report) if report else None), ["a"])
    assert json.loads(written.read_text())["report"] == "\x1b[31m\u202e"
    assert written.read_bytes().isascii()
    assert b"\x1b" not in written.read_bytes()
    assert names(tmp_path / "new") == ["verdict-a.json", "verdict.json"]


def test_a_report_beside_the_index_is_named_relative_to_it(tmp_path: Path) -> None:
    lake, moved = tmp_path / "lake", tmp_path / "moved"
    lake.mkdir()
    (lake / "report.html").write_text(PAGE)
    elsewhere = tmp_path / "elsewhere.html"
    elsewhere.write_text(PAGE)
    for each in (found("a", report=lake / "report.html"), found("b", report=elsewhere)):
        write_document(Lake(lake), each, ["a", "b"])
    assert [row["report"] for row in index(lake)["clusters"]] == ["report.html", str(elsewhere)]
    lake.rename(moved)
    assert report_of(Lake(moved), "a") == str(moved / "report.html")
