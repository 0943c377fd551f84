"""Each rule of lines of brokers' own logs by itself (docs/findings.md, L1 to L9): what a line proves, and when not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from replay.cluster.boots import BootReading, LoggedProcess, processes_of
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.configs import MIN_ISR, ElectionConfigs, config_timeline
from tests.support.broker_log_lines import logged
from tests.support.detection import judged_window, statements
from tests.support.scenario import TOPIC_ID, ms, newer, sessions, up

Row = dict[str, Any]

UP = up(1, 2, 3)
# Broker 1 led, nobody did, and broker 2 was elected uncleanly at 60. Partition epochs 0 to 4, leader epochs 0, 1, 2.
UNCLEAN = ("10 isr=1,2,3", "20 isr=1", "50 isr= leader=-1", "60 isr=2 leader=2 recovering", "80 isr=2,3 recovered")
WON = "b2 leads e2 p3 at=80 hw=80 from=-1/1"
# The process of broker 1 that led was fenced, and unfenced later without a new registration.
FROZEN = sessions(*UP, "50 fence 1", "70 unfence 1")
# It was fenced, and another process registered.
KILLED = sessions(*UP, "50 fence 1", "90 register 1 j1")
# It asked for its controlled shutdown; another process registered later.
STOPPED = sessions(*UP, "49 shutdown 1", "51 fence 1", "90 register 1 j1")
# Another process registered while it led.
RETURNED = ("40 register 1 j1", "41 unfence 1", "50 fence 1", "60 unfence 1")
AGAIN = sessions(*UP, *RETURNED[:3])


def boots(*readings: str) -> dict[int, list[BootReading]]:
    """ "1 a@5 a@90": broker 1's machine had boot id a at seconds 5 and 90."""
    found = {}
    for line in readings:
        broker, *words = line.split()
        pairs = [word.split("@") for word in words]
        found[int(broker)] = [BootReading(boot, ms(float(at)), ms(float(at))) for boot, at in pairs]
    return found


SAME = boots("1 a@8 a@95", "2 b@8 b@95", "3 c@8 c@95")


def window(
    lines: pa.Table,
    brokers: BrokerTimeline = FROZEN,
    *offsets: str,
    history: tuple[str, ...] = UNCLEAN,
    machines: dict[int, list[BootReading]] | None = None,
    at: int = 60,
    processes: dict[tuple[int, int], LoggedProcess] | None = None,
    **other: Any,
) -> Row:
    known = {"boots": machines or {}, "processes": processes or {}, **other}
    return judged_window(history, *offsets, brokers=brokers, at=at, logs=lines, **known)


def codes(finding: Row) -> set[str]:
    return set(statements(finding))


# L1: the exact log end of the new leader.


def test_the_line_of_a_new_leader_is_its_exact_log_end() -> None:
    found = window(logged(WON, "b1 stays e0 p1 hw=150"))
    assert (found["verdict"], found["loss_min"], found["loss_max"]) == ("proven", 70, None)


@pytest.mark.parametrize(
    "line",
    [
        # A process that knew nothing before may have started after a crash inside the session.
        "b2 leads e2 p3 at=80 hw=80",
        # Of another leader epoch, another broker, another state.
        "b2 leads e1 p3 at=80 hw=80 from=-1/0",
        "b3 leads e2 p3 at=80 hw=80 from=-1/1",
        "b2 leads e2 p9 at=80 hw=80 from=-1/1",
        "b2 leads e2 p2 at=80 hw=80 from=-1/1",
    ],
)
def test_what_is_no_first_line_of_the_new_leader(line: str) -> None:
    found = window(logged(line, "b1 stays e0 p1 hw=150"))
    assert found["verdict"] == "possible"


def test_a_log_end_read_later_takes_nothing_from_the_line() -> None:
    """It is only an upper bound, since the leader may have appended before it was read."""
    lines, read_later = logged(WON, "b1 stays e0 p1 hw=150"), "75 b2 isr=1 leo=120 proc=1"
    without_line = window(logged("b1 stays e0 p1 hw=150"), FROZEN, read_later)
    assert [window(lines, FROZEN, read_later)["loss_min"], without_line["loss_min"]] == [70, 30]


def test_first_lines_that_differ_are_none() -> None:
    lines = logged(WON, "b2 leads e2 p3 at=70 hw=70 from=-1/1", "b1 stays e0 p1 hw=150")
    assert window(lines)["verdict"] == "possible"


def test_a_line_is_of_the_first_process_only_if_none_knew_its_epoch_before() -> None:
    """A process that reads of epoch 2 again is told of its first and its second state at once."""
    brokers = sessions(*UP, "50 fence 1", "70 unfence 1", "82 register 2 j2")
    for line, verdict in ((f"{WON} utc=60.2", "proven"), (WON.replace("p3", "p4") + " utc=80.5", "possible")):
        assert window(logged(line, "b1 stays e0 p1 hw=150"), brokers)["verdict"] == verdict


@pytest.mark.parametrize(("directories", "verdict"), [("", "proven"), (" d9", "possible")])
def test_a_process_on_a_new_disk_reads_again_although_its_machine_ran_on(directories: str, verdict: str) -> None:
    """The disk of broker 2 was replaced while its machine ran: its copy of the metadata log begins anew, too, and it
    leads epoch 2 in its own eyes with an empty log."""
    brokers = sessions(*UP, "50 fence 1", "70 unfence 1", f"82 register 2 j2{directories}")
    line = WON.replace("at=80 hw=80", "at=0 hw=0") + " utc=90"
    assert window(logged(line, "b1 stays e0 p1 hw=150"), brokers, machines=SAME)["verdict"] == verdict


# L2, L3: floors of the high watermark.


@pytest.mark.parametrize(
    "line",
    [
        "b1 stays e0 p1 hw=150",
        "b1 leads e0 p0 at=150 hw=150",
        # The process knew that it led, or nobody did, when it learned of the new leader.
        "b1 follows 2 e2 p3 at=150 hw=150 from=1/0",
        "b1 follows 2 e2 p4 at=150 hw=150 from=-1/1",
        "b1 follows -1 e1 p2 at=150 hw=150 from=1/0",
        # It follows nobody, so it has that from before.
        "b1 follows -1 e1 p2 at=150 hw=150",
    ],
)
def test_a_high_watermark_that_was_logged_is_a_floor(line: str) -> None:
    found = window(logged(WON, line))
    assert (found["verdict"], found["loss_min"]) == ("proven", 70)
    assert "floor_logged" in codes(found)


@pytest.mark.parametrize(
    "line",
    [
        # What a process logs first may be what an earlier one learned from the new leader.
        "b1 follows 2 e2 p3 at=150 hw=150",
        # Up to 4.1 the previous leader is not printed.
        "b1 follows 2 e2 p3 at=150 hw=150 old",
        # Of the new leader itself, and of its followers.
        "b2 stays e2 p4 hw=150",
        "b3 follows 2 e2 p4 at=150 hw=150",
    ],
)
def test_a_high_watermark_that_may_be_the_new_leaders_is_no_floor(line: str) -> None:
    found = window(logged(WON, line))
    assert (found["verdict"], found["loss_min"]) == ("possible", 0)


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        # The checkpoint's value, of the state before broker 1 was alone.
        ("b1 leads e0 p0 at=150 hw=150", "proven"),
        # A process that nobody reached may have logged these, alone in the ISR.
        ("b1 stays e0 p1 hw=150", "possible"),
        ("b1 follows -1 e1 p2 at=150 hw=150 from=1/0", "possible"),
        ("b1 follows -1 e1 p2 at=150 hw=150", "possible"),
    ],
)
def test_a_high_watermark_logged_by_a_process_that_nobody_reached_is_no_floor(line: str, verdict: str) -> None:
    assert window(logged(WON, line), KILLED)["verdict"] == verdict
    assert window(logged(WON, line), newer(KILLED))["verdict"] == "proven"


