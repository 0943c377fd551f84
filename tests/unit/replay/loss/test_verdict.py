"""Verdicts on small incidents, above all: what must not be called proven, and what must not be called excluded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow.schemas import FINDINGS
from replay.bucket import detect
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import Clock, ClusterFacts
from replay.findings.statements import prose
from tests.support.detection import statements, windows_of
from tests.support.scenario import elr_levels, evidence, ms, offsets_table, sessions, states, together, up
from tests.support.window_table import Entry, entries, inputs, window

Row = dict[str, Any]

# Each cluster fences a broker a second after it was heard of last.
USUAL = "session 0; elr; log-end 10000; judged 40"
TABLE = """\
# Broker 1 was the last replica standing; broker 2 was elected although it had left before. It had restarted after it
# had left, and nothing shows that its machine ran on: otherwise it held everything that was below the high watermark,
# which stood still below min ISR (I9).
UP = 0 register 1 i1; 0 register 2 i2; 0 register 3 i3; 0 unfence 1; 0 unfence 2; 0 unfence 3
ONE_DIRECTORY = 0 register 1 i1 d; 0 register 2 i2 d; 0 register 3 i3 d; 0 unfence 1; 0 unfence 2; 0 unfence 3
RETURNED = 22 register 2 j2; 22 unfence 2
ALIVE = UP; RETURNED
KILLED = 1 register 1 i1; 2 register 2 i2; 3 register 3 i3; 4 unfence 1; 5 unfence 2; 6 unfence 3; 30 fence 1
AGAIN = ALIVE; 102 register 3 j3; 102 unfence 3
REGISTERED_AGAIN = KILLED; 29 register 1 j1; 29 unfence 1
LATE = ALIVE; 205 register 3 j3; 205 unfence 3
ASKED = 1 register 1 i1; 2 register 2 i2; 3 register 3 i3; 4 unfence 1; 5 unfence 2; 6 unfence 3; 30 shutdown 1;
    31 fence 1
UNCLEAN = 10 isr=1,2,3 leader=1; 20 isr=1; 30 isr= elr=1 leader=-1; 40 isr=2 elr= leader=2 recovering;
    60 isr=2,3 recovered
MOVED = 10 isr=1,2,3 leader=1; 20 isr=1; 30 isr= elr=1 leader=-1; 40 isr=2 elr= leader=2 recovering;
    45 dirs=d1,other,d3; 60 isr=2,3 recovered dirs=d1,other,d3
LOST = 25 b1 hw=150 e0@0; 50 b2 hw=80 e0@0 e2@80
OWN = 50 b2 hw=80 e0@0 e2@80
HELD = 10 isr=1,2 leader=1; 20 isr=1 elr=2; 30 isr= elr=1,2 leader=-1; 40 isr=2 elr=1 leader=2; 60 isr=1,2 elr=
RESTARTED = 10 isr=1,2 leader=1; 20 isr=1; 30 leader=-1; 40 leader=1; 60 isr=1,2
TWICE = UNCLEAN; 100 isr= elr=2 leader=-1; 110 isr=3 elr= leader=3 recovering; 120 isr=2,3; judged 110

# Proven.
test_a_high_watermark_above_the_winners_log_end_is_a_loss: UNCLEAN; ALIVE; LOST -> proven 70..; unacked 70..; first 80
test_lost_offsets_that_had_been_deleted_are_named: UNCLEAN; ALIVE; LOST -> proven 70..; no deleted_before
  26 b1 start=90 -> proven 70..; deleted_before=90@1; role old_leader_log_start=90
  26 b1 start=150 -> proven 70..; deleted_before=150@1; role old_leader_log_start=150
  # The winner's log goes beyond it; another replica's; of an earlier term; after the election.
  26 b1 start=80
  26 b3 start=90
  10 b1 start=90
  41 b1 start=90
test_another_replicas_line_bounds_the_loss_without_saying_where_it_begins: UNCLEAN; ALIVE; 25 b1 hw=150 e0@0;
    70 b3 e0@0 e2@90 -> proven 60..
test_a_ceiling_closes_the_range: UNCLEAN; ALIVE; LOST; 28.5 b1 isr=1 under=1 leo=170
  -> proven 70..90
  no elr -> proven 70..

# Possible, undetermined.
test_nothing_known: UNCLEAN; ALIVE -> undetermined
test_one_side_alone_proves_nothing: UNCLEAN; ALIVE -> possible
  25 b1 hw=150 e0@0
  OWN
test_a_high_watermark_that_the_winner_had_is_no_proof_of_safety: UNCLEAN; ALIVE; 25 b1 hw=80 e0@0; OWN -> possible
test_evidence_without_a_time_is_no_floor: UNCLEAN; ALIVE; ? b1 hw=150 e0@0; OWN -> possible

# Excluded.
test_bounds_that_leave_no_room_exclude: UNCLEAN; ALIVE; OWN
  28.5 b1 isr=1 under=1 leo=80 -> excluded
  28.5 b1 isr=1 under=1 leo=81 -> possible 0..1
test_a_leader_whose_log_lost_its_end_in_its_term_bounds_nothing_from_above: UNCLEAN; ALIVE; 22 b1 hw=140 e0@0;
    28.5 b1 isr=1 under=1 leo=150
  # Its high watermark may have been above the log end that it showed later.
  50 b2 e0@0 e2@150 -> excluded
  50 b2 e0@0 e2@150; 25 b1 leo=200 -> possible
  50 b2 e0@0 e2@130 -> proven 10..20
  50 b2 e0@0 e2@130; 25 b1 leo=200 -> proven 10..
test_a_line_of_a_compacted_topic_counts_while_its_leader_leads: 70 isr=3 leader=3; ALIVE;
    28.5 b1 isr=1 under=1 leo=80 -> excluded
  # A log that is copied anew has its lines from the first batches that compaction left (UnifiedLog.append).
  UNCLEAN; compacted; 50 b2 e0@0 e2@80
  UNCLEAN; 75 b2 e0@0 e2@80
  UNCLEAN; compacted; 75 b2 e0@0 e2@80 -> possible
  UNCLEAN; compacted ?; 75 b2 e0@0 e2@80 -> possible
  # So is one that its leader moves to another directory.
  MOVED; 50 b2 e0@0 e2@80
  MOVED; compacted; 50 b2 e0@0 e2@80 -> possible
