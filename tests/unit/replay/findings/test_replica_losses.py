"""Replicas whose log or high watermark went back: what shows it, what explains it, and what does not count."""

from __future__ import annotations

import tarfile
from functools import cache
from typing import Any

import pytest

from replay.arrow.schemas import FINDINGS, sorted_history
from replay.cluster.facts import ClusterFacts
from replay.controller.transitions import Bucket
from replay.findings.replica_losses import CHECKPOINT_LOST, LOG_TRUNCATION, truncations
from replay.findings.statements import prose
from tests.support.detection import cluster_of, with_topic_ids
from tests.support.detection import statements as said
from tests.support.paths import capture
from tests.support.pure import decode, replayed
from tests.support.scenario import elr_levels, evidence, offsets_table, running, states, up
from tests.support.window_table import Entry, entries, holds, inputs

Row = dict[str, Any]
ALL_UP = "; ".join(up(1, 2, 3, at=0))
USUAL = "elr; session 9000; interval 5000"
# The findings in order: `cut` (of the log) or `mark` (of the high watermark), verdict, severity and, if it is given,
# what it was before and after; codes of the first one's statements. FOLLOWED: broker 2's log had leader epoch 0.
TABLE = f"""\
ALL_UP = {ALL_UP}
STILL = log-end ?; ALL_UP; 10 isr=1,2,3 leader=1; 900 isr=1,2,3
FOLLOWED = 20 b2 leo=50 e0@0
CUT = 30 b2 leo=100; 40 b2 leo=80
ELECTED = log-end ?; ALL_UP; 10 isr=1,2,3 leader=1; 35 isr=3 leader=3 recovering; 900 isr=3,2
ELECTED_TWICE = log-end ?; ALL_UP; 10 isr=1,2,3 leader=1; 35 isr=3 leader=3 recovering; 100 isr=2,3 leader=2 epoch=2;
    150 isr=3 leader=3 epoch=3; 900 isr=3
test_growing_logs_and_other_replicas_give_nothing: STILL; FOLLOWED; 30 b2 leo=100; 40 b2 leo=100; 50 b2 leo=120;
    60 b3 leo=20; 60 b1 leo=110 -> nothing
test_the_order_must_be_sure: STILL; 30 b2 leo=100 -> nothing
  30.4 b2 leo=80
  30.6 b2 leo=80 -> cut proven medium
  error 2000; 34 b2 leo=80
  error 2000; 35 b2 leo=80 -> cut proven medium
test_a_metric_of_zero_is_a_log_that_is_not_loaded: STILL; FOLLOWED; 30 b2 leo=100
  40 b2 leo=0 -> nothing
  40 b2 tail=0/0/1 -> cut proven high
test_rows_without_a_time_say_nothing: STILL; FOLLOWED; 30 b2 leo=100; ? b2 leo=80
  -> nothing
  40 b2 leo=80 -> cut proven high
test_every_drop_is_one_finding: STILL; FOLLOWED; CUT; 50 b2 leo=85; 60 b2 leo=90; 70 b2 leo=60;
    80 b2 leo=60 -> cut proven high 100..80; cut proven high 90..60
test_a_new_leader_explains_that_a_replica_cut_its_log: ELECTED; FOLLOWED; CUT -> cut proven low at 35;
    elections_between=1@3; cut_back
test_a_leader_cuts_nothing_off_itself: ELECTED; 20 b3 leo=50 e0@0; 30 b3 leo=100; 40 b3 leo=80 -> cut proven high;
    leads_after; no_election_explains; no led_before
test_nor_does_a_leader_whose_log_reached_as_far: ELECTED; FOLLOWED; CUT -> cut proven low
  50 b3 e0@0 e1@100 -> cut proven high
  50 b3 e0@0 e1@99
  # Another replica's line is not the leader's log end, nor is the first line of a file that need not be the start.
  50 b1 e0@0 e1@100
  50 b3 e1@100
  # A log that was copied anew after compaction has the line at the first batch of the epoch that is left.
  50 b3 e0@0 e1@100; compacted
test_an_earlier_election_may_explain_it_if_the_replica_need_not_have_followed_it: STILL; 15 isr=1,3 leader=3
  CUT -> cut proven medium; election_before
  20 b2 leo=50 e0@0 e1@40; CUT -> cut proven high
  # A line of the same round may have been read behind the cut.
  30 b2 leo=100 e0@0 e1@40; 40 b2 leo=80 -> cut proven medium
test_a_replica_that_has_been_in_sync_for_a_minute_has_followed: STILL; 15 isr=1,2,3 leader=3 -> cut proven medium
  80 b2 leo=100; 90 b2 leo=80 -> cut proven high
  70 b2 leo=100; 80 b2 leo=80
  50 fence 2; 51 unfence 2; 80 b2 leo=100; 90 b2 leo=80
test_what_need_not_be_the_same_copy_of_the_log_gives_nothing: log-end ?; ALL_UP; CUT -> nothing
  # Taken off the partition and put back: another copy.
  10 isr=1,2,3 leader=1; 33 replicas=1,3 isr=1,3; 36 replicas=1,3,2; 900 isr=1,3
  # Gone with its topic.
  10 isr=1,2,3 leader=1; 33 removed
  # Read before the partition was created: another topic of that name.
  33 isr=1,2,3 leader=1; 900 isr=1,2,3
  # In another log directory.
  10 isr=1,2,3 leader=1; 33 dirs=d1,other,d3; 900 isr=1,2,3 dirs=d1,other,d3
  # Two histories in one.
  10 isr=1,2,3 leader=1 epoch=5; 33 leader=1 epoch=3; 900 isr=1,2,3
test_a_directory_that_was_only_assigned_late_is_the_same_one: log-end ?; ALL_UP; FOLLOWED; CUT; 33 isr=1,2,3;
    10 isr=1,2,3 leader=1 dirs=d1,AAAAAAAAAAAAAAAAAAAAAQ,d3; 900 isr=1,2,3 -> cut proven high
test_across_a_hole_of_the_log_it_is_only_possible: log-end ?; ALL_UP; CUT; 900 isr=1,2,3
  10 isr=1,2,3 leader=1; 35 checkpoint isr=1,2,3; FOLLOWED -> cut possible medium; states_not_known;
    no no_election_explains; no not_restarted
  # Where a snapshot follows, a state is only known to have held at its own record.
  10 isr=1,2,3 leader=1; 60 checkpoint isr=1,2,3; FOLLOWED -> cut possible medium
  35 checkpoint isr=1,2,3 leader=1 -> cut possible low
test_behind_the_end_of_the_log_it_is_only_possible: ALL_UP; 10 isr=1,2,3 leader=1; FOLLOWED; CUT
  log-end 41 -> cut proven high
  log-end 40 -> cut possible medium
test_history_that_begins_with_a_snapshot_leaves_earlier_elections_open: log-end ?; ALL_UP; 900 isr=1,2,3; CUT;
    10 checkpoint isr=1,2,3 leader=2 epoch=4
  -> cut proven medium
  20 b2 leo=50 e0@0 e4@40 -> cut proven high
test_an_epoch_that_begins_below_what_the_replica_had_replaced_its_tail: ELECTED -> cut proven low
  # Nobody saw the log while it was short: only the line tells.
  30 b2 leo=100; 60 b2 leo=130 e0@0 e1@80 -> cut proven low at 35; epoch_began_below=80; tail_lost=20; no log_end_after
  # A log end that was read when the epoch may have begun proves nothing.
  34.6 b2 leo=100; 60 b2 leo=130 e0@0 e1@80 -> nothing
  # A file without a time is as good.
  30 b2 leo=100; ? b2 e0@0 e1@80
test_an_election_s_own_winner_lost_its_tail_before: ELECTED; 20 b3 e0@0; 30 b3 leo=100;
    60 b3 leo=130 e0@0 e1@80 -> cut proven high
test_log_end_and_line_of_one_event_are_one_finding: 30 b2 leo=100; 60 b2 leo=90 e0@0 e1@80
  ELECTED; FOLLOWED -> cut proven low; epoch_began_below; log_end_after; tail_lost=20
  ELECTED_TWICE; 140 b2 leo=120; 160 b2 leo=130 e3@95 -> cut proven low 100..90; cut proven low 120..95; tail_lost=20
test_a_line_of_an_earlier_cut_is_another_finding: ELECTED; 30 b2 leo=100; 50 b2 leo=110 e0@0 e1@80; 60 b2 leo=110;
    90 b2 leo=105 -> cut proven high 110..105; cut proven low 100..80
  # At 60 the log had been cut and had grown anew; at 90 it lost records by itself.
test_a_line_of_a_later_cut_is_another_finding: ELECTED; 20 b2 e0@0; 28 b2 leo=100; 33 b2 leo=90;
    60 b2 leo=130 e0@0 e1@80 -> cut proven high 100..90; cut proven low 90..80
  # At 33 it had lost records by itself; the leader elected at 35 made it cut off more.
test_what_was_seen_when_the_epoch_had_begun_need_not_be_what_the_line_replaced: ELECTED; 30 b1 leo=100; 38 b1 leo=110;
    60 b1 leo=90 e0@0 e1@80 -> cut proven medium 110..90; no epoch_began_below
  # A leader that was cut off went on for a while: the line says nothing of what it wrote then.
test_several_lines_of_one_event_are_one_finding: 30 b2 leo=100 -> cut proven low; epoch_began_below=80; tail_lost=20
  ELECTED_TWICE; ? b2 e0@0 e1@80 e2@85 e3@90
  # What was seen before the first one's line was read may be what that one replaced.
  log-end ?; ALL_UP; 10 isr=1,2,3 leader=1; 35 isr=3 leader=3 recovering; 50 isr=1 leader=1 epoch=2; 900 isr=1;
    38 b2 leo=105; 60 b2 leo=130 e0@0 e1@80 e2@90
test_a_high_watermark_file_that_goes_back_without_an_election_is_a_lost_checkpoint: STILL; 80 b2 hw=100;
    90 b2 hw=0 -> mark proven medium; mark_before=100; mark_after=0; no_election_between; not_restarted; mark_means
test_a_restart_in_between_is_told_and_the_file_of_a_broker_that_is_down_is_not_trusted: STILL; 85 fence 2;
    95 register 2 new; 96 unfence 2; 90 b2 hw=100; 100 b2 hw=0
  80 b2 hw=100 -> mark proven medium; restarted_between
  -> nothing
test_each_time_a_high_watermark_goes_back_is_one_finding: STILL; 80 b2 hw=100; 90 b2 hw=40; 100 b2 hw=70; 110 b2 hw=40;
    120 b2 hw=40 -> mark proven medium 100..40; mark proven medium 70..40
test_what_is_no_lost_checkpoint: log-end ?; ALL_UP -> nothing
  # An election in between: hwm_regression judges it.
  10 isr=1,2,3 leader=1; 85 isr=1,2,3 leader=3; 900 isr=1; 80 b2 hw=100; 90 b2 hw=0
  # An election before, which the replica need not have followed, or written its file since.
  10 isr=1,2,3 leader=1; 25 isr=1,2,3 leader=3; 900 isr=1; 80 b2 hw=100 e1@40; 90 b2 hw=0
  # It was not in sync, or is not known to have been.
  10 isr=1,3 leader=1; 900 isr=1; 80 b2 hw=100; 90 b2 hw=0
  10 isr=1,2,3 leader=1; 100 checkpoint isr=1,2,3 leader=1; 900 isr=1; 80 b2 hw=100; 90 b2 hw=0
  # Its log was cut in the same time: that explains it.
  STILL; 80 b2 hw=90 leo=100; 90 b2 hw=70 leo=70 -> cut proven high
  # The order is not sure.
  STILL; 80 b2 hw=100; 80.4 b2 hw=0
  # The file is in a directory that the replica was moved out of.
  STILL; 80 b2 hw=100; 90 b2 hw=0 moved
test_a_disk_that_was_replaced_has_what_it_had: STILL; 6 unfence 2
  # It was copied by itself, after the new one.
  5 register 2 new d2,other; 80 b2 hw=100; 90 b2 hw=50 -> mark proven medium
  5 register 2 new other; 80 b2 hw=100; 90 b2 hw=50 -> nothing
  5 register 2 new d2,other; 80 b2 leo=100 e0@0; 90 b2 heads=40:50/0 -> cut proven high
  5 register 2 new other; 80 b2 leo=100 e0@0; 90 b2 heads=40:50/0 -> nothing
test_a_hole_in_which_no_epoch_began_leaves_it_possible: log-end ?; ALL_UP; 10 isr=1,2,3 leader=1; 82 isr=1,2,3;
    85 checkpoint isr=1,2,3; 900 isr=1,2,3; 80 b2 hw=100; 90 b2 hw=0 -> mark possible medium
"""
WORDS = {LOG_TRUNCATION: "cut", CHECKPOINT_LOST: "mark"}


