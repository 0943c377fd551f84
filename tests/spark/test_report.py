"""The report of a real capture."""

from jobs.report.load import load_report
from jobs.report.page import render_report
from replay.findings.kinds import Section
from tests.spark.conftest import Job


def test_a_real_page_draws_every_window(job: Job) -> None:
    loaded = load_report(job.lake, job.clusters["unclean"])
    windows = loaded["findings"][Section.WINDOWS]["rows"]
    assert len(windows) == 6
    page = render_report(loaded)
    assert [row["finding_id"] for row in windows if f'<rect id="t-{row["finding_id"]}" class="bar ' not in page] == []
    assert {row["finding_id"] for row in loaded["predictions"]} == {row["finding_id"] for row in windows}
    of_page = loaded["page"]
    shown = {(row["topic_id"], row["partition"], row["offset"]) for rows in of_page["states"].values() for row in rows}
    assert {(row["topic_id"], row["partition"], row["offset"]) for row in of_page["elections"]} <= shown
    assert all("raw" not in row for row in loaded["quarantine"])
