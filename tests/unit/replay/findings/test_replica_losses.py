"""Replicas whose log or high watermark went back: what shows it, what explains it, and what does not count."""

from __future__ import annotations

import tarfile
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow.schemas import FINDINGS, sorted_history
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import Clock, ClusterFacts
from replay.controller.transitions import Bucket
from replay.findings.replica_losses import CHECKPOINT_LOST, LOG_TRUNCATION, truncations
from replay.findings.statements import prose
from tests.support.detection import cluster_of, with_topic_ids
from tests.support.detection import statements as said
from tests.support.paths import capture
from tests.support.pure import decode, replayed
from tests.support.scenario import elr_levels, evidence, ms, offsets_table, running, sessions, states, up

Row = dict[str, Any]
STILL = ("10 isr=1,2,3 leader=1", "900 isr=1,2,3")
# Broker 2's log had leader epoch 0 when it was read at 20.
FOLLOWED = "20 b2 leo=50 e0@0"
UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"


def findings(
    history: pa.Table,
    rows: list[Row],
    brokers: BrokerTimeline | None = None,
    error: int = 0,
    end: int | None = None,
    **more: Any,
) -> list[Row]:
    table = sorted_history(history)
    end_ms = None if end is None else ms(end)
    cluster = ClusterFacts("c", brokers or running(1, 2, 3), elr_levels(), Clock(ms(error)), end_ms, **more)
    return truncations(Bucket(table, cluster), offsets_table(rows)).findings.to_pylist()


def found(*lines: str, history: tuple[str, ...] = STILL, **context: Any) -> list[Row]:
    return findings(states(*history), evidence(*lines), **context)


def only(*lines: str, history: tuple[str, ...] = STILL, **context: Any) -> Row:
    (finding,) = found(*lines, history=history, **context)
    return finding


def verdicts(rows: list[Row]) -> list[tuple[str, str, str]]:
    return [(r["kind"], r["verdict"], r["severity"]) for r in rows]


def test_a_log_that_ends_lower_without_an_election_lost_records_by_itself() -> None:
    brokers = sessions(*up(1, 2, 3, at=1), "35 register 2 new")
    finding = only(FOLLOWED, "30 b2 leo=100", "40 b2 leo=80", brokers=brokers)
    assert verdicts([finding]) == [(LOG_TRUNCATION, "proven", "high")]
    assert (finding["start_offset"], finding["end_offset"], finding["election_offset"]) == (10, 10, None)
    assert finding["loss_min"] is finding["loss_max"] is finding["unacked_max"] is None
    told = said(finding)
    assert (told["log_end_before"]["value"], told["log_end_before"]["brokers"]) == (100, [2])
    assert (told["log_end_after"]["value"], told["tail_lost"]["value"]) == (80, 20)
    assert told["log_end_before"]["text"] == "1970-01-01 00:00:30.000 UTC"
    assert told["restarted_between"]["offset"] == 35
    assert {"no_election_explains", "lost_by_itself", "one_copy_less"} <= set(told)
    assert finding["explanation"] == prose(finding["reason"])
    assert [(e["role"], e["value"], e["offset"]) for e in finding["evidence"]] == [
        ("before", 100, None),
        ("after", 80, None),
        ("state_before", None, 10),
        ("state_after", None, 10),
    ]
    assert (finding["broker_id"], finding["value_before"], finding["value_after"]) == (2, 100, 80)


def test_growing_logs_and_other_replicas_give_nothing() -> None:
    assert found(FOLLOWED, "30 b2 leo=100", "40 b2 leo=100", "50 b2 leo=120", "60 b3 leo=20", "60 b1 leo=110") == []
    empty = states("10 leader=1").slice(0, 0)
    facts = ClusterFacts("c", running(1), elr_levels())
    nothing = truncations(Bucket(empty, facts), offsets_table([])).findings
    assert nothing.schema == FINDINGS


@pytest.mark.parametrize(
    ("later", "error", "sure"), [("30.4", 0, False), ("30.6", 0, True), ("34", 2, False), ("35", 2, True)]
)
def test_the_order_must_be_sure(later: str, error: int, sure: bool) -> None:
    assert bool(found("30 b2 leo=100", f"{later} b2 leo=80", error=error)) == sure


