"""Report: what is loaded for the page, when it is written; the terminal, the ticket and JSON in the page's words."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.incident.lookup import ALL, Focus
from jobs.report import load, stage
from jobs.report.load import exposures, listed, load_captured, load_report, policy_totals
from jobs.report.page import render_report
from jobs.report.texts import as_json, as_text, as_ticket
from jobs.report.words import focus_text
from replay.arrow.schemas import COUNTERFACTUALS, FINDINGS
from replay.findings.kinds import Section
from tests.support.invoked import invoke
from tests.support.report_rows import (
    START_MS,
    answered,
    broken_rule,
    counted,
    cut_log,
    evidence_file,
    exposure,
    fault,
    finding,
    keys_of,
    lake_of,
    page_one_of,
    policy,
    prediction,
    report,
    small_plan,
    small_report,
)

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
MOST = 4


def findings() -> list[dict[str, Any]]:
    """More of every section than MOST, in no order."""
    rows = []
    for number in (5, 3, 8, 1, 7, 2, 6, 4, 0):
        place = {"partition": number % 3, "start_offset": 100 + number}
        rows += [
            finding(f"w{number}", loss_min=number % 4, verdict="proven" if number % 4 else "possible", **place),
            finding(f"x{number}", loss_min=0, loss_max=0, verdict="excluded", **place),
            prediction(f"p{number}", loss_min=number, election_offset=200 + number // 2, partition=0),
            exposure(f"e{number}", 1000 * (number % 5), end_offset=None if number % 2 else 130, **place),
            cut_log(f"c{number}", severity=("low", "high")[number % 2], **place),
            broken_rule(f"r{number}", severity=("medium", "critical")[number % 2], **place),
            fault(f"f{number}", severity=("low", "high", "medium")[number % 3], start_offset=number),
        ]
    return rows


def test_of_each_section_the_first_are_loaded_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = findings()
    wanted = {name: [row["finding_id"] for row in some[:MOST]] for name, some in listed(_table(rows)).items()}
    monkeypatch.setattr(load, "MAX_LISTED", MOST)
    loaded = load.load_report(lake_of(tmp_path, CLUSTER, findings=rows), CLUSTER)
    ids = {name: [row["finding_id"] for row in some["rows"]] for name, some in loaded["findings"].items()}
    # Window by window: those of the last election, of the one before, and the larger of the next.
    wanted[Section.OTHER_RULES] = ["p8", "p7", "p6", "p5"]
    assert {name: sorted(some) for name, some in ids.items()} == {name: sorted(some) for name, some in wanted.items()}
    assert _sorted(loaded["page"]["totals"]) == _sorted(counted(rows))
    assert loaded["answer"]["text"][0].startswith(
        "LOST: at least 12 acknowledged records of ledger-0, ledger-1 and ledger-2"
    )
    page = render_report(loaded)
    for name in set(Section) - {Section.OTHER_RULES}:
        command = f"kraft-forensics findings --section {name} --cluster {CLUSTER} --limit 9"
        assert f'5 more are not shown. All 9: <code class="copy">{command}</code>' in page


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=FINDINGS)


def _sorted(groups: Sequence[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    return sorted((sorted(group.items()) for group in groups), key=str)


def test_a_page_is_written_again_only_when_its_tables_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, page = lake_of(tmp_path / "lake", CLUSTER, findings=[finding()]), tmp_path / "report.html"
    messages = list[str]()
    stage.write_report(lake, CLUSTER, page, messages.append)
    before = page.stat().st_mtime_ns, page.read_bytes()
    with monkeypatch.context() as nothing_is_asked:
        nothing_is_asked.delattr(stage, "load_report")
        stage.write_report(lake, CLUSTER, page, messages.append)
    assert (page.stat().st_mtime_ns, page.read_bytes()) == before
    said = ["writing the report", "the report is up to date"]
    assert [text.removeprefix(f"{CLUSTER}: ") for text in messages] == said
    lake_of(tmp_path / "lake", CLUSTER, findings=[finding(loss_min=12_345)])
    stage.write_report(lake, CLUSTER, page, messages.append)
    assert "12345" in page.read_text(encoding="utf-8")
    page.write_text("something else", encoding="utf-8")
    stage.write_report(lake, CLUSTER, page, messages.append)
    assert "12345" in page.read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["report.html"]


def test_several_clusters_have_an_index_page_the_lost_ones_first(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", CLUSTER, findings=[finding()], evidence_files=[evidence_file()])
    excluded, file = finding("x", verdict="excluded"), evidence_file(capture="two")
    lake_of(tmp_path / "lake", "A<b>/c", findings=[excluded], evidence_files=[file])
    pages = stage.write_pages(lake, lake.clusters(), tmp_path / "report.html", list[str]().append)
    assert sorted(path.name for path in tmp_path.glob("*.html")) == [
        *("report-5L6g3nShT-eMCtK--X86sw.html", "report-A%3Cb%3E%2Fc.html", "report.html")
    ]
    assert pages[0] == str(tmp_path / "report.html")
    index = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'<a href="([^"]*)">', index) == [
        *("report-5L6g3nShT-eMCtK--X86sw.html", "report-A%253Cb%253E%252Fc.html")
    ]
    assert "<script" not in index
    assert "LOST: at least 70 acknowledged records" in index
    assert "A&lt;b&gt;/c" in index


def test_a_narrowed_report_counts_only_what_is_within_and_never_replaces_the_whole_one(tmp_path: Path) -> None:
    later = {"start_timestamp_ms": START_MS + 90_000, "end_timestamp_ms": START_MS + 99_000}
    rows = [finding(), finding("b", partition=1, **later), finding("c", topic="audit", partition=2)]
    lake = lake_of(tmp_path, CLUSTER, findings=rows, evidence_files=[evidence_file()])
    whole, narrowed = (
        Path(stage.write_pages(lake, [CLUSTER], None, list[str]().append, focus=focus)[0])
        for focus in (ALL, Focus(None, START_MS + 60_000, "ledger"))
    )
    assert [path.name for path in (whole, narrowed)] == ["report.html", "report-narrowed.html"]
    assert "at least 210 acknowledged" in whole.read_text(encoding="utf-8").replace("exactly", "at least")
    page = narrowed.read_text(encoding="utf-8")
    assert "Narrowed to topic ledger, the start to 2023-11-14 22:14:20.000 UTC." in page
    assert "LOST: at least 70 acknowledged records of ledger-0" in page
    assert 'id="f-hwm-1"' in page
    assert 'id="f-b"' not in page
    assert 'id="f-c"' not in page


@pytest.mark.parametrize(("form", "name"), [("md", "report.md"), ("json", "report.json"), ("html", "report.html")])
def test_each_format_has_its_file(tmp_path: Path, form: str, name: str) -> None:
    lake_of(tmp_path, CLUSTER, findings=[finding()], evidence_files=[evidence_file()])
    result = invoke(["report", "--lake", str(tmp_path), "--format", form])
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / name}\n")
    assert "LOST: at least 70 acknowledged records" in (tmp_path / name).read_text(encoding="utf-8")


def test_policies_are_added_up_with_what_is_unknown() -> None:
    names = ("policy", "outcome", "loss_min", "loss_max", "differs")
    rows = [
        ("a", "elected", 70, 70, True),
        ("a", "elected", 5, None, False),
        ("a", "waits", None, None, None),
        ("b", "elected", 2**62, 2**62, False),
        ("b", "elected", 2**62, 2**62, False),
        ("b", "undetermined", None, None, None),
    ]
    given = [dict(zip(names, each, strict=True)) for each in rows]
    schema = pa.schema([COUNTERFACTUALS.field(name) for name in names])
    totals = {each["policy"]: each for each in policy_totals(pa.Table.from_pylist(given, schema=schema))}
    assert totals["a"] == policy("a", windows=3, elected=2, differs=1, loss_min=75)
    assert (totals["b"]["loss_min"], totals["b"]["undetermined"]) == (2**63, 1)


def test_exposures_are_added_up_by_kind_and_topic() -> None:
    rows = [exposure(f"e{n}", 1000 * n, partition=n % 2, topic=("a", "b")[n > 2]) for n in range(5)]
    rows.append(exposure("open", 9000, kind="last_replica_standing", end_offset=None, topic="a"))
    groups = exposures(keys_of(rows), by_topic=True)
    assert [(g["kind"], g["topic"], g["findings"], g["lasted_ms"], g["longest_ms"], g["unended"]) for g in groups] == [
        ("leaderless", "b", 2, 7000, 4000, 0),
        ("leaderless", "a", 3, 3000, 2000, 0),
        ("last_replica_standing", "a", 1, 9000, 9000, 1),
    ]
    assert [(g["kind"], g["findings"], g["lasted_ms"], g["unended"]) for g in exposures(keys_of(rows), False)] == [
        ("leaderless", 5, 10_000, 0),
        ("last_replica_standing", 1, 9000, 1),
    ]


@pytest.mark.parametrize(
    ("named", "printed", "expected"),
    [
        (None, ["4.0.2", None, "4.0.2"], ["4.0.2"]),
        ("4.1.1", ["4.0.2"], ["4.1.1"]),
        (None, [], []),
        (None, ["8.1.0-ccs"], ["4.1 (8.1.0-ccs)"]),
        ("7.9.0-ce", [], ["3.9 (7.9.0-ce)"]),
    ],
)
def test_the_release_is_that_of_the_manifest_else_what_nodes_printed(
    tmp_path: Path, named: str | None, printed: list[str | None], expected: list[str]
) -> None:
    boots = [{"node_id": number, "kafka_version": release} for number, release in enumerate(printed)]
    lake = lake_of(tmp_path, "c", node_boots=boots, captures=[{"capture": "one", "kafka_release": named}])
    assert load_captured(lake, "c")["releases"] == expected


def document(*findings: dict[str, Any]) -> dict[str, Any]:
    page = page_one_of(list(findings), small_plan())
    given = {"cluster_id": "c1", "page_one": page, "answer": answered(list(findings)), "plan": small_plan()}
    return {**given, "evidence": {"captures": ["tuesday"]}, "report": "lake/report.html"}


def many() -> dict[str, Any]:
    proven = [finding(f"p{n}", partition=n) for n in range(120)]
    undecided = [finding(f"u{n}", partition=200 + n, verdict="possible", loss_max=None) for n in range(120)]
    return document(*proven, *undecided)


@pytest.mark.parametrize("columns", ["80", "120", "200"])
def test_a_terminal_gets_25_lines_whatever_was_found_and_a_ticket_40(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for given in (many(), document(), document(finding()), document(finding(verdict="possible", loss_max=None))):
        assert len(as_text(given)) <= 25
        assert len(as_ticket(given).splitlines()) <= 40


def test_no_loss_has_no_cause() -> None:
    possible = document(finding(verdict="possible", loss_max=None))
    assert "Cause: No loss is proven. One is possible where unclean.leader.election.enable let broker 1" in " ".join(
        as_text(possible)
    )
    assert not any(line.startswith(("Cause", "Predicted")) for line in as_text(document()))


def test_of_many_moments_an_election_that_may_have_lost_records_is_shown() -> None:
    given = document(finding(verdict="possible", loss_max=None))
    texts = [*(f"broker {n} is gone; no leader: t-{n}" for n in range(9)), "broker 1 elected uncleanly for t-0"]
    given["page_one"]["timeline"] = [{"at_ms": n, "text": text, "proven": False} for n, text in enumerate(texts)]
    assert texts[-1] in as_ticket(given)


def test_names_from_a_capture_mark_nothing_up() -> None:
    given = document(finding(topic="a](http://x)<b>`\x1b[31m"))
    ticket, text = as_ticket(given), "\n".join(as_text(given))
    assert "\x1b" not in ticket + text
    assert "a\\](http://x)\\<b\\>\\`" in ticket
    assert re.search(r"(?<!\\)[\[<>`]", ticket) is None


def test_json_has_every_section_with_what_it_leaves_out() -> None:
    found = json.loads(as_json(small_report()))
    assert found["answer"]["status"] == "lost"
    assert found["narrowed_to"] is None
    names = ("windows", "excluded", "other_rules", "exposures", "cut_logs", "rules", "faults")
    assert [found["findings"][name]["total"] for name in names] == [2, 1, 1, 4, 1, 1, 1]
    assert found["policies"][0]["policy"] == "profile_4.3"
    assert found["timeline"]["brokers"]["3"][0]["broker_id"] == 3
    assert found["evidence"]["files"][0]["sha256"] == "ab" * 32
    many = json.loads(as_json(report([finding(f"w{n}") for n in range(305)])))
    assert many["findings"]["windows"]["left_out"] == 5
    assert len(many["findings"]["windows"]["rows"]) == 300


def test_a_narrowed_report_says_so_first(tmp_path: Path) -> None:
    focus = Focus(1_700_000_000_000, None, "led\nger")
    assert focus_text(focus) == r"topic led\nger, 2023-11-14 22:13:20.000 to the end UTC"
    narrowed = load_report(lake_of(tmp_path, "c", findings=[finding()]), "c", focus=focus)
    assert json.loads(as_json(narrowed))["narrowed_to"]["topic"] == "led\nger"