test_a_member_of_the_elr_is_excluded_by_protocol_unless_evidence_speaks_against_it: HELD; ALIVE -> excluded
  ->
  25 b1 hw=80; 50 b2 e0@0 e2@80
  25 b1 hw=81; 50 b2 e0@0 e2@80 -> proven 1..
test_a_member_whose_log_was_seen_to_be_shorter_is_not_excluded: HELD; ALIVE; 25 b1 hw=81 -> excluded
  35 b2 leo=80 -> possible; contradicted
  25.3 b2 leo=80
  20 b2 leo=80; 35 b2 leo=81
test_a_clean_election_is_judged_when_evidence_speaks_against_it: 10 isr=1,2,3 leader=1; 40 isr=2,3 leader=2; ALIVE;
    50 b2 e0@0 e1@80 -> none
  25 b1 hw=80
  25 b1 hw=90 -> proven 10..
  45 b1 hw=90
test_a_leader_that_restarted_is_not_excluded_where_nobody_looks_how: RESTARTED -> excluded
  0 register 1 a; 0 unfence 1; 29 fence 1; 35 register 1 b; 36 unfence 1; no elr -> undetermined
  0 register 1 a; 0 unfence 1; 29 fence 1; 35 register 1 b; 36 unfence 1
  0 register 1 i1; 0 register 2 i2; 0 unfence 1; 0 unfence 2; no elr
test_restarting_before_joining_does_not_matter: 10 isr=1,2 leader=1; 20 isr=1; 26 isr=1,2; 30 isr=2 leader=-1;
    40 leader=2; 0 register 1 a; 0 unfence 1; 0 register 2 a; 0 unfence 2; no elr
  20 fence 2; 22 register 2 b; 23 unfence 2 -> excluded
  27 register 2 b; 28 unfence 2 -> undetermined
test_a_member_in_a_log_that_begins_with_a_snapshot_is_not_excluded: 10 checkpoint isr=2 leader=-1 epoch=5; 40 leader=2;
    ALIVE -> undetermined; not_held_earlier_leaders_unknown
  # Leaders before the snapshot may have registered again within their terms and written an epoch twice.
  no elr
  ->
  ->

# Time.
test_a_report_must_be_from_before_the_election_for_its_whole_interval: UNCLEAN; ALIVE; OWN -> possible
  39.4 b1 hw=150 e0@0 -> proven 70..
  39.5 b1 hw=150 e0@0
  39.6 b1 hw=150 e0@0
  41 b1 hw=150 e0@0
test_a_report_must_be_from_before_the_election_on_every_clock: UNCLEAN; ALIVE; LOST -> possible
  error 6500 -> proven 70..
  error 6501
  error 60000
test_own_lines_of_an_epoch_that_ended_before_a_crash_can_have_need_no_clock: UNCLEAN; ALIVE; 25 b1 hw=150 e0@0;
    ? b2 e0@0 e2@80 -> possible
  70 isr=3 leader=3; machine 2 b@0 b@20000 -> proven 70..
  # After a power failure a process may read of that epoch again, lead it in its own eyes, and write its line anew.
  70 isr=3 leader=3
  # Of an epoch that may go on: its leader may crash, lose more, and write its line anew.
  ->
test_a_line_that_was_read_in_one_run_with_the_uptime_is_of_a_log_in_the_same_directories: UNCLEAN; 70 isr=3 leader=3;
    ALIVE; 81 unfence 2; machine 2 -@90-90.5 booted=0 disks; 25 b1 hw=150 e0@0; 90 b2 e0@0 e2@80
  # The disk of broker 2 was replaced while its machine ran, and its new process leads epoch 2 in its own eyes.
  80 register 2 j3 -> proven 70..
  80 register 2 j3 d9 -> possible
  # It failed to write some of it, so its copy of the metadata log may have lost its end, too.
  80 register 2 j3; disk-error 2@75 -> not proven

# What must not be called proven.
test_reports_of_an_earlier_topic_of_that_name: UNCLEAN; ALIVE; OWN -> possible
  # Its files were read before this topic was created: the same name, another partition.
  5 b1 hw=150
  9.9 b1 hw=150
  # A process before this one may have been killed before it wrote log-start-offset-checkpoint, a minute later: a log
  # that ends below what that file says of the name is begun there anew, and so is its high watermark.
  25 b1 hw=150 -> proven 70..
  25 b1 hw=150; earlier u -> proven 70..
  25 b1 hw=150; earlier t
  25 b1 hw=150; earlier ?
test_a_line_that_was_read_before_its_epoch_began_is_of_an_earlier_topic_of_that_name: UNCLEAN
  # Another topic's line. 32 and 36 are of a clean stop.
  ALIVE; 25 b1 hw=150 e0@0; 35 b2 e0@0 e2@80 -> possible
  ASKED; no elr; 32 b1 rp=80/1; 36 b1 rp=80/1; 35 b2 e0@0 e2@80 -> undetermined
  ALIVE; 25 b1 hw=150 e0@0; 50 b2 e0@0 e2@80 -> proven 70..
  ASKED; no elr; 32 b1 rp=80/1; 36 b1 rp=80/1; 50 b2 e0@0 e2@80 -> excluded
test_a_line_of_a_broker_that_was_down_all_the_time_is_of_an_earlier_topic_of_that_name: UNCLEAN; ALIVE;
    25 b1 hw=150 e0@0; 50 b3 e0@0 e2@60
  # Broker 3 still has its folder, in which an epoch 2 began, too. The metadata log may begin after that topic.
  -> proven 90..
  5 fence 3 -> possible
