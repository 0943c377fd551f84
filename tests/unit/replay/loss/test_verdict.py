"""Verdicts on small incidents, above all: what must not be called proven, and what must not be called excluded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow.schemas import FINDINGS
from replay.bucket import Detected, detect
from replay.cluster.boots import BootReading, Boots
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import Clock, ClusterFacts
from replay.findings.statements import prose
from replay.loss.leader_terms import SETTLED_MS
from replay.whatif.recovery_policies import POLICIES
from tests.support.detection import statements, windows_of
from tests.support.scenario import elr_levels, evidence, ms, offsets_table, running, sessions, states, together, up

Row = dict[str, Any]

# Broker 1 was the last replica standing; broker 2 was elected although it had left before. Judged at offset 40.
UNCLEAN = (
    "10 isr=1,2,3 leader=1",
    "20 isr=1",
    "30 isr= elr=1 leader=-1",
    "40 isr=2 elr= leader=2 recovering",
    "60 isr=2,3 recovered",
)
LOST = ("25 b1 hw=150 e0@0", "50 b2 hw=80 e0@0 e2@80")
# Broker 2 restarted after it had left, and nothing shows that its machine ran on: otherwise it held everything that was
# below the high watermark, which stood still below min ISR (I9).
RETURNED = ("22 register 2 j2", "22 unfence 2")
NEVER_STOPPED = running(1, 2, 3)


def restarted(*more: tuple[str, ...]) -> BrokerTimeline:
    return sessions(*up(1, 2, 3, at=0), *(line for lines in more for line in lines))


ALIVE = restarted(RETURNED)
AGAIN = restarted(RETURNED, ("102 register 3 j3", "102 unfence 3"))
LATE = restarted(RETURNED, ("205 register 3 j3", "205 unfence 3"))


def left(*brokers: int) -> BrokerTimeline:
    """Of three brokers these run on; the others were fenced when the partition had lost its leader."""
    fenced = (f"31 fence {b}" for b in (1, 2, 3) if b not in brokers)
    return restarted(RETURNED, tuple(fenced))


def quick(name: str = "c", **around: Any) -> ClusterFacts:
    """A cluster in which a broker is fenced a second after it was heard of last."""
    return ClusterFacts(
        name, ALIVE, elr_levels(), Clock(0), session_timeout_ms=0, checkpoint_interval_ms=1_000, **around
    )


def case(
    history: tuple[str, ...],
    *lines: str,
    brokers: BrokerTimeline = ALIVE,
    elr: bool = True,
    error_ms: int = 0,
    log_end: float = 10_000,
    boots: Boots | None = None,
    compacted_topics: frozenset[str] | None = frozenset(),
    fail_overs: tuple[tuple[int, int], ...] = (),
    checkpoint_interval_ms: int = 1_000,
    lag_time_max_ms: int = 30_000,
) -> tuple[pa.Table, pa.Table, ClusterFacts]:
    times = {"log_end_ms": ms(log_end), "session_timeout_ms": 0, "checkpoint_interval_ms": checkpoint_interval_ms}
    more = {"boots": boots or {}, "compacted_topics": compacted_topics, "fail_overs": fail_overs}
    times["lag_time_max_ms"] = lag_time_max_ms
    cluster = ClusterFacts("c", brokers, elr_levels(elr), Clock(error_ms), **more, **times)
    return states(*history), offsets_table(evidence(*lines)), cluster


def found(history: tuple[str, ...], *lines: str, **around: Any) -> Detected:
    return detect(*case(history, *lines, **around))


def findings(history: tuple[str, ...], *lines: str, **around: Any) -> dict[int, Row]:
    return {f["election_offset"]: f for f in windows_of(*case(history, *lines, **around))}


def verdict(history: tuple[str, ...], *lines: str, at: int = 40, **around: Any) -> tuple[str, int, int | None]:
    finding = findings(history, *lines, **around)[at]
    return finding["verdict"], finding["loss_min"], finding["loss_max"]


# Proven.


def test_a_high_watermark_above_the_winners_log_end_is_a_loss() -> None:
    finding = findings(UNCLEAN, *LOST)[40]
    assert (finding["verdict"], finding["severity"]) == ("proven", "critical")
    assert (finding["loss_min"], finding["loss_max"], finding["first_lost_offset"]) == (70, None, 80)
    assert (finding["start_offset"], finding["end_offset"], finding["recorded_leader"]) == (30, 60, 2)
    assert finding["unacked_max"] is None
    assert "Proven: at least 70 acknowledged offsets are gone" in finding["explanation"]


@pytest.mark.parametrize(
    ("line", "deleted"),
    [
        ("26 b1 start=90", 90),
        ("26 b1 start=150", 150),
        # The winner's log goes beyond it; another replica's; of an earlier term; after the election.
        ("26 b1 start=80", None),
        ("26 b3 start=90", None),
        ("10 b1 start=90", None),
        ("41 b1 start=90", None),
    ],
)
def test_lost_offsets_that_had_been_deleted_are_named(line: str, deleted: int | None) -> None:
    finding = findings(UNCLEAN, *LOST, line)[40]
    assert (finding["verdict"], finding["loss_min"]) == ("proven", 70)
    said = statements(finding).get("deleted_before")
    assert (said and (said["brokers"], said["value"])) == (deleted and ([1], deleted))
    assert [e["value"] for e in finding["evidence"] if e["role"] == "old_leader_log_start"] == [deleted] * bool(deleted)


def test_another_replicas_line_bounds_the_loss_without_saying_where_it_begins() -> None:
    finding = findings(UNCLEAN, LOST[0], "70 b3 e0@0 e2@90")[40]
    assert (finding["verdict"], finding["loss_min"], finding["first_lost_offset"]) == ("proven", 60, None)


def test_a_ceiling_closes_the_range() -> None:
    sample = "28.5 b1 isr=1 under=1 leo=170"
    assert verdict(UNCLEAN, *LOST, sample) == ("proven", 70, 90)
    assert verdict(UNCLEAN, *LOST, sample, elr=False) == ("proven", 70, None)


# Possible, undetermined.


def test_nothing_known() -> None:
    assert verdict(UNCLEAN) == ("undetermined", 0, None)


@pytest.mark.parametrize("line", LOST)
def test_one_side_alone_proves_nothing(line: str) -> None:
    assert verdict(UNCLEAN, line) == ("possible", 0, None)


def test_a_high_watermark_that_the_winner_had_is_no_proof_of_safety() -> None:
    assert verdict(UNCLEAN, "25 b1 hw=80 e0@0", LOST[1]) == ("possible", 0, None)


def test_evidence_without_a_time_is_no_floor() -> None:
    assert verdict(UNCLEAN, "? b1 hw=150 e0@0", LOST[1]) == ("possible", 0, None)


# Excluded.


def test_bounds_that_leave_no_room_exclude() -> None:
    assert verdict(UNCLEAN, "28.5 b1 isr=1 under=1 leo=80", LOST[1]) == ("excluded", 0, 0)
    assert verdict(UNCLEAN, "28.5 b1 isr=1 under=1 leo=81", LOST[1]) == ("possible", 0, 1)


@pytest.mark.parametrize(
    ("winners", "whole", "cut"), [(150, ("excluded", 0, 0), "possible"), (130, ("proven", 10, 20), "proven")]
)
def test_a_leader_whose_log_lost_its_end_in_its_term_bounds_nothing_from_above(
    winners: int, whole: tuple[str, int, int], cut: str
) -> None:
    """Its high watermark may have been above the log end that it showed later."""
    lines = ("22 b1 hw=140 e0@0", "28.5 b1 isr=1 under=1 leo=150", f"50 b2 e0@0 e2@{winners}")
    assert verdict(UNCLEAN, *lines) == whole
    assert verdict(UNCLEAN, *lines, "25 b1 leo=200") == (cut, whole[1], None)


def test_a_line_of_a_compacted_topic_counts_while_its_leader_leads() -> None:
    """A log that is copied anew has its lines from the first batches that compaction left (UnifiedLog.append)."""
    later, compacted = (*UNCLEAN, "70 isr=3 leader=3"), frozenset({"t"})
    before, after = (
        ("28.5 b1 isr=1 under=1 leo=80", "50 b2 e0@0 e2@80"),
        ("28.5 b1 isr=1 under=1 leo=80", "75 b2 e0@0 e2@80"),
    )
    assert verdict(later, *before, compacted_topics=compacted) == ("excluded", 0, 0)
    assert verdict(later, *after) == ("excluded", 0, 0)
    assert verdict(later, *after, compacted_topics=compacted) == ("possible", 0, None)
    assert verdict(later, *after, compacted_topics=None) == ("possible", 0, None)
    # So is one that its leader moves to another directory.
    moved = (*UNCLEAN[:4], "45 dirs=d1,other,d3", "60 isr=2,3 recovered dirs=d1,other,d3", "70 isr=3 leader=3")
    assert verdict(moved, *before) == ("excluded", 0, 0)
    assert verdict(moved, *before, compacted_topics=compacted) == ("possible", 0, None)


HELD = (
    "10 isr=1,2 leader=1",
    "20 isr=1 elr=2",
    "30 isr= elr=1,2 leader=-1",
    "40 isr=2 elr=1 leader=2",
    "60 isr=1,2 elr=",
)


def test_a_member_of_the_elr_is_excluded_by_protocol_unless_evidence_speaks_against_it() -> None:
    assert verdict(HELD) == ("excluded", 0, 0)
    assert verdict(HELD, "25 b1 hw=80", "50 b2 e0@0 e2@80") == ("excluded", 0, 0)
    assert verdict(HELD, "25 b1 hw=81", "50 b2 e0@0 e2@80") == ("proven", 1, None)


def test_a_member_whose_log_was_seen_to_be_shorter_is_not_excluded() -> None:
    finding = findings(HELD, "25 b1 hw=81", "35 b2 leo=80")[40]
    assert finding["verdict"] == "possible"
    assert "the evidence contradicts" in finding["explanation"]
    assert verdict(HELD, "25 b1 hw=81", "25.3 b2 leo=80") == ("excluded", 0, 0)
    assert verdict(HELD, "25 b1 hw=81", "20 b2 leo=80", "35 b2 leo=81") == ("excluded", 0, 0)


def test_a_clean_election_is_judged_when_evidence_speaks_against_it() -> None:
    clean = ("10 isr=1,2,3 leader=1", "40 isr=2,3 leader=2")
    assert findings(clean, "25 b1 hw=80", "50 b2 e0@0 e1@80") == {}
    assert verdict(clean, "25 b1 hw=90", "50 b2 e0@0 e1@80") == ("proven", 10, None)
    assert findings(clean, "45 b1 hw=90", "50 b2 e0@0 e1@80") == {}


RESTARTED = ("10 isr=1,2 leader=1", "20 isr=1", "30 leader=-1", "40 leader=1", "60 isr=1,2")
RESTART = ("0 register 1 a", "0 unfence 1", "29 fence 1", "35 register 1 b", "36 unfence 1")


def test_a_leader_that_restarted_is_not_excluded_where_nobody_looks_how() -> None:
    assert verdict(RESTARTED, brokers=sessions(*RESTART), elr=False) == ("undetermined", 0, None)
    assert verdict(RESTARTED, brokers=sessions(*RESTART), elr=True) == ("excluded", 0, 0)
    assert verdict(RESTARTED, brokers=running(1, 2), elr=False) == ("excluded", 0, 0)


def test_restarting_before_joining_does_not_matter() -> None:
    lines = ("10 isr=1,2 leader=1", "20 isr=1", "26 isr=1,2", "30 isr=2 leader=-1", "40 leader=2")
    first = ("0 register 1 a", "0 unfence 1", "0 register 2 a", "0 unfence 2")
    before = sessions(*first, "20 fence 2", "22 register 2 b", "23 unfence 2")
    after = sessions(*first, "27 register 2 b", "28 unfence 2")
    assert verdict(lines, brokers=before, elr=False) == ("excluded", 0, 0)
    assert verdict(lines, brokers=after, elr=False) == ("undetermined", 0, None)


def test_a_restart_from_before_elr_was_turned_on_is_not_vouched_for() -> None:
    cluster = ClusterFacts("c", sessions(*RESTART), elr_levels(False, (38, True)), Clock(0))
    (finding,) = windows_of(states(*RESTARTED), offsets_table([]), cluster)
    assert finding["verdict"] == "undetermined"


def test_a_member_in_a_log_that_begins_with_a_snapshot_is_not_excluded() -> None:
    """Leaders before the snapshot may have registered again within their terms and written an epoch twice."""
    lines = ("10 checkpoint isr=2 leader=-1 epoch=5", "40 leader=2")
    assert verdict(lines, elr=False) == ("undetermined", 0, None)
    assert verdict(lines, elr=True) == ("undetermined", 0, None)
    finding = findings(lines)[40]
    assert "not_held_earlier_leaders_unknown" in statements(finding)


# Time.


@pytest.mark.parametrize(
    ("time", "expected"), [(39.4, "proven"), (39.5, "possible"), (39.6, "possible"), (41, "possible")]
)
def test_a_report_must_be_from_before_the_election_for_its_whole_interval(time: float, expected: str) -> None:
    assert verdict(UNCLEAN, f"{time} b1 hw=150 e0@0", LOST[1])[0] == expected


@pytest.mark.parametrize(("error_ms", "expected"), [(6_500, "proven"), (6_501, "possible"), (60_000, "possible")])
def test_a_report_must_be_from_before_the_election_on_every_clock(error_ms: int, expected: str) -> None:
    assert verdict(UNCLEAN, *LOST, error_ms=error_ms)[0] == expected


# The machine of broker 2 ran on.
RAN_ON = {2: [BootReading("b", ms(at), ms(at)) for at in (0, 20_000)]}


def test_own_lines_of_an_epoch_that_ended_before_a_crash_can_have_need_no_clock() -> None:
    later, lines = (*UNCLEAN, "70 isr=3 leader=3"), ("25 b1 hw=150 e0@0", "? b2 e0@0 e2@80")
    assert verdict(later, *lines, boots=RAN_ON) == ("proven", 70, None)
    # After a power failure a process may read of that epoch again, lead it in its own eyes, and write its line anew.
    assert verdict(later, *lines) == ("possible", 0, None)
    # Of an epoch that may go on: its leader may crash, lose more, and write its line anew.
    assert verdict(UNCLEAN, *lines) == ("possible", 0, None)


@pytest.mark.parametrize(("directories", "expected"), [("", "proven"), (" d9", "possible")])
def test_a_line_that_was_read_in_one_run_with_the_uptime_is_of_a_log_in_the_same_directories(
    directories: str, expected: str
) -> None:
    """The disk of broker 2 was replaced while its machine ran, and its new process leads epoch 2 in its own eyes."""
    brokers = restarted(RETURNED, (f"80 register 2 j3{directories}", "81 unfence 2"))
    run = {2: [BootReading(None, ms(90), ms(90.5), ms(0), local_disks=True)]}
    later, lines = (*UNCLEAN, "70 isr=3 leader=3"), ("25 b1 hw=150 e0@0", "90 b2 e0@0 e2@80")
    assert verdict(later, *lines, brokers=brokers, boots=run)[0] == expected


# What must not be called proven.


def test_reports_of_an_earlier_topic_of_that_name() -> None:
    """Its files were read before this topic was created: the same name, another partition."""
    assert verdict(UNCLEAN, "5 b1 hw=150", LOST[1]) == ("possible", 0, None)
    assert verdict(UNCLEAN, "9.9 b1 hw=150", LOST[1]) == ("possible", 0, None)


def test_a_line_that_was_read_before_its_epoch_began_is_of_an_earlier_topic_of_that_name() -> None:
    left = ("32 b1 rp=80/1", "36 b1 rp=80/1")  # by a clean stop
    for time, is_its_own in ((35, False), (50, True)):
        line = f"{time} b2 e0@0 e2@80"
        assert (verdict(UNCLEAN, LOST[0], line)[0] == "proven") == is_its_own
        assert (verdict(UNCLEAN, *left, line, brokers=ASKED, elr=False)[0] == "excluded") == is_its_own


@pytest.mark.parametrize(("more", "least"), [((), 90), (("5 fence 3",), 0)])
def test_a_line_of_a_broker_that_was_down_all_the_time_is_of_an_earlier_topic_of_that_name(
    more: tuple[str, ...], least: int
) -> None:
    """Broker 3 still has its folder, in which an epoch 2 began, too. The metadata log may begin after that topic."""
    brokers = restarted(more, RETURNED)
    assert verdict(UNCLEAN, LOST[0], "50 b3 e0@0 e2@60", brokers=brokers)[1] == least


def test_a_report_of_a_broker_that_was_never_a_replica() -> None:
    """Its file is of an earlier topic of that name, and no loss of this one."""
    brokers = restarted(RETURNED, ("0 register 4 i4", "0 unfence 4"))
    assert verdict(UNCLEAN, "25 b4 hw=150 e0@0", LOST[1], brokers=brokers) == ("possible", 0, None)


def test_a_report_from_before_its_broker_was_a_replica() -> None:
    """A directory's file is never rewritten while it has no log: it may name an earlier topic of that name."""
    added = (
        "10 replicas=2,3 isr=2,3 leader=2",
        "22 replicas=1,2,3 adding=1",
        "23 isr=1,2 adding=",
        "30 isr= elr=1,2 leader=-1",
        "40 isr=3 elr= leader=3 recovering",
    )
    one = BrokerTimeline({b: [replace(s, log_dirs=["d"]) for s in own] for b, own in NEVER_STOPPED.states.items()})
    for time, expected in ((20, "possible"), (23, "possible"), (28, "proven")):
        assert verdict(added, f"{time} b1 hw=150 moved", "50 b3 e0@0 e2@80", brokers=one)[0] == expected