def test_a_floor_passes_an_election_only_as_far_as_its_winner_had_it() -> None:
    again = (*UNCLEAN[:4], "80 isr= leader=-1", "90 isr=3 leader=3 recovering", "95 isr=3,1")
    lines = logged(WON, "b1 stays e0 p1 hw=150", "b3 leads e4 p5 at=60 hw=60 from=-1/3")
    assert window(lines, history=again, at=90)["loss_min"] == 20


KILLED_SOON = newer(sessions(*UP, "55 fence 1", "90 register 1 j1"))


@pytest.mark.parametrize(
    "lines",
    [
        # The next process, inside the session; one that follows the new leader.
        ("b1 leads e0 p0 at=150 hw=150 t=52 utc=52",),
        ("b1 follows -1 e1 p1 at=150 hw=150 t=53 utc=53",),
        ("b1 follows 2 e2 p2 at=150 hw=150 t=92 utc=92", "b1 cuts 2 r0 to=80 hw=150 t=92.1 utc=92.1"),
    ],
)
def test_a_high_watermark_may_be_of_an_earlier_topic_of_that_name(lines: tuple[str, ...]) -> None:
    """Its leader was killed before it rewrote its checkpoint file, which still has the earlier topic's: the next
    process begins with that, cut to its log's end."""
    won = "b2 leads e2 p2 at=80 hw=80 from=-1/1"
    for created, verdict in ((50, "possible"), (20, "proven")):
        history = (f"{created} isr=1,3", "57 isr= leader=-1", "60 isr=2 leader=2 recovering")
        assert window(logged(won, *lines), KILLED_SOON, history=history, machines=SAME)["verdict"] == verdict


# L4: a truncation below the high watermark.


@pytest.mark.parametrize("what", ["cuts", "cuts-old"])
def test_a_truncation_below_the_high_watermark_is_a_floor(what: str) -> None:
    begins = "b1 follows 2 e2 p4 at=150 hw=150 t=40"
    begins = f"{begins} old" if what == "cuts-old" else begins
    lines = logged(WON, begins, f"b1 {what} 2 r0 to=80 hw=150 t=40.1")
    for brokers in (FROZEN, newer(KILLED)):
        found = window(lines, brokers)
        assert (found["verdict"], found["loss_min"]) == ("proven", 70)
        assert "floor_logged_truncation" in codes(found)
    # Who was alone in the ISR when it was killed may have come back and set its high watermark to its log end.
    assert "floor_logged_truncation" not in codes(window(lines, KILLED))


@pytest.mark.parametrize(
    "cut",
    [
        # It has records of the new leader, so its high watermark may be from it.
        "b1 cuts 2 r2 to=80 hw=150 t=40.1",
        # Its high watermark is not above what the new leader began with.
        "b1 cuts 2 r0 to=60 hw=80 t=40.1",
    ],
)
def test_what_is_no_truncation_below_an_earlier_high_watermark(cut: str) -> None:
    found = window(logged(WON, "b1 follows 2 e2 p4 at=150 hw=80 t=40", cut), newer(KILLED))
    assert (found["verdict"] == "proven", "floor_logged_truncation" in codes(found)) == (False, False)


CAME_AFTER = (
    *UNCLEAN[:4],
    "70 isr= leader=-1",
    "80 isr=2 leader=2 recovering",
    "90 isr=2,1 recovered",
)
CUT_LATE = ("b1 follows 2 e4 p5 at=150 hw=150 t=40", "b1 cuts 2 r0 to=80 hw=150 t=40.1")
LED_TWICE = (WON, "b2 leads e4 p5 at=170 hw=170 from=-1/3")


def test_a_truncation_shows_a_high_watermark_from_before_the_leaders_first_epoch() -> None:
    """Whoever follows broker 2 in epoch 2 truncates to 80: so 150 is from before that, although it led on and on."""
    found = window(logged(*LED_TWICE, *CUT_LATE), newer(KILLED), history=CAME_AFTER)
    assert (found["verdict"], found["loss_min"]) == ("proven", 70)
    assert "floor_logged_truncation" in codes(found)


@pytest.mark.parametrize(
    ("lines", "history"),
    [
        # Another one led between, from which it may have the high watermark and these records.
        (LED_TWICE, (*UNCLEAN[:4], "70 isr=3 leader=3", *CAME_AFTER[5:])),
        # Where the new leader's log ended is not known.
        (LED_TWICE[1:], CAME_AFTER),
        # A log in another directory may have taken the place of the one that it had.
        (LED_TWICE, ("10 isr=1,2,3 dirs=d9,d2,d3", *CAME_AFTER[1:])),
    ],
)
def test_what_a_later_truncation_does_not_show(lines: tuple[str, ...], history: tuple[str, ...]) -> None:
    found = window(logged(*lines, *CUT_LATE), newer(KILLED), history=history)
    assert "floor_logged_truncation" not in codes(found)


def test_a_high_watermark_set_back_later_than_the_truncation_shows_nothing() -> None:
    """A new leader's high watermark may lag: 150 to 80 some seconds later is no loss."""
    rows = logged(WON, "b1 follows 2 e2 p4 at=150 hw=150 t=40 old", "b1 cuts-old 2 r0 to=80 hw=150 t=40.1").to_pylist()
    late = [{**r, "logged_at_ms": ms(44)} if r["kind"] == "high_watermark_set_back" else r for r in rows]
    found = window(pa.Table.from_pylist(late, schema=logged(WON).schema), newer(KILLED))
    assert found["loss_min"] == 0


# L5: the last word of the old leader.


def test_the_same_process_bounds_the_high_watermark_when_it_learns_that_it_no_longer_leads() -> None:
    found = window(logged(WON, "b1 follows 2 e2 p3 at=160 hw=150 from=1/0"))
    assert (found["loss_min"], found["loss_max"], found["unacked_min"]) == (70, 70, 70)
    assert statements(found)["high_watermark_at_most"]["value"] == 150
    assert "ceiling_logged_high_watermark" in codes(found)


def test_an_old_leader_that_lost_nothing_bounds_the_loss_exactly() -> None:
    lines = logged(WON, "b1 follows 2 e2 p3 at=160 hw=150 from=1/0", "b2 follows 1 e0 p0 at=0 hw=0")
    found = window(lines, machines=SAME)
    assert (found["verdict"], found["loss_min"], found["loss_max"], found["first_lost_offset"]) == (
        "proven",
        70,
        70,
        80,
    )
    assert (found["unacked_min"], found["unacked_max"]) == (70, 80)


@pytest.mark.parametrize(
    ("history", "line", "brokers"),
    [
        # Broker 2 led between, so the log was cut to 80 before.
        (
            (*UNCLEAN[:4], "80 isr= leader=-1", "90 isr=3 leader=3 recovering", "95 isr=3,1"),
            "b1 follows 3 e4 p5 at=80 hw=80 from=-1/3",
            FROZEN,
        ),
        # It was no replica for a while, and its log is a new one.
        (
            (*UNCLEAN[:3], "60 isr=2 leader=2 replicas=2,3 recovering", "80 replicas=1,2,3", "90 isr=2,3"),
            "b1 follows 2 e2 p4 at=0 hw=0",
            FROZEN,
        ),
        # Its next process logged it, after a power loss.
        (
            UNCLEAN,
            "b1 follows -1 e1 p2 at=80 hw=80",
            STOPPED,
        ),
    ],
)
def test_what_is_not_the_last_word_of_the_process_that_led_excludes_nothing(
    history: tuple[str, ...], line: str, brokers: BrokerTimeline
) -> None:
    found = window(logged(WON, line), brokers, history=history)
    assert (found["verdict"], "high_watermark_at_most" in codes(found)) == ("possible", False)