test_a_report_of_a_broker_that_was_never_a_replica: UNCLEAN; ALIVE; 0 register 4 i4; 0 unfence 4; 25 b4 hw=150 e0@0;
    OWN -> possible
  # Its file is of an earlier topic of that name, and no loss of this one.
test_a_report_from_before_its_broker_was_a_replica: 10 replicas=2,3 isr=2,3 leader=2; 22 replicas=1,2,3 adding=1;
    23 isr=1,2 adding=; 30 isr= elr=1,2 leader=-1; 40 isr=3 elr= leader=3 recovering; ONE_DIRECTORY;
    50 b3 e0@0 e2@80 -> possible
  # A directory's file is never rewritten while it has no log: it may name an earlier topic of that name.
  20 b1 hw=150 moved
  23 b1 hw=150 moved
  28 b1 hw=150 moved -> proven 70..
test_a_line_of_an_earlier_topic_of_that_name_shows_no_epoch_of_a_report: TWICE; AGAIN;
    20 b2 hw=71; 25 b2 hw=150; 115 b3 e0@0 e4@85 -> possible
  15 b2 hw=70 e3@60
  15 b2 hw=70 e0@60
test_a_log_end_from_before_the_replica_was_cut_back: UNCLEAN; ALIVE; 25 b1 hw=150 e0@0; 22 b2 isr=1 leo=60;
    26 b2 isr=1 leo=150 -> possible
  # Broker 2 was seen at 60 before the election, then followed broker 1 up to 150 and was elected with that.
test_a_log_end_of_the_winner_from_after_its_time_as_leader: UNCLEAN; 70 isr=3 leader=3; 90 isr=2,3; ALIVE;
    25 b1 hw=150 e0@0
  80 b2 isr=1 leo=60 -> possible
  65 b2 isr=1 leo=140 -> proven 10..
test_a_log_end_of_the_winner_from_after_its_restart: UNCLEAN; 0 register 1 i1; 0 register 2 i2; 0 unfence 1;
    0 unfence 2; RETURNED; 45 register 2 b; 46 unfence 2; 25 b1 hw=150 e0@0 -> possible
  50 b2 isr=1 leo=60
  43 b2 isr=1 leo=60 -> proven 90..
  # The process that was elected still answers, but no longer leads, and may have truncated its log.
  50 b2 isr=1 leo=60 proc=20
test_a_process_whose_broker_has_registered_from_another_machine_shows_nothing: UNCLEAN; ALIVE; 25 b1 hw=150 e0@0;
    50 b2 e0@0 e2@80; 55 b2 isr=1 leo=160 proc=10
  # The one that started at 10 led, was cut off, and runs on; the line is of the one that registered then.
  -> proven 70..
  45 register 2 j3 d9 -> possible
test_a_log_end_of_the_winner_from_before_it_knew_that_it_led: UNCLEAN; ALIVE; 25 b1 hw=150 e0@0 -> possible
  # It may have fetched more before it began to lead.
  41.5 b2 isr=1 leo=60
  42.1 b2 isr=1 leo=60 -> proven 90..
  # A new controller treats it as just heard from: it may not have been heard of since its election for longer.
  fail-over 41-46; 47.9 b2 isr=1 leo=60
  fail-over 41-46; 48.1 b2 isr=1 leo=60 -> proven 90..
test_a_log_end_of_a_winner_that_does_not_say_that_it_leads: UNCLEAN; ALIVE; 25 b1 hw=150 e0@0 -> possible
  # Its metadata publisher waits for a disk: it sends heartbeats, and fetches from broker 1 until it learns of its
  # election (BrokerMetadataPublisher, ReplicaManager.applyDelta, 4.3.1).
  45 b2 isr=1 leo=60 -> proven 90..
  45 b2 isr=0 leo=60
  45 b2 leo=60
test_a_log_end_from_behind_the_end_of_the_metadata_log: UNCLEAN; ALIVE; 25 b1 hw=150 e0@0; 80 b2 isr=1 leo=60
  log-end 70 -> possible
  log-end 90 -> proven 90..
test_a_log_end_from_a_gap_in_the_log_or_behind_it: UNCLEAN; 100 checkpoint isr=3 leader=3 epoch=9; ALIVE;
    25 b1 hw=150 e0@0 -> possible
  80 b2 isr=1 leo=60
  110 b2 isr=1 leo=60
  50 b2 isr=1 leo=60 -> proven 90..
test_a_log_end_of_zero_while_a_broker_starts: UNCLEAN; ALIVE; 25 b1 hw=150 e0@0; 45 b2 isr=1 leo=0 -> possible
test_a_high_watermark_that_restarts_from_the_logs_start: ALIVE
  # A lost checkpoint file (KAFKA-16452) makes the value small, never the floor; it is no regression by itself.
  UNCLEAN; 22 b1 hw=150 e0@0; 25 b1 hw=0 e0@0; OWN -> proven 70..
  UNCLEAN; 25 b1 hw=0 e0@0; OWN -> possible
  10 isr=1,2,3 leader=1; 20 b1 hw=150 e0@0; 30 b1 hw=0 e0@0 -> none
test_a_followers_high_watermark_lags_and_is_a_floor_all_the_same: UNCLEAN; ALIVE; OWN
  25 b3 hw=100 e0@0 -> proven 20..
  25 b3 hw=70 e0@0 -> possible
test_a_stale_checkpoint_file_does_not_prove_a_second_regression: LOST; 65 b1 hw=150 e0@0; 95 b1 hw=150 e0@0 -> possible
  # Broker 1 is down since the first: its file still says 150 whenever it is read. 80 are left of that.
  TWICE; AGAIN; 115 b3 e0@0 e2@80 e4@80
  TWICE; AGAIN; 115 b3 e0@0 e2@80 e4@81
  # Broker 3 never stopped, but broker 1, which led before it joined, may have lost what it had.
  TWICE; REGISTERED_AGAIN; 115 b3 e0@0 e2@80 e4@80
  TWICE; ALIVE; 115 b3 e0@0 e4@70 -> proven 10..;
    role high_watermark_floor=150; role high_watermark_limit=80
