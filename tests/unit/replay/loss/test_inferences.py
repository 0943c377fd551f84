"""Each inference of a verdict by itself, with the statement that names it (docs/findings.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replay.cluster.boots import BootReading
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import ClusterFacts
from replay.controller.acceptable_leaders import UNASSIGNED
from replay.controller.transitions import Bucket
from replay.loss.election_facts import Contradictions
from replay.loss.judged_windows import judged_windows
from replay.offsets.clean_stops import left_behind
from tests.support.broker_log_lines import logged
from tests.support.detection import judged_window, statements
from tests.support.scenario import elr_levels, evidence, ms, newer, offsets_table, sessions, states, up

Row = dict[str, Any]

# The brokers' sessions have metadata offsets 1, 2, 3; broker 1 led, broker 2 was elected uncleanly at 60.
UP = up(1, 2, 3)
UNCLEAN = ("10 isr=1,2,3", "20 isr=1", "50 isr= leader=-1", "60 isr=2 leader=2 recovering", "80 isr=2,3 recovered")
LINE = "70 b2 e0@0 e2@80"


def window(history: tuple[str, ...], *lines: str, **around: Any) -> tuple[str, int, int | None, dict[str, Row]]:
    found = judged_window(history, *lines, **around)
    return found["verdict"], found["loss_min"], found["loss_max"], statements(found)


KILLED = sessions(*UP, "50 fence 1")
STOPPED = sessions(*UP, "49 shutdown 1", "51 fence 1")
# Another process of the leader registered within its term.
REGISTERED_AGAIN = ("40 register 1 j1", "41 unfence 1", "50 fence 1")
AGAIN = sessions(*UP, *REGISTERED_AGAIN)


# Floors.

# Brokers 2 and 3 are fenced all the while.
ALONE = sessions(*UP, "18 fence 2", "18 fence 3", "50 fence 1", "55 unfence 2")
ALONE_HISTORY = ("10 isr=1,2,3 min=1", *UNCLEAN[1:])
TWO_READINGS = ("30 b1 isr=1 under=0 leo=150 proc=0", "33 b1 isr=1 under=0 leo=151 proc=0")
# Broker 1 has one request thread.
ONE = {1: 1}


def test_a_leader_alone_in_its_isr_has_its_high_watermark_at_its_logs_end() -> None:
    verdict, least, _, said = window(ALONE_HISTORY, *TWO_READINGS, LINE, brokers=ALONE, request_threads=ONE)
    assert (verdict, least, said["floor_leader_alone"]["value"]) == ("proven", 70, 150)


@pytest.mark.parametrize(
    ("ends", "known", "floor"),
    [
        # A thread has appended up to 150 and waits for the log to commit it: another one has its lock, and waits for a
        # disk (UnifiedLog.append, maybeIncrementHighWatermark, 4.3.1). The log end stands still meanwhile.
        ((150, 150, 150), {"request_threads": ONE}, None),
        ((150, 151, 152), {"request_threads": {1: 3}}, None),
        ((150, 151, 151, 152), {"request_threads": {1: 2}}, 150),
        ((150, 151, 152, 153), {"request_threads": {1: 2}}, 151),
        ((150, 151), {}, None),
        # Its coordinator's threads append, too.
        ((150, 151), {"request_threads": ONE, "topic": "__consumer_offsets"}, None),
    ],
)
def test_each_request_thread_may_have_appended_what_is_not_yet_committed(
    ends: tuple[int, ...], known: dict[str, Any], floor: int | None
) -> None:
    shown = [f"{30 + 3 * at} b1 isr=1 under=0 leo={end} proc=0" for at, end in enumerate(ends)]
    *_, said = window(ALONE_HISTORY, *shown, LINE, brokers=ALONE, **known)
    assert said.get("floor_leader_alone", {"value": None})["value"] == floor


@pytest.mark.parametrize(
    ("readings", "brokers"),
    [
        (TWO_READINGS[:1], ALONE),
        (("30 b1 isr=1 under=0 leo=150 proc=0", "33 b1 isr=1 under=0 leo=151 proc=31"), ALONE),
        (("30 b1 isr=1 under=0 leo=150 proc=0", "33 b1 isr=1 under=0 leo=150 proc=0"), ALONE),
        (("30 b1 isr=1 under=1 leo=150 proc=0", "33 b1 isr=1 under=1 leo=151 proc=0"), ALONE),
        # The leader still counted another member when it had that log end.
        (("30 b1 isr=2 under=0 leo=150 proc=0", "33 b1 isr=1 under=0 leo=151 proc=0"), ALONE),
        # Too soon after the others left, and with a follower that runs.
        (("22 b1 isr=1 under=0 leo=150 proc=0", "24 b1 isr=1 under=0 leo=151 proc=0"), ALONE),
        (TWO_READINGS, sessions(*UP, "18 fence 2", "50 fence 1")),
    ],
)
def test_what_does_not_show_that_a_leader_was_alone(readings: tuple[str, ...], brokers: BrokerTimeline) -> None:
    *_, said = window(ALONE_HISTORY, *readings, LINE, brokers=brokers, request_threads=ONE)
    assert "floor_leader_alone" not in said


@pytest.mark.parametrize(
    "second",
    [
        # Broker 3 is a member by the metadata log: it may hold the high watermark back.
        ("20 isr=1,3",),
        # Min ISR was lowered while it led: it moves its high watermark with the next append only.
        ("20 isr=1 min=2", "22 min=1"),
    ],
)
def test_what_the_metadata_log_must_show_of_a_lone_leader(second: tuple[str, ...]) -> None:
    history = (ALONE_HISTORY[0], *second, *ALONE_HISTORY[2:])
    *_, said = window(history, *TWO_READINGS, LINE, brokers=ALONE, request_threads=ONE)
    assert "floor_leader_alone" not in said


def test_a_lone_leader_of_a_snapshot_may_have_had_another_min_isr_before() -> None:
    """It was lowered before the snapshot, and nothing was written since."""
    for first, known in (("19", True), ("19 checkpoint", False)):
        history = (f"{first} isr=1 min=1", *ALONE_HISTORY[2:])
        *_, said = window(history, *TWO_READINGS, LINE, brokers=ALONE, request_threads=ONE)
        assert ("floor_leader_alone" in said) == known


def test_a_replica_that_was_active_when_a_leader_was_left_alone_may_hold_its_high_watermark_back() -> None:
    """It may have caught up; to fence it does not move the high watermark."""
    brokers = sessions(*UP, "18 fence 3", "22 fence 2", "60 fence 1", "65 unfence 2")
    history = (*ALONE_HISTORY[:2], "60 isr= leader=-1", "70 isr=2 leader=2 recovering", "90 isr=2,3 recovered")
    readings = ("34 b1 isr=1 under=0 leo=150 proc=0", "37 b1 isr=1 under=0 leo=151 proc=0")
    line = "80 b2 e0@0 e2@80"
    *_, said = window(history, *readings, line, brokers=brokers, at=70, request_threads=ONE)
    assert "floor_leader_alone" not in said
    # It was fenced in the same millisecond, a record later.
    at_once = (history[0], f"{history[1]} at=22", *history[2:])
    *_, said = window(at_once, *readings, line, brokers=brokers, at=70, request_threads=ONE)
    assert "floor_leader_alone" not in said
    brokers = sessions(*UP, "18 fence 3", "20 fence 2", "60 fence 1", "65 unfence 2")
    *_, said = window(history, *readings, line, brokers=brokers, at=70, request_threads=ONE)
    assert "floor_leader_alone" in said


# Broker 1 led alone from 20 on and died before 50; its log was read later, and has four batches from 130 on.
LEFT = "70 b1 heads=120,130,135,140,145:150/0"
SAYS_THAT_IT_IS_ALONE = "30 b1 isr=1 under=0"
FOUR = {1: 4}


def test_the_log_of_a_lone_leader_shows_its_high_watermark_but_for_a_batch_a_thread() -> None:
    shown = (SAYS_THAT_IT_IS_ALONE, LEFT, LINE)
    verdict, least, _, said = window(ALONE_HISTORY, *shown, brokers=ALONE, request_threads=FOUR)
    assert (verdict, least, said["floor_lone_leaders_log"]["value"]) == ("proven", 50, 130)


@pytest.mark.parametrize(
    ("shown", "known"),
    [
        # The controller hears from it, so it has applied the change that left it alone, unless it says otherwise.
        ((), True),
        (("30 b1 isr=1",), True),
        (("30 b1 isr=3 under=0",), False),
        (("30 b1 isr=0 under=0",), False),
        # By its own config there are too few in sync.
        (("30 b1 isr=1 under=1",), False),
        # It need not know yet, or the text is from before it was alone, from after its term, or of another broker.
        (("22 b1 isr=3 under=0",), True),
        (("19 b1 isr=3 under=0",), True),
        (("51 b1 isr=0 under=0",), True),
        (("30 b3 isr=3 under=0",), True),
    ],
)
def test_a_lone_leader_that_says_that_others_count_may_still_wait_for_them(shown: tuple[str, ...], known: bool) -> None:
    *_, said = window(ALONE_HISTORY, *shown, LEFT, LINE, brokers=ALONE, request_threads=FOUR)
    assert ("floor_lone_leaders_log" in said) == known


@pytest.mark.parametrize(
    ("history", "read", "brokers", "known"),
    [
        # Nobody knows how many threads it had, or its log has fewer batches than threads.
        (ALONE_HISTORY, LEFT, ALONE, {}),
        (ALONE_HISTORY, LEFT, ALONE, {"request_threads": {1: 6}}),
        # The log ends in an epoch that it did not lead, or is another broker's.
        (ALONE_HISTORY, LEFT.replace("/0", "/7"), ALONE, {"request_threads": FOUR}),
        (ALONE_HISTORY, LEFT.replace("b1", "b3"), ALONE, {"request_threads": FOUR | {3: 4}}),
        # Min ISR was 2, or was the default of the controllers only.
        (UNCLEAN, LEFT, ALONE, {"request_threads": FOUR}),
        (("10 isr=1,2,3 min=1 source=default", *UNCLEAN[1:]), LEFT, ALONE, {"request_threads": FOUR}),
        # A follower ran on; or it was not alone for long enough, and never said that it knew.
        (ALONE_HISTORY, LEFT, sessions(*UP, "18 fence 2", "50 fence 1"), {"request_threads": FOUR}),
        (("10 isr=1,2,3 min=1", "47 isr=1", *UNCLEAN[2:]), LEFT, ALONE, {"request_threads": FOUR}),
        # It was not alone at the end of its term: a member may hold the high watermark back.
        (("10 isr=1,2,3 min=1", "20 isr=1,3", *UNCLEAN[2:]), LEFT, ALONE, {"request_threads": FOUR}),
        # Another process of it served, too, or brokers append to the topic by themselves.
        (ALONE_HISTORY, LEFT, sessions(*UP, "18 fence 2", "18 fence 3", *REGISTERED_AGAIN), {"request_threads": FOUR}),
        (ALONE_HISTORY, LEFT, ALONE, {"request_threads": FOUR, "topic": "__consumer_offsets"}),
    ],
)
def test_what_does_not_show_a_lone_leaders_high_watermark(
    history: tuple[str, ...], read: str, brokers: BrokerTimeline, known: Row
) -> None:
    *_, said = window(history, SAYS_THAT_IT_IS_ALONE, read, LINE, brokers=brokers, **known)
    assert "floor_lone_leaders_log" not in said


@pytest.mark.parametrize(
    ("line", "fenced", "floor"),
    [
        ("b1 stays e0 p1 hw=0 t=48 utc=48", 58, True),
        # Its line names the state before: it may still wait for the other members.
        ("b1 stays e0 p0 hw=0 t=48 utc=48", 58, False),
        # The line may be of a process that started inside its session: nobody could reach that one.
        ("b1 stays e0 p1 hw=0 t=48 utc=48", 50, False),
    ],
)
def test_a_lone_leader_for_a_short_time_must_say_so_while_it_runs(line: str, fenced: int, floor: bool) -> None:
    history = ("10 isr=1,2,3 min=1", "47 isr=1", *UNCLEAN[2:])
    brokers = sessions(*UP, "18 fence 2", "18 fence 3", "55 unfence 2", f"{fenced} fence 1")
    *_, said = window(history, LEFT, LINE, brokers=brokers, request_threads=FOUR, logs=logged(line))
    assert ("floor_lone_leaders_log" in said) == floor


@pytest.mark.parametrize(
    ("read", "floor"), [("48 b1 isr=1 under=0", True), ("46 b1 isr=1 under=0", False), ("48 b1 isr=1", False)]
)
def test_or_its_exporter_must_say_so(read: str, floor: bool) -> None:
    history = ("10 isr=1,2,3 min=1", "47 isr=1", *UNCLEAN[2:])
    brokers = sessions(*UP, "18 fence 2", "18 fence 3", "55 unfence 2", "58 fence 1")
    *_, said = window(history, read, LEFT, LINE, brokers=brokers, request_threads=FOUR)
    assert ("floor_lone_leaders_log" in said) == floor


# Ceilings.


def test_a_clean_stop_that_a_second_round_confirms_is_a_ceiling() -> None:
    rounds = ("54 b1 rp=80/1", "57 b1 rp=80/1")
    verdict, _, most, said = window(UNCLEAN, *rounds, LINE, brokers=STOPPED)
    assert (verdict, most, said["ceiling_clean_stop"]["value"]) == ("excluded", 0, 80)
    assert "nothing_lost" in said
    assert said["unacked_at_most"]["value"] == 0
    verdict, *_, said = window(UNCLEAN, rounds[0], LINE, brokers=STOPPED)
    assert (verdict, "ceiling_clean_stop" in said) == ("possible", False)


@pytest.mark.parametrize(
    ("rounds", "brokers"),
    [
        # Read after the election: it may have followed the new leader, and truncated, before it stopped.
        (("63 b1 rp=80/1", "67 b1 rp=80/1"), STOPPED),
        # The broker's next process, on another machine, had registered: this one may have run on beside it.
        (("63 b1 rp=80/1", "67 b1 rp=80/1"), sessions(*UP, "50 fence 1", "55 register 1 j1 d9")),
        # Another process of it registered and led on after that stop.
        (("12 b1 rp=80/1", "14 b1 rp=80/1"), sessions(*UP, "15 register 1 j1", "16 unfence 1", "50 fence 1")),
        # Of a future log: nothing shows that the directory with this file has the log itself, and the broker has two.
        (("54 b1 rp=80/1 future", "57 b1 rp=80/1 future"), STOPPED),
        # The earlier round had the file of that directory only: the broker stops one directory after the other.
        (("54 b1 rp=80/1 future", "57 b1 rp=80/1"), STOPPED),
        # The disk was full when it wrote the recovery points, and not when it wrote the file of its clean stop.
        (("54 b1 rp=80/1", "57 b1 rp=80/1 tail=90/0/1"), STOPPED),
        # The same with no record of the partition after that registration but the one that ends the leader's term.
        (("36 b1 rp=80/1", "39 b1 rp=80/1"), AGAIN),
    ],
)
def test_what_is_not_the_log_end_of_a_leader_that_stopped(rounds: tuple[str, ...], brokers: BrokerTimeline) -> None:
    *_, said = window(UNCLEAN, *rounds, LINE, brokers=brokers)
    assert "ceiling_clean_stop" not in said


@pytest.mark.parametrize(("last", "known"), [(40, True), (32, False)])
def test_a_leader_that_stopped_before_it_was_elected_bounds_nothing(last: int, known: bool) -> None:
    """Broker 2, alone in the ISR and cut off from the controllers, goes on: nothing has told it that broker 1, whose
    log is empty, was elected at 30."""
    history = ("10 isr=1,2,3 leader=2", "20 isr=2", "30 isr=1 leader=1 recovering", f"{last} isr= leader=-1")
    brokers = sessions(*UP, "30 fence 2", f"{last} fence 1")
    rounds = (f"{last - 5} b1 rp=0/1", f"{last - 3} b1 rp=0/1")
    verdict, *_, said = window((*history, "60 isr=3 leader=3 recovering"), *rounds, brokers=brokers)
    assert (verdict == "excluded", "ceiling_clean_stop" in said) == (known, known)


@pytest.mark.parametrize(("mark", "is_last"), [(80, True), (81, False)])
def test_a_recovery_point_below_the_high_watermark_beside_it_was_not_written_at_the_stop(
    mark: int, is_last: bool
) -> None:
    left = left_behind(evidence("54 b1 rp=80/1", f"57 b1 rp=80/1 hw={mark}"))
    assert ((1, 1) in left) == is_last


# Its min ISR is a default, which other brokers need not share; so only its own word counts.
DEFAULTS = ("10 isr=1,2,3 source=default", *UNCLEAN[1:])
OWN_WORD = ("30 b1 isr=1 under=1 leo=79 proc=0", "33 b1 isr=1 under=1 leo=80 proc=0")


def test_a_leader_that_says_itself_that_it_is_below_min_isr_bounds_the_high_watermark() -> None:
    verdict, _, most, said = window(DEFAULTS, *OWN_WORD, LINE, brokers=newer(STOPPED))
    assert (verdict, most, said["ceiling_leaders_own_word"]["value"]) == ("excluded", 0, 80)


GROWN = ("10 isr=1,2,3 source=default", "20 isr=1,2", "28 isr=1", "31 isr=1,3", *DEFAULTS[2:])
# Broker 2 was away twice. The leader may still be at the first time: it waits for a disk, and sends heartbeats.
AWAY_TWICE = ("14 isr=1", "15 isr=1,2", *UNCLEAN[1:])


@pytest.mark.parametrize(
    ("history", "texts", "brokers"),
    [
        (DEFAULTS, OWN_WORD[:1], newer(STOPPED)),
        (DEFAULTS, (OWN_WORD[0], "33 b1 isr=1 under=1 leo=80 proc=31"), newer(STOPPED)),
        # The texts overlap: the log end may be from before it was below min ISR.
        (DEFAULTS, (OWN_WORD[0], "30.4 b1 isr=1 under=1 leo=80 proc=0"), newer(STOPPED)),
        # A process that started inside the session of the killed leader may have less.
        (DEFAULTS, tuple(f"{at} b1 isr=1 under=1 leo=80 proc=45" for at in (47, 49)), newer(KILLED)),
        (DEFAULTS, ("30 b1 isr=1 under=0 leo=79 proc=0", "33 b1 isr=1 under=0 leo=80 proc=0"), newer(STOPPED)),
        # An older broker's high watermark goes on; an ISR that grows may lift it.
        (DEFAULTS, OWN_WORD, STOPPED),
        (GROWN, OWN_WORD, newer(STOPPED)),
        ((DEFAULTS[0], *AWAY_TWICE), OWN_WORD, newer(STOPPED)),
        # It was led by another one since then, which may have had another min ISR.
        (
            ("10 isr=1 source=default", "14 isr=1 leader=2", "15 isr=1 leader=1", *DEFAULTS[2:]),
            OWN_WORD,
            newer(STOPPED),
        ),
    ],
)
def test_what_is_not_a_leaders_own_word(
    history: tuple[str, ...], texts: tuple[str, ...], brokers: BrokerTimeline
) -> None:
    *_, said = window(history, *texts, LINE, brokers=brokers)
    assert "ceiling_leaders_own_word" not in said


def test_below_min_isr_the_leaders_log_end_counts_once_it_surely_knew() -> None:
    margin_s = 5  # of the session, and a second more
    verdict, _, most, said = window(UNCLEAN, f"{20 + margin_s}.1 b1 isr=1 under=1 leo=80", LINE, brokers=newer(STOPPED))
    assert (verdict, most, said["ceiling_below_min_isr"]["value"]) == ("excluded", 0, 80)
    for reading, brokers in (
        (f"{20 + margin_s} b1 isr=1 under=1 leo=80", newer(STOPPED)),
        ("30 b1 isr=1 under=1 leo=80", STOPPED),
        # A process that started inside the session of the killed leader may have less.
        ("48 b1 isr=1 under=1 leo=80", newer(KILLED)),
    ):
        assert "ceiling_below_min_isr" not in window(UNCLEAN, reading, LINE, brokers=brokers)[3]
    # It may not have applied the state, although the controller hears from it: its exporter must say so, too.
    for shown in ("", "isr=1 ", "under=1 ", "isr=2 under=0 ", "isr=0 under=0 "):
        assert "ceiling_below_min_isr" not in window(UNCLEAN, f"30 b1 {shown}leo=80", LINE, brokers=newer(STOPPED))[3]
    # What it says must not be true of an earlier state, too.
    for away, counts in ((AWAY_TWICE, False), (("14 isr=1,3", *AWAY_TWICE[1:]), True)):
        said = window((UNCLEAN[0], *away), "30 b1 isr=1 under=1 leo=80", LINE, brokers=newer(STOPPED))[3]
        assert ("ceiling_below_min_isr" in said) == counts
    # An earlier text shows that it has left that state behind.
    for shown, counts in (
        ("17 b1 isr=2 under=0", True),
        ("17 b1 isr=1 under=1", False),
        ("12 b1 isr=3 under=0", False),
    ):
        texts = (shown, "30 b1 isr=1 under=1 leo=80")
        said = window((UNCLEAN[0], *AWAY_TWICE), *texts, LINE, brokers=newer(STOPPED))[3]
        assert ("ceiling_below_min_isr" in said) == counts
    # A new controller treats it as just heard from.
    took_over = ((ms(22), ms(27)),)
    for time, counts in ((26, False), (32, False), (32.1, True)):
        said = window(UNCLEAN, f"{time} b1 isr=1 under=1 leo=80", LINE, brokers=newer(STOPPED), fail_overs=took_over)[3]
        assert ("ceiling_below_min_isr" in said) == counts


def test_what_a_leader_had_is_not_lost_with_the_election_if_a_snapshot_hides_another_process() -> None:
    for first, is_known in (("10", True), ("10 checkpoint", False)):
        *_, said = window((f"{first} isr=1,2,3", *UNCLEAN[1:]), "33 b1 leo=150", LINE, brokers=KILLED)
        assert ("unacked_at_least" in said) == is_known


def test_a_leader_that_registered_again_leaves_it_open_what_its_log_shared() -> None:
    """Nothing below min ISR was acknowledged, but broker 2 may have followed a process that had less. A process that
    crashed and never registered reached nobody."""
    assert window(UNCLEAN, "33 b1 isr=1 under=1 leo=80", LINE, brokers=newer(KILLED))[0] == "excluded"
    verdict, _, most, said = window(UNCLEAN, "33 b1 isr=1 under=1 leo=80", LINE, brokers=newer(AGAIN))
    assert (verdict, most, said["ceiling_below_min_isr"]["value"]) == ("possible", None, 80)
    assert "log_end_at_most" in said
    assert "log_end" not in said


# Held by protocol.

HANDED_OVER = ("10 isr=1,2,3", "50 isr=2,3 leader=-1", "60 isr=2,3 leader=2")
PREMISES = {
    "premise_member",
    "premise_not_marked",
    "premise_no_registration",
    "premise_same_directory",
    "premise_alive",
    "premise_leaders_ran",
    "premise_log_ends_current",
}


def test_a_member_is_trusted_premise_by_premise() -> None:
    verdict, _, most, said = window(HANDED_OVER, brokers=STOPPED)
    assert (verdict, most) == ("excluded", 0)
    assert PREMISES | {"held_by_protocol"} <= said.keys()


@pytest.mark.parametrize(
    ("failing", "more"),
    [
        ("not_held_leader_may_have_restarted", REGISTERED_AGAIN),
        ("not_held_no_sign_of_life", ("49 shutdown 1", "51 fence 1", "62 fence 2")),
        ("not_held_registered_with_it", ("49 shutdown 1", "51 fence 1", "60 register 2 new batch=60")),
        ("restarted", ("49 shutdown 1", "51 fence 1", "54 register 2 new", "55 unfence 2")),
        ("not_held_directory_changed", ("49 shutdown 1", "51 fence 1", "55 offline 2 other")),
    ],
)
def test_a_premise_that_fails_is_named(failing: str, more: tuple[str, ...]) -> None:
    verdict, _, most, said = window(HANDED_OVER, brokers=sessions(*UP, *more))
    assert (verdict, most) != ("excluded", 0)
    assert failing in said
    assert "held_by_protocol" not in said


def test_a_new_controller_shows_no_sign_of_life() -> None:
    """It treats every broker as just heard from, so a broker fenced at 70 may have died before the election at 60."""
    brokers = sessions(*UP, "49 shutdown 1", "51 fence 1", "70 fence 2")
    for fail_overs, verdict in (((), "excluded"), (((ms(62), ms(67)),), "undetermined")):
        assert window(HANDED_OVER, brokers=brokers, fail_overs=fail_overs)[0] == verdict


@pytest.mark.parametrize(
    ("history", "elr"),
    [
        # It came into the ELR after the ISR of a leader with min ISR 1, by its own config: that one advanced alone.
        (("20 isr=1 elr=2 source=static", "30 source=topic", "50 isr= leader=-1", "60 isr=2 elr= leader=2"), True),
        # The feature was off, or min ISR was reached: the leader advanced alone.
        (("20 isr=1 elr=2", "50 isr= leader=-1", "60 isr=2 elr= leader=2"), False),
        (("20 isr=1 elr=2 min=1", "50 isr= leader=-1", "60 isr=2 elr= leader=2"), True),
        # Only the controller took it in, or only with the election's own batch.
        (("20 isr=1,3", "50 isr= leader=-1", "55 isr=2", "60 isr=2 leader=2"), False),
        (("20 isr=1,3", "59 isr=1,2,3", "60 isr=2,3 leader=-1 batch=59", "61 isr=2,3 leader=2 batch=59"), False),
    ],
)
def test_who_joined_without_having_caught_up_is_no_member(history: tuple[str, ...], elr: bool) -> None:
    at = int(history[-1].split()[0])
    *_, said = window(("10 isr=1,2,3", *history), brokers=STOPPED, elr=elr, at=at)
    assert "held_by_protocol" not in said


# A batch holds the smaller ISR for which leader 1 had asked, and an event that ends its term (BatchAccumulator.append,
# 3.9.1 to 4.3.1). The answer may reach it first, and it commits alone (Partition.submitAlterPartition).
SHRUNK = ("10 isr=1,2,3 min=1", "20 isr=1,2", "59 isr=1")


@pytest.mark.parametrize(
    ("history", "more"),
    [
        ((*SHRUNK, "60 isr=2 leader=2 recovering batch=59"), ("59 shutdown 1", "61 fence 1")),
        (
            ("10 isr=1,2 replicas=2,1 adding=1 min=1", "59 isr=1", "60 replicas=2 adding= isr=2 leader=2 batch=59"),
            (),
        ),
    ],
)
def test_who_left_with_another_event_of_the_elections_batch_is_no_member(
    history: tuple[str, ...], more: tuple[str, ...]
) -> None:
    verdict, *_, said = window(history, brokers=sessions(*UP, *more, "90 fence 3"))
    assert verdict == "undetermined"
    assert said.keys().isdisjoint({"premise_member", "premise_member_once"})


@pytest.mark.parametrize(
    ("history", "returns", "elected", "judged"),
    [
        (("10 isr=1,2,3", "60 isr=2,3 leader=2"), 50, 60, True),
        # It left the ISR, and was taken in again; or has been in sync since for a minute.
        (("10 isr=1,2,3", "49 isr=1,3", "55 isr=1,2,3", "60 isr=2,3 leader=2"), 50, 60, False),
        (("10 isr=1,2,3", "110 isr=2,3 leader=2"), 50, 110, False),
    ],
)
def test_who_registers_anew_as_a_member_may_lead_before_it_has_caught_up(
    history: tuple[str, ...], returns: int, elected: int, judged: bool
) -> None:
    """Its session was over and it was not fenced yet: 3.9.1 without ELR changes no ISR."""
    lines = (f"{returns} register 2 again", f"{returns + 1} unfence 2", f"{elected} fence 1", "120 fence 3")
    cluster = ClusterFacts("c", sessions(*UP, *lines), elr_levels(False), session_timeout_ms=2_000)
    found = list(judged_windows(Bucket(states(*history), cluster), offsets_table([])))
    assert [window.judgement.verdict for window in found] == ["undetermined"] * judged


def test_who_commits_alone_by_its_own_min_isr_leaves_the_elr_without_that() -> None:
    """The controllers' files say 2, and broker 1's own says 1: it led alone, and 2 caught up too late."""
    history = ("10 isr=1,2,3 source=static", "20 isr=1 elr=2", "60 isr=2 elr=1 leader=2")
    verdict, *_ = window(history, brokers=KILLED, elr=True)
    assert verdict == "undetermined"


@pytest.mark.parametrize(
    ("stops", "gone", "returns", "is_held"),
    [
        # Another process of broker 1 registered at 40; the one before certainly ran until 36.
        (30, 31, 54, True),
        # It may have followed the second one, which may have had less.
        (38, 39, 54, False),
        (30, 31, 50, False),
        # The controller let it go when that one had registered.
        (30, 43, 54, False),
    ],
)
def test_a_member_that_was_away_followed_no_second_process(stops: int, gone: int, returns: int, is_held: bool) -> None:
    away = (f"{stops} shutdown 2", f"{gone} fence 2", f"{returns} register 2 n", f"{returns + 1} unfence 2")
    lines = sorted((*UP, *REGISTERED_AGAIN, *away), key=lambda line: int(line.split()[0]))
    history = ("10 isr=1,2,3", "20 isr=1,2", f"{stops} isr=1 elr=2", "50 isr= elr=1,2 leader=-1", "60 isr=2 leader=2")
    *_, said = window(history, brokers=sessions(*lines), elr=True)
    assert ("held_by_protocol" in said) == is_held


def test_a_member_of_a_later_isr_may_differ_from_an_earlier_leader_that_was_two_processes() -> None:
    """Broker 2 joined under broker 3, which may have followed either process of broker 1."""
    history = ("10 isr=1,3", "50 isr=3 leader=3", "55 isr=2,3", "70 isr=2 leader=-1", "80 isr=2 leader=2")
    for more, is_held in ((("49 shutdown 1", "51 fence 1"), True), (REGISTERED_AGAIN, False)):
        brokers = sessions(*UP, *more, "69 shutdown 3", "71 fence 3")
        *_, said = window(history, brokers=brokers, at=80)
        assert ("held_by_protocol" in said) == is_held


@pytest.mark.parametrize(("found", "is_held"), [(51, True), (45, False)])
def test_a_clean_stop_found_within_the_term_shows_no_single_process(found: int, is_held: bool) -> None:
    """Another process may have started after it was found, and a coordinator writes before anybody reaches it."""
    files = (f"{found} b1 rp=80/1", f"{found + 1} b1 rp=80/1")
    *_, said = window(HANDED_OVER, *files, brokers=KILLED, topic="__consumer_offsets")
    assert ("premise_leaders_ran" in said) == is_held


def test_the_file_of_a_clean_stop_before_the_next_registration_is_left_over() -> None:
    """Its directory is no longer in log.dirs, or was put back from a copy."""
    *_, said = window(HANDED_OVER, "61 b1 rp=80/1", "62 b1 rp=80/1", brokers=AGAIN)
    assert "not_held_leader_may_have_restarted" in said


@pytest.mark.parametrize(("directories", "is_held"), [("other", False), ("d2,other", True)])
def test_a_replica_that_has_no_directory_yet_may_have_been_in_one_that_is_gone(directories: str, is_held: bool) -> None:
    """The other directories have the files of a clean stop, and the next process makes an empty log in one of them."""
    unassigned = f"dirs=d1,{UNASSIGNED},d3"
    history = (
        f"20 isr=1 elr=2 {unassigned}",
        f"50 isr= elr=1,2 leader=-1 {unassigned}",
        f"60 isr=2 leader=2 {unassigned}",
    )
    again = ("30 shutdown 2", "31 fence 2", f"32 register 2 j2 {directories}", "33 unfence 2", "50 fence 1")
    *_, said = window((f"10 isr=1,2 {unassigned}", *history), brokers=sessions(*UP, *again), elr=True)
    assert ("held_by_protocol" in said) == is_held


@pytest.mark.parametrize(
    ("left", "boots", "is_held"),
    [
        # Its leader struck it off, and may have asked to take it in again before it died.
        (("30 fence 2", "31 register 2 j2", "32 unfence 2"), {}, False),
        (
            ("30 fence 2", "31 register 2 j2", "32 unfence 2"),
            {2: [BootReading("b", ms(5), ms(5)), BootReading("b", ms(70), ms(70))]},
            True,
        ),
        # It was fenced when it was struck off, and not unfenced before it registered.
        (("20 fence 2", "31 register 2 j2", "32 unfence 2"), {}, True),
        (("20 fence 2", "25 unfence 2", "30 fence 2", "31 register 2 j2", "32 unfence 2"), {}, False),
        # It registered before.
        (("18 fence 2", "19 register 2 j2", "20 unfence 2"), {}, True),
    ],
)
def test_a_member_may_have_been_taken_in_for_what_an_earlier_process_had(
    left: tuple[str, ...], boots: dict[int, list[BootReading]], is_held: bool
) -> None:
    history = ("10 isr=1,2,3", "20 isr=1,3", "40 isr=1,2,3", *HANDED_OVER[1:])
    brokers = sessions(*UP, *left, "49 shutdown 1", "51 fence 1")
    *_, said = window(history, brokers=brokers, boots=boots)
    assert ("held_by_protocol" in said, "restarted" in said) == (is_held, not is_held)


def test_without_elr_a_restart_before_a_snapshot_may_be_hidden() -> None:
    history = ("10 checkpoint isr=1,2,3", *HANDED_OVER[1:])
    for elr in (False, True):
        *_, said = window(history, brokers=STOPPED, elr=elr)
        assert ("restarted" in said) == (not elr)


def test_a_change_that_no_rule_explains_is_not_excluded() -> None:
    times = {"log_end_ms": ms(1_000), "session_timeout_ms": 2_000, "checkpoint_interval_ms": 1_000}
    bucket = Bucket(states(*HANDED_OVER), ClusterFacts("c", STOPPED, elr_levels(False), **times))
    for unexplained, expected in ((), "excluded"), ((60,), "undetermined"):
        (window,) = judged_windows(bucket, offsets_table([]), Contradictions(changes=frozenset(unexplained)))
        assert window.judgement.verdict == expected


def test_a_mark_of_the_controller_is_a_premise_that_fails() -> None:
    marked = (*HANDED_OVER[:2], "60 isr=2 leader=2 recovering")
    # A process that ran on from its membership to its election kept what it had, whatever the controller makes of it.
    for brokers, expected in (
        (STOPPED, "excluded"),
        (sessions(*UP, "54 register 2 new", "55 unfence 2"), "undetermined"),
    ):
        verdict, *_, said = window(marked, brokers=brokers)
        assert (verdict, "not_held_marked" in said) == (expected, expected == "undetermined")


KEPT = {"premise_member_once", "premise_kept_its_log", "held_by_protocol"}
RETURNED = ("54 register 2 new", "55 unfence 2")


def test_a_winner_kept_what_it_had_as_a_member() -> None:
    """It left at 20, and below min ISR the high watermark stood still: it ran on, or its machine did."""
    running_on = {2: [BootReading("b", ms(5), ms(5)), BootReading("b", ms(70), ms(70))]}
    for brokers, boots in ((newer(KILLED), {}), (newer(sessions(*UP, "50 fence 1", *RETURNED)), running_on)):
        verdict, _, most, said = window(UNCLEAN, brokers=brokers, boots=boots)
        assert (verdict, most) == ("excluded", 0)
        assert KEPT | {"outsider"} <= said.keys()


@pytest.mark.parametrize(
    ("history", "brokers"),
    [
        # The leader alone could acknowledge.
        (tuple(f"{line} min=1" for line in UNCLEAN), newer(KILLED)),
        # Its release does not wait for min ISR.
        (UNCLEAN, KILLED),
        # It came back, and nothing shows that its machine had run on.
        (UNCLEAN, newer(sessions(*UP, "50 fence 1", *RETURNED))),
        # It lost its directory.
        (UNCLEAN, newer(sessions(*UP, "50 fence 1", "55 offline 2 other"))),
        # It was no replica for a while.
        (("10 isr=1,2,3", "20 isr=1 replicas=1,3", "30 isr=1 replicas=1,2,3", *UNCLEAN[2:]), newer(KILLED)),
        # The leader may not have learned yet that min ISR was raised.
        (("10 isr=1,2,3 min=1", "20 isr=1 min=2", *UNCLEAN[2:]), newer(KILLED)),
        (("10 isr=1,2,3 min=1", "17 isr=1,3 min=2", "18 isr=1,2,3", *UNCLEAN[1:]), newer(KILLED)),
        # Broker 3, which may have had less, led between and may have made it truncate.
        (
            ("10 isr=1,2", "20 isr=1", "40 isr=3 leader=3 recovering", "50 isr= leader=-1", UNCLEAN[3]),
            newer(sessions(*UP, "39 fence 1", "50 fence 3")),
        ),
    ],
)
def test_what_does_not_show_that_a_winner_kept_what_it_had(history: tuple[str, ...], brokers: BrokerTimeline) -> None:
    verdict, *_, said = window(history, brokers=brokers)
    assert verdict != "excluded"
    assert not KEPT & said.keys()


# One process wrote the term.


def in_directories(timeline: BrokerTimeline, incarnation: str, names: list[str] | None) -> BrokerTimeline:
    """The same brokers, of which that incarnation registered these directories."""
    states = timeline.states.items()
    return BrokerTimeline(
        {b: [replace(s, log_dirs=names) if s.incarnation_id == incarnation else s for s in own] for b, own in states}
    )


EARLIER = sessions("0 register 1 i0", *UP, "50 fence 1")


@pytest.mark.parametrize(
    "brokers",
    [
        KILLED,
        # An earlier process has the same directories, and so had ended: it would hold their locks.
        EARLIER,
        # A registration that amends the one before is of the same process.
        sessions(*UP, "40 register 1 i1", "41 unfence 1", "50 fence 1"),
        # Whoever registers after the term has served nobody in it.
        sessions(*UP, "50 fence 1", "51 register 1 j1"),
    ],
)
def test_a_leader_that_registered_once_was_one_process_for_everybody_else(brokers: BrokerTimeline) -> None:
    """BrokerServer.startup opens the listener last: who starts inside a crashed process's session serves nobody."""
    verdict, _, most, said = window(HANDED_OVER, brokers=brokers)
    assert (verdict, most) == ("excluded", 0)
    assert "premise_leaders_ran" in said