@pytest.mark.parametrize(
    ("brokers", "utc", "machines", "known"),
    [
        # The process that led ran on until it had logged the line.
        (FROZEN, 62, {}, True),
        # It stopped at some time from 51 on. Its machine did not start again before the line.
        (STOPPED, 62, SAME, True),
        # It did, and the next process may have read that it leads in epoch 0, and then of epoch 2 at once.
        (STOPPED, 62, {}, False),
        (STOPPED, 60.2, boots("1 a@8 c@55 c@95", "2 b@8 b@95"), False),
    ],
)
def test_a_process_that_reads_again_that_it_led_may_have_less_than_the_one_that_led(
    brokers: BrokerTimeline, utc: float, machines: dict[int, list[BootReading]], known: bool
) -> None:
    lines = logged("b2 leads e2 p3 at=100 hw=100 from=-1/1", f"b1 follows 2 e2 p3 at=100 hw=100 from=1/0 utc={utc}")
    found = window(lines, brokers, machines=machines)
    assert (found["verdict"] == "excluded", "high_watermark_at_most" in codes(found)) == (known, known)


@pytest.mark.parametrize(("first", "last"), [("d1,d2,d3", True), ("d9,d2,d3", False)])
def test_the_high_watermark_of_a_log_that_was_moved_may_have_gone_back(first: str, last: bool) -> None:
    """Its new copy has what it fetched of it, when it takes the place of the old one."""
    history = (f"10 isr=1,2,3 dirs={first}", *(f"{line} dirs=d1,d2,d3" for line in UNCLEAN[1:]))
    won = "b2 leads e2 p3 at=150 hw=150 from=-1/1"
    brokers = newer(sessions(*UP, "50 fence 1", "52 register 2 j2", "53 unfence 2", "70 unfence 1"))
    for line, end in (("b1 follows 2 e2 p3 at=160 hw=150 from=1/0", 160), ("b1 stays e0 p1 hw=150", None)):
        found = window(logged(won, line), brokers, history=history)
        assert (found["verdict"] == "excluded") == last
        at_most = statements(found).get("high_watermark_at_most", {"value": None})["value"]
        assert at_most == (150 if last else end)


def test_bounds_of_lines_exclude() -> None:
    lines = logged("b2 leads e2 p3 at=150 hw=150 from=-1/1", "b1 follows 2 e2 p3 at=150 hw=150 from=1/0")
    assert window(lines, machines=SAME)["verdict"] == "excluded"


def test_logs_may_have_parted_before_the_snapshot_with_which_history_begins() -> None:
    """So that they end alike excludes nothing."""
    lines = logged("b2 leads e2 p3 at=160 hw=150 from=-1/1", "b1 follows 2 e2 p3 at=160 hw=150 from=1/0")
    for first, verdict in (("10", "excluded"), ("10 checkpoint", "possible")):
        history = (f"{first} isr=1,2,3", *UNCLEAN[1:])
        assert window(lines, history=history)["verdict"] == verdict


def test_a_high_watermark_that_lags_at_the_begin_of_the_term_is_no_ceiling() -> None:
    """Broker 1 led from 100 on, and its high watermark never came that far: what its predecessor had promised may be
    above it."""
    history = (
        "10 isr=1,2,3",
        "20 isr=1,2 leader=2",
        "30 isr=1 leader=1",
        "50 isr= leader=-1",
        "60 isr=3 leader=3 recovering",
    )
    lines = logged(
        "b1 leads e2 p2 at=100 hw=80 from=2/1",
        "b1 follows 3 e4 p4 at=110 hw=90 from=1/2",
        "b3 leads e4 p4 at=90 hw=80 from=-1/3",
    )
    found = window(lines, history=history)
    assert "ceiling_logged_log_end" in codes(found)
    assert found["verdict"] == "possible"


# L6: a log end after a restart of the process, with the same boot id (I8).

CAME_BACK = "b1 follows -1 e1 p2 at=80 hw=80"


def test_a_machine_that_ran_on_kept_the_log_of_a_killed_leader() -> None:
    found = window(logged(WON, CAME_BACK), KILLED, machines=SAME)
    assert found["verdict"] == "excluded"
    assert "ceiling_logged_log_end" in codes(found)


@pytest.mark.parametrize(
    "machines",
    [
        {},
        boots("1 a@8 b@95", "2 b@8 b@95", "3 c@8 c@95"),
        # Nothing from before it was last heard of, nothing from after.
        boots("1 a@55 a@95", "2 b@8 b@95", "3 c@8 c@95"),
        boots("1 a@8 a@55", "2 b@8 b@95", "3 c@8 c@95"),
        # Another id between.
        boots("1 a@8 b@55 a@95", "2 b@8 b@95", "3 c@8 c@95"),
    ],
)
def test_a_machine_that_may_have_started_again_bounds_nothing(machines: dict[int, list[BootReading]]) -> None:
    found = window(logged(WON, CAME_BACK), KILLED, machines=machines)
    assert found["verdict"] == "possible"
    assert not codes(found) & {"ceiling_logged_log_end", "ceiling_logged_high_watermark"}


def test_a_machine_that_ran_on_without_the_logs_directory_bounds_nothing() -> None:
    """The log that it came back with is a new one, in another directory."""
    brokers = sessions(*UP, "50 fence 1", "55 offline 1 other", "90 register 1 j1")
    assert window(logged(WON, CAME_BACK), brokers, machines=SAME)["verdict"] == "possible"


def test_an_old_leader_that_came_back_to_a_new_one_may_have_truncated_before() -> None:
    """An earlier process of it may have followed broker 2: only what it truncates itself shows that none had."""
    back = "b1 follows 2 e2 p4 at=80 hw=80 t=40"
    history = (*UNCLEAN, "85 isr=1,2,3")
    assert window(logged(WON, back), KILLED, history=history, machines=SAME)["verdict"] == "possible"
    lines = logged(WON, "b1 follows 2 e2 p3 at=150 hw=120 t=40", "b1 cuts 2 r0 to=80 hw=120 t=40.1")
    found = window(lines, newer(KILLED), machines=SAME)
    assert (found["loss_min"], found["loss_max"]) == (40, 70)


def test_a_leader_that_may_never_have_learned_of_its_election_bounds_nothing() -> None:
    """It was last heard of when it was elected: the leader before it may have gone on."""
    history = ("10 isr=1,2,3", "20 isr=1,3 leader=3", "30 isr=1 leader=1", *UNCLEAN[2:])
    won = "b2 leads e4 p4 at=80 hw=80 from=-1/3"
    lines = logged(won, "b1 leads e2 p2 at=80 hw=80 from=3/1 utc=?", "b1 follows -1 e3 p3 at=80 hw=80")
    for last_ms, known in ((ms(31), True), (ms(30), False)):
        logged_until = {(1, 1): LoggedProcess(last_ms)}
        brokers = sessions(*UP, "19 fence 3", "33 fence 1", "90 register 1 j1")
        machines = boots("1 a@8 a@1010")
        found = window(lines, brokers, history=history, machines=machines, processes=logged_until)
        assert ("ceiling_logged_log_end" in codes(found)) == known


def test_who_is_elected_again_by_the_process_that_led_lost_nothing() -> None:
    history = (*UNCLEAN[:3], "60 isr=1 leader=1")
    lines = logged("b1 leads e2 p3 at=90 hw=90 from=1/0")
    assert window(lines, sessions(*UP, "50 fence 1", "60 unfence 1"), history=history)["verdict"] == "excluded"
    assert window(logged("b1 leads e2 p3 at=90 hw=90"), KILLED, history=history)["verdict"] != "excluded"


def test_who_is_elected_again_after_another_process_led_may_have_lost_some() -> None:
    """A ceiling below its log end excludes no loss: the second process may have written these offsets anew."""
    history = (*UNCLEAN[:3], "60 isr=1 leader=1")
    lines = logged("b1 stays e0 p1 hw=80", "b1 leads e2 p3 at=90 hw=90 from=1/0")
    for more, verdict in ((("50 fence 1", "60 unfence 1"), "excluded"), (RETURNED, "possible")):
        assert window(lines, newer(sessions(*UP, *more)), history=history)["verdict"] == verdict


# L8: the high watermark that a leader logged when it learned that it was below min ISR.


def test_a_high_watermark_logged_below_min_isr_stands_still() -> None:
    found = window(logged(WON, "b1 stays e0 p1 hw=150"), newer(KILLED), machines=SAME)
    assert (found["verdict"], found["loss_min"], found["loss_max"]) == ("proven", 70, 70)
    assert "ceiling_logged_below_min_isr" in codes(found)
    lines = logged("b2 leads e2 p3 at=150 hw=150 from=-1/1", "b1 stays e0 p1 hw=150")
    assert window(lines, newer(KILLED), machines=SAME)["verdict"] == "excluded"