test_a_file_of_a_directory_that_holds_no_log_any_more_says_nothing: TWICE; 25 b1 hw=150 e0@0; 65 b2 hw=80 e0@0 e2@80;
    75 b2 hw=90 e0@0 e2@80; 115 b3 e0@0 e2@80 e4@95 -> possible
  # A broker rewrites the file of a directory only while that has a log: the replica was moved out of it at 150.
  ALIVE; 95 b2 hw=150 -> proven 55..
  ALIVE; 95 b2 hw=150 moved
  # The directory failed, still has the log as it was, and the broker made the replica anew in another one.
  ALIVE; 95 b2 hw=150 elsewhere
  ONE_DIRECTORY; 22 register 2 j2 d; 22 unfence 2; 95 b2 hw=150 moved -> proven 55..
test_another_directorys_value_does_not_show_that_a_file_was_rewritten: TWICE; ALIVE; 66 fence 2;
    machine 2 b@0 b@20000; 25 b1 hw=150 e0@0; 65 b2 e0@0 e2@80; 95 b2 hw=150 e0@0 e2@80; 115 b3 e0@0 e2@80 e4@95
  75 b2 hw=60 -> proven 55..
  75 b2 hw=60 moved -> possible
test_a_file_of_a_disk_that_was_replaced_may_have_been_copied_long_after: UNCLEAN; 65 isr=1,2,3; 70 isr=1,2;
    190 isr= leader=-1; 200 isr=3 leader=3 recovering; ALIVE; 51 unfence 1; judged 200; 150 b1 hw=150;
    210 b3 e0@0 e2@80 e4@100
  # It still has the high watermark of before the first loss, and broker 1 is in sync again, on a new disk.
  50 register 1 j1 -> proven 50..
  50 register 1 j1 d9 -> possible
test_after_a_loss_of_unknown_extent_old_reports_say_nothing: TWICE; AGAIN;
    25 b1 hw=150 e0@0; 95 b1 hw=150 e0@0; 115 b3 e0@0 e4@70 -> possible
test_reports_written_since_count_again: TWICE; 25 b1 hw=150 e0@0; 65 b2 hw=80 e0@0 e2@80; 115 b3 e0@0 e2@80 e4@85
  ALIVE; 75 b2 hw=90 e0@0 e2@80; 95 b2 hw=100 e0@0 e2@80 -> proven 15..
  AGAIN -> possible
test_a_report_long_after_an_epochs_line_is_of_that_epoch: TWICE; ALIVE; machine 2 b@0 b@20000; 95 b2 hw=100;
    115 b3 e0@0 e2@80 e4@85 -> possible
  92 b2 e0@0 e2@80 -> proven 15..
  # The value may have been written before the epoch's line.
  94 b2 e0@0 e2@80
  # Its process may have died before it wrote a value of that epoch.
  94 fence 2; 92 b2 e0@0 e2@80
  # The directory may have failed before: the file is as it was, although the process runs on.
  94 offline 2 other; 92 b2 e0@0 e2@80
test_a_report_of_a_replica_long_in_sync_counts_although_it_never_changed: UNCLEAN; 200 isr= elr=2 leader=-1;
    judged 210 -> possible
  210 isr=3 elr= leader=3 recovering; ALIVE; 150 b2 hw=100; 215 b3 e0@0 e2@80 e4@85 -> proven 15..
  210 isr=3 elr= leader=3 recovering; ALIVE; 150 b3 hw=100; 215 b3 e0@0 e2@80 e4@85 -> proven 15..
  # Its file may be from before the epoch for as long as the interval lasts at which it is written.
  210 isr=3 elr= leader=3 recovering; ALIVE; interval 120000; 150 b3 hw=100; 215 b3 e0@0 e2@80 e4@85 -> excluded
  # Or it need not have followed for as long as a leader waits for it.
  210 isr=3 elr= leader=3 recovering; ALIVE; lag 80000; 150 b2 hw=100; 215 b3 e0@0 e2@80 e4@85
  210 isr=3 elr= leader=3 recovering; LATE; 99 b2 hw=100; 215 b3 e0@0 e2@80 e4@85
  210 isr=3 elr= leader=3 recovering; LATE; 150 b1 hw=100; 215 b3 e0@0 e2@80 e4@85
  120 isr=2; 125 isr=2,3; 210 isr=1 elr= leader=1 recovering; ALIVE; 150 b3 hw=100; 215 b1 e0@0 e2@80 e4@85
  210 isr=3 elr= leader=3 recovering; 0 register 2 a; 0 unfence 2 a; 0 register 3 a; 0 unfence 3 a; 130 fence 2;
    131 unfence 2; 150 b2 hw=100; 215 b3 e0@0 e2@80 e4@85
test_a_report_from_a_hole_in_the_log_is_not_of_a_replica_long_in_sync: UNCLEAN; 160 checkpoint isr=2,3 leader=2 epoch=2;
    300 isr= elr=2 leader=-1; 310 isr=3 leader=3; ALIVE; judged 310; 315 b3 e0@0 e2@80 e4@85
  # The log shows broker 2 in sync up to 60 s and again from the snapshot at 160 s on, and nothing in between.
  150 b2 hw=100 -> possible
  250 b2 hw=100 -> proven 15..
test_a_clean_election_with_a_gap_in_the_evidence_lets_old_reports_fade: 10 isr=1,2,3 leader=1; 20 isr=1,2 leader=2;
    30 isr= elr=1,2 leader=-1; 40 isr=3 elr= leader=3; 15 b1 hw=150 e0@0; 50 b3 e0@0 e3@80 -> possible
  # Nothing shows how much the leader of epoch 1 had: what was reported before it is not held against epoch 3.
  UP
  UP; 25 b2 e0@0 e1@150 -> proven 70..
  # It registered again in its term: perhaps it had lost that already when it led on.
  ALIVE; 25 b2 e0@0 e1@150