@pytest.mark.parametrize(
    ("brokers", "around"),
    [
        (AGAIN, {}),
        # A process of other directories may run beside it, and so may one that registered none.
        (in_directories(EARLIER, "i0", ["d9"]), {}),
        (in_directories(EARLIER, "i0", None), {}),
        # A coordinator writes before anybody reaches its broker; what is in tiered storage outlives the process.
        (KILLED, {"topic": "__consumer_offsets"}),
        (KILLED, {"topic": "__transaction_state"}),
        (KILLED, {"topic": "__share_group_state"}),
        (KILLED, {"tiered_topics": frozenset({"t"})}),
        # A broker of ZooKeeper, in a migration, serves before it has registered.
        (BrokerTimeline({b: [replace(s, has_zookeeper=b == 1) for s in own] for b, own in KILLED.states.items()}), {}),
    ],
)
def test_what_does_not_show_that_one_process_served(brokers: BrokerTimeline, around: dict[str, Any]) -> None:
    verdict, *_, said = window(HANDED_OVER, brokers=brokers, **around)
    assert verdict != "excluded"
    assert said["not_held_leader_may_have_restarted"]["brokers"] == [1]


def test_a_term_that_a_snapshot_cut_may_have_registrations_that_nobody_sees() -> None:
    history = ("10 checkpoint isr=1,2,3", *HANDED_OVER[1:])
    verdict, *_, said = window(history, brokers=KILLED)
    assert (verdict, "not_held_earlier_leaders_unknown" in said) == ("undetermined", True)