def test_a_metric_of_zero_is_a_log_that_is_not_loaded() -> None:
    rows = evidence(FOLLOWED, "30 b2 leo=100", "40 b2 leo=0")
    assert findings(states(*STILL), rows) == []
    disk = [{**r, "source": "replica_segment"} if r["log_end_offset"] == 0 else r for r in rows]
    assert verdicts(findings(states(*STILL), disk)) == [(LOG_TRUNCATION, "proven", "high")]


def test_rows_without_a_time_or_a_broker_say_nothing() -> None:
    rows = evidence(FOLLOWED, "30 b2 leo=100", "? b2 leo=80", "40 b2 leo=80")
    assert len(findings(states(*STILL), rows)) == 1
    assert findings(states(*STILL), [r for r in rows if r["captured_at_ms"] != ms(40)]) == []
    nobody = [{**r, "broker_id": None} if r["log_end_offset"] == 80 else r for r in rows]
    assert findings(states(*STILL), nobody) == []


def test_every_drop_is_one_finding() -> None:
    rows = (FOLLOWED, "30 b2 leo=100", "40 b2 leo=80", "50 b2 leo=85", "60 b2 leo=90", "70 b2 leo=60", "80 b2 leo=60")
    told = [said(f) for f in found(*rows)]
    assert [(t["log_end_before"]["value"], t["log_end_after"]["value"]) for t in told] == [(100, 80), (90, 60)]


ELECTED = ("10 isr=1,2,3 leader=1", "35 isr=3 leader=3 recovering", "900 isr=3,2")


def test_a_new_leader_explains_that_a_replica_cut_its_log() -> None:
    finding = only(FOLLOWED, "30 b2 leo=100", "40 b2 leo=80", history=ELECTED)
    assert verdicts([finding]) == [(LOG_TRUNCATION, "proven", "low")]
    assert (finding["start_offset"], finding["end_offset"], finding["election_offset"]) == (10, 35, 35)
    told = said(finding)
    assert (told["elections_between"]["brokers"], told["elections_between"]["leader_epoch"]) == ([3], 1)
    assert told["elections_between"]["value"] == 1
    assert "cut_back" in told


def test_a_leader_cuts_nothing_off_itself() -> None:
    finding = only("20 b3 leo=50 e0@0", "30 b3 leo=100", "40 b3 leo=80", history=ELECTED)
    assert verdicts([finding]) == [(LOG_TRUNCATION, "proven", "high")]
    assert {"leads_after", "no_election_explains"} <= set(said(finding))
    assert "led_before" not in said(finding)


def test_nor_does_a_leader_whose_log_reached_as_far() -> None:
    lines = (FOLLOWED, "30 b2 leo=100", "40 b2 leo=80")
    assert verdicts(found(*lines, "50 b3 e0@0 e1@100", history=ELECTED)) == [(LOG_TRUNCATION, "proven", "high")]
    assert verdicts(found(*lines, "50 b3 e0@0 e1@99", history=ELECTED)) == [(LOG_TRUNCATION, "proven", "low")]
    # Another replica's line is not the leader's log end, nor is the first line of a file that need not be the start.
    assert verdicts(found(*lines, "50 b1 e0@0 e1@100", history=ELECTED)) == [(LOG_TRUNCATION, "proven", "low")]
    assert verdicts(found(*lines, "50 b3 e1@100", history=ELECTED)) == [(LOG_TRUNCATION, "proven", "low")]
    # A log that was copied anew after compaction has the line at the first batch of the epoch that is left.
    copied = found(*lines, "50 b3 e0@0 e1@100", history=ELECTED, compacted_topics=frozenset({"t"}))
    assert verdicts(copied) == [(LOG_TRUNCATION, "proven", "low")]