test_a_leader_that_stays_is_no_election_for_old_reports: 10 isr=1,2,3 leader=1; 20 isr=1,2 leader=1 epoch=1;
    30 isr= elr=1,2 leader=-1; 40 isr=3 elr= leader=3; ALIVE; 15 b1 hw=150 e0@0; 50 b3 e0@0 e3@80 -> proven 70..
test_reports_from_before_a_gap_in_the_log: 10 isr=1,2,3 leader=1; 30 isr= elr=1 leader=-1; ALIVE -> possible
  # What happened in the gap is not known: the second stretch begins with a snapshot.
  20 checkpoint isr=1 leader=1 epoch=4; 40 isr=2 elr= leader=2; 15 b1 hw=150 e0@0; 50 b2 e0@0 e6@80
  20 checkpoint isr=1 leader=1 epoch=4; 40 isr=2 elr= leader=2; 25 b1 hw=150 e0@0; 50 b2 e0@0 e6@80
  20 checkpoint isr=1 leader=1 epoch=0; 40 isr=2 elr= leader=2 recovering; 60 isr=2,3 recovered; 15 b1 hw=150 e0@0;
    OWN -> proven 70..
test_a_log_that_begins_with_a_snapshot: 10 checkpoint isr=1 leader=1 epoch=4; 30 isr= elr=1 leader=-1;
    40 isr=2 elr= leader=2; ALIVE; 25 b1 hw=150 e0@0 e4@90; 50 b2 e0@0 e6@80
  -> possible
  15 b1 hw=130 e0@0 e4@90; 20 b1 hw=140 e0@0 e4@90 -> proven 70..
test_equal_lines_of_epochs_from_before_a_snapshot_exclude_nothing: 20 isr=1; 30 isr= elr=1 leader=-1;
    40 isr=2 elr= leader=2 recovering; 60 isr=2,3 recovered; ALIVE; 28.5 b1 isr=1 under=1 leo=80 -> possible;
    not_held_earlier_leaders_unknown; no not_held_leader_may_have_restarted
  # Broker 2 has records of epoch 4, which two processes may have written.
  10 checkpoint isr=1,2,3 leader=3 epoch=4; 15 isr=1,2 leader=1; 50 b2 e0@0 e4@10 e5@20 e7@80
  # Two processes may have written the last leader's epoch.
  10 checkpoint isr=1,2,3 leader=1 epoch=4; 50 b2 e0@0 e4@10 e6@80
test_leader_epochs_that_are_used_twice_make_evidence_ambiguous: UNCLEAN; 70 isr=3 leader=3 epoch=1;
    80 isr=1 leader=1 epoch=2; ALIVE; LOST -> undetermined
test_a_leader_that_is_no_replica_is_judged_too: 10 replicas=1,2,3 isr=1 leader=1; 30 isr= leader=-1;
    40 isr=4 leader=4 recovering; UP; 0 register 4 i4; 0 unfence 4; 25 b1 hw=150 e0@0; 50 b4 e0@0 e2@80 -> proven 70..
  # After a cancelled reassignment Kafka may elect a last known leader that is no replica any more.

# What must not be called excluded.
test_a_longer_log_that_parted_earlier_is_not_safe: 10 isr=1,2 leader=2; 20 isr=1 leader=1; 30 isr= elr=1 leader=-1;
    40 isr=2 elr= leader=2 recovering; ALIVE; 50 b2 e0@0 e3@200
  # Broker 2 led epoch 0 and wrote on to 200, cut off; broker 1 went on from 100 in epoch 1, up to 120.
  25 b1 isr=1 under=1 leo=120 e0@0 e1@100 -> possible 0..20
  25 b1 isr=1 under=1 leo=120 -> possible
test_min_isr_that_was_lowered_lets_the_high_watermark_rise: 10 isr=1,2,3 leader=1; 20 isr=1;
    30 isr= elr=1 leader=-1 min=1; 40 isr=2 elr= leader=2 recovering; 60 isr=2,3 recovered; ALIVE;
    25 b1 isr=1 under=1 leo=80; OWN -> possible
  # ISR 1 was below min ISR 2, then somebody set min ISR to 1 to write again.
test_min_isr_that_other_brokers_may_not_share: 20 isr=1; 30 isr= elr=1 leader=-1; 40 isr=2 elr= leader=2 recovering;
    60 isr=2,3 recovered; ALIVE; 25 b1 isr=1 under=1 leo=80; OWN -> possible
  10 source=broker isr=1,2,3 leader=1
  10 source=static isr=1,2,3 leader=1
  10 source=default isr=1,2,3 leader=1
  10 source=assumed_default isr=1,2,3 leader=1
test_min_isr_above_the_partitions_own_replica_count: 10 replicas=1,2 isr=1,2 min=3; 30 isr= leader=-1;
    40 isr=2 leader=2; ALIVE; 25 b1 isr=1 under=1 leo=80; 50 b2 e0@0 e2@80 -> possible
  # Partition 0 has three replicas, this one two: its leader counts min ISR 3 as 2 and goes on with both.
test_a_log_end_of_the_leader_after_it_restarted: UNCLEAN; 0 register 1 i1; 0 register 2 i2; 0 unfence 1; 0 unfence 2;
    26 register 1 b; 27 unfence 1; 28 b1 isr=1 under=1 leo=80; OWN -> possible
test_a_log_end_of_another_replica_in_the_frozen_stretch: 10 isr=1,2,3 leader=1; 12 isr=1; 14 isr= elr=1 leader=-1;
    20 isr=2 elr= leader=2 recovering; 30 isr= elr=2 leader=-1; 40 isr=3 elr= leader=3 recovering; UP; 15 register 3 j3;
    15 unfence 3; 16 b2 leo=50; 50 b3 e0@0 e2@60 e4@90
  25 b2 isr=1 under=1 leo=95 e0@0 e2@60 -> possible 0..5
  25 b2 e0@0 e2@60 -> possible