@pytest.mark.parametrize("entry", entries(TABLE, USUAL), ids=lambda entry: entry.name)
def test_findings(entry: Entry) -> None:
    for story, answer in entry.cases:
        history, rows, cluster, *_ = inputs(story)
        found = truncations(Bucket(history, cluster), rows).findings.to_pylist()
        parts = [] if answer == "nothing" else answer.split("; ")
        expected = [part for part in parts if part.split()[0] in WORDS.values()]
        assert len(found) == len(expected), story
        for row, part in zip(found, expected, strict=True):
            kind = f"{WORDS[row['kind']]} {row['verdict']} {row['severity']}"
            values = f"{kind} {row['value_before']}..{row['value_after']}"
            assert part in (kind, values, f"{kind} at {row['election_offset']}"), (story, values)
        assert [part for part in parts if part not in expected and not holds(found[0], part)] == [], story


def of_broker_2(rows: list[Row]) -> list[Row]:
    """What is found beside a history in which nothing happens."""
    history = states("10 isr=1,2,3 leader=1", "900 isr=1,2,3")
    return truncations(Bucket(history, ClusterFacts("c", running(1, 2, 3), elr_levels())), offsets_table(rows)).findings


def test_a_log_that_ends_lower_without_an_election_lost_records_by_itself() -> None:
    brokers = ALL_UP.replace("0 ", "1 ") + "; 35 register 2 new"
    story = f"{USUAL}; log-end ?; {brokers}; 10 isr=1,2,3 leader=1; 900 isr=1,2,3; 20 b2 leo=50 e0@0"
    history, rows, cluster, *_ = inputs(f"{story}; 30 b2 leo=100; 40 b2 leo=80")
    (finding,) = truncations(Bucket(history, cluster), rows).findings.to_pylist()
    assert (finding["kind"], finding["verdict"], finding["severity"]) == (LOG_TRUNCATION, "proven", "high")
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


def test_rows_of_nobody_or_of_another_source_say_nothing() -> None:
    """A high watermark of another kind of source is none of a checkpoint file's."""
    rows = evidence("20 b2 leo=50 e0@0", "30 b2 leo=100", "40 b2 leo=80")
    nobody = [{**row, "broker_id": None} if row["log_end_offset"] == 80 else row for row in rows]
    marks = [{**row, "source": f"other{row['high_watermark']}"} for row in evidence("80 b2 hw=100", "90 b2 hw=0")]
    for given in (nobody, marks, []):
        assert of_broker_2(given).equals(FINDINGS.empty_table())


@pytest.mark.parametrize("behind", [{20, 60}, {100}])
def test_the_longer_one_counts_while_a_replica_moves_between_directories(behind: set[int]) -> None:
    shown = ("30 b2 leo=100", "40 b2 leo=100", "40 b2 leo=20", "50 b2 leo=60", "50 b2 leo=100")
    rows = evidence("20 b2 leo=50 e0@0", *shown)
    assert len(of_broker_2([{**r, "path": "z"} if r["log_end_offset"] in behind else r for r in rows])) == 0


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