@pytest.mark.parametrize(
    ("line", "brokers", "second"),
    [
        # Of a release that may go on.
        ("b1 stays e0 p1 hw=150", KILLED, "20 isr=1"),
        # A process that came back within the session may have logged it, with a lower one.
        ("b1 stays e0 p1 hw=150", newer(sessions(*UP, "22 fence 1")), "20 isr=1"),
        ("b1 leads e0 p1 at=150 hw=150", newer(KILLED), "20 isr=1"),
        # Of a state that is not below min ISR, or that lasted only for a while.
        ("b1 stays e0 p0 hw=150", newer(KILLED), "20 isr=1"),
        ("b1 stays e0 p1 hw=150", newer(KILLED), "20 isr=1 min=1"),
        # Brokers may have different values of it.
        ("b1 stays e0 p1 hw=150", newer(KILLED), "20 isr=1 source=static"),
    ],
)
def test_what_does_not_show_that_the_high_watermark_stood_still(
    line: str, brokers: BrokerTimeline, second: str
) -> None:
    history = (UNCLEAN[0], second, *UNCLEAN[2:])
    found = window(logged(WON, line), brokers, history=history, machines=SAME)
    assert "ceiling_logged_below_min_isr" not in codes(found)


def test_a_min_isr_that_was_raised_in_the_same_leader_epoch_may_not_be_known_yet() -> None:
    """The leader applies states before configs, and a delta may hold both."""
    history = ("10 isr=1,2,3 min=1", "20 isr=1 min=2", *UNCLEAN[2:])
    found = window(logged(WON, "b1 stays e0 p1 hw=150"), newer(KILLED), history=history, machines=SAME)
    assert found["loss_max"] is None


def test_a_leader_that_begins_below_min_isr_bounds_it_by_its_log_end() -> None:
    """Its high watermark may lag: what the leader before had promised is in its log too."""
    history = ("10 isr=1,2,3", "20 isr=2 leader=2", "50 isr= leader=-1", "60 isr=3 leader=3 recovering")
    brokers = newer(sessions(*UP, "19 fence 1", "50 fence 2"))
    won = "b3 leads e3 p3 at=130 hw=80 from=-1/2"
    found = window(logged("b2 leads e1 p1 at=150 hw=140 from=1/0", won), brokers, history=history, machines=SAME)
    assert (found["loss_min"], found["loss_max"]) == (10, 20)
    found = window(logged("b2 leads e1 p1 at=150 hw=140", won), brokers, history=history, machines=SAME)
    assert found["loss_max"] is None


# L9: the high watermark that a leader logs when it asks for a smaller ISR.


def test_a_high_watermark_logged_with_a_smaller_isr_is_a_floor() -> None:
    found = window(logged(WON, "b1 shrinks 1 t=20 hw=150", "b1 updates p1 t=21"))
    assert (found["verdict"], found["loss_min"]) == ("proven", 70)
    assert "floor_logged_shrink" in codes(found)


@pytest.mark.parametrize(
    "lines",
    [
        # Nothing after it shows that broker 1 did not lead again, later.
        ("b1 shrinks 1 t=20 hw=150",),
        ("b1 updates p0 t=19", "b1 shrinks 1 t=20 hw=150"),
        # The file's order and the clock's do not agree: two files, joined in the wrong order.
        ("b1 shrinks 1 t=90 hw=150", "b1 updates p1 t=21"),
        # Of a state that another broker led, or that is not known.
        ("b1 shrinks 1 t=20 hw=150", "b1 updates p3 t=21"),
        ("b1 shrinks 1 t=20 hw=150", "b1 updates p9 t=21"),
    ],
)
def test_a_smaller_isr_of_an_unknown_leader_epoch_is_no_floor(lines: tuple[str, ...]) -> None:
    assert window(logged(WON, *lines))["verdict"] == "possible"


LED_AGAIN = (*UNCLEAN[:3], "60 isr=1 leader=1 recovering", "80 isr=1,3 recovered")
LOST_AND_LED_AGAIN = (
    *UNCLEAN[:4],
    "80 isr= leader=-1",
    "90 isr=1,3 leader=1 recovering",
    "110 isr= leader=-1",
    "120 isr=3 leader=3 recovering",
)
LOST_AND_LED_AGAIN_BEGAN = (WON, "b1 leads e4 p5 at=80 hw=80 from=-1/3", "b3 leads e6 p7 at=60 hw=60 from=-1/5")
BRIEFLY_BACK = sessions(*UP, "50 fence 1", "85 unfence 1", "93 fence 1")


@pytest.mark.parametrize(
    ("history", "began", "updates", "brokers", "at", "least"),
    [
        # It may be of the epoch that it led later.
        (LED_AGAIN, ("b1 leads e2 p3 at=80 hw=80 from=-1/1",), (0, 4), FROZEN, 60, 0),
        # A process that began then may repeat the checkpoint file, of the longer log that was lost in between: only 80
        # offsets were passed on.
        (
            LOST_AND_LED_AGAIN,
            LOST_AND_LED_AGAIN_BEGAN,
            (5, 5),
            BRIEFLY_BACK,
            120,
            20,
        ),
    ],
)
def test_a_smaller_isr_that_may_be_of_another_log_proves_no_more(
    history: tuple[str, ...],
    began: tuple[str, ...],
    updates: tuple[int, int],
    brokers: BrokerTimeline,
    at: int,
    least: int,
) -> None:
    before, after = updates
    shrinks = (f"b1 updates p{before} t=19", "b1 shrinks 1 t=20 hw=150 utc=?", f"b1 updates p{after} t=21")
    assert window(logged(*began, *shrinks), brokers, history=history, at=at)["loss_min"] == least


def test_a_follower_that_led_may_repeat_the_high_watermark_of_the_longer_log_before() -> None:
    """Its process may have begun when it followed: only 80 offsets were passed on."""
    lines = (*LOST_AND_LED_AGAIN_BEGAN, "b1 follows 3 e6 p7 at=150 hw=150 from=-1/5 utc=121")
    machines = boots("1 a@8 a@190")
    found = window(logged(*lines), BRIEFLY_BACK, history=LOST_AND_LED_AGAIN, at=120, machines=machines)
    assert found["loss_min"] == 20


# N13: what a start loads.


@pytest.mark.parametrize(
    "loaded", ["b1 loads t=52 utc=52 at=150", "b2 loads t=55 utc=55 at=80", "b1 loads-hw t=52 utc=52 hw=150"]
)
def test_what_a_start_loads_bounds_nothing(loaded: str) -> None:
    with_it, without = (window(logged(WON, *more), KILLED, machines=SAME) for more in ([loaded], []))
    bounds = ("verdict", "loss_min", "loss_max", "unacked_min", "unacked_max")
    assert [with_it[name] for name in bounds] == [without[name] for name in bounds]


MOVED = (UNCLEAN[0], "20 isr=1 dirs=other,d2,d3", *UNCLEAN[2:])


def test_a_replica_that_was_moved_may_have_come_back_with_its_new_log() -> None:
    found = window(logged(WON, CAME_BACK), KILLED, history=MOVED, machines=SAME)
    assert (found["verdict"], "ceiling_logged_log_end" in codes(found)) == ("possible", False)
    # Before the directory is known there is none to be moved from.
    unassigned = ("10 isr=1,2,3 dirs=AAAAAAAAAAAAAAAAAAAAAA,d2,d3", *UNCLEAN[1:])
    assert window(logged(WON, CAME_BACK), KILLED, history=unassigned, machines=SAME)["verdict"] == "excluded"
    # Before a snapshot it may have been in another one.
    first = "8 isr=1,2,3 leader=2", "10 leader=1 epoch=5"
    for begin, at, is_ceiling in ((first, 1, True), (("10 checkpoint isr=1,2,3 epoch=5",), 0, False)):
        lines = logged(f"b1 leads e5 p{at} at=50 hw=50 from=2/4", f"b1 follows -1 e6 p{at + 2} at=80 hw=80")
        found = window(lines, KILLED, history=(*begin, *UNCLEAN[1:]), machines=SAME)
        assert ("ceiling_logged_log_end" in codes(found)) == is_ceiling