def test_a_line_of_an_earlier_topic_of_that_name_shows_no_epoch_of_a_report() -> None:
    reports, own = ("20 b2 hw=71", "25 b2 hw=150"), "115 b3 e0@0 e4@85"
    assert verdict(TWICE, "15 b2 hw=70 e3@60", *reports, own, at=110, brokers=AGAIN)[0] == "possible"
    assert verdict(TWICE, "15 b2 hw=70 e0@60", *reports, own, at=110, brokers=AGAIN)[0] == "possible"


def test_evidence_of_another_topic_id_or_partition() -> None:
    history, cluster = states(*UNCLEAN), quick()
    for other in ({"topic_id": "U" * 22}, {"partition": 1}):
        for mine, theirs in (LOST, reversed(LOST)):
            rows = evidence(mine) + evidence(theirs, **other)
            assert [f["verdict"] for f in windows_of(history, offsets_table(rows), cluster)] == ["possible"]


def test_a_log_end_from_before_the_replica_was_cut_back() -> None:
    """Broker 2 was seen at 60 before the election, then followed broker 1 up to 150 and was elected with that."""
    assert verdict(UNCLEAN, LOST[0], "22 b2 isr=1 leo=60", "26 b2 isr=1 leo=150") == ("possible", 0, None)


def test_a_log_end_of_the_winner_from_after_its_time_as_leader() -> None:
    later = (*UNCLEAN, "70 isr=3 leader=3", "90 isr=2,3")
    assert verdict(later, LOST[0], "80 b2 isr=1 leo=60") == ("possible", 0, None)
    assert verdict(later, LOST[0], "65 b2 isr=1 leo=140") == ("proven", 10, None)