test_a_ceiling_below_the_floor_contradicts_it_and_closes_nothing: UNCLEAN; ALIVE; 22 b1 hw=150 e0@0; OWN -> proven 70..
  25 b1 isr=1 under=1 leo=80
  25 b1 isr=1 under=1 leo=100
test_a_log_end_at_least_above_the_one_at_most_excludes_nothing: UNCLEAN; 70 isr=3 leader=3; ALIVE;
    28.5 b1 isr=1 under=1 leo=85; 50 b2 e0@0 e2@80; 60 b2 e0@0 e2@90 -> possible
  # A copy shows a longer log than another one: which is of the elected process?

# What producers with acks=0 or 1 lost.
test_what_the_old_leader_was_seen_to_have_is_gone_whoever_acknowledged_it: UNCLEAN; 50 b2 e0@0 e2@80 -> unacked 80..
  ASKED; 28 b1 leo=160
  ASKED; 28 b1 hw=150 leo=160 e0@0
  ASKED; 28 b1 heads=150:160/0
  # It may be the copy in a directory that failed long ago.
  ASKED; 28 b1 heads=150:160/0 elsewhere -> unacked ..
  # Or on a disk that was replaced, and copied later.
  0 register 1 i0 old; ASKED; 28 b1 heads=150:160/0 -> unacked ..
  # A process that came back inside its session served nobody, but one that registered again led on, maybe with
  # less.
  KILLED; 28 b1 leo=160
  REGISTERED_AGAIN; 28 b1 leo=160 -> unacked ..
test_below_the_high_watermark_was_in_the_old_leaders_log_too: UNCLEAN; KILLED; 25 b1 hw=150 e0@0;
    50 b2 e0@0 e2@80 -> unacked 70..
test_the_log_that_it_left_when_it_stopped_cleanly_bounds_the_loss: UNCLEAN; KILLED; 28 b1 leo=160; 50 b2 e0@0 e2@80;
    32 b1 rp=170/1 -> excluded; unacked 80..90
  36 b1 rp=170/1
  -> excluded; unacked 80..
  ? b1 tail=170/0/1; 36 b1 rp=170/1 -> unacked_at_most=90; role old_leader_log_end=170
test_a_log_left_by_any_other_session_bounds_nothing: UNCLEAN; 28 b1 leo=160; 50 b2 e0@0 e2@80 -> unacked 80..
  # Another session of that broker left it. It has records of a later leader: cut, or added to. Another broker's.
  KILLED; ? b1 tail=170/0/9
  KILLED; ? b1 tail=170/2/1
  KILLED; ? b2 tail=170/0/2
  # Its session went on: it followed the new leader before it stopped.
  ALIVE; ? b1 tail=170/0/1
  1 register 1 i1; 2 unfence 1; 30 fence 1; 35 unfence 1; 36 fence 1; ? b1 tail=170/0/1 -> unacked ..
test_nothing_is_known_of_what_nobody_saw: UNCLEAN; KILLED -> unacked ..
  50 b2 e0@0 e2@80
  28 b1 leo=160
  # A sample from after the election may be of a log that was cut already.
  45 b1 leo=160; 50 b2 e0@0 e2@80

# The reason, as data.
test_what_is_missing_is_said: UNCLEAN; ALIVE
  -> undetermined; missing_high_watermark; missing_log_end@2
  LOST -> proven 70..; no missing_high_watermark; no missing_log_end

# What the simulator found.
test_a_metric_of_a_log_that_is_not_loaded_contradicts_nothing: 8 isr=1,2 leader=1; 10 isr=1 elr=2;
    160 isr= elr=1,2 lke=1 leader=-1; 161 isr=2 elr=1 leader=2; 1 register 1 a; 2 unfence 1; 3 register 2 a;
    4 unfence 2; 9 shutdown 2; 160 shutdown 1; 158 register 2 b; 161 unfence 2; judged 161; log-end 300;
    152 b3 hw=1 -> excluded
  ->
  158.6 b2 leo=0
test_a_disk_copied_after_a_kill_tells_no_upper_bound: 10 isr=1 elr=3 leader=1; 40 isr= elr=1,3 lke=1 leader=-1;
    60 isr=2 elr= leader=2 recovering; 1 register 1 a; 2 unfence 1; 3 register 2 a; 4 unfence 2; 41 fence 1; judged 60;
    log-end 300 -> possible 0..1
  # Its tail may be gone already, before the controller notices: too low for the high watermark it had reached, and
  # too low for the log end it was elected with.
  25 b1 hw=9 isr=1 under=1 leo=11 e0@0; 70 b2 e0@0 e2@10
  25 b1 hw=9 isr=1 under=1 leo=11 e0@0; 70 b2 e0@0 e2@10; 40 b1 tail=10/0/-1
  # The winner's disk, copied while the controller took it to lead: no upper bound of what it was elected with.
  25 b1 hw=9 e0@0; 65 b2 tail=8/0/-1 -> possible