# L10 to L12: what contiguous bytes of server.log show, when the machine started, and what the next process loaded.

PROCESSES = {(1, 1): LoggedProcess(ms(49), (ms(51), ms(70)))}
LOADS = "b1 loads t=52 utc=52 at=80"
BOOTED = {1: [BootReading(None, ms(95), ms(95), ms(8), local_disks=True)]}


@pytest.mark.parametrize("machines", [SAME, BOOTED])
def test_the_log_end_that_the_next_process_loaded_is_the_old_leaders(machines: dict[int, list[BootReading]]) -> None:
    found = window(logged(WON, LOADS), KILLED, machines=machines, processes=PROCESSES)
    assert (found["verdict"], found["loss_max"]) == ("excluded", 0)
    assert "ceiling_loaded_log_end" in codes(found)


@pytest.mark.parametrize(
    ("loads", "machines", "processes"),
    [
        # Which process loaded it is not known, or it is a later one.
        ((LOADS,), SAME, {}),
        ((LOADS,), SAME, {(1, 1): LoggedProcess(ms(49))}),
        (("b1 loads t=72 utc=72 at=80",), SAME, PROCESSES),
        ((LOADS, "b1 loads t=53 utc=53 at=70"), SAME, PROCESSES),
        # Without the broker's own disks the machine that booted long ago may be another one.
        ((LOADS,), {}, PROCESSES),
        ((LOADS,), {1: [replace(BOOTED[1][0], local_disks=None)]}, PROCESSES),
        # It started again after the leader's last line.
        ((LOADS,), {1: [replace(BOOTED[1][0], booted_by_ms=ms(50))]}, PROCESSES),
        # Another broker loaded it.
        (("b2 loads t=55 utc=55 at=80",), SAME, PROCESSES),
    ],
)
def test_what_a_start_loads_bounds_nothing_without_its_process_and_its_machine(
    loads: tuple[str, ...], machines: dict[int, list[BootReading]], processes: dict[tuple[int, int], LoggedProcess]
) -> None:
    found = window(logged(WON, *loads), KILLED, machines=machines, processes=processes)
    assert (found["verdict"], "ceiling_loaded_log_end" in codes(found)) == ("possible", False)


def test_a_leader_that_lived_on_may_have_followed_the_next_one_and_truncated() -> None:
    """It was fenced and came back, followed broker 2 and truncated to its 80 offsets, and was killed only then."""
    killed = sessions(*UP, "50 fence 1", "84 register 1 j1")
    came_back = sessions(*UP, "50 fence 1", "70 unfence 1", "82 fence 1", "84 register 1 j1")
    loads = "b1 loads t=83 utc=83 at=80"
    # Or the controller heard of it, although it logged nothing: its loggers may be at WARN.
    for brokers, last, expected in ((came_back, 75, "possible"), (came_back, 59, "possible"), (killed, 59, "excluded")):
        processes = {(1, 1): LoggedProcess(ms(last), (ms(82.5), ms(90)))}
        found = window(logged(WON, loads), brokers, machines=SAME, processes=processes)
        assert (found["verdict"], "ceiling_loaded_log_end" in codes(found)) == (expected, expected == "excluded")


# With unclean elections on, a reassignment that is cancelled at 50 takes broker 1 off the replicas: its log is deleted.
# It is added again before broker 2, now in the ISR, leads (PartitionReassignmentRevert; ReplicaManager.applyDelta).
DELETED = ("10 isr=1,2 replicas=1,2", "20 isr=1", "50 isr=2 leader=-1 replicas=2", "52 replicas=2,1", "60 leader=2")
REMOVED_FROM = sessions(*UP, "19 fence 2", "55 fence 1", "58 register 2 j2", "59 unfence 2", "90 register 1 j1")


def test_the_log_of_a_leader_that_was_no_replica_for_a_while_is_another_one() -> None:
    processes = {(1, 1): LoggedProcess(ms(53), (ms(56), ms(70)))}
    won, loads = "b2 leads e2 p4 at=10 hw=10 from=-1/1", "b1 loads t=57 utc=57 at=0"
    for replicas, verdict in (("2", "possible"), ("1,2", "excluded")):
        history = [line.replace("replicas=2", f"replicas={replicas}", line.startswith("50")) for line in DELETED]
        history[3] = "52 replicas=1,2"
        found = window(logged(won, loads), REMOVED_FROM, history=tuple(history), machines=SAME, processes=processes)
        assert found["verdict"] == verdict
        stopped = window(logged(won), REMOVED_FROM, "56 b1 rp=0/1", "57 b1 rp=0/1", history=tuple(history))
        assert stopped["verdict"] == verdict


@pytest.mark.parametrize(("registered", "verdict"), [((), "excluded"), (("64 register 1 by_hand",), "possible")])
def test_a_process_that_was_started_by_hand_and_logged_elsewhere_may_have_truncated(
    registered: tuple[str, ...], verdict: str
) -> None:
    """It followed broker 2, and what the next process of the file loaded is what it left."""
    brokers = sessions(*UP, "50 fence 1", *registered, "90 register 1 j1")
    one = {"capture": "c", "path": "server.log", "node_id": 1, "first_position": 0, "begins_in_file": True}
    one |= {"load_ms": 1, "incarnation_id": None, "broker_epoch": 1, "first_event_ms": 0, "last_event_ms": ms(49)}
    later = {"first_position": 9, "broker_epoch": 90, "first_event_ms": ms(75), "last_event_ms": ms(95)}
    processes = processes_of([one, one | later], brokers.incarnations, brokers.new_incarnations)
    found = window(logged(WON, "b1 loads t=76 utc=76 at=80"), brokers, machines=SAME, processes=processes)
    assert found["verdict"] == verdict


HANDED_OVER = ("10 isr=1,2,3", "50 isr=2,3 leader=-1", "60 isr=2,3 leader=2")
SILENT = sessions(*UP, "50 fence 1", "62 fence 2")


@pytest.mark.parametrize(
    ("logged_process", "machines", "alive"),
    [
        # It wrote a line after it was elected. Or the next process of its file is a later one, and nobody ran between.
        (LoggedProcess(ms(61)), {}, True),
        (LoggedProcess(ms(59), (ms(62), ms(70))), SAME, True),
        (LoggedProcess(ms(59)), {}, False),
        (LoggedProcess(ms(59), (ms(60.5), ms(70))), SAME, False),
        # A machine that started again may have taken the lines of a process in between with it.
        (LoggedProcess(ms(59), (ms(62), ms(70))), boots("2 b@8 b@55 c@95"), False),
    ],
)
def test_contiguous_bytes_show_which_process_was_elected(
    logged_process: LoggedProcess, machines: dict[int, list[BootReading]], alive: bool
) -> None:
    found = window(logged(), SILENT, history=HANDED_OVER, machines=machines, processes={(2, 2): logged_process})
    assert ("premise_alive" in codes(found)) == alive


# E7: what a member of the ISR kept bounds the high watermark.

# Broker 3 left at 20, and the leader, below min ISR, knew that; broker 2 was never in the ISR.
MEMBER_LEFT = ("10 isr=1,3", "20 isr=1", *UNCLEAN[2:])
LEADER_GONE = newer(sessions(*UP, "20 fence 3", "50 fence 1", "55 register 3 j3", "90 register 1 j1"))
# Its process wrote its last line at 19; the next one began at 54 and loaded the log. Read later; its machine ran on.
ENDED = {(3, 3): LoggedProcess(ms(19), (ms(54), ms(90)))}
LOADED_BY_NEXT = "b3 loads t=55 utc=55 at=80"
MEMBER = "ceiling_members_log_end"