# High watermarks of a process that led in its own eyes (B7 of docs/findings.md, P2).

OWN_EYES = "48 b1 hw=150 e0@0"


@pytest.mark.parametrize(
    ("reading", "brokers", "history"),
    [
        # Read while the registered process certainly ran; it was unfenced again; below min ISR a mark stands still.
        ("45 b1 hw=150 e0@0", KILLED, UNCLEAN),
        (OWN_EYES, sessions(*UP, "50 fence 1", "70 unfence 1"), UNCLEAN),
        (OWN_EYES, newer(KILLED), UNCLEAN),
        # With two in its ISR nobody's log end is the high watermark.
        (OWN_EYES, KILLED, (UNCLEAN[0], "20 isr=1,3", "50 isr= leader=-1", *UNCLEAN[3:])),
        # Not the leader's.
        ("48 b3 hw=150 e0@0", KILLED, UNCLEAN),
    ],
)
def test_a_high_watermark_of_a_process_that_served_is_a_floor(
    reading: str, brokers: BrokerTimeline, history: tuple[str, ...]
) -> None:
    verdict, least, *_ = window(history, reading, LINE, brokers=brokers)
    assert (verdict, least) == ("proven", 70)


@pytest.mark.parametrize(
    ("history", "brokers"),
    [
        (UNCLEAN, KILLED),
        # With min ISR 1 newer brokers go on as well.
        (("10 isr=1,2,3 min=1", *UNCLEAN[1:]), newer(KILLED)),
    ],
)
def test_a_high_watermark_may_be_of_a_process_that_nobody_reached(
    history: tuple[str, ...], brokers: BrokerTimeline
) -> None:
    """It started inside the session of the killed leader, alone in the ISR: its log end is its high watermark."""
    verdict, least, *_ = window(history, OWN_EYES, LINE, brokers=brokers)
    assert (verdict, least) == ("possible", 0)