def test_a_log_end_of_the_winner_from_after_its_restart() -> None:
    brokers = sessions(*up(1, 2, at=0), *RETURNED, "45 register 2 b", "46 unfence 2")
    assert verdict(UNCLEAN, LOST[0], "50 b2 isr=1 leo=60", brokers=brokers) == ("possible", 0, None)
    assert verdict(UNCLEAN, LOST[0], "43 b2 isr=1 leo=60", brokers=brokers) == ("proven", 90, None)
    # The process that was elected still answers, but no longer leads, and may have truncated its log.
    assert verdict(UNCLEAN, LOST[0], "50 b2 isr=1 leo=60 proc=20", brokers=brokers) == ("possible", 0, None)


@pytest.mark.parametrize(("registered", "expected"), [((), "proven"), (("45 register 2 j3 d9",), "possible")])
def test_a_process_whose_broker_has_registered_from_another_machine_shows_nothing(
    registered: tuple[str, ...], expected: str
) -> None:
    """The one that started at 10 led, was cut off, and runs on; the line is of the one that registered then."""
    read = ("50 b2 e0@0 e2@80", "55 b2 isr=1 leo=160 proc=10")
    assert verdict(UNCLEAN, LOST[0], *read, brokers=restarted(RETURNED, registered))[0] == expected


def test_a_log_end_of_the_winner_from_before_it_knew_that_it_led() -> None:
    """It may have fetched more before it began to lead."""
    assert verdict(UNCLEAN, LOST[0], "41.5 b2 isr=1 leo=60") == ("possible", 0, None)
    assert verdict(UNCLEAN, LOST[0], "42.1 b2 isr=1 leo=60") == ("proven", 90, None)
    # A new controller treats it as just heard from: it may not have been heard of since its election for longer.
    took_over = ((ms(41), ms(46)),)
    assert verdict(UNCLEAN, LOST[0], "47.9 b2 isr=1 leo=60", fail_overs=took_over) == ("possible", 0, None)
    assert verdict(UNCLEAN, LOST[0], "48.1 b2 isr=1 leo=60", fail_overs=took_over) == ("proven", 90, None)


