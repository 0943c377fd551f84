"""Report: what is loaded for the page, and when the page is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.lake.lake import Lake
from jobs.report import load, stage
from jobs.report.page import render_report
from jobs.report.rows import Section, by_section
from replay.arrow.schemas import FINDINGS
from tests.support.report_rows import broken_rule, counted, cut_log, exposure, fault, finding, prediction

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
MOST = 4


def findings() -> list[dict[str, Any]]:
    """More of every section than MOST, in no order."""
    rows = []
    for number in (5, 3, 8, 1, 7, 2, 6, 4, 0):
        row = {"partition": number % 3, "start_offset": 100 + number}
        rows += [
            finding(f"w{number}", loss_min=number % 4, verdict="proven" if number % 4 else "possible", **row),
            finding(f"x{number}", loss_min=0, loss_max=0, verdict="excluded", **row),
            prediction(f"p{number}", loss_min=number, election_offset=200 + number // 2, partition=0),
            exposure(f"e{number}", 1000 * (number % 5), end_offset=None if number % 2 else 130, **row),
            cut_log(f"c{number}", severity=("low", "high")[number % 2], **row),
            broken_rule(f"r{number}", severity=("medium", "critical")[number % 2], **row),
            fault(f"f{number}", severity=("low", "high", "medium")[number % 3], start_offset=number),
        ]
    return rows


def lake_of(root: Path, rows: list[dict[str, Any]]) -> Lake:
    lake = Lake(root)
    lake.create()
    lake.put("findings", CLUSTER, pa.Table.from_pylist(rows, schema=FINDINGS))
    return lake


def test_of_each_section_the_first_are_loaded_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = findings()
    monkeypatch.setattr(load, "MAX_LISTED", MOST)
    loaded = load.load_report(lake_of(tmp_path, rows), CLUSTER)
    ids = {name: [row["finding_id"] for row in some] for name, some in by_section(loaded.findings).items()}
    wanted = {name: [row["finding_id"] for row in some[:MOST]] for name, some in by_section(rows).items()}
    # Window by window: those of the last election, of the one before, and the larger of the next.
    wanted[Section.OTHER_RULES] = ["p8", "p7", "p6", "p5"]
    assert {name: sorted(some) for name, some in ids.items()} == {name: sorted(some) for name, some in wanted.items()}
    assert _sorted(loaded.totals.groups) == _sorted(counted(rows).groups)
    assert loaded.answer["text"][0].startswith("LOST: at least 12 acknowledged records in 3 partitions of 1 topic")
    page = render_report(loaded)
    for name in Section:
        command = f"kraft-forensics findings --section {name} --cluster {CLUSTER} --limit 9"
        assert f'5 more are not shown. All 9: <code class="copy">{command}</code>' in page


def _sorted(groups: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    return sorted((sorted(group.items()) for group in groups), key=str)


def test_a_page_is_written_again_only_when_its_tables_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, page, messages = lake_of(tmp_path / "lake", [finding()]), tmp_path / "report.html", list[str]()
    stage.write_report(lake, CLUSTER, page, messages.append)
    before = page.stat().st_mtime_ns, page.read_bytes()
    with monkeypatch.context() as nothing_is_asked:
        nothing_is_asked.delattr(stage, "load_report")
        stage.write_report(lake, CLUSTER, page, messages.append)
    assert (page.stat().st_mtime_ns, page.read_bytes()) == before
    assert [text.removeprefix(f"{CLUSTER}: ") for text in messages] == [
        "writing the report",
        "the report is up to date",
    ]
    lake_of(tmp_path / "lake", [finding(loss_min=12_345)])
    stage.write_report(lake, CLUSTER, page, messages.append)
    assert "12345" in page.read_text(encoding="utf-8")
    page.write_text("something else", encoding="utf-8")
    stage.write_report(lake, CLUSTER, page, messages.append)
    assert "12345" in page.read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["report.html"]