# Broker 2 takes it in again at 70, and broker 3 is elected uncleanly at 110.
TAKEN_IN = (*UNCLEAN[:4], "70 isr=2,1 recovered", "100 isr= leader=-1", "110 isr=3 leader=3 recovering")
SERVED_AGAIN = ("75 b1 hw=140 e0@0 e2@80", "85 b1 hw=150 e0@0 e2@80", "120 b3 e0@0 e4@60")
BACK = sessions(*UP, "50 fence 1", "62 register 1 j1", "63 unfence 1", "100 fence 1", "100 fence 2")


def test_who_is_taken_in_by_another_leader_has_that_ones_high_watermark() -> None:
    assert window(TAKEN_IN, *SERVED_AGAIN, brokers=BACK, at=110)[:2] == ("proven", 90)
    never = (*TAKEN_IN[:4], "70 isr=2,3 recovered", *TAKEN_IN[5:])
    assert window(never, *SERVED_AGAIN, brokers=BACK, at=110)[0] != "proven"


def test_what_a_process_that_nobody_reached_wrote_stays_on_the_disk_for_a_while() -> None:
    """Until the file is written again, a second after another leader took the broker in at 70."""
    for read, verdict in (("70.6", "possible"), ("72.1", "proven")):
        rounds = ("65 b1 hw=140 e0@0 e2@80", f"{read} b1 hw=150 e0@0 e2@80", SERVED_AGAIN[2])
        assert window(TAKEN_IN, *rounds, brokers=BACK, at=110)[0] == verdict


