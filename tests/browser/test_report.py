"""The report in a browser: timeline, filters, links, without a script, on paper, narrow, dark, hostile names."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from jobs.report.page import render_report
from tests.browser.conftest import CAPTURED, CAPTURES, Open, Shown, sheets
from tests.support.report_rows import all_of, counted, events, report, small_report
from tests.unit.jobs.report.test_page import HOSTILE_TOPICS

STOPS = json.loads((CAPTURED / "stops.json").read_text(encoding="utf-8"))
NAMES = [Path(capture).name.removesuffix(".tar.xz") for capture in CAPTURES]


def quiet(shown: Shown, requests: int = 1) -> bool:
    """Whether nothing was complained about, and nothing asked for but the page itself."""
    assert shown.complaints == []
    assert len(shown.requests) == requests
    return True


@pytest.mark.parametrize(("name", "scheme"), [*((name, "light") for name in NAMES), ("unclean", "dark")])
def test_the_page_of_a_capture_asks_for_nothing_and_each_link_leads_somewhere(
    open_page: Open, pages: dict[str, Path], name: str, scheme: str
) -> None:
    shown = open_page(pages[name], color_scheme=scheme)
    assert shown.page.locator("#lanes .lane").count() > 5
    lost = "[...document.querySelectorAll('a[href]')].filter(a => !document.querySelector(a.getAttribute('href')))"
    assert shown.page.evaluate(f"{lost}.length") == 0
    background = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(int(part) for part in re.findall(r"\d+", background)) < 60) is (scheme == "dark")
    assert quiet(shown)


def test_the_timeline_zooms_and_moves_by_button_key_wheel_and_drag(open_page: Open, unclean: Path) -> None:
    shown = open_page(unclean)
    page = shown.page
    first, last = shown.span()
    page.click("#zoom-in")
    near = shown.span()
    assert near[1] - near[0] == pytest.approx((last - first) / 2, abs=2)
    page.click("#later")
    assert shown.span()[0] > near[0]
    page.click("#show-incident")
    assert shown.span() == (first, last)
    page.focus("#lanes")
    page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    assert shown.span()[0] < near[0]
    page.keyboard.press("1")
    everything = shown.span()
    assert everything[0] < first < last < everything[1]
    page.keyboard.press("0")
    box = page.locator("#lanes .lane svg").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 5, steps=4)
    page.mouse.up()
    assert shown.span()[0] > first
    shown.click("#show-incident")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)  # this waits for nothing
    page.locator(f"#lanes:not([data-shown-from='{first}'])").wait_for()
    page.keyboard.up("Control")
    zoomed = shown.span()
    assert zoomed[1] - zoomed[0] < last - first
    assert "#" not in shown.address()
    assert quiet(shown)


def test_marks_are_to_scale_before_and_after_a_zoom(open_page: Open, unclean: Path) -> None:
    shown = open_page(unclean)
    where = """() => [...document.querySelectorAll('#lanes rect.bar')].map(r => [
        Number(r.dataset.s), Number(r.dataset.e), Number(r.getAttribute('x')), Number(r.getAttribute('width'))])"""
    origin = int(str(shown.page.locator("#lanes").get_attribute("data-first")))
    for zoomed in (False, True):
        if zoomed:
            shown.page.click("#zoom-in")
        first, last = shown.span()
        for start, end, x, width in shown.page.evaluate(where):
            places = [(origin + time - first) * 1000 / (last - first) for time in (start, end)]
            left, right = (min(max(place, -20), 1020) for place in places)
            assert (x, x + width) == pytest.approx((left, max(right, left + 0.02)), abs=0.1)


def test_filters_leave_what_they_name_and_the_brokers(open_page: Open, unclean: Path) -> None:
    shown = open_page(unclean)
    page = shown.page
    everything = shown.marks()
    page.select_option("#filter-topic", label="audit")
    assert 0 < shown.marks() < everything
    assert page.locator("#lanes rect[data-k=hwm_regression]:not(.off)").evaluate_all(
        "marks => marks.every(mark => mark.closest('.lane').textContent.includes('audit-'))"
    )
    page.select_option("#filter-verdict", "proven")
    assert page.locator("#lanes rect[data-k=hwm_regression]:not(.off)").count() == 1
    assert page.locator("#lanes rect[data-k=election]:not(.off)").count() == 0
    page.click("#reset-filters")
    assert shown.marks() == everything
    page.select_option("#filter-kind", "election")
    assert page.locator("#lanes rect[data-k=hwm_regression]:not(.off)").count() == 0
    assert page.locator("#lanes rect[data-k=broker]:not(.off)").count() > 0
    page.select_option("#filter-kind", "")
    page.select_option("#filter-broker", "3")
    assert page.locator("#lanes .lane:not(.off) .lane-name", has_text="broker").all_inner_texts() == ["broker 3"]
    assert quiet(shown)


def known(page: Page) -> str:
    """The name of what the details panel shows; empty if it is closed."""
    return page.locator("#chosen .chosen-name").inner_text() if page.locator("#chosen").is_visible() else ""


def test_the_search_finds_a_finding_and_enter_shows_it(open_page: Open, unclean: Path) -> None:
    shown = open_page(unclean)
    page = shown.page
    finding = str(page.locator("article.finding .permalink").first.text_content()).removeprefix("#")
    page.fill("#filter-text", finding)
    assert page.locator("#lanes rect[data-k=hwm_regression]:not(.off)").count() == 1
    page.keyboard.press("Enter")
    assert finding in page.locator("#known").inner_text()
    page.locator("#known a", has_text="The whole finding").click()
    assert shown.address().endswith(f"#f-{finding}")
    page.fill("#filter-text", "no such thing")
    assert page.locator("#matches").inner_text().startswith("0 ")


@pytest.mark.parametrize(
    ("mark", "name", "link", "command"),
    [
        (".bar.proven", "window: ", "#f-", "kraft-forensics explain "),
        (".dot.kill", "kill or crash (deduced): broker 3 estimate", "#broker-3", "from records where"),
        (".bar.up", "up: broker 1 fact", "#broker-1", "from records where"),
        (".strip.leaderless", "state of audit-1: no leader fact", "#f-", "from records where"),
        (".tick.captured", "captured: ", "#evidence", ""),
    ],
)
def test_a_click_shows_what_is_known_of_a_mark(
    open_page: Open, unclean: Path, mark: str, name: str, link: str, command: str
) -> None:
    shown = open_page(unclean)
    page = shown.page
    shown.click("#show-all")
    assert known(page) == ""
    chosen = page.locator(f"#lanes {mark}").first
    box = chosen.bounding_box()
    assert box is not None
    # A mark of a moment is hit from beside it, too.
    beside = 4 if box["width"] < 2 else box["width"] / 2
    chosen.scroll_into_view_if_needed()
    chosen.click(position={"x": beside, "y": box["height"] / 2}, force=True)
    assert known(page).startswith(name)
    assert page.locator("#chosen").count() == page.locator("rect.marked").count() == 1
    assert str(page.locator("#known a").first.get_attribute("href")).startswith(link)
    assert command in page.locator("#known").inner_text()
    assert page.locator("#known code.copy + .copy-button").count() == bool(command)
    page.click("#close")
    assert known(page) == ""
    assert "#" not in shown.address()
    assert quiet(shown)


def test_the_panel_of_a_proven_window_has_its_causes_and_leads_to_its_bytes(open_page: Open, unclean: Path) -> None:
    page = open_page(unclean).page
    page.locator("#lanes .bar.proven").first.click()
    assert page.locator("#known ol li").count() == 5
    page.locator("#known a", has_text="Its evidence").click()
    evidence = page.locator("details[id^=e-][open]")
    evidence.wait_for()  # the page hears of its new address a moment later
    assert evidence.locator("th", has_text="Byte position").is_visible()


def test_the_keyboard_chooses_marks_and_closes_the_panel(open_page: Open, unclean: Path) -> None:
    shown = open_page(unclean)
    page = shown.page
    page.focus("#lanes")
    page.keyboard.press("ArrowRight")
    assert known(page) == ""  # it moved
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    assert known(page).startswith("window: ")
    first = shown.address()
    page.keyboard.press("ArrowLeft")
    assert known(page).startswith("state of ")
    page.keyboard.press("ArrowRight")
    assert shown.address() == first
    page.keyboard.press("ArrowDown")
    below = known(page)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert known(page) not in (below, "")
    page.keyboard.press("Enter")
    assert page.evaluate("document.getElementById('chosen').contains(document.activeElement)")
    page.keyboard.press("Escape")
    assert known(page) == ""
    assert page.evaluate("document.activeElement.id") == "lanes"
    assert quiet(shown)


def test_all_marks_of_a_lane_are_reached_one_after_the_other(open_page: Open, unclean: Path) -> None:
    shown = open_page(unclean)
    shown.click("#show-all")
    lane = shown.page.locator("#lanes .lane", has_text="broker 3")
    lane.locator("rect").first.click(force=True)
    seen = set[str]()
    while (address := shown.address()) not in seen:
        seen.add(address)
        shown.click("#after")
    assert len(seen) == lane.locator("rect").count() > 8


@pytest.mark.parametrize("name", sorted(STOPS))
def test_no_broker_is_said_to_have_stopped_or_been_killed_that_was_not(pages: dict[str, Path], name: str) -> None:
    """Marks of the page, by the times at which the brokers of a capture were stopped and killed."""
    html = pages[name].read_text(encoding="utf-8")
    first = int(re.findall(r'data-first="(\d+)"', html)[0])
    marks = re.findall(r'class="dot (kill|power|stop)"[^>]* data-s="(\d+)"[^>]* data-b="(\d+)"', html)
    assert len(marks) >= len(STOPS[name]) / 2
    for look, at, broker in marks:
        did = [what for time, node, what in STOPS[name] if node == int(broker) and abs(first + int(at) - time) < 15_000]
        assert did == ["stop" if look == "stop" else "kill"], (look, at, broker)


def test_the_address_of_a_chosen_mark_is_a_link_to_it(open_page: Open, unclean: Path) -> None:
    shown = open_page(unclean)
    shown.click("#show-all")
    shown.page.locator("#lanes .dot.stop").first.click(force=True)
    name, anchor = known(shown.page), shown.address().partition("#")[2]
    assert name == "stop: broker 1 fact"
    shown = open_page(unclean, f"#{anchor}")
    assert known(shown.page) == name
    assert shown.page.locator("rect.marked").is_visible()
    assert open_page(unclean, "#m99999").page.locator("#chosen").is_visible() is False


def test_links_lead_from_a_finding_to_its_mark_and_back(open_page: Open, unclean: Path) -> None:
    shown = open_page(unclean)
    page = shown.page
    page.select_option("#filter-kind", "election")
    page.click("#show-all")
    for _ in range(4):
        page.click("#zoom-in")
    page.locator("article.finding .ids a", has_text="timeline").first.click()
    marked = page.locator("#lanes rect.marked")
    marked.wait_for()  # the page hears of its new address a moment later
    assert marked.count() == 1
    first, last = shown.span()
    origin = int(str(page.locator("#lanes").get_attribute("data-first")))
    assert first <= origin + int(str(marked.get_attribute("data-e")))
    assert origin + int(str(marked.get_attribute("data-s"))) <= last
    page.locator("#known a").first.click()
    page.wait_for_url("**#f-*")
    assert quiet(shown)


def test_a_link_into_something_folded_unfolds_it(open_page: Open, unclean: Path) -> None:
    inside = "document.querySelector('details.exposures tr[id]').id"
    anchor = open_page(unclean).page.evaluate(inside)
    page = open_page(unclean, f"#{anchor}").page
    assert page.locator(f"#{anchor}").is_visible()


def test_commands_are_copied(open_page: Open, unclean: Path) -> None:
    shown = open_page(unclean, permissions=["clipboard-read", "clipboard-write"])
    page = shown.page
    page.locator("article.finding details.commands > summary").first.click()
    page.locator("article.finding .copy-button").first.click()
    page.locator("article.finding .copy-button", has_text="Copied").wait_for()
    assert re.fullmatch(r"kraft-forensics explain [0-9a-f]{16}", page.evaluate("navigator.clipboard.readText()"))


def test_without_a_script_the_page_is_complete(open_page: Open, unclean: Path) -> None:
    with_it, without = open_page(unclean), open_page(unclean, java_script_enabled=False)
    assert not without.page.locator("#controls").is_visible()
    assert without.marks() == with_it.marks()
    for each in ("#summary", "#timeline", "#plan", "#windows", "#details", "#policies", "#brokers", "#evidence"):
        assert without.page.locator(each).is_visible()
    widths = [shown.page.locator("#lanes rect.proven").first.bounding_box() for shown in (with_it, without)]
    assert widths[0] is not None
    assert widths[1] is not None
    assert widths[0]["width"] == pytest.approx(widths[1]["width"], abs=1)
    folded = without.page.locator("article.finding").last
    folded.locator(".window > summary").click()
    assert folded.locator("summary", has_text="leader, ISR and ELR").is_visible()
    assert not without.page.locator("#chosen").is_visible()
    assert "window: " in str(without.page.locator("#lanes rect.proven title").first.text_content())
    with_it.page.close()
    without.page.locator("#lanes a rect.dot.kill").first.click(force=True)
    without.page.wait_for_url("**#broker-3")


@pytest.mark.parametrize("width", [420, 760, 1280])
def test_nothing_is_wider_than_the_window(open_page: Open, unclean: Path, width: int) -> None:
    page = open_page(unclean, viewport={"width": width, "height": 900}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", NAMES)
def test_on_paper_it_has_at_most_six_pages_and_the_demo_four(
    open_page: Open, pages: dict[str, Path], name: str
) -> None:
    most = 4 if name == "unclean" else 6
    assert 1 <= sheets(open_page(pages[name]).page.pdf(prefer_css_page_size=True)) <= most


def test_before_anything_is_opened_the_page_has_six_screens(open_page: Open, unclean: Path) -> None:
    page = open_page(unclean).page
    assert page.evaluate("document.documentElement.scrollHeight") <= 6 * 900
    assert page.locator("details.window[open]").count() == 1


def test_the_text_for_a_ticket_is_copied(open_page: Open, unclean: Path) -> None:
    page = open_page(unclean, permissions=["clipboard-read", "clipboard-write"]).page
    page.click("details.ticket > summary")
    page.click("details.ticket .copy-button")
    page.locator("details.ticket .copy-button", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("**LOST: at least 170 ")


@pytest.mark.parametrize("topic", HOSTILE_TOPICS)
def test_a_hostile_name_runs_nothing(open_page: Open, topic: str) -> None:
    planted = small_report()
    findings = all_of(planted)
    for each in (*findings, *planted["page"]["elections"], *planted["predictions"]):
        each["topic"] = topic
    for each in findings:
        each |= {"explanation": topic, "rule": topic}
    events_ = events(findings)
    for election in events_.elections:
        election |= {"topic": topic, "cause": topic}
    shown = open_page(render_report(report(findings, totals=counted(findings), timeline=events_, plan=planted["plan"])))
    page = shown.page
    page.select_option("#filter-topic", index=1)
    page.fill("#filter-text", topic)
    page.fill("#filter-text", "")
    for mark in page.locator("#lanes rect:not(.off)").all():
        mark.click(force=True)
        assert known(page)
        shown.drawn()
    assert page.evaluate("document.querySelectorAll('#known img, #known script, #known svg').length") == 0
    assert page.evaluate("document.querySelectorAll('img, #lanes script, [onerror], [onmouseover]').length") == 0
    assert quiet(shown)


def test_a_script_that_is_not_the_pages_own_does_not_run(open_page: Open) -> None:
    html = render_report(small_report()).replace("</main>", "<script>document.title = 'taken'</script></main>")
    shown = open_page(html)
    assert "taken" not in shown.page.title()
    assert any("Content Security Policy" in text for text in shown.complaints)
    assert shown.page.locator("#controls").is_visible()  # its own script runs


def test_a_screen_reader_gets_landmarks_names_and_labels(open_page: Open, unclean: Path) -> None:
    page = open_page(unclean).page
    assert [page.get_by_role(role).count() for role in ("banner", "main", "contentinfo")] == [1, 1, 1]
    assert page.get_by_role("navigation", name="Sections").count() == 1
    nameless = """() => [...document.querySelectorAll('button, select, input, a[href], svg[role=img], [role=region]')]
        .filter(each => !(each.textContent.trim() || each.closest('svg[role=img] a')
            || each.getAttribute('aria-label') || each.labels?.length
            || each.getAttribute('aria-labelledby'))).length"""
    assert page.evaluate(nameless) == 0
    assert page.evaluate("[...document.querySelectorAll('table')].every(t => t.querySelector('th[scope]'))")
    stops = page.evaluate("[...document.querySelectorAll('#lanes a')].filter(a => a.tabIndex >= 0).length")
    assert stops == 0  # one stop for all: Enter and arrows choose
    assert page.locator("#chosen [aria-live]").count() == 1
