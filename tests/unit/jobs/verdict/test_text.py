"""`verdict` as text and as Markdown: the answer first, then topics, windows and advice; names mark nothing up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from evidence.tables import EVIDENCE_FILES
from jobs.cli import app
from jobs.lake.lake import Lake
from jobs.verdict.text import as_markdown, as_text
from replay.arrow.schemas import FINDINGS
from tests.support.report_rows import answered, finding, small_advice


def document(*findings: dict[str, Any]) -> dict[str, Any]:
    evidence = {"captures": ["tuesday"]}
    return {"cluster_id": "c1", "answer": answered(list(findings)), "advice": small_advice(), "evidence": evidence}


def test_the_answer_is_the_first_line_of_the_markdown() -> None:
    lines = as_markdown(document(finding(), finding("u", verdict="possible", loss_max=None)))
    assert lines[0].startswith("**LOST: at least 70 acknowledged records in 1 partition of 1 topic (ledger), between ")
    headings = [line for line in lines if line.startswith("#")]
    assert headings == [
        "### By topic",
        "### Proven windows, the largest loss first",
        "### Undecided windows, the ones that can have cost most first",
        "### Copy first, before a broker is started or a log is deleted",
        "### Do now",
        "### Prevent the next loss",
    ]
    assert lines[-1] == "Cluster c1; captures: tuesday."


def test_natures_are_labelled_and_commands_are_not_wrapped() -> None:
    text = "\n".join(as_text(document(finding())))
    command = (
        'kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type topics --entity-name ledger '
        "--add-config unclean.leader.election.enable=false"
    )
    for line in (
        "     Fact: When the log ended, their ISR was empty and their ELR was: 3.",
        "     Assumed: unclean.leader.election.enable is true for ledger (config layer: assumed_default).",
        "     Prediction: broker 3 is elected cleanly, unless it had stopped uncleanly.",
        "     Rule: leaderless, H1 (docs/findings.md#exposure)",
        f"     Run: {command}",
    ):
        assert line in text.splitlines()
    assert "     Do not run: kafka-leader-election.sh " in text


def test_names_from_a_capture_mark_nothing_up() -> None:
    hostile = finding(topic="a](http://x)<b>`\x1b[31m")
    markdown, text = ("\n".join(show(document(hostile))) for show in (as_markdown, as_text))
    assert "\x1b" not in markdown + text
    of_answer = markdown.split("### Copy first")[0].removeprefix("**").replace(".**", ".")
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