@pytest.mark.parametrize(("shown", "found"), [("isr=1 ", "proven"), ("isr=0 ", "possible"), ("", "possible")])
def test_a_log_end_of_a_winner_that_does_not_say_that_it_leads(shown: str, found: str) -> None:
    """Its metadata publisher waits for a disk: it sends heartbeats, and fetches from broker 1 until it learns of its
    election (BrokerMetadataPublisher, ReplicaManager.applyDelta, 4.3.1)."""
    assert verdict(UNCLEAN, LOST[0], f"45 b2 {shown}leo=60")[0] == found


def test_a_log_end_from_behind_the_end_of_the_metadata_log() -> None:
    assert verdict(UNCLEAN, LOST[0], "80 b2 isr=1 leo=60", log_end=70) == ("possible", 0, None)
    assert verdict(UNCLEAN, LOST[0], "80 b2 isr=1 leo=60", log_end=90) == ("proven", 90, None)


def test_a_log_end_from_a_gap_in_the_log_or_behind_it() -> None:
    lines = (*UNCLEAN, "100 checkpoint isr=3 leader=3 epoch=9")
    assert verdict(lines, LOST[0], "80 b2 isr=1 leo=60") == ("possible", 0, None)
    assert verdict(lines, LOST[0], "110 b2 isr=1 leo=60") == ("possible", 0, None)
    assert verdict(lines, LOST[0], "50 b2 isr=1 leo=60") == ("proven", 90, None)


def test_without_a_known_end_of_the_log_the_last_record_is_it() -> None:
    cluster = quick()
    for time, expected in (("50", "proven"), ("80", "possible")):
        rows = offsets_table(evidence(LOST[0], f"{time} b2 isr=1 leo=60"))
        assert [f["verdict"] for f in windows_of(states(*UNCLEAN), rows, cluster)] == [expected]


def test_a_log_end_of_zero_while_a_broker_starts() -> None:
    assert verdict(UNCLEAN, LOST[0], "45 b2 isr=1 leo=0") == ("possible", 0, None)


def test_a_high_watermark_that_restarts_from_the_logs_start() -> None:
    """A lost checkpoint file (KAFKA-16452) makes the value small, never the floor; it is no regression by itself."""
    assert verdict(UNCLEAN, "22 b1 hw=150 e0@0", "25 b1 hw=0 e0@0", LOST[1]) == ("proven", 70, None)
    assert verdict(UNCLEAN, "25 b1 hw=0 e0@0", LOST[1]) == ("possible", 0, None)
    calm = ("10 isr=1,2,3 leader=1",)
    assert findings(calm, "20 b1 hw=150 e0@0", "30 b1 hw=0 e0@0") == {}


def test_a_followers_high_watermark_lags_and_is_a_floor_all_the_same() -> None:
    assert verdict(UNCLEAN, "25 b3 hw=100 e0@0", LOST[1]) == ("proven", 20, None)
    assert verdict(UNCLEAN, "25 b3 hw=70 e0@0", LOST[1]) == ("possible", 0, None)


TWICE = (*UNCLEAN, "100 isr= elr=2 leader=-1", "110 isr=3 elr= leader=3 recovering", "120 isr=2,3")


def test_a_stale_checkpoint_file_does_not_prove_a_second_regression() -> None:
    """Broker 1 is down since the first: its file still says 150 whenever it is read. 80 are left of that."""
    stale = ("65 b1 hw=150 e0@0", "95 b1 hw=150 e0@0")
    second = "115 b3 e0@0 e2@80 e4@80"
    assert verdict(TWICE, *LOST, *stale, second, at=110, brokers=AGAIN) == ("possible", 0, None)
    assert verdict(TWICE, *LOST, *stale, "115 b3 e0@0 e2@80 e4@81", at=110, brokers=AGAIN) == ("possible", 0, None)
    shorter = findings(TWICE, *LOST, *stale, "115 b3 e0@0 e4@70")[110]
    assert (shorter["verdict"], shorter["loss_min"]) == ("proven", 10)
    roles = {e["role"]: e["value"] for e in shorter["evidence"]}
    assert (roles["high_watermark_floor"], roles["high_watermark_limit"]) == (150, 80)


def test_a_file_of_a_directory_that_holds_no_log_any_more_says_nothing() -> None:
    """A broker rewrites the file of a directory only while that has a log: the replica was moved out of it at 150."""
    seen, own = ("65 b2 hw=80 e0@0 e2@80", "75 b2 hw=90 e0@0 e2@80"), "115 b3 e0@0 e2@80 e4@95"
    assert verdict(TWICE, LOST[0], *seen, "95 b2 hw=150", own, at=110) == ("proven", 55, None)
    assert verdict(TWICE, LOST[0], *seen, "95 b2 hw=150 moved", own, at=110)[0] == "possible"
    # The directory failed, still has the log as it was, and the broker made the replica anew in another one.
    assert verdict(TWICE, LOST[0], *seen, "95 b2 hw=150 elsewhere", own, at=110)[0] == "possible"
    one = BrokerTimeline({b: [replace(s, log_dirs=["d"]) for s in own] for b, own in ALIVE.states.items()})
    assert verdict(TWICE, LOST[0], *seen, "95 b2 hw=150 moved", own, at=110, brokers=one) == ("proven", 55, None)


@pytest.mark.parametrize("value", [5_000, 80])
def test_a_file_of_a_directory_that_is_no_longer_in_log_dirs_says_nothing(value: int) -> None:
    """A new disk took its place. The old one is still mounted, and has a high watermark of an earlier topic."""
    one = BrokerTimeline({b: [replace(s, log_dirs=["d"]) for s in own] for b, own in ALIVE.states.items()})
    rows = evidence("25 b1 hw=80 e0@0", "50 b2 hw=80 e0@0 e2@80")
    old = [{**row, "path": "25/b1/old/replication_offset", "high_watermark": value} for row in rows[:2]]
    old = [row for row in old if row["source"] == "replication_offset"]
    cluster = replace(quick(log_end_ms=ms(10_000)), brokers=one)
    (window,) = windows_of(states(*UNCLEAN), offsets_table([*rows, *old]), cluster)
    assert (window["verdict"], window["high_watermark_min"]) == ("possible", 80)


@pytest.mark.parametrize(("directories", "expected"), [("", "proven"), (" d9", "possible")])
def test_a_file_of_a_disk_that_was_replaced_may_have_been_copied_long_after(directories: str, expected: str) -> None:
    """It still has the high watermark of before the first loss, and broker 1 is in sync again, on a new disk."""
    brokers = restarted(RETURNED, (f"50 register 1 j1{directories}", "51 unfence 1"))
    again = (*UNCLEAN, "65 isr=1,2,3", "70 isr=1,2", "190 isr= leader=-1", "200 isr=3 leader=3 recovering")
    lines = ("150 b1 hw=150", "210 b3 e0@0 e2@80 e4@100")
    assert verdict(again, *lines, at=200, brokers=brokers)[0] == expected


