"""The files of a lake's verdicts: one for each cluster, the index, and nothing stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evidence.errors import KraftForensicsError
from jobs.verdict.document import VerdictFiles, write_verdict

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
    files = VerdictFiles(tmp_path / "verdict.json", ["a/b"])
    assert files.write(found("a/b", False)) == tmp_path / "verdict-a%2Fb.json"
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
    files = VerdictFiles(tmp_path / "verdict.json", ["a", "b"])
    for cluster, each in zip("ab", valid, strict=True):
        files.write(found(cluster, each))
    assert index(tmp_path)["valid"] == expected


def test_nothing_stale_is_left_when_a_cluster_is_removed_or_added(tmp_path: Path) -> None:
    first, second = tmp_path / "report.html", tmp_path / "report-a.html"
    first.write_text(PAGE)
    VerdictFiles(tmp_path / "verdict.json", ["a"]).write(found("a", report=first))
    second.write_text(PAGE)
    both = VerdictFiles(tmp_path / "verdict.json", ["a", "b"])
    both.write(found("a", report=second))
    both.write(found("b"))
    assert names(tmp_path) == ["report-a.html", "verdict-a.json", "verdict-b.json", "verdict.json"]
    VerdictFiles(tmp_path / "verdict.json", ["b"]).write(found("b"))
    assert names(tmp_path) == ["verdict-b.json", "verdict.json"]
    assert [row["cluster_id"] for row in index(tmp_path)["clusters"]] == ["b"]


def test_only_a_report_is_deleted(tmp_path: Path) -> None:
    """The index is a file like any other: a path in it may name something else."""
    mine = tmp_path / "mine.html"
    mine.write_text("<h1>mine</h1>")
    VerdictFiles(tmp_path / "verdict.json", ["a"]).write(found("a", report=mine))
    VerdictFiles(tmp_path / "verdict.json", ["b"]).write(found("b"))
    assert mine.exists()


def test_a_report_stays_known_to_a_later_detect(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(PAGE)
    files = VerdictFiles(tmp_path / "verdict.json", ["a"])
    assert files.report_of("a") is None
    files.write(found("a", report=page))
    assert files.report_of("a") == str(page)
    page.unlink()
    assert files.report_of("a") is None


def test_the_document_of_an_earlier_release_becomes_an_index(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text(json.dumps(found("a")))
    VerdictFiles(tmp_path / "verdict.json", ["a"]).write(found("a", "unknown"))
    assert [row["valid"] for row in index(tmp_path)["clusters"]] == ["unknown"]


def test_nothing_is_written_beside_a_device() -> None:
    assert VerdictFiles(Path("/dev/stdout"), ["a"]).file_of("a") == Path("/dev/stdout")


def test_the_file_is_written_whole_and_replaces_an_older_one(tmp_path: Path) -> None:
    file = tmp_path / "new" / "verdict.json"
    write_verdict({"valid": False}, file)
    write_verdict({"valid": True, "name": "\x1b[31m\u202e"}, file)
    assert json.loads(file.read_text())["name"] == "\x1b[31m\u202e"
    assert file.read_bytes().isascii()
    assert b"\x1b" not in file.read_bytes()
    assert [f.name for f in file.parent.iterdir()] == ["verdict.json"]


def test_a_file_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(KraftForensicsError, match="--verdict"):
        write_verdict({}, tmp_path / "folder")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_a_report_beside_the_index_is_named_relative_to_it(tmp_path: Path) -> None:
    lake, moved = tmp_path / "lake", tmp_path / "moved"
    lake.mkdir()
    (lake / "report.html").write_text(PAGE)
    elsewhere = tmp_path / "elsewhere.html"
    elsewhere.write_text(PAGE)
    files = VerdictFiles(lake / "verdict.json", ["a", "b"])
    files.write(found("a", report=lake / "report.html"))
    files.write(found("b", report=elsewhere))
    assert [row["report"] for row in index(lake)["clusters"]] == ["report.html", str(elsewhere)]
    lake.rename(moved)
    assert VerdictFiles(moved / "verdict.json", ["a", "b"]).report_of("a") == str(moved / "report.html")