def test_the_log_that_a_member_kept_is_a_ceiling() -> None:
    found = window(logged(WON, LOADED_BY_NEXT), LEADER_GONE, history=MEMBER_LEFT, machines=SAME, processes=ENDED)
    assert (found["verdict"], found["loss_max"]) == ("excluded", 0)
    assert statements(found)[MEMBER]["brokers"] == [3]


@pytest.mark.parametrize(
    ("history", "brokers", "loads", "machines", "processes"),
    [
        # The leader alone could acknowledge, or its release does not wait for min ISR.
        (tuple(f"{line} min=1" for line in MEMBER_LEFT), LEADER_GONE, LOADED_BY_NEXT, SAME, ENDED),
        (MEMBER_LEFT, KILLED, LOADED_BY_NEXT, SAME, ENDED),
        # It was no member, or no replica for a while, so that its log was deleted.
        (("10 isr=1", *MEMBER_LEFT[1:]), LEADER_GONE, LOADED_BY_NEXT, SAME, ENDED),
        (
            (*MEMBER_LEFT[:2], "30 isr=1 replicas=1,2", "40 isr=1 replicas=1,2,3", *MEMBER_LEFT[2:]),
            LEADER_GONE,
            LOADED_BY_NEXT,
            SAME,
            ENDED,
        ),
        # Its machine may have started again; its process may have followed the winner.
        (MEMBER_LEFT, LEADER_GONE, LOADED_BY_NEXT, {}, ENDED),
        (
            MEMBER_LEFT,
            newer(sessions(*UP, "20 fence 3", "50 fence 1", "70 register 3 j3", "90 register 1 j1")),
            LOADED_BY_NEXT.replace("55", "63"),
            SAME,
            {(3, 3): LoggedProcess(ms(61), (ms(62), ms(90)))},
        ),
        # The next process may have followed the last leader, which may have counted it as a member.
        (
            MEMBER_LEFT,
            LEADER_GONE,
            LOADED_BY_NEXT.replace("55", "45"),
            SAME,
            {(3, 3): LoggedProcess(ms(19), (ms(44), ms(90)))},
        ),
        # Nothing shows that the leader ever led: the one before it may have gone on.
        (MEMBER_LEFT, newer(sessions(*UP, "10 fence 1")), LOADED_BY_NEXT, SAME, ENDED),
    ],
)
def test_what_a_replica_loaded_is_no_ceiling(
    history: tuple[str, ...],
    brokers: BrokerTimeline,
    loads: str,
    machines: dict[int, list[BootReading]],
    processes: dict[tuple[int, int], LoggedProcess],
) -> None:
    found = window(logged(WON, loads), brokers, history=history, machines=machines, processes=processes)
    assert (found["verdict"] == "excluded", MEMBER in codes(found)) == (False, False)


MEMBER_STOPPED = newer(sessions(*UP, "20 shutdown 3", "21 fence 3", "50 fence 1", "90 register 1 j1"))
# The file of its clean stop was found twice.
STOP_FILES = ("52 b3 rp=80/3", "55 b3 rp=80/3")


def test_the_log_end_of_a_member_that_stopped_cleanly_is_a_ceiling() -> None:
    """It had not started again when nobody led any more."""
    found = window(logged(WON), MEMBER_STOPPED, *STOP_FILES, history=MEMBER_LEFT)
    assert (found["verdict"], found["loss_max"], MEMBER in codes(found)) == ("excluded", 0, True)
    # The next process of the same member had more.
    restarted = newer(sessions(*UP, "15 register 3 j3", "16 unfence 3", "20 shutdown 3", "21 fence 3", "50 fence 1"))
    history = (MEMBER_LEFT[0], "17", *MEMBER_LEFT[1:])
    assert MEMBER not in codes(window(logged(WON.replace("p3", "p4")), restarted, *STOP_FILES, history=history))


@pytest.mark.parametrize(
    ("files", "processes", "is_ceiling"),
    [
        # Read when the leader may still have counted it as a member: its metadata publisher waits for a disk, it sends
        # heartbeats, and the next process of the member has fetched more from it (maybeIncrementLeaderHW, 4.3.1).
        (("21.5 b3 rp=80/3", "23 b3 rp=80/3"), {}, False),
        (("40 b3 rp=80/3", "45 b3 rp=80/3"), {}, False),
        # Read after the election: it may have followed the winner before it stopped, unless all of its lines say no.
        (("70 b3 rp=80/3", "75 b3 rp=80/3"), {}, False),
        (("70 b3 rp=80/3", "75 b3 rp=80/3"), {(3, 3): LoggedProcess(ms(22), None, ms(72))}, False),
        (("70 b3 rp=80/3", "75 b3 rp=80/3"), {(3, 3): LoggedProcess(ms(22), None, ms(80))}, True),
        (("70 b3 rp=80/3", "75 b3 rp=80/3"), {(3, 3): LoggedProcess(ms(61), None, ms(80))}, False),
        # A start was logged at 30, of a tool or of a process that did not get the lock; it ran on.
        (("70 b3 rp=80/3", "75 b3 rp=80/3"), {(3, 3): LoggedProcess(ms(22), (ms(30), ms(72)))}, False),
        # Of a future log, maybe.
        (("52 b3 rp=80/3 future", "55 b3 rp=80/3 future"), {}, False),
        # Of another session; or two log ends.
        (("52 b3 rp=80/7", "55 b3 rp=80/7"), {}, False),
        (("52 b3 rp=80/3", "55 b3 rp=80/3", "56 b3 rp=70/3"), {}, False),
    ],
)
def test_which_files_of_a_clean_stop_are_a_ceiling(
    files: tuple[str, ...], processes: dict[tuple[int, int], LoggedProcess], is_ceiling: bool
) -> None:
    found = window(logged(WON), MEMBER_STOPPED, *files, history=MEMBER_LEFT, processes=processes)
    assert (found["verdict"] == "excluded", MEMBER in codes(found)) == (is_ceiling, is_ceiling)


# Broker 3 was cut off and fenced, and learns at 85 that broker 2 leads; the leader's next process began at 58.
CUT_OFF = newer(sessions(*UP, "20 fence 3", "50 fence 1", "58 register 1 j1"))
LEARNED = "b3 follows 2 e2 p3 at=80 hw=70 from=1/0 t=85 utc=85"
RAN_ON = {(3, 3): LoggedProcess(ms(95))}


@pytest.mark.parametrize(
    ("line", "brokers", "is_ceiling"),
    [
        (LEARNED, CUT_OFF, True),
        # The leader may still have run: the line is printed before the fetcher is removed.
        (LEARNED, newer(sessions(*UP, "20 fence 3", "50 fence 1")), False),
        (LEARNED.replace("85", "57"), CUT_OFF, False),
        # Also beside the broker's next process, if that is on another machine.
        (LEARNED, newer(sessions(*UP, "20 fence 3", "50 fence 1", "58 register 1 j1 d9")), False),
        # Its log may be a new one: the directory of the other one went.
        (LEARNED, newer(sessions(*UP, "20 fence 3", "30 offline 3 other", "50 fence 1", "58 register 1 j1")), False),
        # Of a process that had followed somebody else, or nobody.
        (LEARNED.replace("from=1/0", "from=-1/1"), CUT_OFF, False),
        (LEARNED.replace(" from=1/0", ""), CUT_OFF, False),
        # When it was logged is not known.
        (LEARNED.replace(" utc=85", ""), CUT_OFF, False),
    ],
)
def test_a_member_that_learns_late_of_the_next_leader_says_where_its_log_ended(
    line: str, brokers: BrokerTimeline, is_ceiling: bool
) -> None:
    found = window(logged(WON, line), brokers, history=MEMBER_LEFT, processes=RAN_ON)
    assert (found["verdict"] == "excluded", MEMBER in codes(found)) == (is_ceiling, is_ceiling)