def test_after_a_loss_of_unknown_extent_old_reports_say_nothing() -> None:
    assert verdict(TWICE, LOST[0], "95 b1 hw=150 e0@0", "115 b3 e0@0 e4@70", at=110, brokers=AGAIN) == (
        "possible",
        0,
        None,
    )


def test_reports_written_since_count_again() -> None:
    fresh = ("65 b2 hw=80 e0@0 e2@80", "75 b2 hw=90 e0@0 e2@80", "95 b2 hw=100 e0@0 e2@80")
    assert verdict(TWICE, LOST[0], *fresh, "115 b3 e0@0 e2@80 e4@85", at=110) == ("proven", 15, None)
    assert verdict(TWICE, LOST[0], *fresh[:1], "115 b3 e0@0 e2@80 e4@85", at=110, brokers=AGAIN) == (
        "possible",
        0,
        None,
    )


@pytest.mark.parametrize(
    ("line", "more", "expected"),
    [
        ("92 b2 e0@0 e2@80", (), "proven"),
        # The value may have been written before the epoch's line.
        ("94 b2 e0@0 e2@80", (), "possible"),
        # Its process may have died before it wrote a value of that epoch.
        ("92 b2 e0@0 e2@80", ("94 fence 2",), "possible"),
        # The directory may have failed before: the file is as it was, although the process runs on.
        ("92 b2 e0@0 e2@80", ("94 offline 2 other",), "possible"),
    ],
)
def test_a_report_long_after_an_epochs_line_is_of_that_epoch(line: str, more: tuple[str, ...], expected: str) -> None:
    brokers = restarted(RETURNED, ("102 register 3 j3", "102 unfence 3"), more)
    shown = ("95 b2 hw=100", line, "115 b3 e0@0 e2@80 e4@85")
    assert verdict(TWICE, *shown, at=110, brokers=brokers)[0] == expected


def test_a_report_of_a_replica_long_in_sync_counts_although_it_never_changed() -> None:
    assert SETTLED_MS == 60_000
    late = (*UNCLEAN, "200 isr= elr=2 leader=-1", "210 isr=3 elr= leader=3 recovering")
    shorter = "215 b3 e0@0 e2@80 e4@85"
    assert verdict(late, "150 b2 hw=100", shorter, at=210) == ("proven", 15, None)
    assert verdict(late, "150 b3 hw=100", shorter, at=210) == ("proven", 15, None)
    # Its file may be from before the epoch for as long as the interval lasts at which it is written.
    assert verdict(late, "150 b3 hw=100", shorter, at=210, checkpoint_interval_ms=120_000)[:2] == ("excluded", 0)
    # Or it need not have followed for as long as a leader waits for it.
    assert verdict(late, "150 b2 hw=100", shorter, at=210, lag_time_max_ms=80_000) == ("possible", 0, None)
    assert verdict(late, "99 b2 hw=100", shorter, at=210, brokers=LATE) == ("possible", 0, None)
    assert verdict(late, "150 b1 hw=100", shorter, at=210, brokers=LATE) == ("possible", 0, None)
    away = (*UNCLEAN, "120 isr=2", "125 isr=2,3", "200 isr= elr=2 leader=-1", "210 isr=1 elr= leader=1 recovering")
    assert verdict(away, "150 b3 hw=100", "215 b1 e0@0 e2@80 e4@85", at=210) == ("possible", 0, None)
    bounced = sessions(
        *(f"0 {w} {b} a" for b in (2, 3) for w in ("register", "unfence")), "130 fence 2", "131 unfence 2"
    )
    assert verdict(late, "150 b2 hw=100", shorter, at=210, brokers=bounced) == ("possible", 0, None)


def test_a_report_from_a_hole_in_the_log_is_not_of_a_replica_long_in_sync() -> None:
    """The log shows broker 2 in sync up to 60 s and again from the snapshot at 160 s on, and nothing in between."""
    hole = (*UNCLEAN, "160 checkpoint isr=2,3 leader=2 epoch=2", "300 isr= elr=2 leader=-1", "310 isr=3 leader=3")
    shorter = "315 b3 e0@0 e2@80 e4@85"
    assert verdict(hole, "150 b2 hw=100", shorter, at=310) == ("possible", 0, None)
    assert verdict(hole, "250 b2 hw=100", shorter, at=310) == ("proven", 15, None)


def test_a_clean_election_with_a_gap_in_the_evidence_lets_old_reports_fade() -> None:
    """Nothing shows how much the leader of epoch 1 had: what was reported before it is not held against epoch 3."""
    lines = ("10 isr=1,2,3 leader=1", "20 isr=1,2 leader=2", "30 isr= elr=1,2 leader=-1", "40 isr=3 elr= leader=3")
    seen = ("15 b1 hw=150 e0@0", "50 b3 e0@0 e3@80")
    assert verdict(lines, *seen, brokers=NEVER_STOPPED) == ("possible", 0, None)
    own = "25 b2 e0@0 e1@150"
    assert verdict(lines, *seen, own, brokers=NEVER_STOPPED) == ("proven", 70, None)
    # It registered again in its term: perhaps it had lost that already when it led on.
    assert verdict(lines, *seen, own) == ("possible", 0, None)


def test_a_leader_that_stays_is_no_election_for_old_reports() -> None:
    lines = (
        "10 isr=1,2,3 leader=1",
        "20 isr=1,2 leader=1 epoch=1",
        "30 isr= elr=1,2 leader=-1",
        "40 isr=3 elr= leader=3",
    )
    assert verdict(lines, "15 b1 hw=150 e0@0", "50 b3 e0@0 e3@80") == ("proven", 70, None)


def test_reports_from_before_a_gap_in_the_log() -> None:
    """What happened in the gap is not known: the second stretch begins with a snapshot."""
    lines = (UNCLEAN[0], "20 checkpoint isr=1 leader=1 epoch=4", "30 isr= elr=1 leader=-1", "40 isr=2 elr= leader=2")
    own = "50 b2 e0@0 e6@80"
    assert verdict(lines, "15 b1 hw=150 e0@0", own) == ("possible", 0, None)
    assert verdict(lines, "25 b1 hw=150 e0@0", own) == ("possible", 0, None)
    same = (UNCLEAN[0], "20 checkpoint isr=1 leader=1 epoch=0", *UNCLEAN[2:])
    assert verdict(same, "15 b1 hw=150 e0@0", LOST[1]) == ("proven", 70, None)


def test_a_log_that_begins_with_a_snapshot() -> None:
    lines = ("10 checkpoint isr=1 leader=1 epoch=4", "30 isr= elr=1 leader=-1", "40 isr=2 elr= leader=2")
    own = "50 b2 e0@0 e6@80"
    assert verdict(lines, "25 b1 hw=150 e0@0 e4@90", own) == ("possible", 0, None)
    written = ("15 b1 hw=130 e0@0 e4@90", "20 b1 hw=140 e0@0 e4@90", "25 b1 hw=150 e0@0 e4@90")
    assert verdict(lines, *written, own) == ("proven", 70, None)


