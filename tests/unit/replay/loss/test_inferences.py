"""Each inference of a verdict by itself, with the statement that names it (docs/findings.md)."""

from __future__ import annotations

import pytest

from replay.controller.transitions import Bucket
from replay.loss.election_facts import Contradictions
from replay.loss.judged_windows import judged_windows
from replay.offsets.clean_stops import left_behind
from tests.support.scenario import evidence, up
from tests.support.window_table import Entry, entries, inputs

TABLE = """\
# Unless it says otherwise broker 1 led, and broker 2 was elected uncleanly at 60.
UP = 1 register 1 i1; 2 register 2 i2; 3 register 3 i3; 4 unfence 1; 5 unfence 2; 6 unfence 3
LOST = 50 isr= leader=-1; 60 isr=2 leader=2 recovering; 80 isr=2,3 recovered
UNCLEAN = 10 isr=1,2,3; 20 isr=1; LOST
HANDED_OVER = 10 isr=1,2,3; 50 isr=2,3 leader=-1; 60 isr=2,3 leader=2
AT_THE_END = 50 isr=2,3 leader=-1; 60 isr=2,3 leader=2
KILLED = UP; 50 fence 1
STOPPED = UP; 49 shutdown 1; 51 fence 1
ALONE = UP; 18 fence 2; 18 fence 3; 50 fence 1; 55 unfence 2
AGAIN = UP; 40 register 1 j1; 41 unfence 1; 50 fence 1
LONE_LEADER = 10 isr=1,2,3 min=1; 20 isr=1; LOST
LONE_AT_LAST = 10 isr=1,2,3 min=1; 47 isr=1; LOST
TWO_READINGS = 30 b1 isr=1 under=0 leo=150 proc=0; 33 b1 isr=1 under=0 leo=151 proc=0
LINE = 70 b2 e0@0 e2@80
LEFT = 70 b1 heads=120,130,135,140,145:150/0
ALONE_IN_ISR = 30 b1 isr=1 under=0
TWICE = 54 b1 rp=80/1; 57 b1 rp=80/1
DEFAULTS = 10 isr=1,2,3 source=default; 20 isr=1; LOST
OWN_WORD = 30 b1 isr=1 under=1 leo=79 proc=0; 33 b1 isr=1 under=1 leo=80 proc=0
AWAY_TWICE = 14 isr=1; 15 isr=1,2; 20 isr=1; LOST
RAN_ON = machine 2 b@5 b@70
CUT_OFF = 10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1; 60 isr=2 leader=2 recovering
TAKEN_IN = CUT_OFF; 70 isr=2,1 recovered; 100 isr= leader=-1; 110 isr=3 leader=3 recovering; judged 110
BACK = UP; 50 fence 1; 62 register 1 j1; 63 unfence 1; 100 fence 1; 100 fence 2
REASSIGNED = CUT_OFF; 65 isr=2 replicas=2,3 adding=3 removing=2 recovered; judged 80
RELED = 10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1; 60 isr=1 leader=1; 90 isr= leader=-1; 100 isr=3 leader=3 recovering;
    judged 100
MOVED = 10 isr=1,2,3; 30 isr=1,2,3 dirs=d1,other,d3; AT_THE_END
STOPPED_TOO = UP; 48 shutdown 2; 49 fence 2; 49 shutdown 1; 51 fence 1; 54 register 2 n; 55 unfence 2
LATER = 10 isr=1,2,3; 150 isr=2,3 leader=-1; 160 isr=2,3 leader=2; judged 160

# Floors.
test_a_leader_alone_in_its_isr_has_its_high_watermark_at_its_logs_end: LONE_LEADER; ALONE; threads 1:1; TWO_READINGS;
    LINE -> proven 70..; floor_leader_alone=150
test_each_request_thread_may_have_appended_what_is_not_yet_committed: LONE_LEADER; ALONE; LINE -> no floor_leader_alone
  # A thread has appended up to 150 and waits for the log to commit it: another one has its lock, and waits for a
  # disk (UnifiedLog.append, maybeIncrementHighWatermark, 4.3.1). The log end stands still meanwhile.
  threads 1:1; 30 b1 isr=1 under=0 leo=150 proc=0; 33 b1 isr=1 under=0 leo=150 proc=0;
    36 b1 isr=1 under=0 leo=150 proc=0
  threads 1:3; TWO_READINGS; 36 b1 isr=1 under=0 leo=152 proc=0
  threads 1:2; TWO_READINGS; 36 b1 isr=1 under=0 leo=151 proc=0;
    39 b1 isr=1 under=0 leo=152 proc=0 -> floor_leader_alone=150
  threads 1:2; TWO_READINGS; 36 b1 isr=1 under=0 leo=152 proc=0;
    39 b1 isr=1 under=0 leo=153 proc=0 -> floor_leader_alone=151
  TWO_READINGS
  # Its coordinator's threads append, too.
  threads 1:1; topic __consumer_offsets; TWO_READINGS
test_what_does_not_show_that_a_leader_was_alone: LONE_LEADER; threads 1:1; LINE -> no floor_leader_alone
  ALONE; 30 b1 isr=1 under=0 leo=150 proc=0
  ALONE; 30 b1 isr=1 under=0 leo=150 proc=0; 33 b1 isr=1 under=0 leo=151 proc=31
  ALONE; 30 b1 isr=1 under=0 leo=150 proc=0; 33 b1 isr=1 under=0 leo=150 proc=0
  ALONE; 30 b1 isr=1 under=1 leo=150 proc=0; 33 b1 isr=1 under=1 leo=151 proc=0
  # The leader still counted another member when it had that log end.
  ALONE; 30 b1 isr=2 under=0 leo=150 proc=0; 33 b1 isr=1 under=0 leo=151 proc=0
  # Too soon after the others left, and with a follower that runs.
  ALONE; 22 b1 isr=1 under=0 leo=150 proc=0; 24 b1 isr=1 under=0 leo=151 proc=0
  KILLED; 18 fence 2; TWO_READINGS
test_what_the_metadata_log_must_show_of_a_lone_leader: 10 isr=1,2,3 min=1; LOST; ALONE; threads 1:1; TWO_READINGS;
    LINE -> possible; no floor_leader_alone
  # Broker 3 is a member by the metadata log: it may hold the high watermark back.
  20 isr=1,3
  # Min ISR was lowered while it led: it moves its high watermark with the next append only.
  20 isr=1 min=2; 22 min=1
test_a_lone_leader_of_a_snapshot_may_have_had_another_min_isr_before: LOST; ALONE; threads 1:1; TWO_READINGS; LINE
  # It was lowered before the snapshot, and nothing was written since.
  19 isr=1 min=1 -> floor_leader_alone
  19 checkpoint isr=1 min=1 -> no floor_leader_alone
test_a_replica_that_was_active_when_a_leader_was_left_alone_may_hold_its_high_watermark_back: 10 isr=1,2,3 min=1;
    60 isr= leader=-1; 70 isr=2 leader=2 recovering; 90 isr=2,3 recovered; UP; 18 fence 3; 60 fence 1; 65 unfence 2;
    judged 70; threads 1:1; 34 b1 isr=1 under=0 leo=150 proc=0; 37 b1 isr=1 under=0 leo=151 proc=0;
    80 b2 e0@0 e2@80 -> possible; no floor_leader_alone
  # It may have caught up; to fence it does not move the high watermark.
  20 isr=1; 22 fence 2
  # It was fenced in the same millisecond, a record later.
  20 isr=1 at=22; 22 fence 2
  20 isr=1; 20 fence 2 -> proven 70..; floor_leader_alone
test_the_log_of_a_lone_leader_shows_its_high_watermark_but_for_a_batch_a_thread: LONE_LEADER; ALONE; threads 1:4;
    ALONE_IN_ISR; LEFT; LINE -> proven 50..; floor_lone_leaders_log=130
test_a_lone_leader_that_says_that_others_count_may_still_wait_for_them: LONE_LEADER; ALONE; threads 1:4; LEFT;
    LINE -> floor_lone_leaders_log
  # The controller hears from it, so it has applied the change that left it alone, unless it says otherwise.
  ->
  30 b1 isr=1
  30 b1 isr=3 under=0 -> no floor_lone_leaders_log
  30 b1 isr=0 under=0 -> no floor_lone_leaders_log
  # By its own config there are too few in sync.
  30 b1 isr=1 under=1 -> no floor_lone_leaders_log
  # It need not know yet, or the text is from before it was alone, from after its term, or of another broker.
  22 b1 isr=3 under=0
  19 b1 isr=3 under=0
  51 b1 isr=0 under=0
  30 b3 isr=3 under=0
test_what_does_not_show_a_lone_leaders_high_watermark: ALONE_IN_ISR; LINE -> no floor_lone_leaders_log
  # Nobody knows how many threads it had, or its log has fewer batches than threads.
  LONE_LEADER; ALONE; LEFT
  LONE_LEADER; ALONE; threads 1:6; LEFT
  # The log ends in an epoch that it did not lead, or is another broker's.
  LONE_LEADER; ALONE; threads 1:4; 70 b1 heads=120,130,135,140,145:150/7
  LONE_LEADER; ALONE; threads 1:4,3:4; 70 b3 heads=120,130,135,140,145:150/0
  # Min ISR was 2, or was the default of the controllers only.
  UNCLEAN; ALONE; threads 1:4; LEFT
  10 isr=1,2,3 min=1 source=default; 20 isr=1; LOST; ALONE; threads 1:4; LEFT
  # A follower ran on; or it was not alone for long enough, and never said that it knew.
  LONE_LEADER; KILLED; 18 fence 2; threads 1:4; LEFT
  LONE_AT_LAST; ALONE; threads 1:4; LEFT
  # It was not alone at the end of its term: a member may hold the high watermark back.
  10 isr=1,2,3 min=1; 20 isr=1,3; LOST; ALONE; threads 1:4; LEFT
  # Another process of it served, too, or brokers append to the topic by themselves.
  LONE_LEADER; AGAIN; 18 fence 2; 18 fence 3; threads 1:4; LEFT
  LONE_LEADER; ALONE; threads 1:4; topic __consumer_offsets; LEFT
test_a_lone_leader_for_a_short_time_must_say_so_while_it_runs: LONE_AT_LAST; threads 1:4; LEFT;
    LINE -> no floor_lone_leaders_log
  UP; 18 fence 2; 18 fence 3; 55 unfence 2; 58 fence 1; b1 stays e0 p1 hw=0 t=48 utc=48 -> floor_lone_leaders_log
  # Its line names the state before: it may still wait for the other members.
  UP; 18 fence 2; 18 fence 3; 55 unfence 2; 58 fence 1; b1 stays e0 p0 hw=0 t=48 utc=48
  # The line may be of a process that started inside its session: nobody could reach that one.
  ALONE; b1 stays e0 p1 hw=0 t=48 utc=48
test_or_its_exporter_must_say_so: LONE_AT_LAST; UP; 18 fence 2; 18 fence 3; 55 unfence 2; 58 fence 1; threads 1:4; LEFT;
    LINE -> no floor_lone_leaders_log
  48 b1 isr=1 under=0 -> floor_lone_leaders_log
  46 b1 isr=1 under=0
  48 b1 isr=1

# Ceilings.
test_a_clean_stop_that_a_second_round_confirms_is_a_ceiling: UNCLEAN; STOPPED; LINE
  TWICE -> excluded; ceiling_clean_stop=80; nothing_lost; unacked_at_most=0
  54 b1 rp=80/1 -> possible; no ceiling_clean_stop; no nothing_lost; no unacked_at_most
test_what_is_not_the_log_end_of_a_leader_that_stopped: UNCLEAN; LINE -> no ceiling_clean_stop
  # Read after the election: it may have followed the new leader, and truncated, before it stopped.
  STOPPED; 63 b1 rp=80/1; 67 b1 rp=80/1
  # The broker's next process, on another machine, had registered: this one may have run on beside it.
  KILLED; 55 register 1 j1 d9; 63 b1 rp=80/1; 67 b1 rp=80/1
  # Another process of it registered and led on after that stop.
  KILLED; 15 register 1 j1; 16 unfence 1; 12 b1 rp=80/1; 14 b1 rp=80/1
  # Of a future log: nothing shows that the directory with this file has the log itself, and the broker has two.
  STOPPED; 54 b1 rp=80/1 future; 57 b1 rp=80/1 future
  # The earlier round had the file of that directory only: the broker stops one directory after the other.
  STOPPED; 54 b1 rp=80/1 future; 57 b1 rp=80/1
  # The disk was full when it wrote the recovery points, and not when it wrote the file of its clean stop.
  STOPPED; 54 b1 rp=80/1; 57 b1 rp=80/1 tail=90/0/1
  # The same with no record of the partition after that registration but the one that ends the leader's term.
  AGAIN; 36 b1 rp=80/1; 39 b1 rp=80/1
test_a_leader_that_stopped_before_it_was_elected_bounds_nothing: 10 isr=1,2,3 leader=2; 20 isr=2;
    30 isr=1 leader=1 recovering; 60 isr=3 leader=3 recovering; UP; 30 fence 2
  # Broker 2, alone in the ISR and cut off from the controllers, goes on: nothing has told it that broker 1, whose
  # log is empty, was elected at 30.
  40 isr= leader=-1; 40 fence 1; 35 b1 rp=0/1; 37 b1 rp=0/1 -> excluded; ceiling_clean_stop
  32 isr= leader=-1; 32 fence 1; 27 b1 rp=0/1; 29 b1 rp=0/1 -> undetermined; no ceiling_clean_stop
test_a_leader_that_says_itself_that_it_is_below_min_isr_bounds_the_high_watermark: DEFAULTS; STOPPED; newer; OWN_WORD;
    LINE -> excluded; ceiling_leaders_own_word=80
test_what_is_not_a_leaders_own_word: LINE -> no ceiling_leaders_own_word
  DEFAULTS; STOPPED; newer; 30 b1 isr=1 under=1 leo=79 proc=0
  DEFAULTS; STOPPED; newer; 30 b1 isr=1 under=1 leo=79 proc=0; 33 b1 isr=1 under=1 leo=80 proc=31
  # The texts overlap: the log end may be from before it was below min ISR.
  DEFAULTS; STOPPED; newer; 30 b1 isr=1 under=1 leo=79 proc=0; 30.4 b1 isr=1 under=1 leo=80 proc=0
  # A process that started inside the session of the killed leader may have less.
  DEFAULTS; KILLED; newer; 47 b1 isr=1 under=1 leo=80 proc=45; 49 b1 isr=1 under=1 leo=80 proc=45
  DEFAULTS; STOPPED; newer; 30 b1 isr=1 under=0 leo=79 proc=0; 33 b1 isr=1 under=0 leo=80 proc=0
  # An older broker's high watermark goes on; an ISR that grows may lift it.
  DEFAULTS; STOPPED; OWN_WORD
  10 isr=1,2,3 source=default; 20 isr=1,2; 28 isr=1; 31 isr=1,3; LOST; STOPPED; newer; OWN_WORD
  DEFAULTS; 14 isr=1; 15 isr=1,2; STOPPED; newer; OWN_WORD
  # It was led by another one since then, which may have had another min ISR.
  10 isr=1 source=default; 14 isr=1 leader=2; 15 isr=1 leader=1; LOST; STOPPED; newer; OWN_WORD
test_below_min_isr_the_leaders_log_end_counts_once_it_surely_knew: LINE -> excluded; no ceiling_below_min_isr
  # Five seconds: the session margin, and a second more.
  UNCLEAN; STOPPED; newer; 25.1 b1 isr=1 under=1 leo=80 -> excluded; ceiling_below_min_isr=80
  UNCLEAN; STOPPED; newer; 25 b1 isr=1 under=1 leo=80
  UNCLEAN; STOPPED; 30 b1 isr=1 under=1 leo=80 -> possible; no ceiling_below_min_isr
  # A process that started inside the session of the killed leader may have less.
  UNCLEAN; KILLED; newer; 48 b1 isr=1 under=1 leo=80
  # It may not have applied the state, although the controller hears from it: its exporter must say so, too.
  UNCLEAN; STOPPED; newer; 30 b1 leo=80
  UNCLEAN; STOPPED; newer; 30 b1 isr=1 leo=80
  UNCLEAN; STOPPED; newer; 30 b1 under=1 leo=80
  UNCLEAN; STOPPED; newer; 30 b1 isr=2 under=0 leo=80
  UNCLEAN; STOPPED; newer; 30 b1 isr=0 under=0 leo=80
  # What it says must not be true of an earlier state, too.
  10 isr=1,2,3; AWAY_TWICE; STOPPED; newer; 30 b1 isr=1 under=1 leo=80
  UNCLEAN; 14 isr=1,3; 15 isr=1,2; STOPPED; newer; 30 b1 isr=1 under=1 leo=80 -> excluded; ceiling_below_min_isr=80
  # An earlier text shows that it has left that state behind.
  10 isr=1,2,3; AWAY_TWICE; STOPPED; newer; 17 b1 isr=2 under=0; 30 b1 isr=1 under=1 leo=80 -> excluded;
    ceiling_below_min_isr=80
  10 isr=1,2,3; AWAY_TWICE; STOPPED; newer; 17 b1 isr=1 under=1; 30 b1 isr=1 under=1 leo=80
  10 isr=1,2,3; AWAY_TWICE; STOPPED; newer; 12 b1 isr=3 under=0; 30 b1 isr=1 under=1 leo=80
  # A new controller treats it as just heard from.
  UNCLEAN; STOPPED; newer; fail-over 22-27; 26 b1 isr=1 under=1 leo=80
  UNCLEAN; STOPPED; newer; fail-over 22-27; 32 b1 isr=1 under=1 leo=80
  UNCLEAN; STOPPED; newer; fail-over 22-27; 32.1 b1 isr=1 under=1 leo=80 -> excluded; ceiling_below_min_isr=80
test_what_a_leader_had_is_not_lost_with_the_election_if_a_snapshot_hides_another_process: KILLED; 33 b1 leo=150; LINE
  UNCLEAN -> possible; unacked_at_least
  10 checkpoint isr=1,2,3; 20 isr=1; LOST -> possible; no unacked_at_least
test_a_leader_that_registered_again_leaves_it_open_what_its_log_shared: UNCLEAN; newer; 33 b1 isr=1 under=1 leo=80; LINE
  # Nothing below min ISR was acknowledged, but broker 2 may have followed a process that had less. A process that
  # crashed and never registered reached nobody.
  KILLED -> excluded; ceiling_below_min_isr=80; log_end=80; no log_end_at_most
  AGAIN -> possible; ceiling_below_min_isr=80; no log_end; log_end_at_most=80

# Held by protocol.
test_a_member_is_trusted_premise_by_premise: HANDED_OVER; STOPPED -> excluded; held_by_protocol; premise_alive;
    premise_leaders_ran; premise_log_ends_current; premise_member; premise_no_registration; premise_not_marked;
    premise_same_directory
test_a_premise_that_fails_is_named: HANDED_OVER
  AGAIN -> undetermined; no held_by_protocol; not_held_leader_may_have_restarted; no restarted
  STOPPED; 62 fence 2 -> undetermined; no held_by_protocol; not_held_no_sign_of_life
  STOPPED; 60 register 2 new batch=60 -> undetermined; no held_by_protocol; not_held_no_sign_of_life;
    not_held_registered_with_it
  STOPPED; 54 register 2 new; 55 unfence 2 -> undetermined; no held_by_protocol; restarted
  STOPPED; 55 offline 2 other -> undetermined; no held_by_protocol; not_held_directory_changed
test_a_new_controller_shows_no_sign_of_life: HANDED_OVER; STOPPED; 70 fence 2
  # It treats every broker as just heard from, so a broker fenced at 70 may have died before the election at 60.
  -> excluded
  fail-over 62-67 -> undetermined
test_who_joined_without_having_caught_up_is_no_member: 10 isr=1,2,3; STOPPED -> undetermined; no held_by_protocol
  # It came into the ELR after the ISR of a leader with min ISR 1, by its own config: that one advanced alone.
  20 isr=1 elr=2 source=static; 30 source=topic; 50 isr= leader=-1; 60 isr=2 elr= leader=2; elr
  # The feature was off, or min ISR was reached: the leader advanced alone.
  20 isr=1 elr=2; 50 isr= leader=-1; 60 isr=2 elr= leader=2
  20 isr=1 elr=2 min=1; 50 isr= leader=-1; 60 isr=2 elr= leader=2; elr
  # Only the controller took it in, or only with the election's own batch.
  20 isr=1,3; 50 isr= leader=-1; 55 isr=2; 60 isr=2 leader=2
  20 isr=1,3; 59 isr=1,2,3; 60 isr=2,3 leader=-1 batch=59; 61 isr=2,3 leader=2 batch=59; judged 61
test_who_left_with_another_event_of_the_elections_batch_is_no_member: 59 isr=1; UP; 90 fence 3 -> undetermined;
    no premise_member; no premise_member_once
  10 isr=1,2,3 min=1; 20 isr=1,2; 60 isr=2 leader=2 recovering batch=59; 59 shutdown 1; 61 fence 1
  10 isr=1,2 replicas=2,1 adding=1 min=1; 60 replicas=2 adding= isr=2 leader=2 batch=59
test_who_registers_anew_as_a_member_may_lead_before_it_has_caught_up: 10 isr=1,2,3; UP; 50 register 2 again;
    51 unfence 2; 120 fence 3 -> none
  # Its session was over and it was not fenced yet: 3.9.1 without ELR changes no ISR.
  60 isr=2,3 leader=2; 60 fence 1 -> undetermined
  # It left the ISR, and was taken in again; or has been in sync since for a minute.
  49 isr=1,3; 55 isr=1,2,3; 60 isr=2,3 leader=2; 60 fence 1
  110 isr=2,3 leader=2; 110 fence 1; judged 110
test_who_commits_alone_by_its_own_min_isr_leaves_the_elr_without_that: 10 isr=1,2,3 source=static; 20 isr=1 elr=2;
    60 isr=2 elr=1 leader=2; KILLED; elr -> undetermined
  # The controllers' files say 2, and broker 1's own says 1: it led alone, and 2 caught up too late.
test_a_member_that_was_away_followed_no_second_process: 10 isr=1,2,3; 20 isr=1,2; 50 isr= elr=1,2 leader=-1;
    60 isr=2 leader=2; AGAIN; elr -> undetermined; no held_by_protocol
  # Another process of broker 1 registered at 40; the one before certainly ran until 36.
  30 isr=1 elr=2; 30 shutdown 2; 31 fence 2; 54 register 2 n; 55 unfence 2 -> excluded; held_by_protocol
  # It may have followed the second one, which may have had less.
  38 isr=1 elr=2; 38 shutdown 2; 39 fence 2; 54 register 2 n; 55 unfence 2
  30 isr=1 elr=2; 30 shutdown 2; 31 fence 2; 50 register 2 n; 51 unfence 2
  # The controller let it go when that one had registered.
  30 isr=1 elr=2; 30 shutdown 2; 43 fence 2; 54 register 2 n; 55 unfence 2
test_a_member_of_a_later_isr_may_differ_from_an_earlier_leader_that_was_two_processes: 10 isr=1,3; 50 isr=3 leader=3;
    55 isr=2,3; 70 isr=2 leader=-1; 80 isr=2 leader=2; 69 shutdown 3; 71 fence 3; judged 80
  # Broker 2 joined under broker 3, which may have followed either process of broker 1.
  STOPPED -> held_by_protocol
  AGAIN -> no held_by_protocol
test_a_clean_stop_found_within_the_term_shows_no_single_process: HANDED_OVER; KILLED; topic __consumer_offsets
  # Another process may have started after it was found, and a coordinator writes before anybody reaches it.
  51 b1 rp=80/1; 52 b1 rp=80/1 -> premise_leaders_ran
  45 b1 rp=80/1; 46 b1 rp=80/1 -> no premise_leaders_ran
test_the_file_of_a_clean_stop_before_the_next_registration_is_left_over: HANDED_OVER; AGAIN; 61 b1 rp=80/1;
    62 b1 rp=80/1 -> not_held_leader_may_have_restarted
  # Its directory is no longer in log.dirs, or was put back from a copy.
test_a_replica_that_has_no_directory_yet_may_have_been_in_one_that_is_gone:
    10 isr=1,2 dirs=d1,AAAAAAAAAAAAAAAAAAAAAQ,d3; 20 isr=1 elr=2 dirs=d1,AAAAAAAAAAAAAAAAAAAAAQ,d3;
    50 isr= elr=1,2 leader=-1 dirs=d1,AAAAAAAAAAAAAAAAAAAAAQ,d3; 60 isr=2 leader=2 dirs=d1,AAAAAAAAAAAAAAAAAAAAAQ,d3;
    KILLED; 30 shutdown 2; 31 fence 2; 33 unfence 2; elr
  # The other directories have the files of a clean stop, and the next process makes an empty log in one of them.
  32 register 2 j2 other -> no held_by_protocol
  32 register 2 j2 d2,other -> held_by_protocol
test_a_member_may_have_been_taken_in_for_what_an_earlier_process_had: HANDED_OVER; 20 isr=1,3; 40 isr=1,2,3;
    STOPPED -> held_by_protocol; no restarted
  # Its leader struck it off, and may have asked to take it in again before it died.
  30 fence 2; 31 register 2 j2; 32 unfence 2 -> no held_by_protocol; restarted
  30 fence 2; 31 register 2 j2; 32 unfence 2; RAN_ON
  # It was fenced when it was struck off, and not unfenced before it registered.
  20 fence 2; 31 register 2 j2; 32 unfence 2
  20 fence 2; 25 unfence 2; 30 fence 2; 31 register 2 j2; 32 unfence 2 -> no held_by_protocol; restarted
  # It registered before.
  18 fence 2; 19 register 2 j2; 20 unfence 2
test_without_elr_a_restart_before_a_snapshot_may_be_hidden: 10 checkpoint isr=1,2,3; AT_THE_END; STOPPED
  -> restarted
  elr -> no restarted
test_a_mark_of_the_controller_is_a_premise_that_fails: 10 isr=1,2,3; 50 isr=2,3 leader=-1; 60 isr=2 leader=2 recovering
  # A process that ran on from its membership to its election kept what it had, whatever the controller makes of it.
  STOPPED -> excluded; no not_held_marked
  UP; 54 register 2 new; 55 unfence 2 -> undetermined; not_held_marked
test_a_winner_kept_what_it_had_as_a_member: UNCLEAN; KILLED; newer -> excluded; held_by_protocol; outsider;
    premise_kept_its_log; premise_member_once
  # It left at 20, and below min ISR the high watermark stood still: it ran on, or its machine did.
  ->
  54 register 2 new; 55 unfence 2; RAN_ON
test_what_does_not_show_that_a_winner_kept_what_it_had: -> undetermined; no held_by_protocol; no premise_kept_its_log;
    no premise_member_once
  # The leader alone could acknowledge.
  10 isr=1,2,3 min=1; 20 isr=1 min=1; 50 isr= leader=-1 min=1; 60 isr=2 leader=2 recovering min=1;
    80 isr=2,3 recovered min=1; KILLED; newer
  # Its release does not wait for min ISR.
  UNCLEAN; KILLED
  # It came back, and nothing shows that its machine had run on.
  UNCLEAN; KILLED; 54 register 2 new; 55 unfence 2; newer
  # It lost its directory.
  UNCLEAN; KILLED; 55 offline 2 other; newer
  # It was no replica for a while.
  10 isr=1,2,3; 20 isr=1 replicas=1,3; 30 isr=1 replicas=1,2,3; LOST; KILLED; newer
  # The leader may not have learned yet that min ISR was raised.
  10 isr=1,2,3 min=1; 20 isr=1 min=2; LOST; KILLED; newer
  LONE_LEADER; 17 isr=1,3 min=2; 18 isr=1,2,3; KILLED; newer
  # Broker 3, which may have had less, led between and may have made it truncate.
  10 isr=1,2; 20 isr=1; 40 isr=3 leader=3 recovering; 50 isr= leader=-1; 60 isr=2 leader=2 recovering; UP; 39 fence 1;
    50 fence 3; newer

# One process wrote the term.
test_a_leader_that_registered_once_was_one_process_for_everybody_else: HANDED_OVER; KILLED -> excluded;
    premise_leaders_ran
  # BrokerServer.startup opens the listener last: who starts inside a crashed process's session serves nobody.
  ->
  # An earlier process has the same directories, and so had ended: it would hold their locks.
  0 register 1 i0
  # A registration that amends the one before is of the same process.
  40 register 1 i1; 41 unfence 1
  # Whoever registers after the term has served nobody in it.
  51 register 1 j1
test_what_does_not_show_that_one_process_served: HANDED_OVER -> undetermined; not_held_leader_may_have_restarted@1
  AGAIN
  # A process of other directories may run beside it, and so may one that registered none.
  KILLED; 0 register 1 i0 d9
  KILLED; 0 register 1 i0 -
  # A coordinator writes before anybody reaches its broker; what is in tiered storage outlives the process.
  KILLED; topic __consumer_offsets
  KILLED; topic __transaction_state
  KILLED; topic __share_group_state
  KILLED; tiered
  KILLED; tiered ?
  # A broker of ZooKeeper, in a migration, serves before it has registered.
  KILLED; zookeeper 1
test_a_term_that_a_snapshot_cut_may_have_registrations_that_nobody_sees: 10 checkpoint isr=1,2,3; AT_THE_END;
    KILLED -> undetermined; not_held_earlier_leaders_unknown

# High watermarks of a process that led in its own eyes (B7 of docs/findings.md, P2).
test_a_high_watermark_of_a_process_that_served_is_a_floor: KILLED; LINE -> proven 70..
  # Read while the registered process certainly ran; it was unfenced again; below min ISR a mark stands still.
  UNCLEAN; 45 b1 hw=150 e0@0
  UNCLEAN; 70 unfence 1; 48 b1 hw=150 e0@0
  UNCLEAN; newer; 48 b1 hw=150 e0@0
  # With two in its ISR nobody's log end is the high watermark.
  10 isr=1,2,3; 20 isr=1,3; LOST; 48 b1 hw=150 e0@0
  # Not the leader's.
  UNCLEAN; 48 b3 hw=150 e0@0
test_a_high_watermark_may_be_of_a_process_that_nobody_reached: KILLED; 48 b1 hw=150 e0@0; LINE -> possible
  # It started inside the session of the killed leader, alone in the ISR: its log end is its high watermark.
  UNCLEAN
  # With min ISR 1 newer brokers go on as well.
  LONE_LEADER; newer
test_who_is_taken_in_by_another_leader_has_that_ones_high_watermark: BACK; 75 b1 hw=140 e0@0 e2@80;
    85 b1 hw=150 e0@0 e2@80; 120 b3 e0@0 e4@60
  TAKEN_IN -> proven 90..
  CUT_OFF; 70 isr=2,3 recovered; 100 isr= leader=-1; 110 isr=3 leader=3 recovering; judged 110 -> excluded
test_what_a_process_that_nobody_reached_wrote_stays_on_the_disk_for_a_while: TAKEN_IN; BACK; 65 b1 hw=140 e0@0 e2@80;
    120 b3 e0@0 e4@60
  # Until the file is written again, a second after another leader took the broker in at 70.
  70.6 b1 hw=150 e0@0 e2@80 -> possible
  72.1 b1 hw=150 e0@0 e2@80 -> proven 90..
test_a_leader_that_did_not_learn_that_it_leads_again_shows_what_it_had: 10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1;
    60 isr=1,3 leader=1; 70 isr=3 leader=3 recovering; KILLED; 58 register 1 j1; 59 unfence 1; judged 70;
    machine 1 a@0 a@1010; 64 b1 hw=140 e0@0 e2@80; 66 b1 hw=150 e0@0 e2@80; 80 b3 e0@0 e4@60
  # It is elected at 60, and may still have the high watermark of a process that nobody reached.
  63 isr= leader=-1; 63 fence 1 -> possible
  67 isr= leader=-1; 67 fence 1 -> proven 20..
test_a_leader_elected_after_it_asked_for_its_shutdown_may_have_died_since: 10 isr=1,2,3 min=1; 20 isr=1; 30 leader=-1;
    32 leader=1; 43 isr= leader=-1; 60 isr=2 leader=2 recovering; UP; 18 fence 2; 18 fence 3; 44 fence 1; 55 unfence 2;
    machine 1 a@0 a@1010; 42 b1 hw=150 e0@0 e2@120; 70 b2 e0@0 e4@80
  # 4.0 elects it (KAFKA-19522). The next process starts in its session, and leads in its own eyes alone.
  43 shutdown 1 -> proven 70..
  30 shutdown 1 -> possible
test_whom_the_leader_took_in_with_the_change: REASSIGNED; KILLED
  80 isr=3 replicas=3 adding= removing= leader=3 -> no outsider; taken_in
  # It led already, and only its leader epoch is a new one.
  80 isr=2 replicas=2 adding= removing= leader=2 epoch=3 -> no outsider; no taken_in
  # Without a reassignment.
  80 isr=3 leader=3 -> outsider; no taken_in
test_whom_the_leader_took_in_must_run_and_not_be_marked: REASSIGNED; KILLED -> undetermined
  80 isr=3 replicas=3 adding= removing= leader=3 -> excluded
  # The controller marked it; or it may have been dead, and come back with less.
  80 isr=3 replicas=3 adding= removing= leader=3 recovering
  80 isr=3 replicas=3 adding= removing= leader=3; 82 fence 3
  # The leader may have asked before it died.
  80 isr=3 replicas=3 adding= removing= leader=3; 68 fence 3; 70 register 3 j3; 71 unfence 3
test_a_member_that_leads_with_the_end_of_a_reassignment_was_not_taken_in_anew: 10 isr=1,2,3 min=3; 20 isr=1;
    50 isr= leader=-1; 60 isr=2 leader=2 recovering; 62 isr=2,3 recovered; 65 adding=1 removing=2;
    80 isr=1,3 replicas=1,3 adding= removing= leader=3; KILLED; 55 unfence 1; judged 80
  # Without ELR a member that registers again before the controller fences it stays in the ISR with less.
  -> excluded
  63 register 3 j3; 64 unfence 3 -> undetermined

# A leader that is elected again as the same process passes every floor on (P5).
test_only_the_process_that_led_passes_everything_on: RELED; KILLED; 90 fence 1; 30 b1 hw=150 e0@0;
    110 b3 e0@0 e4@80
  58 unfence 1 -> proven 70..
  58 register 1 j1; 58 unfence 1 -> possible
test_a_leader_that_was_no_replica_for_a_while_passes_nothing_on: 10 isr=1,2,3; 20 isr=1;
    60 isr=1 leader=1 replicas=1,2,3; 90 isr= leader=-1; 100 isr=3 leader=3 recovering; UP; 90 fence 1; judged 100;
    30 b1 hw=150 e0@0; 110 b3 e0@0 e4@80
  # A cancelled reassignment took broker 1 off the replicas, and with that its log: 60 lost what it had, not 100.
  50 isr=2 leader=-1 replicas=1,2,3 -> proven 70..
  50 isr=2 leader=-1 replicas=2,3 -> possible

# A replica that is moved between directories (B4).
test_a_replica_that_moved_may_have_come_back_with_its_new_log: elr -> excluded; no not_held_directory_changed
  # Kafka's LogManager.recoverAbandonedFutureLogs takes the future log, whatever it lacks.
  HANDED_OVER; STOPPED_TOO
  MOVED; STOPPED_TOO -> undetermined; not_held_directory_changed@2
  # Where it was before the restart is not known: it may have been created anew, empty.
  10 isr=1,2,3 dirs=d1,AAAAAAAAAAAAAAAAAAAAAA,d3; AT_THE_END; STOPPED_TOO -> undetermined; not_held_directory_changed@2
  # Without a restart the old log is the log until the new one has everything.
  MOVED; STOPPED

# Contradictions.
test_a_log_that_lost_its_end_by_itself_contradicts_the_protocol: LATER; UP; 149 shutdown 1; 151 fence 1; 80 b2 leo=90
  -> excluded; no contradicted_by_truncation
  90 b2 leo=70 -> undetermined; contradicted_by_truncation@2
test_a_log_that_lost_its_end_at_a_start_contradicts_nothing: LATER; UP; 149 shutdown 1; 151 fence 1 -> undetermined;
    contradicted_by_truncation
  # The old leader started after the election: it was read before or after it registered.
  165 register 1 j1; 80 b1 leo=90; 166 b1 leo=70 -> excluded; no contradicted_by_truncation
  165 register 1 j1; 80 b1 leo=90; 164.5 b1 leo=70 -> excluded; no contradicted_by_truncation
  # It did not start, or only long after.
  80 b1 leo=90; 140 b1 leo=70
  165 register 1 j1; 80 b1 leo=90; 110 b1 leo=70
  # It had started before that was read.
  9 register 1 j1; 9 unfence 1; 80 b1 leo=90; 140 b1 leo=70
  # The winner started before it joined; or after the election, and perhaps before, too.
  9 register 2 j2; 9 unfence 2; 8 b2 leo=90; 12 b2 leo=70 -> excluded; no contradicted_by_truncation
  165 register 2 j2; 80 b2 leo=90; 166 b2 leo=70
  # The leader led on with less.
  85 register 1 j1; 85 unfence 1; 80 b1 leo=90; 90 b1 leo=70
test_a_high_watermark_read_around_the_election_contradicts_it: HANDED_OVER; STOPPED; 59.8 b1 hw=90; LINE -> possible;
    contradicted_by_high_watermark
"""


@pytest.mark.parametrize("entry", entries(TABLE), ids=lambda entry: entry.name)
def test_window(entry: Entry) -> None:
    entry.check()


# The brokers register, and the leader of the election asks for its shutdown.
HANDED_OVER = "10 isr=1,2,3; 50 isr=2,3 leader=-1; 60 isr=2,3 leader=2; "
HANDED_OVER += "; ".join((*up(1, 2, 3), "49 shutdown 1", "51 fence 1"))


def test_a_change_that_no_rule_explains_is_not_excluded() -> None:
    history, rows, cluster, *_ = inputs(HANDED_OVER)
    for unexplained, expected in ((), "excluded"), ((60,), "undetermined"):
        (window,) = judged_windows(Bucket(history, cluster), rows, Contradictions(changes=frozenset(unexplained)))
        assert window.judgement.verdict == expected


@pytest.mark.parametrize(("mark", "is_last"), [(80, True), (81, False)])
def test_a_recovery_point_below_the_high_watermark_beside_it_was_not_written_at_the_stop(
    mark: int, is_last: bool
) -> None:
    left = left_behind(evidence("54 b1 rp=80/1", f"57 b1 rp=80/1 hw={mark}"))
    assert ((1, 1) in left) == is_last