def test_the_leader_has_gone_when_another_process_of_it_has_loaded_its_logs() -> None:
    """One that only logged its start may be a tool, or did not get the lock (LogManager.lockLogDirs)."""
    brokers = newer(sessions(*UP, "20 fence 3", "50 fence 1"))
    processes = {**RAN_ON, (1, 1): LoggedProcess(ms(55), (ms(58), ms(90)))}
    for lines, is_ceiling in (((LEARNED, "b1 loads t=59 utc=59 at=150"), True), ((LEARNED,), False)):
        found = window(logged(WON, *lines), brokers, history=MEMBER_LEFT, processes=processes)
        assert (found["verdict"] == "excluded", MEMBER in codes(found)) == (is_ceiling, is_ceiling)


# H10: which log ends a leader counted.

LED_BETWEEN = (
    "10 isr=1,2,3",
    "30 isr=1,2,3 leader=2",
    "40 isr=1,3 leader=1",
    "50 isr=3 leader=-1",
    "60 isr=3 leader=3",
)
ALL_UP = sessions(*UP, "39 fence 2", "49 shutdown 1", "51 fence 1")


def test_a_leader_that_may_not_have_learned_who_led_between_may_count_old_log_ends() -> None:
    """It applies its own epochs in one delta, without the one between (Kafka's Replica.resetReplicaState)."""
    # What it learned after it led again shows nothing.
    for lines in ((), ("b1 follows -1 e3 p3 at=95 hw=95 from=1/2",)):
        found = window(logged(*lines), ALL_UP, history=LED_BETWEEN)
        assert (found["verdict"] == "excluded", "not_held_old_log_ends" in codes(found)) == (False, True)


def test_who_led_before_a_snapshot_may_count_old_log_ends() -> None:
    history = ("10 checkpoint isr=1,2,3 leader=2 epoch=5", *LED_BETWEEN[2:])
    assert "not_held_old_log_ends" in codes(window(logged(), ALL_UP, history=history))


def test_an_election_after_one_that_may_count_old_log_ends_is_judged() -> None:
    """Broker 1 leads again at 40 without having followed, and broker 2, which had followed, after it."""
    history = (
        "10 isr=1,2,3",
        "20 isr=1,2,3 leader=2",
        "25 isr=1,3 leader=3",
        "30 isr=1,2,3",
        "40 isr=1,2,3 leader=1",
        "60 isr=1,2,3 leader=2",
    )
    assert "not_held_old_log_ends" in codes(window(logged(), sessions(*UP), history=history))


@pytest.mark.parametrize(
    ("lines", "brokers", "history"),
    [
        # Its own line of the epoch between, or of the one that it knew before it led again.
        (("b1 follows 2 e1 p1 at=95 hw=95 from=1/0",), ALL_UP, LED_BETWEEN),
        (("b1 leads e2 p2 at=95 hw=95 from=2/1",), ALL_UP, LED_BETWEEN),
        # Another process.
        (
            (),
            sessions(*UP, "33 register 1 j1", "34 unfence 1", "39 fence 2", "49 shutdown 1", "51 fence 1"),
            LED_BETWEEN,
        ),
        # The leader between took it into the ISR, so it had followed.
        ((), ALL_UP, (LED_BETWEEN[0], "30 isr=2,3 leader=2", "35 isr=1,2,3", *LED_BETWEEN[2:])),
        # Nobody led between.
        ((), ALL_UP, (LED_BETWEEN[0], "30 isr=1,3 leader=-1", *LED_BETWEEN[2:])),
        # It had never led before.
        ((), ALL_UP, ("10 isr=1,2,3 leader=2", *LED_BETWEEN[2:])),
    ],
)
def test_a_leader_that_began_anew_counts_no_old_log_ends(
    lines: tuple[str, ...], brokers: BrokerTimeline, history: tuple[str, ...]
) -> None:
    found = window(logged(*lines), brokers, history=history)
    assert (found["verdict"], "premise_log_ends_current" in codes(found)) == ("excluded", True)


# L7: which records two logs share.


def test_a_tail_that_later_leaders_replaced_is_not_shared() -> None:
    """Broker 3 was away while broker 2 led from 60 on; its own log ended at 90."""
    history = ("10 isr=1,2,3", "20 isr=1,2", "30 isr=2 leader=2", "50 isr= leader=-1", "60 isr=3 leader=3 recovering")
    lines = logged(
        "b2 leads e1 p2 at=60 hw=60 from=1/0",
        "b2 follows 3 e3 p4 at=100 hw=100 from=2/1",
        "b3 leads e3 p4 at=90 hw=50 from=-1/2",
    )
    brokers = sessions(*UP, "29 fence 1", "50 fence 2", "70 unfence 2")
    found = window(lines, brokers, history=history, machines=SAME)
    assert (found["loss_min"], found["loss_max"]) == (10, 40)
    assert found["first_lost_offset"] is None


@pytest.mark.parametrize(("epoch", "verdict"), [(0, "excluded"), (5, "possible")])
def test_logs_may_have_parted_before_the_partition_came_from_zookeeper(epoch: int, verdict: str) -> None:
    """A migration records the leader epoch that it has. Broker 2 may have a tail of an earlier one."""
    history = (f"10 isr=1,3 epoch={epoch}", *UNCLEAN[1:])
    won = f"b2 leads e{epoch + 2} p3 at=150 hw=80 from=-1/{epoch + 1}"
    lines = logged(won, f"b1 follows 2 e{epoch + 2} p3 at=150 hw=140 from=1/{epoch}")
    assert window(lines, history=history)["verdict"] == verdict


def test_a_tail_that_the_last_leader_kept_is_not_shared() -> None:
    """Broker 3 was away while broker 2 led from 60 on, and led later with a tail up to 90 from before that."""
    history = (
        "10 isr=1,2,3",
        "20 isr=1,2",
        "30 isr=2 leader=2",
        "50 isr= leader=-1",
        "60 isr=3 leader=3 recovering",
        "70 isr= leader=-1",
        "80 isr=2 leader=2 recovering",
    )
    lines = logged(
        "b2 leads e1 p2 at=60 hw=60 from=1/0",
        "b3 leads e3 p4 at=90 hw=50 from=-1/2",
        "b2 leads e5 p6 at=100 hw=60 from=-1/4",
        "b3 follows 2 e5 p6 at=95 hw=95 from=3/3",
    )
    assert window(lines, sessions(*UP), history=history, at=80)["loss_max"] == 35


TWO_DIRECTORIES = ("1 register 1 i1 d1,d9", "2 register 2 i2", "3 register 3 i3 d3,d9", *UP[3:])


@pytest.mark.parametrize(
    ("history", "more", "lines"),
    [
        # Broker 3 followed broker 2, which led from 90 on.
        (
            ("10 isr=1,2,3", "20 isr=2,1 leader=2", "30 isr=2,1,3", "45 isr=2", "50 leader=-1", "60 isr=3 leader=3"),
            ("44 fence 3", "50 fence 2", "52 register 3 j3 d3,d9", "53 unfence 3", "70 unfence 2"),
            (
                "b2 leads e1 p1 at=90 hw=90 from=1/0 utc=20.2",
                "b3 leads e3 p5 at=100 hw=90 from=-1/2 utc=60.2",
                "b2 follows 3 e3 p5 at=97 hw=95 from=2/1 utc=60.4",
            ),
        ),
        # It did for so long that what it had truncated was on disk.
        (
            ("10 isr=1,2,3", "20 isr=2,1 leader=2", "30 isr=2,1,3", "145 isr=2", "150 leader=-1", "160 isr=3 leader=3"),
            ("144 fence 3", "150 fence 2", "152 register 3 j3 d3,d9", "153 unfence 3", "170 unfence 2"),
            (
                "b2 leads e1 p1 at=90 hw=90 from=1/0 utc=20.2",
                "b3 leads e3 p5 at=100 hw=90 from=-1/2 utc=160.2",
                "b2 follows 3 e3 p5 at=97 hw=95 from=2/1 utc=160.4",
            ),
        ),
        # Broker 1 did, and led then.
        (
            ("10 isr=1,2,3", "20 isr=2,1 leader=2", "30 isr=1 leader=1", "50 isr= leader=-1", "60 isr=1 leader=1"),
            ("29 fence 2", "50 fence 1", "52 register 1 j1 d1,d9", "53 unfence 1"),
            ("b1 leads e2 p2 at=92 hw=90 from=2/1 utc=30.1", "b1 leads e4 p4 at=100 hw=90 from=-1/3 utc=60.2"),
        ),
    ],
)
def test_a_log_from_another_directory_may_have_a_tail_that_was_truncated_in_the_first_one(
    history: tuple[str, ...], more: tuple[str, ...], lines: tuple[str, ...]
) -> None:
    """It was moved there: the new log had 100 offsets of epoch 0, and its thread hung before it had followed."""
    brokers = newer(sessions(*TWO_DIRECTORIES, *more))
    for first, kept in (("d1,d2,d3", True), ("d9,d2,d9", False)):
        moved = (f"{history[0]} dirs={first}", *(f"{line} dirs=d1,d2,d3" for line in history[1:]))
        found = window(logged(*lines), brokers, history=moved, machines=SAME, at=int(history[-1].split()[0]))
        assert (found["verdict"] == "excluded") == kept