@pytest.mark.parametrize(
    ("history", "own"),
    [
        # Broker 2 has records of epoch 4, which two processes may have written.
        (("10 checkpoint isr=1,2,3 leader=3 epoch=4", "15 isr=1,2 leader=1", *UNCLEAN[1:]), "e0@0 e4@10 e5@20 e7@80"),
        # Two processes may have written the last leader's epoch.
        (("10 checkpoint isr=1,2,3 leader=1 epoch=4", *UNCLEAN[1:]), "e0@0 e4@10 e6@80"),
    ],
)
def test_equal_lines_of_epochs_from_before_a_snapshot_exclude_nothing(history: tuple[str, ...], own: str) -> None:
    finding = findings(history, "28.5 b1 isr=1 under=1 leo=80", f"50 b2 {own}")[40]
    codes = statements(finding)
    assert finding["verdict"] == "possible"
    # The reason is the snapshot, not a registration in a known term.
    assert "not_held_earlier_leaders_unknown" in codes
    assert "not_held_leader_may_have_restarted" not in codes


def test_leader_epochs_that_are_used_twice_make_evidence_ambiguous() -> None:
    mixed = (*UNCLEAN, "70 isr=3 leader=3 epoch=1", "80 isr=1 leader=1 epoch=2")
    assert verdict(mixed, *LOST) == ("undetermined", 0, None)


def test_a_leader_that_is_no_replica_is_judged_too() -> None:
    """After a cancelled reassignment Kafka may elect a last known leader that is no replica any more."""
    elected = ("10 replicas=1,2,3 isr=1 leader=1", "30 isr= leader=-1", "40 isr=4 leader=4 recovering")
    own = "50 b4 e0@0 e2@80"
    assert verdict(elected, "25 b1 hw=150 e0@0", own, brokers=running(1, 2, 3, 4)) == ("proven", 70, None)


def test_a_file_with_a_line_missing_gives_no_exact_log_end() -> None:
    rows = [r for r in evidence(*LOST) if r["leader_epoch"] != 0]
    cluster = quick()
    (finding,) = windows_of(states(*UNCLEAN), offsets_table(rows), cluster)
    assert (finding["verdict"], finding["loss_min"], finding["first_lost_offset"]) == ("proven", 70, None)


# What must not be called excluded.


def test_a_longer_log_that_parted_earlier_is_not_safe() -> None:
    """Broker 2 led epoch 0 and wrote on to 200, cut off; broker 1 went on from 100 in epoch 1, up to 120."""
    lines = (
        "10 isr=1,2 leader=2",
        "20 isr=1 leader=1",
        "30 isr= elr=1 leader=-1",
        "40 isr=2 elr= leader=2 recovering",
    )
    parted = ("25 b1 isr=1 under=1 leo=120 e0@0 e1@100", "50 b2 e0@0 e3@200")
    assert verdict(lines, *parted) == ("possible", 0, 20)
    assert verdict(lines, "25 b1 isr=1 under=1 leo=120", "50 b2 e0@0 e3@200") == ("possible", 0, None)


def test_min_isr_that_was_lowered_lets_the_high_watermark_rise() -> None:
    """ISR 1 was below min ISR 2, then somebody set min ISR to 1 to write again."""
    lowered = (*UNCLEAN[:2], "30 isr= elr=1 leader=-1 min=1", *UNCLEAN[3:])
    assert verdict(lowered, "25 b1 isr=1 under=1 leo=80", LOST[1]) == ("possible", 0, None)


@pytest.mark.parametrize("source", ["broker", "static", "default", "assumed_default"])
def test_min_isr_that_other_brokers_may_not_share(source: str) -> None:
    lines = (f"10 source={source} isr=1,2,3 leader=1", *UNCLEAN[1:])
    assert verdict(lines, "25 b1 isr=1 under=1 leo=80", LOST[1]) == ("possible", 0, None)


def test_min_isr_above_the_partitions_own_replica_count() -> None:
    """Partition 0 has three replicas, this one two: its leader counts min ISR 3 as 2 and goes on with both."""
    lines = ("10 replicas=1,2 isr=1,2 min=3", "30 isr= leader=-1", "40 isr=2 leader=2")
    assert verdict(lines, "25 b1 isr=1 under=1 leo=80", "50 b2 e0@0 e2@80")[2] is None


def test_a_log_end_of_the_leader_after_it_restarted() -> None:
    brokers = sessions(*up(1, 2, at=0), "26 register 1 b", "27 unfence 1")
    assert verdict(UNCLEAN, "28 b1 isr=1 under=1 leo=80", LOST[1], brokers=brokers) == ("possible", 0, None)


def test_a_log_end_of_another_replica_in_the_frozen_stretch() -> None:
    lines = (
        "10 isr=1,2,3 leader=1",
        "12 isr=1",
        "14 isr= elr=1 leader=-1",
        "20 isr=2 elr= leader=2 recovering",
        "30 isr= elr=2 leader=-1",
        "40 isr=3 elr= leader=3 recovering",
    )
    brokers = restarted(("15 register 3 j3", "15 unfence 3"))
    own = "50 b3 e0@0 e2@60 e4@90"
    assert verdict(lines, "16 b2 leo=50", "25 b2 isr=1 under=1 leo=95 e0@0 e2@60", own, brokers=brokers) == (
        "possible",
        0,
        5,
    )
    assert verdict(lines, "16 b2 leo=50", "25 b2 e0@0 e2@60", own, brokers=brokers) == ("possible", 0, None)


def test_a_ceiling_below_the_floor_contradicts_it_and_closes_nothing() -> None:
    for log_end in (80, 100):
        assert verdict(UNCLEAN, "22 b1 hw=150 e0@0", f"25 b1 isr=1 under=1 leo={log_end}", LOST[1]) == (
            "proven",
            70,
            None,
        )


def test_a_log_end_at_least_above_the_one_at_most_excludes_nothing() -> None:
    """A copy shows a longer log than another one: which is of the elected process?"""
    later = (*UNCLEAN, "70 isr=3 leader=3")
    copies = ("50 b2 e0@0 e2@80", "60 b2 e0@0 e2@90")
    assert verdict(later, "28.5 b1 isr=1 under=1 leo=85", *copies) == ("possible", 0, None)


# Predictions.


def counterfactuals(*lines: str, brokers: BrokerTimeline = NEVER_STOPPED, at: int = 40) -> dict[str, Row]:
    rows = found(UNCLEAN, *lines, brokers=brokers).counterfactuals.to_pylist()
    return {r["policy"].removeprefix("unclean_recovery_"): r for r in rows if r["offset"] == at}


SEEN = ("25 b1 hw=150 leo=150 e0@0", "35 b2 leo=80 e0@0", "36 b3 leo=100 e0@0", LOST[1])


def test_policies_are_asked_about_every_window() -> None:
    rows = counterfactuals(*SEEN, brokers=left(2, 3))
    assert {p: (r["outcome"], r["leader"], r["differs"]) for p, r in rows.items()} == {
        "aggressive": ("elected", 3, True),
        "balanced": ("waits", None, None),
        "all_replicas": ("elected", 1, True),
        "none": ("waits", None, None),
        "last_known_leader": ("waits", None, None),
    }
    assert rows["aggressive"]["loss_min"] == 50
    assert rows["all_replicas"]["loss_min"] == 0
    finding = findings(UNCLEAN, *SEEN, brokers=left(2, 3))[40]
    assert (finding["would_be_leader"], finding["policy"]) == (1, "unclean_recovery_all_replicas")
    assert "Prediction:" in finding["explanation"]
    held = found(HELD).counterfactuals.to_pylist()
    assert {(r["policy"], r["leader"]) for r in held if r["policy"] != "unclean_recovery_all_replicas"} == {
        (name, findings(HELD)[r["offset"]]["recorded_leader"])
        for r in held
        for name in POLICIES
        if name != "unclean_recovery_all_replicas"
    }