@pytest.mark.parametrize(("until", "verdict"), [(63, "possible"), (67, "proven")])
def test_a_leader_that_did_not_learn_that_it_leads_again_shows_what_it_had(until: int, verdict: str) -> None:
    """It is elected at 60, and may still have the high watermark of a process that nobody reached."""
    history = (*UNCLEAN[:3], "60 isr=1,3 leader=1", f"{until} isr= leader=-1", "70 isr=3 leader=3 recovering")
    brokers = sessions(*UP, "50 fence 1", "58 register 1 j1", "59 unfence 1", f"{until} fence 1")
    rounds = ("64 b1 hw=140 e0@0 e2@80", "66 b1 hw=150 e0@0 e2@80", "80 b3 e0@0 e4@60")
    machines = {1: [BootReading("a", ms(at), ms(at)) for at in (0, 1_010)]}
    assert window(history, *rounds, brokers=brokers, at=70, boots=machines)[0] == verdict


@pytest.mark.parametrize(("asked", "verdict"), [("43 shutdown 1", "proven"), ("30 shutdown 1", "possible")])
def test_a_leader_elected_after_it_asked_for_its_shutdown_may_have_died_since(asked: str, verdict: str) -> None:
    """4.0 elects it (KAFKA-19522). The next process starts in its session, and leads in its own eyes alone."""
    history = ("10 isr=1,2,3 min=1", "20 isr=1", "30 leader=-1", "32 leader=1", "43 isr= leader=-1", UNCLEAN[3])
    brokers = sessions(*UP, "18 fence 2", "18 fence 3", asked, "44 fence 1", "55 unfence 2")
    machines = {1: [BootReading("a", ms(at), ms(at)) for at in (0, 1_010)]}
    rounds = ("42 b1 hw=150 e0@0 e2@120", "70 b2 e0@0 e4@80")
    assert window(history, *rounds, brokers=brokers, boots=machines)[0] == verdict