def test_an_earlier_election_may_explain_it_if_the_replica_need_not_have_followed_it() -> None:
    history = ("10 isr=1,2,3 leader=1", "15 isr=1,3 leader=3", "900 isr=1,2,3")
    (finding,) = found("30 b2 leo=100", "40 b2 leo=80", history=history)
    assert verdicts([finding]) == [(LOG_TRUNCATION, "proven", "medium")]
    assert said(finding)["election_before"]["offset"] == 15
    followed = found("20 b2 leo=50 e0@0 e1@40", "30 b2 leo=100", "40 b2 leo=80", history=history)
    assert verdicts(followed) == [(LOG_TRUNCATION, "proven", "high")]
    # A line of the same round may have been read behind the cut.
    late = found("30 b2 leo=100 e0@0 e1@40", "40 b2 leo=80", history=history)
    assert verdicts(late) == [(LOG_TRUNCATION, "proven", "medium")]


def test_a_replica_that_has_been_in_sync_for_a_minute_has_followed() -> None:
    history = ("10 isr=1,2,3 leader=1", "15 isr=1,2,3 leader=3", "900 isr=1,2,3")
    late, early = ("80 b2 leo=100", "90 b2 leo=80"), ("70 b2 leo=100", "80 b2 leo=80")
    assert verdicts(found(*late, history=history)) == [(LOG_TRUNCATION, "proven", "high")]
    assert verdicts(found(*early, history=history)) == [(LOG_TRUNCATION, "proven", "medium")]
    fenced = sessions(*up(1, 2, 3, at=1), "50 fence 2", "51 unfence 2")
    assert verdicts(found(*late, history=history, brokers=fenced)) == [(LOG_TRUNCATION, "proven", "medium")]


@pytest.mark.parametrize(
    "history",
    [
        # Taken off the partition and put back: another copy.
        ("10 isr=1,2,3 leader=1", "33 replicas=1,3 isr=1,3", "36 replicas=1,3,2", "900 isr=1,3"),
        # Gone with its topic.
        ("10 isr=1,2,3 leader=1", "33 removed"),
        # Read before the partition was created: another topic of that name.
        ("33 isr=1,2,3 leader=1", "900 isr=1,2,3"),
        # In another log directory.
        ("10 isr=1,2,3 leader=1", "33 dirs=d1,other,d3", "900 isr=1,2,3 dirs=d1,other,d3"),
        # Two histories in one.
        ("10 isr=1,2,3 leader=1 epoch=5", "33 leader=1 epoch=3", "900 isr=1,2,3"),
    ],
)
def test_what_need_not_be_the_same_copy_of_the_log_gives_nothing(history: tuple[str, ...]) -> None:
    assert found("30 b2 leo=100", "40 b2 leo=80", history=history) == []


def test_a_directory_that_was_only_assigned_late_is_the_same_one() -> None:
    history = (f"10 isr=1,2,3 leader=1 dirs=d1,{UNASSIGNED},d3", "33 isr=1,2,3", "900 isr=1,2,3")
    assert len(found(FOLLOWED, "30 b2 leo=100", "40 b2 leo=80", history=history)) == 1


def test_the_longer_one_counts_while_a_replica_moves_between_directories() -> None:
    rows = evidence(FOLLOWED, "30 b2 leo=100", "40 b2 leo=100", "40 b2 leo=20", "50 b2 leo=60", "50 b2 leo=100")
    for behind in ({20, 60}, {100}):
        named = [{**r, "path": "z"} if r["log_end_offset"] in behind else r for r in rows]
        assert findings(states(*STILL), named) == []


def test_across_a_hole_of_the_log_it_is_only_possible() -> None:
    history = ("10 isr=1,2,3 leader=1", "35 checkpoint isr=1,2,3", "900 isr=1,2,3")
    finding = only(FOLLOWED, "30 b2 leo=100", "40 b2 leo=80", history=history)
    assert verdicts([finding]) == [(LOG_TRUNCATION, "possible", "medium")]
    assert "states_not_known" in said(finding)
    assert not {"no_election_explains", "not_restarted"} & set(said(finding))
    # Where a snapshot follows, a state is only known to have held at its own record.
    late = ("10 isr=1,2,3 leader=1", "60 checkpoint isr=1,2,3", "900 isr=1,2,3")
    assert [f["verdict"] for f in found(FOLLOWED, "30 b2 leo=100", "40 b2 leo=80", history=late)] == ["possible"]
    before = only("30 b2 leo=100", "40 b2 leo=80", history=("35 checkpoint isr=1,2,3 leader=1", "900 isr=1,2,3"))
    assert (before["verdict"], before["start_offset"], before["end_offset"]) == ("possible", None, 35)