"""


@pytest.mark.parametrize("entry", entries(TABLE, USUAL), ids=lambda entry: entry.name)
def test_window(entry: Entry) -> None:
    entry.check()


UP = "; ".join(up(1, 2, 3, at=0))
ALIVE = f"{UP}; 22 register 2 j2; 22 unfence 2"
UNCLEAN = "10 isr=1,2,3 leader=1; 20 isr=1; 30 isr= elr=1 leader=-1; 40 isr=2 elr= leader=2 recovering; "
UNCLEAN += "60 isr=2,3 recovered"
LOST = "25 b1 hw=150 e0@0; 50 b2 hw=80 e0@0 e2@80"


def rows_of(story: str, **place: Any) -> list[Row]:
    return evidence(*story.split("; "), **place)


def partition(number: int = 0) -> pa.Table:
    return states(*UNCLEAN.split("; "), partition=number)


def cluster(name: str = "c", **known: Any) -> ClusterFacts:
    times = {"session_timeout_ms": 0, "checkpoint_interval_ms": 1_000}
    return ClusterFacts(name, sessions(*ALIVE.split("; ")), elr_levels(), Clock(0), **times, **known)


def test_a_restart_from_before_elr_was_turned_on_is_not_vouched_for() -> None:
    brokers = sessions("0 register 1 a", "0 unfence 1", "29 fence 1", "35 register 1 b", "36 unfence 1")
    history = states("10 isr=1,2 leader=1", "20 isr=1", "30 leader=-1", "40 leader=1", "60 isr=1,2")
    (finding,) = windows_of(history, offsets_table([]), ClusterFacts("c", brokers, elr_levels(False, (38, True))))
    assert finding["verdict"] == "undetermined"


@pytest.mark.parametrize("other", [{"topic_id": "U" * 22}, {"partition": 1}])
@pytest.mark.parametrize("mine", [0, 1])
def test_evidence_of_another_topic_id_or_partition(mine: int, other: dict[str, Any]) -> None:
    shown = LOST.split("; ")
    rows = evidence(shown[mine]) + evidence(shown[1 - mine], **other)
    assert [f["verdict"] for f in windows_of(partition(), offsets_table(rows), cluster())] == ["possible"]


@pytest.mark.parametrize(("time", "expected"), [("50", "proven"), ("80", "possible")])
def test_without_a_known_end_of_the_log_the_last_record_is_it(time: str, expected: str) -> None:
    rows = rows_of(f"25 b1 hw=150 e0@0; {time} b2 isr=1 leo=60")
    assert [f["verdict"] for f in windows_of(partition(), offsets_table(rows), cluster())] == [expected]


@pytest.mark.parametrize("value", [5_000, 80])
def test_a_file_of_a_directory_that_is_no_longer_in_log_dirs_says_nothing(value: int) -> None:
    """A new disk took its place. The old one is still mounted, and has a high watermark of an earlier topic."""
    rows = rows_of("25 b1 hw=80 e0@0; 50 b2 hw=80 e0@0 e2@80")
    old = [{**row, "path": "25/b1/old/replication_offset", "high_watermark": value} for row in rows[:2]]
    old = [row for row in old if row["source"] == "replication_offset"]
    known = cluster(log_end_ms=ms(10_000))
    one = {b: [replace(s, log_dirs=["d"]) for s in own] for b, own in known.brokers.states.items()}
    (window,) = windows_of(partition(), offsets_table([*rows, *old]), replace(known, brokers=BrokerTimeline(one)))
    assert (window["verdict"], window["high_watermark_min"]) == ("possible", 80)


def test_a_file_with_a_line_missing_gives_no_exact_log_end() -> None:
    rows = [r for r in rows_of(LOST) if r["leader_epoch"] != 0]
    (finding,) = windows_of(partition(), offsets_table(rows), cluster())
    assert (finding["verdict"], finding["loss_min"], finding["first_lost_offset"]) == ("proven", 70, None)


# Predictions.

SEEN = f"{UNCLEAN}; {ALIVE}; 25 b1 hw=150 leo=150 e0@0; 50 b2 hw=80 e0@0 e2@80"


def policies(story: str) -> dict[str, Row]:
    """What each policy does at the judged election."""
    *known, _, judged = inputs(f"{USUAL}; {story}")
    found = detect(*known).counterfactuals.to_pylist()
    return {row["policy"].removeprefix("unclean_recovery_"): row for row in found if row["offset"] == judged}


def test_policies_are_asked_about_every_window() -> None:
    story = f"{SEEN}; 31 fence 1; 35 b2 leo=80 e0@0; 36 b3 leo=100 e0@0"
    rows = policies(story)
    assert {p: (r["outcome"], r["leader"], r["differs"], r["loss_min"]) for p, r in rows.items()} == {
        "aggressive": ("elected", 3, True, 50),
        "balanced": ("waits", None, None, None),
        "all_replicas": ("elected", 1, True, 0),
        "none": ("waits", None, None, None),
        "last_known_leader": ("waits", None, None, None),
    }
    finding = window(f"{USUAL}; {story}")
    assert (finding["would_be_leader"], finding["policy"]) == (1, "unclean_recovery_all_replicas")
    assert "Prediction:" in finding["explanation"]


@pytest.mark.parametrize(
    ("shown", "policy", "expected"),
    [
        # A log that may have grown since it was seen bounds nothing from below.
        ("31 fence 1; 26 b2 leo=80 e0@0; 27 b3 leo=100 e0@0", "aggressive", {"leader": 3, "loss_min": 0}),
        # A sight without an epoch hides no earlier one that tells it.
        ("31 fence 1; 35 b2 leo=80 e0@0; 36 b3 leo=100 e0@0", "aggressive", {"leader": 3, "log_end_offset": 100}),
        (
            "31 fence 1; 35 b2 leo=80 e0@0; 36 b3 leo=100 e0@0; 38 b3 leo=101",
            "aggressive",
            {"leader": 3, "log_end_offset": 100},
        ),
        # The last leader may go on writing without knowing better.
        (
            "35 b1 leo=120 e0@0; 36 b2 leo=80 e0@0; 36 b3 leo=70 e0@0",
            "all_replicas",
            {"leader": 1, "log_end_offset": 120, "loss_min": 0},
        ),
        # The recorded leader has the finding's bounds.
        ("31 fence 1; 31 fence 3; 35 b2 leo=80 e0@0", "aggressive", {"leader": 2, "loss_min": 70, "differs": False}),
        # A log that goes on from the last leader's is bounded from above.
        (
            "31 fence 1; 31 fence 2; 28.5 b1 isr=1 under=1 leo=150; 36 b3 leo=100 e0@0",
            "aggressive",
            {"leader": 3, "loss_max": 50},
        ),
    ],
)
def test_what_a_policy_would_have_done(shown: str, policy: str, expected: Row) -> None:
    row = policies(f"{SEEN}; {shown}")[policy]
    assert {name: row[name] for name in expected} == expected


def test_only_a_log_that_goes_on_from_the_last_leaders_is_bounded_from_above() -> None:
    older = UNCLEAN.replace("leader=1;", "leader=1 epoch=3;", 1)
    shown = "28.5 b1 hw=150 isr=1 under=1 leo=150 e0@0; 36 b3 leo=100 e0@0; 50 b2 hw=80 e0@0 e2@80"
    row = policies(f"{older}; {ALIVE}; 31 fence 1; 31 fence 2; {shown}")["aggressive"]
    assert (row["leader"], row["loss_max"]) == (3, None)


@pytest.mark.parametrize(
    ("more", "most"), [("", None), ("; 22 b3 e0@0 e1@90", 0), ("; 24 b3 heads=99:100/1", 0)], ids=str
)
def test_a_log_end_may_be_from_before_the_follower_truncated_for_the_epoch_that_its_file_shows(
    more: str, most: int | None
) -> None:
    """Broker 3 had 100 offsets, then 90, and then some of those of broker 1, which led from 90 on."""
    history = (
        "10 isr=1,2,3 leader=2; 20 isr=1,3 leader=1; 25 isr=1; 30 isr= elr=1 leader=-1; 40 isr=2 leader=2 recovering"
    )
    shown = "28.5 b1 hw=98 isr=1 under=1 leo=100 e0@0 e1@90; 23 b3 leo=100 e0@0 e1@90; 50 b2 e0@0 e3@80"
    row = policies(f"{history}; {ALIVE}; 31 fence 1; 31 fence 2; {shown}{more}")["aggressive"]
    assert (row["leader"], row["loss_max"]) == (3, most)


@pytest.mark.parametrize(
    ("brokers", "most"), [(ALIVE, 0), ("1 register 1 a; 2 unfence 1; 201 fence 1", None)], ids=["ran on", "killed"]
)
def test_a_log_whose_broker_stopped_since_it_was_seen_is_not_bounded_from_above(brokers: str, most: int | None) -> None:
    """Broker 1 was killed at 200, when it was last seen at 100: what it did not flush is gone when it comes back."""
    history = "10 isr=1,2,3; 20 isr=1 elr=2; 200 isr= elr=1,2 lke=1 leader=-1; 210 isr=3 elr= leader=3 recovering"
    shown = "15 b1 hw=4 leo=4 e0@0; 16 b2 leo=3 e0@0; 17 b3 leo=3 e0@0; 100 b1 hw=3 isr=1 under=1 leo=4 e0@0"
    row = policies(f"{history}; {brokers}; {shown}; judged 210; log-end 300")["all_replicas"]
    assert (row["outcome"], row["loss_max"]) == ("elected", most)


# The whole.


def test_findings_ids_are_stable_and_differ_by_place() -> None:
    again = ("100 isr= elr=2 leader=-1", "110 isr=3 elr= leader=3 recovering", "120 isr=2,3")
    both = together(states(*UNCLEAN.split("; "), *again), partition(1))
    found = [detect(both, offsets_table([]), cluster(name)).findings.to_pylist() for name in ("c", "c", "d")]
    first, second, other = ([f["finding_id"] for f in rows] for rows in found)
    assert first == second
    assert len(set(first)) == len(first)
    assert sum(f["kind"] == "hwm_regression" for f in found[0]) == 3
    assert not set(other) & set(first)


def test_partitions_do_not_share_evidence_or_lineage() -> None:
    rows = rows_of(LOST) + rows_of("25 b1 hw=90; 50 b2 e0@0 e2@85", partition=1)
    found = windows_of(together(partition(), partition(1)), offsets_table(rows), cluster())
    assert [(f["partition"], f["verdict"], f["loss_min"]) for f in found] == [(0, "proven", 70), (1, "proven", 5)]


def test_no_history_no_findings() -> None:
    empty = detect(states(), offsets_table(rows_of(LOST)), cluster())
    assert (len(empty.findings), len(empty.elections), len(empty.counterfactuals)) == (0, 0, 0)
    assert empty.findings.schema == FINDINGS


def test_more_than_64_replicas() -> None:
    many = ",".join(str(b) for b in range(1, 71))
    history = f"10 replicas={many} isr={many}; 20 isr=1; 30 isr= elr=1 leader=-1; 40 isr=70 elr= leader=70"
    brokers = "; ".join(up(1, 70, at=0))
    found = window(f"{USUAL}; {history}; {brokers}; 25 b1 hw=150 e0@0; 50 b70 e0@0 e2@80")
    assert (found["verdict"], found["loss_min"]) == ("proven", 70)


# The reason, as data.


def test_the_reason_is_data_and_the_prose_is_made_of_it() -> None:
    finding = window(f"{USUAL}; {UNCLEAN}; {ALIVE}; {LOST}")
    said = statements(finding)
    assert (said["elected"]["brokers"], said["elected"]["offset"]) == ([2], 40)
    assert (said["high_watermark_at_least"]["value"], said["lost_at_least"]["value"]) == (150, 70)
    natures = {"outsider": "fact", "high_watermark_at_least": "bound", "lost_open": "bound", "clocks": "assumption"}
    assert {code: said[code]["nature"] for code in natures} == natures
    assert prose(finding["reason"]) == finding["explanation"]
    assert "Proven: at least 70 acknowledged offsets are gone" in finding["explanation"]
    assert (finding["severity"], finding["recorded_leader"]) == ("critical", 2)
    assert (finding["start_offset"], finding["end_offset"]) == (30, 60)


@pytest.mark.parametrize(
    ("topic", "meanings"),
    [("__consumer_offsets", ["consumer_offsets"]), ("__transaction_state", ["transaction_state"]), ("t", [])],
)
def test_kafkas_own_topics_are_called_out(topic: str, meanings: list[str]) -> None:
    rows = offsets_table(rows_of("50 b2 e0@0 e2@80", topic=topic))
    (finding,) = windows_of(states(*UNCLEAN.split("; "), topic=topic), rows, cluster(log_end_ms=ms(100)))
    assert [s["code"] for s in finding["reason"] if s["nature"] == "meaning"] == meanings
    assert finding["severity"] == ("high" if meanings else "medium")