REASSIGNED = (*UNCLEAN[:4], "65 isr=2 replicas=2,3 adding=3 removing=2 recovered")


@pytest.mark.parametrize(
    ("done", "codes"),
    [
        ("80 isr=3 replicas=3 adding= removing= leader=3", {"taken_in"}),
        # It led already, and only its leader epoch is a new one.
        ("80 isr=2 replicas=2 adding= removing= leader=2 epoch=3", set()),
        # Without a reassignment.
        ("80 isr=3 leader=3", {"outsider"}),
    ],
)
def test_whom_the_leader_took_in_with_the_change(done: str, codes: set[str]) -> None:
    *_, said = window((*REASSIGNED, done), brokers=KILLED, at=80)
    assert said.keys() & {"taken_in", "outsider"} == codes


@pytest.mark.parametrize(
    ("done", "more", "verdict"),
    [
        ("leader=3", (), "excluded"),
        # The controller marked it; or it may have been dead, and come back with less.
        ("leader=3 recovering", (), "undetermined"),
        ("leader=3", ("82 fence 3",), "undetermined"),
        # The leader may have asked before it died.
        ("leader=3", ("68 fence 3", "70 register 3 j3", "71 unfence 3"), "undetermined"),
    ],
)
def test_whom_the_leader_took_in_must_run_and_not_be_marked(done: str, more: tuple[str, ...], verdict: str) -> None:
    history = (*REASSIGNED, f"80 isr=3 replicas=3 adding= removing= {done}")
    assert window(history, brokers=sessions(*UP, "50 fence 1", *more), at=80)[0] == verdict