def test_behind_the_end_of_the_log_it_is_only_possible() -> None:
    lines = (FOLLOWED, "30 b2 leo=100", "40 b2 leo=80")
    assert [f["verdict"] for f in found(*lines, history=STILL[:1], end=41)] == ["proven"]
    assert [f["verdict"] for f in found(*lines, history=STILL[:1], end=40)] == ["possible"]


def test_history_that_begins_with_a_snapshot_leaves_earlier_elections_open() -> None:
    history = ("10 checkpoint isr=1,2,3 leader=2 epoch=4", "900 isr=1,2,3")
    assert verdicts(found("30 b2 leo=100", "40 b2 leo=80", history=history)) == [(LOG_TRUNCATION, "proven", "medium")]
    followed = found("20 b2 leo=50 e0@0 e4@40", "30 b2 leo=100", "40 b2 leo=80", history=history)
    assert verdicts(followed) == [(LOG_TRUNCATION, "proven", "high")]


def test_an_epoch_that_begins_below_what_the_replica_had_replaced_its_tail() -> None:
    """Nobody saw the log while it was short: only the line tells."""
    finding = only("30 b2 leo=100", "60 b2 leo=130 e0@0 e1@80", history=ELECTED)
    assert verdicts([finding]) == [(LOG_TRUNCATION, "proven", "low")]
    told = said(finding)
    line = told["epoch_began_below"]
    assert (line["leader_epoch"], line["value"], line["offset"]) == (1, 80, 35)
    assert told["tail_lost"]["value"] == 20
    assert "log_end_after" not in told
    assert (finding["start_offset"], finding["end_offset"], finding["election_offset"]) == (10, 35, 35)
    # A log end that was read when the epoch may have begun proves nothing.
    assert found("34.6 b2 leo=100", "60 b2 leo=130 e0@0 e1@80", history=ELECTED) == []
    # A file without a time is as good.
    assert len(found("30 b2 leo=100", "? b2 e0@0 e1@80", history=ELECTED)) == 1


def test_an_election_s_own_winner_lost_its_tail_before() -> None:
    finding = only("20 b3 e0@0", "30 b3 leo=100", "60 b3 leo=130 e0@0 e1@80", history=ELECTED)
    assert verdicts([finding]) == [(LOG_TRUNCATION, "proven", "high")]


def test_log_end_and_line_of_one_event_are_one_finding() -> None:
    finding = only(FOLLOWED, "30 b2 leo=100", "60 b2 leo=90 e0@0 e1@80", history=ELECTED)
    told = said(finding)
    assert {"epoch_began_below", "log_end_after"} <= set(told)
    assert told["tail_lost"]["value"] == 20
    assert [e["role"] for e in finding["evidence"]] == ["before", "after", "epoch_began", "state_before", "state_after"]
    history = (*ELECTED[:2], "100 isr=2,3 leader=2 epoch=2", "150 isr=3 leader=3 epoch=3", "900 isr=3")
    apart = found("30 b2 leo=100", "60 b2 leo=90 e0@0 e1@80", "140 b2 leo=120", "160 b2 leo=130 e3@95", history=history)
    assert [said(f)["tail_lost"]["value"] for f in apart] == [20, 25]


def test_a_line_of_an_earlier_cut_is_another_finding() -> None:
    """At 60 the log had been cut and had grown anew; at 90 it lost records by itself."""
    lines = ("30 b2 leo=100", "50 b2 leo=110 e0@0 e1@80", "60 b2 leo=110", "90 b2 leo=105")
    rows = found(*lines, history=ELECTED)
    told = [(f["severity"], said(f)["log_end_before"]["value"], said(f)["tail_lost"]["value"]) for f in rows]
    assert told == [("high", 110, 5), ("low", 100, 20)]


