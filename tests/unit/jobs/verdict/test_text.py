"""`verdict` as text and as Markdown: the answer first, then topics, the plan and windows; names mark nothing up."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from evidence.tables import EVIDENCE_FILES
from jobs.cli import app
from jobs.lake.lake import Lake
from jobs.report.page import render_report
from jobs.verdict.text import as_markdown, as_text
from replay.arrow.schemas import FINDINGS
from tests.support.report_rows import answered, finding, small_plan, small_report


def document(*findings: dict[str, Any]) -> dict[str, Any]:
    evidence = {"captures": ["tuesday"]}
    return {"cluster_id": "c1", "answer": answered(list(findings)), "plan": small_plan(), "evidence": evidence}


def test_the_answer_is_the_first_line_of_the_markdown() -> None:
    lines = as_markdown(document(finding(), finding("u", verdict="possible", loss_max=None)))
    assert lines[0].startswith("**LOST: at least 70 acknowledged records in 1 partition of 1 topic (ledger), between ")
    headings = [line for line in lines if line.startswith("#")]
    assert headings == [
        "### What to do, in this order",
        "### Facts and rules behind each step",
        "### By topic",
        "### Proven windows, the largest loss first",
        "### Undecided windows: likely losses first, then by what they can have cost",
    ]
    assert lines[-1] == "Cluster c1; captures: tuesday."


def test_facts_are_folded_and_commands_are_not_wrapped() -> None:
    short, long = ("\n".join(as_text(document(finding()), facts)) for facts in (False, True))
    facts = [
        "     Fact: unclean.leader.election.enable was true for ledger (config layer: topic).",
        "     Assumed: min.insync.replicas is 1 for audit (config layer: assumed_default).",
        "     Predicted: An unclean election loses for good what only those brokers have.",
        "     Rule: leaderless, N10 (docs/findings.md#exposure)",
    ]
    command = (
        '     kafka-configs.sh --bootstrap-controller "$CONTROLLERS" --alter --entity-type topics --entity-name ledger '
        "--add-config unclean.leader.election.enable=false"
    )
    for text in (short, long):
        assert command in text.splitlines()
        assert "  $CONTROLLERS: host:port of a controller" in text
    assert all(line in long.splitlines() for line in facts)
    assert not any(line in short.splitlines() for line in facts)
    assert "kraft-forensics verdict --facts" in short


def test_terminal_markdown_page_and_json_have_the_same_steps() -> None:
    given = document(finding())
    expected = [step["text"] for step in given["plan"]["steps"]]
    on_page = re.findall(r"<li>([^<]+)\n", render_report(small_report()).partition('<ol class="plan">')[2])
    texts = " ".join(" ".join(as_text(given)).split())
    marked = "\n".join(as_markdown(given)).replace("\\", "")
    numbered = [f"{number}. {text}" for number, text in enumerate(expected, 1)]
    assert all(line in texts and line in marked for line in numbered)
    assert [html.unescape(text).strip() for text in on_page[: len(expected)]] == expected


def test_names_from_a_capture_mark_nothing_up() -> None:
    hostile = finding(topic="a](http://x)<b>`\x1b[31m")
    markdown, text = ("\n".join(show(document(hostile))) for show in (as_markdown, as_text))
    assert "\x1b" not in markdown + text
    of_answer = markdown.split("### What to do")[0].removeprefix("**").replace(".**", ".")
    assert re.search(r"(?<!\\)[\]\[<>`*_]", of_answer) is None


@pytest.mark.parametrize(("form", "start"), [("text", "Cluster c1\nLOST: "), ("markdown", "**LOST: "), ("json", "{")])
def test_the_command_prints_each_form(tmp_path: Path, form: str, start: str) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create()
    counts = {"size_bytes": 1, "parsed_bytes": 1, "quarantined_bytes": 0, "trailing_bytes": 0}
    file = {"capture": "c", "path": "p", "sha256": "00", "kind": "other", "status": "parsed", **counts}
    lake.append("evidence_files", "c1", pa.Table.from_pylist([file], schema=EVIDENCE_FILES))
    lake.put("findings", "c1", pa.Table.from_pylist([finding()], schema=FINDINGS))
    arguments = ["verdict", "--lake", str(lake.root), "--cluster", "c1", "--format", form]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(start)