@pytest.mark.parametrize(
    ("more", "verdict"), [((), "excluded"), (("63 register 3 j3", "64 unfence 3"), "undetermined")]
)
def test_a_member_that_leads_with_the_end_of_a_reassignment_was_not_taken_in_anew(
    more: tuple[str, ...], verdict: str
) -> None:
    """Without ELR a member that registers again before the controller fences it stays in the ISR with less."""
    joined = ("10 isr=1,2,3 min=3", *UNCLEAN[1:4], "62 isr=2,3 recovered", "65 adding=1 removing=2")
    history = (*joined, "80 isr=1,3 replicas=1,3 adding= removing= leader=3")
    brokers = sessions(*UP, "50 fence 1", "55 unfence 1", *more)
    assert window(history, brokers=brokers, at=80)[0] == verdict


# A leader that is elected again as the same process passes every floor on (P5).

RELED = (*UNCLEAN[:3], "60 isr=1 leader=1", "90 isr= leader=-1", "100 isr=3 leader=3 recovering")


@pytest.mark.parametrize(
    ("brokers", "verdict", "least"),
    [
        (sessions(*UP, "50 fence 1", "58 unfence 1", "90 fence 1"), "proven", 70),
        (sessions(*UP, "50 fence 1", "58 register 1 j1", "58 unfence 1", "90 fence 1"), "possible", 0),
    ],
)
def test_only_the_process_that_led_passes_everything_on(brokers: BrokerTimeline, verdict: str, least: int) -> None:
    found = window(RELED, "30 b1 hw=150 e0@0", "110 b3 e0@0 e4@80", brokers=brokers, at=100)
    assert found[:2] == (verdict, least)


