"""A lake of 100,000 findings, 20,000 of them windows: the page is bounded, says what is left out, and works."""

from pathlib import Path

import pyarrow as pa
import pytest

from jobs.incident.events import MOST_EXPOSURES, MOST_WINDOWS
from jobs.lake.lake import Lake
from jobs.report.load import load_report
from jobs.report.page import render_report
from replay.arrow.schemas import FINDINGS
from tests.browser.conftest import Open, sheets
from tests.support.report_rows import START_MS, cut_log, exposure, fault, finding

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
WINDOWS, OTHERS = 20_000, 80_000
MOST_BYTES = 20_000_000


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("large")
    lake = Lake(root / "lake")
    lake.create()
    verdicts = ("possible", "excluded", "undetermined", "proven")
    kinds = (exposure("e"), cut_log("c"), fault("f"), exposure("l", kind="last_replica_standing"))
    parts = [
        many(finding(verdict=verdict), WINDOWS // len(verdicts), f"w{number}")
        for number, verdict in enumerate(verdicts)
    ]
    parts += [many(row, OTHERS // len(kinds), f"o{number}") for number, row in enumerate(kinds)]
    lake.put("findings", CLUSTER, pa.concat_tables(parts))
    html = render_report(load_report(lake, CLUSTER))
    file = root / "large.html"
    file.write_text(html, encoding="utf-8")
    return file


def many(row: dict[str, object], count: int, name: str) -> pa.Table:
    """The finding many times: other ids, partitions of 200 topics, and times."""
    table = pa.Table.from_pylist([row], schema=FINDINGS).take([0] * count)
    steps = range(count)
    own = {
        "finding_id": [f"{name}-{step:011}" for step in steps],
        "partition": [step // 200 for step in steps],
        "start_timestamp_ms": [START_MS + 40 * step for step in steps],
        "end_timestamp_ms": [START_MS + 40 * step + 30_000 for step in steps],
    }
    if row["topic"] is not None:
        own |= {"topic": [f"topic-{step % 200:03}" for step in steps]}
        own |= {"topic_id": [f"topic-id-{step % 200:013}" for step in steps]}
    for column, values in own.items():
        place = FINDINGS.get_field_index(column)
        table = table.set_column(place, FINDINGS.field(place), pa.array(values, FINDINGS.field(place).type))
    return table


def test_the_page_is_bounded_and_says_what_it_leaves_out(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    assert page.stat().st_size < MOST_BYTES
    assert html.count('data-k="hwm_regression"') == MOST_WINDOWS
    assert f"{WINDOWS - MOST_WINDOWS} windows (excluded or smaller ones)" in html
    assert f"{OTHERS // 2 - MOST_EXPOSURES} exposures (shorter ones)" in html


def test_ten_thousand_windows_are_shown_filtered_and_linked(page: Path, open_page: Open) -> None:
    shown = open_page(page)
    assert shown.page.locator("#lanes rect[data-k=hwm_regression]").count() == MOST_WINDOWS
    shown.page.click("#zoom-in")
    shown.page.select_option("#filter-topic", label="topic-007")
    left = shown.page.locator("#lanes rect[data-k=hwm_regression]:not(.off)").count()
    assert 0 < left <= MOST_WINDOWS // 100
    further = shown.page.locator(".further-list li").last
    anchor = further.get_attribute("id")
    shown.page.evaluate("anchor => { location.hash = anchor; }", f"#{anchor}")
    further.wait_for(state="visible")
    assert shown.complaints == []


def test_the_summary_of_two_hundred_topics_takes_three_pages_of_paper(page: Path, open_page: Open) -> None:
    shown = open_page(page)
    assert shown.page.locator(".by-topic li").count() > 100
    assert sheets(shown.page.pdf(prefer_css_page_size=True)) <= 8