def test_a_truncation_may_not_be_on_disk_when_the_power_fails() -> None:
    """Broker 3 followed broker 2 from 90 on, lost its power, and came back with the 100 offsets that it had before."""
    history = ("10 isr=1,2,3", "20 isr=2,1 leader=2", "30 isr=2,1,3", "45 isr=2", "50 leader=-1", "60 isr=3 leader=3")
    lines = logged(
        "b2 leads e1 p1 at=90 hw=90 from=1/0 utc=20.2",
        "b3 leads e3 p5 at=100 hw=90 from=-1/2 utc=60.2",
        "b2 follows 3 e3 p5 at=97 hw=95 from=2/1 utc=60.4",
    )
    again = ("44 fence 3", "52 register 3 j3", "53 unfence 3")
    for more, machines, kept in (((), {}, True), (again, boots("3 c@8 c@95"), True), (again, {}, False)):
        brokers = sessions(*UP, *more, "70 fence 2")
        assert (window(lines, brokers, history=history, machines=machines)["verdict"] == "excluded") == kept


# Broker 2 was dead when it was elected at 30, as the preferred leader, and is elected again at 60, uncleanly.
DEAD = ("10 isr=1,2", "30 leader=2", "40 isr=1 leader=1", "50 isr= leader=-1", "60 isr=2 leader=2 recovering")
DIED = sessions(*UP, "40 fence 2", "50 fence 1", "57 register 2 j2", "58 unfence 2", "70 unfence 1")
TOOK_OVER = ("b1 leads e2 p2 at=80 hw=80 from=2/1", "b2 leads e4 p4 at=80 hw=0 from=-1/3")
KNEW = "b1 follows 2 e4 p4 at=80 hw=80 from=1/2"


@pytest.mark.parametrize(
    ("before", "brokers", "most"),
    [
        ("b1 follows 2 e1 p1 at=80 hw=80 from=1/0", DIED, 0),
        ("b1 follows 2 e1 p1 at=80 hw=70 from=1/0", DIED, 10),
        # Read by a process that may have learned of it in that epoch; and of nobody.
        ("b1 follows 2 e1 p1 at=80 hw=80", DIED, None),
        ("b1 stays e2 p2 hw=80", DIED, None),
        # It had registered again since it was taken into the ISR: it may have begun with less.
        (
            "b1 follows 2 e1 p1 at=80 hw=80 from=1/0",
            sessions(*UP, "20 register 2 j1", "40 fence 2", "50 fence 1"),
            None,
        ),
    ],
)
def test_a_leader_that_said_nothing_began_above_the_high_watermark_or_not_at_all(
    before: str, brokers: BrokerTimeline, most: int | None
) -> None:
    found = window(logged(*TOOK_OVER, KNEW, before), brokers, history=DEAD, machines=SAME)
    assert found["loss_max"] == most


def test_a_high_watermark_of_an_earlier_log_says_nothing_of_such_a_leader() -> None:
    """Broker 1 was elected uncleanly at 15, so what broker 3 had reached before may be gone."""
    history = ("10 isr=3 leader=3", "15 isr=1 leader=1 recovering", "20 isr=1,2", *DEAD[1:])
    lines = [TOOK_OVER[0].replace("e2 p2", "e3 p4").replace("2/1", "2/2"), "b2 leads e5 p6 at=80 hw=0 from=-1/4"]
    lines += ["b1 leads e1 p1 at=80 hw=0 from=3/0", "b1 follows 2 e5 p6 at=80 hw=80 from=1/3"]
    own, earlier = "b1 follows 2 e2 p3 at=80 hw=80 from=1/1", "b1 follows 3 e0 p0 at=90 hw=90"
    found = [window(logged(*lines, line), DIED, history=history, machines=SAME) for line in (own, earlier)]
    assert [each["loss_max"] for each in found] == [0, None]


# H7: whose leaders may have been two processes.


def test_a_leader_whose_machine_ran_on_was_as_good_as_one_process() -> None:
    stays = logged(WON, "b1 stays e0 p1 hw=80")
    line = "70 b2 e0@0 e2@80"
    without = window(stays, AGAIN, line)
    assert "missing_word_of_process" in codes(without)
    assert "log_end" in codes(window(stays, AGAIN, line, machines=SAME))


@pytest.mark.parametrize(("damaged", "verdict"), [("b1 damaged", "possible"), ("b1 damaged utc=55", "possible")])
def test_damage_found_at_a_start_voids_what_a_boot_id_shows(damaged: str, verdict: str) -> None:
    found = window(logged(WON, CAME_BACK, damaged), KILLED, machines=SAME)
    assert found["verdict"] == verdict
    assert ("contradicted_by_corruption" in codes(found), "ceiling_logged_log_end" in codes(found)) == (True, False)


@pytest.mark.parametrize(("failed", "verdict"), [(None, "possible"), (49, "possible"), (900, "excluded")])
def test_a_disk_that_failed_lost_what_was_not_on_it_although_its_machine_ran_on(
    failed: int | None, verdict: str
) -> None:
    """Linux drops a page that it cannot write; Kafka halts, and the next process finds a shorter log."""
    errors: dict[int, list[int | None]] = {1: [failed and ms(failed)]}
    found = window(logged(WON, CAME_BACK), KILLED, machines=SAME, disk_errors=errors)
    assert found["verdict"] == verdict


@pytest.mark.parametrize(
    ("earlier", "died", "verdict"), [("t", 50, "possible"), ("u", 50, "excluded"), ("t", 90, "excluded")]
)
def test_a_log_of_a_name_that_was_used_before_may_be_emptied_at_a_start(earlier: str, died: int, verdict: str) -> None:
    """log-start-offset-checkpoint has names. Broker 1 was down when the earlier topic was deleted, and its next process
    is killed before it writes that file again: a start deletes the log, which ends below what the file says."""
    history = (*UNCLEAN[:2], f"{died} isr= leader=-1", "100 isr=2 leader=2 recovering", "110 isr=2,3 recovered")
    brokers = sessions(*UP, f"{died} fence 1", "120 register 1 j1")
    never = config_timeline(MIN_ISR, [], [], {})
    known = {"configs": ElectionConfigs({TOPIC_ID: "t", "earlier": earlier}, never, never)}
    machines = boots("1 a@8 a@125", "2 b@8 b@125", "3 c@8 c@125")
    found = window(logged(WON, CAME_BACK), brokers, history=history, machines=machines, at=100, **known)
    assert found["verdict"] == verdict


def test_damage_found_long_after_voids_nothing() -> None:
    assert window(logged(WON, CAME_BACK, "b1 damaged utc=900"), KILLED, machines=SAME)["verdict"] == "excluded"


# Windows that only lines show.


def test_a_clean_election_is_judged_when_lines_speak_against_it() -> None:
    history = ("10 isr=1,2,3", "60 isr=2,3 leader=2")
    lines = logged("b2 leads e1 p1 at=80 hw=80 from=1/0", "b1 follows 2 e1 p1 at=150 hw=150 from=1/0")
    assert window(lines, history=history)["verdict"] == "proven"