def test_a_leader_that_was_no_replica_for_a_while_passes_nothing_on() -> None:
    """A cancelled reassignment took broker 1 off the replicas, and with that its log: 60 lost what it had, not 100."""
    brokers = sessions(*UP, "90 fence 1")
    for replicas, verdict in (("1,2,3", "proven"), ("2,3", "possible")):
        history = (RELED[0], RELED[1], f"50 isr=2 leader=-1 replicas={replicas}", "60 isr=1 leader=1 replicas=1,2,3")
        found = window((*history, *RELED[4:]), "30 b1 hw=150 e0@0", "110 b3 e0@0 e4@80", brokers=brokers, at=100)
        assert found[0] == verdict


# A replica that is moved between directories (B4).

MOVED = ("10 isr=1,2,3", "30 isr=1,2,3 dirs=d1,other,d3", *HANDED_OVER[1:])
STOPPED_TOO = sessions(
    *UP, "48 shutdown 2", "49 fence 2", "49 shutdown 1", "51 fence 1", "54 register 2 n", "55 unfence 2"
)


def test_a_replica_that_moved_may_have_come_back_with_its_new_log() -> None:
    """Kafka's LogManager.recoverAbandonedFutureLogs takes the future log, whatever it lacks."""
    assert window(HANDED_OVER, brokers=STOPPED_TOO, elr=True)[0] == "excluded"
    verdict, *_, said = window(MOVED, brokers=STOPPED_TOO, elr=True)
    assert (verdict, said["not_held_directory_changed"]["brokers"]) == ("undetermined", [2])
    # Where it was before the restart is not known: it may have been created anew, empty.
    unassigned = ("10 isr=1,2,3 dirs=d1,AAAAAAAAAAAAAAAAAAAAAA,d3", *HANDED_OVER[1:])
    assert window(unassigned, brokers=STOPPED_TOO, elr=True)[0] == "undetermined"
    # Without a restart the old log is the log until the new one has everything.
    assert window(MOVED, brokers=STOPPED, elr=True)[0] == "excluded"


# Contradictions.


def test_a_log_that_lost_its_end_by_itself_contradicts_the_protocol() -> None:
    later = ("10 isr=1,2,3", "150 isr=2,3 leader=-1", "160 isr=2,3 leader=2")
    brokers = sessions(*UP, "149 shutdown 1", "151 fence 1")
    assert window(later, "80 b2 leo=90", brokers=brokers, at=160)[0] == "excluded"
    verdict, *_, said = window(later, "80 b2 leo=90", "90 b2 leo=70", brokers=brokers, at=160)
    assert (verdict, said["contradicted_by_truncation"]["brokers"]) == ("undetermined", [2])


@pytest.mark.parametrize(
    ("readings", "more", "contradicts"),
    [
        # The old leader started after the election: it was read before or after it registered.
        ("80 b1 leo=90, 166 b1 leo=70", ("165 register 1 j1",), False),
        ("80 b1 leo=90, 164.5 b1 leo=70", ("165 register 1 j1",), False),
        # It did not start, or only long after.
        ("80 b1 leo=90, 140 b1 leo=70", (), True),
        ("80 b1 leo=90, 110 b1 leo=70", ("165 register 1 j1",), True),
        # It had started before that was read.
        ("80 b1 leo=90, 140 b1 leo=70", ("9 register 1 j1", "9 unfence 1"), True),
        # The winner started before it joined; or after the election, and perhaps before, too.
        ("8 b2 leo=90, 12 b2 leo=70", ("9 register 2 j2", "9 unfence 2"), False),
        ("80 b2 leo=90, 166 b2 leo=70", ("165 register 2 j2",), True),
        # The leader led on with less.
        ("80 b1 leo=90, 90 b1 leo=70", ("85 register 1 j1", "85 unfence 1"), True),
    ],
)
def test_a_log_that_lost_its_end_at_a_start_contradicts_nothing(
    readings: str, more: tuple[str, ...], contradicts: bool
) -> None:
    later = ("10 isr=1,2,3", "150 isr=2,3 leader=-1", "160 isr=2,3 leader=2")
    brokers = sessions(*UP, *more, "149 shutdown 1", "151 fence 1")
    verdict, *_, said = window(later, *readings.split(", "), brokers=brokers, at=160)
    assert ("contradicted_by_truncation" in said) is contradicts
    assert (verdict == "excluded") is not contradicts


def test_a_high_watermark_read_around_the_election_contradicts_it() -> None:
    around = ("59.8 b1 hw=90", "70 b2 e0@0 e2@80")
    verdict, least, most, said = window(HANDED_OVER, *around, brokers=STOPPED)
    assert (verdict, least, most) == ("possible", 0, None)
    assert "contradicted_by_high_watermark" in said