def test_a_log_that_may_have_grown_since_it_was_seen_bounds_nothing_from_below() -> None:
    early = ("25 b1 hw=150 leo=150 e0@0", "26 b2 leo=80 e0@0", "27 b3 leo=100 e0@0", LOST[1])
    assert counterfactuals(*early, brokers=left(2, 3))["aggressive"]["loss_min"] == 0


def test_the_last_leader_may_go_on_writing_without_knowing_better() -> None:
    lines = ("25 b1 hw=150 leo=150 e0@0", "35 b1 leo=120 e0@0", "36 b2 leo=80 e0@0", "36 b3 leo=70 e0@0", LOST[1])
    row = counterfactuals(*lines)["all_replicas"]
    assert (row["leader"], row["log_end_offset"], row["loss_min"]) == (1, 120, 0)


def test_only_a_log_that_goes_on_from_the_last_leaders_is_bounded_from_above() -> None:
    lines = ("28.5 b1 hw=150 isr=1 under=1 leo=150 e0@0", "36 b3 leo=100 e0@0", LOST[1])
    assert counterfactuals(*lines, brokers=left(3))["aggressive"]["loss_max"] == 50
    older = ("10 isr=1,2,3 leader=1 epoch=3", *UNCLEAN[1:])
    rows = found(older, *lines, brokers=left(3)).counterfactuals.to_pylist()
    assert [(r["leader"], r["loss_max"]) for r in rows if r["policy"].endswith("aggressive")] == [(3, None)]


def test_a_log_end_may_be_from_before_the_follower_truncated_for_the_epoch_that_its_file_shows() -> None:
    """Broker 3 had 100 offsets, then 90, and then some of those of broker 1, which led from 90 on."""
    history = (
        "10 isr=1,2,3 leader=2",
        "20 isr=1,3 leader=1",
        "25 isr=1",
        *UNCLEAN[2:3],
        "40 isr=2 leader=2 recovering",
    )
    lines = ("28.5 b1 hw=98 isr=1 under=1 leo=100 e0@0 e1@90", "23 b3 leo=100 e0@0 e1@90", "50 b2 e0@0 e3@80")
    for more, most in (((), None), (("22 b3 e0@0 e1@90",), 0), (("24 b3 heads=99:100/1",), 0)):
        rows = found(history, *lines, *more, brokers=left(3)).counterfactuals.to_pylist()
        assert [(r["leader"], r["loss_max"]) for r in rows if r["policy"].endswith("aggressive")] == [(3, most)]


def test_the_recorded_leader_has_the_findings_bounds() -> None:
    rows = counterfactuals("25 b1 hw=150", "35 b2 leo=80 e0@0", LOST[1], brokers=left(2))
    assert (rows["aggressive"]["leader"], rows["aggressive"]["loss_min"]) == (2, 70)
    assert rows["aggressive"]["differs"] is False


# The whole.


def test_findings_ids_are_stable_and_differ_by_place() -> None:
    both = together(states(*TWICE), states(*UNCLEAN, partition=1))
    cluster = quick()
    rows = [detect(both, offsets_table([]), cluster).findings.to_pylist() for _ in range(2)]
    runs = [[f["finding_id"] for f in found] for found in rows]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == len(runs[0])
    assert sum(f["kind"] == "hwm_regression" for f in rows[0]) == 3
    other = detect(both, offsets_table([]), quick("d"))
    assert not set(other.findings["finding_id"].to_pylist()) & set(runs[0])


def test_partitions_do_not_share_evidence_or_lineage() -> None:
    both = together(states(*UNCLEAN), states(*UNCLEAN, partition=1))
    rows = evidence(*LOST) + evidence("25 b1 hw=90", "50 b2 e0@0 e2@85", partition=1)
    found = windows_of(both, offsets_table(rows), quick())
    assert [(f["partition"], f["verdict"], f["loss_min"]) for f in found] == [(0, "proven", 70), (1, "proven", 5)]


def test_no_history_no_findings() -> None:
    empty = detect(states(), offsets_table(evidence(*LOST)), quick())
    assert (len(empty.findings), len(empty.elections), len(empty.counterfactuals)) == (0, 0, 0)
    assert empty.findings.schema == FINDINGS


def test_more_than_64_replicas() -> None:
    many = ",".join(str(b) for b in range(1, 71))
    lines = (f"10 replicas={many} isr={many}", "20 isr=1", "30 isr= elr=1 leader=-1", "40 isr=70 elr= leader=70")
    brokers = running(1, 70)
    assert verdict(lines, LOST[0], "50 b70 e0@0 e2@80", brokers=brokers) == ("proven", 70, None)


# What producers with acks=0 or 1 lost.

KILLED = sessions(
    *up(1, 2, 3),
    "30 fence 1",
)
# Another process of it registered within the term.
AGAIN = sessions(
    *up(1, 2, 3),
    "29 register 1 j1",
    "29 unfence 1",
    "30 fence 1",
)
# It asked to be shut down by the change that ended its time: one process led all the time.
ASKED = sessions(
    *up(1, 2, 3),
    "30 shutdown 1",
    "31 fence 1",
)
# Recovery points that two rounds of copying show beside the file of a clean stop; the segment has the same end.
STOPPED = ("32 b1 rp=170/1", "36 b1 rp=170/1")
TAIL = "? b1 tail=170/0/1"
RELECTED = "50 b2 e0@0 e2@80"


def unacked(*lines: str, brokers: BrokerTimeline = KILLED, **around: Any) -> tuple[int | None, int | None]:
    finding = findings(UNCLEAN, *lines, brokers=brokers, **around)[40]
    return finding["unacked_min"], finding["unacked_max"]


def test_what_the_old_leader_was_seen_to_have_is_gone_whoever_acknowledged_it() -> None:
    assert unacked("28 b1 leo=160", RELECTED, brokers=ASKED) == (80, None)
    assert unacked("28 b1 hw=150 leo=160 e0@0", RELECTED, brokers=ASKED) == (80, None)
    assert unacked("28 b1 heads=150:160/0", RELECTED, brokers=ASKED) == (80, None)
    # It may be the copy in a directory that failed long ago.
    assert unacked("28 b1 heads=150:160/0 elsewhere", RELECTED, brokers=ASKED) == (None, None)
    # A process that came back inside its session served nobody, but one that registered again led on, maybe with less.
    assert unacked("28 b1 leo=160", RELECTED) == (80, None)
    assert unacked("28 b1 leo=160", RELECTED, brokers=AGAIN) == (None, None)


def test_below_the_high_watermark_was_in_the_old_leaders_log_too() -> None:
    assert unacked("25 b1 hw=150 e0@0", RELECTED) == (70, None)