def test_a_line_of_a_later_cut_is_another_finding() -> None:
    """At 33 it had lost records by itself; the leader elected at 35 made it cut off more."""
    rows = found("20 b2 e0@0", "28 b2 leo=100", "33 b2 leo=90", "60 b2 leo=130 e0@0 e1@80", history=ELECTED)
    told = [(f["severity"], said(f)["log_end_before"]["value"], said(f)["tail_lost"]["value"]) for f in rows]
    assert told == [("high", 100, 10), ("low", 90, 10)]


def test_what_was_seen_when_the_epoch_had_begun_need_not_be_what_the_line_replaced() -> None:
    """A leader that was cut off went on for a while: the line says nothing of what it wrote then."""
    finding = only("30 b1 leo=100", "38 b1 leo=110", "60 b1 leo=90 e0@0 e1@80", history=ELECTED)
    told = said(finding)
    assert (told["log_end_before"]["value"], told["tail_lost"]["value"]) == (110, 20)
    assert "epoch_began_below" not in told


def test_several_lines_of_one_event_are_one_finding() -> None:
    history = (*ELECTED[:2], "100 isr=2,3 leader=2 epoch=2", "150 isr=3 leader=3 epoch=3", "900 isr=3")
    finding = only("30 b2 leo=100", "? b2 e0@0 e1@80 e2@85 e3@90", history=history)
    assert said(finding)["epoch_began_below"]["leader_epoch"] == 1
    # What was seen before the first one's line was read may be what that one replaced.
    history = (*ELECTED[:2], "50 isr=1 leader=1 epoch=2", "900 isr=1")
    finding = only("30 b2 leo=100", "38 b2 leo=105", "60 b2 leo=130 e0@0 e1@80 e2@90", history=history)
    assert (said(finding)["epoch_began_below"]["leader_epoch"], said(finding)["tail_lost"]["value"]) == (1, 20)


def test_a_high_watermark_file_that_goes_back_without_an_election_is_a_lost_checkpoint() -> None:
    finding = only("80 b2 hw=100", "90 b2 hw=0")
    assert verdicts([finding]) == [(CHECKPOINT_LOST, "proven", "medium")]
    told = said(finding)
    assert (told["mark_before"]["value"], told["mark_after"]["value"]) == (100, 0)
    assert told["no_election_between"]["leader_epoch"] == 0
    assert "not_restarted" in told
    assert told["mark_means"]["nature"] == "meaning"
    assert [e["value"] for e in finding["evidence"]] == [100, 0, None, None]
    # A high watermark of another kind of source is none of that file.
    rows = evidence("80 b2 hw=100", "90 b2 hw=0")
    assert findings(states(*STILL), [{**r, "source": f"other{r['high_watermark']}"} for r in rows]) == []


def test_a_restart_in_between_is_told_and_the_file_of_a_broker_that_is_down_is_not_trusted() -> None:
    brokers = sessions(*up(1, 2, 3, at=1), "85 fence 2", "95 register 2 new", "96 unfence 2")
    finding = only("80 b2 hw=100", "90 b2 hw=100", "100 b2 hw=0", brokers=brokers)
    assert said(finding)["restarted_between"]["offset"] == 95
    assert finding["evidence"][0]["captured_at_ms"] == ms(80)
    assert found("90 b2 hw=100", "100 b2 hw=0", brokers=brokers) == []


def test_each_time_a_high_watermark_goes_back_is_one_finding() -> None:
    rows = found("80 b2 hw=100", "90 b2 hw=40", "100 b2 hw=70", "110 b2 hw=40", "120 b2 hw=40")
    told = [said(f) for f in rows]
    assert [(t["mark_before"]["value"], t["mark_after"]["value"]) for t in told] == [(100, 40), (70, 40)]