def test_the_log_that_it_left_when_it_stopped_cleanly_bounds_the_loss() -> None:
    assert unacked("28 b1 leo=160", RELECTED, *STOPPED) == (80, 90)
    assert unacked("28 b1 leo=160", RELECTED, STOPPED[0]) == (80, None)
    (finding,) = findings(UNCLEAN, "28 b1 leo=160", RELECTED, TAIL, *STOPPED, brokers=KILLED).values()
    assert (
        "At most 90 offsets of the old leader's log are gone, acknowledged by all in-sync replicas or not."
        in finding["explanation"]
    )
    assert {e["role"]: e["value"] for e in finding["evidence"]}["old_leader_log_end"] == 170


@pytest.mark.parametrize(
    ("tail", "brokers"),
    [
        ("? b1 tail=170/0/9", KILLED),  # another session of that broker left it
        ("? b1 tail=170/2/1", KILLED),  # it has records of a later leader: cut, or added to
        ("? b2 tail=170/0/2", KILLED),  # another broker's
        (TAIL, ALIVE),  # its session went on: it followed the new leader before it stopped
        (TAIL, sessions("1 register 1 i1", "2 unfence 1", "30 fence 1", "35 unfence 1", "36 fence 1")),
    ],
)
def test_a_log_left_by_any_other_session_bounds_nothing(tail: str, brokers: BrokerTimeline) -> None:
    assert unacked("28 b1 leo=160", RELECTED, tail, brokers=brokers)[1] is None


def test_nothing_is_known_of_what_nobody_saw() -> None:
    assert unacked(RELECTED) == (None, None)
    assert unacked("28 b1 leo=160") == (None, None)
    # A sample from after the election may be of a log that was cut already.
    assert unacked("45 b1 leo=160", RELECTED) == (None, None)


# The reason, as data.


def test_the_reason_is_data_and_the_prose_is_made_of_it() -> None:
    finding = findings(UNCLEAN, *LOST)[40]
    said = statements(finding)
    assert said["elected"]["brokers"] == [2]
    assert said["elected"]["offset"] == 40
    assert said["outsider"]["nature"] == "fact"
    assert (said["high_watermark_at_least"]["value"], said["high_watermark_at_least"]["nature"]) == (150, "bound")
    assert (said["lost_at_least"]["value"], said["lost_open"]["nature"]) == (70, "bound")
    assert said["clocks"]["nature"] == "assumption"
    assert prose(finding["reason"]) == finding["explanation"]


def test_what_is_missing_is_said() -> None:
    finding = findings(UNCLEAN)[40]
    said = statements(finding)
    assert finding["verdict"] == "undetermined"
    assert (said["missing_log_end"]["brokers"], said["missing_log_end"]["leader_epoch"]) == ([2], 2)
    assert "missing_high_watermark" in said
    assert not {"missing_log_end", "missing_high_watermark"} & statements(findings(UNCLEAN, *LOST)[40]).keys()


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "t"])
def test_kafkas_own_topics_are_called_out(topic: str) -> None:
    history = states(*UNCLEAN, topic=topic)
    cluster = ClusterFacts("c", ALIVE, elr_levels(), Clock(0), ms(100))
    (finding,) = windows_of(history, offsets_table(evidence("50 b2 e0@0 e2@80", topic=topic)), cluster)
    meanings = [s["code"] for s in finding["reason"] if s["nature"] == "meaning"]
    expected = {"__consumer_offsets": ["consumer_offsets"], "__transaction_state": ["transaction_state"], "t": []}
    assert meanings == expected[topic]
    assert finding["severity"] == ("medium" if topic == "t" else "high")


def test_a_log_whose_broker_stopped_since_it_was_seen_is_not_bounded_from_above() -> None:
    """Broker 1 was killed at 200, when it was last seen at 100: what it did not flush is gone when it comes back."""
    history = (
        "10 isr=1,2,3",
        "20 isr=1 elr=2",
        "200 isr= elr=1,2 lke=1 leader=-1",
        "210 isr=3 elr= leader=3 recovering",
    )
    lines = ("15 b1 hw=4 leo=4 e0@0", "16 b2 leo=3 e0@0", "17 b3 leo=3 e0@0", "100 b1 hw=3 isr=1 under=1 leo=4 e0@0")
    bounds = {}
    for name, brokers in (("ran on", ALIVE), ("killed", sessions("1 register 1 a", "2 unfence 1", "201 fence 1"))):
        rows = found(history, *lines, brokers=brokers, log_end=300).counterfactuals.to_pylist()
        (row,) = (r for r in rows if r["policy"] == "unclean_recovery_all_replicas")
        bounds[name] = (row["outcome"], row["loss_max"])
    assert bounds == {"ran on": ("elected", 0), "killed": ("elected", None)}


# What the simulator found.


def test_a_metric_of_a_log_that_is_not_loaded_contradicts_nothing() -> None:
    history = ("8 isr=1,2 leader=1", "10 isr=1 elr=2", "160 isr= elr=1,2 lke=1 leader=-1", "161 isr=2 elr=1 leader=2")
    first = ("1 register 1 a", "2 unfence 1", "3 register 2 a", "4 unfence 2", "9 shutdown 2", "160 shutdown 1")
    back = sessions(*first, "158 register 2 b", "161 unfence 2")
    lines = ("152 b3 hw=1", "158.6 b2 leo=0")
    for seen in (lines, lines[:1]):
        assert verdict(history, *seen, at=161, brokers=back, log_end=300) == ("excluded", 0, 0)


def test_a_sight_without_an_epoch_hides_no_earlier_one_that_tells_it() -> None:
    early = ("25 b1 hw=150 leo=150 e0@0", "35 b2 leo=80 e0@0", "36 b3 leo=100 e0@0", LOST[1])
    for lines in (early, (*early, "38 b3 leo=101")):
        row = counterfactuals(*lines, brokers=left(2, 3))["aggressive"]
        assert (row["outcome"], row["leader"], row["log_end_offset"]) == ("elected", 3, 100)


def test_a_disk_copied_after_a_kill_tells_no_upper_bound() -> None:
    """Its tail may be gone already, before the controller notices: too low for the high watermark it had reached, and
    too low for the log end it was elected with."""
    history = ("10 isr=1 elr=3 leader=1", "40 isr= elr=1,3 lke=1 leader=-1", "60 isr=2 elr= leader=2 recovering")
    brokers = sessions("1 register 1 a", "2 unfence 1", "3 register 2 a", "4 unfence 2", "41 fence 1")
    lines = ("25 b1 hw=9 isr=1 under=1 leo=11 e0@0", "70 b2 e0@0 e2@10")
    _, _, running_bound = verdict(history, *lines, at=60, brokers=brokers, log_end=300)
    _, _, with_copy = verdict(history, *lines, "40 b1 tail=10/0/-1", at=60, brokers=brokers, log_end=300)
    assert running_bound == with_copy == 1
    # The winner's disk, copied while the controller took it to lead: no upper bound of what it was elected with.
    late = ("25 b1 hw=9 e0@0", "65 b2 tail=8/0/-1")
    assert verdict(history, *late, at=60, brokers=brokers, log_end=300)[:2] == ("possible", 0)