@pytest.mark.parametrize(
    ("lines", "history"),
    [
        # An election in between: hwm_regression judges it.
        (("80 b2 hw=100", "90 b2 hw=0"), ("10 isr=1,2,3 leader=1", "85 isr=1,2,3 leader=3", "900 isr=1")),
        # An election before, which the replica need not have followed, or written its file since.
        (("80 b2 hw=100 e1@40", "90 b2 hw=0"), ("10 isr=1,2,3 leader=1", "25 isr=1,2,3 leader=3", "900 isr=1")),
        # It was not in sync.
        (("80 b2 hw=100", "90 b2 hw=0"), ("10 isr=1,3 leader=1", "900 isr=1")),
        # It is not known to have been in sync.
        (("80 b2 hw=100", "90 b2 hw=0"), ("10 isr=1,2,3 leader=1", "100 checkpoint isr=1,2,3 leader=1", "900 isr=1")),
        # Its log was cut in the same time: that explains it.
        (("80 b2 hw=90 leo=100", "90 b2 hw=70 leo=70"), STILL),
        # The order is not sure.
        (("80 b2 hw=100", "80.4 b2 hw=0"), STILL),
    ],
)
def test_what_is_no_lost_checkpoint(lines: tuple[str, ...], history: tuple[str, ...]) -> None:
    assert [f for f in found(*lines, history=history) if f["kind"] == CHECKPOINT_LOST] == []


def test_a_hole_in_which_no_epoch_began_leaves_it_possible() -> None:
    history = ("10 isr=1,2,3 leader=1", "82 isr=1,2,3", "85 checkpoint isr=1,2,3", "900 isr=1,2,3")
    assert verdicts(found("80 b2 hw=100", "90 b2 hw=0", history=history)) == [(CHECKPOINT_LOST, "possible", "medium")]


@cache
def real(name: str) -> list[Row]:
    decoded = decode(capture(name))
    history, state = replayed(name)
    table = sorted_history(history.table)
    offsets = with_topic_ids(decoded.offsets, table)
    return truncations(Bucket(table, cluster_of(decoded, state)), offsets).findings.to_pylist()


# (topic, partition, broker) -> (lost at least, severity), as it follows from what was done to the clusters.
# unclean: broker 3 led ledger-0 and -2 to 150, was killed, and broker 1 was elected with 80. audit-1 had 130; broker
# 2's copy lost its tail on disk while it was down, it was elected with 100, and brokers 3 and 4 cut theirs back.
# churn: broker 1 led t2-6 to 21, was killed, and broker 2 was elected with 15. Other tails that were cut on disk were
# fetched anew before anybody looked. elr and diverge: nobody lost anything.
CUT = {
    "unclean": {
        ("audit", 1, 2): (20, "high"),
        ("audit", 1, 3): (30, "low"),
        ("audit", 1, 4): (30, "low"),
        ("ledger", 0, 3): (70, "low"),
        ("ledger", 2, 3): (70, "low"),
    },
    "elr": {},
    "churn": {("t2", 6, 1): (6, "low")},
    "diverge": {},
}


@pytest.mark.parametrize("name", CUT)
def test_real_clusters_lost_the_tails_that_they_lost(name: str) -> None:
    rows = real(name)
    assert {(r["kind"], r["verdict"]) for r in rows} <= {(LOG_TRUNCATION, "proven")}
    assert {
        (r["topic"], r["partition"], r["evidence"][0]["broker_id"]): (said(r)["tail_lost"]["value"], r["severity"])
        for r in rows
    } == CUT[name]
    assert len({r["finding_id"] for r in rows}) == len(rows)


@pytest.mark.parametrize("name", ["unclean", "churn"])
def test_evidence_points_at_the_bytes_that_hold_the_value(name: str) -> None:
    with tarfile.open(capture(name)) as tar:
        checked = 0
        for row in (e for finding in real(name) for e in finding["evidence"] if e["source"] != "partition_history"):
            data = tar.extractfile(f"{name}/{row['path']}").read()
            line = data[row["position"] :].split(b"\n", 1)[0]
            assert float(line.split()[-1]) == row["value"], (row, line)
            checked += 1
        assert checked >= 2 * len(CUT[name])
