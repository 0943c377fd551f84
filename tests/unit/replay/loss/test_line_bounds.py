"""Each rule of lines of brokers' own logs by itself (docs/findings.md, L1 to L12, E7, H10): what they prove, and when
not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replay.cluster.boots import BootReading, processes_of
from tests.support.broker_log_lines import logged
from tests.support.detection import judged_window
from tests.support.scenario import ms, newer, sessions, up
from tests.support.window_table import Entry, entries

TABLE = """\
# Unless it says otherwise broker 1 led, nobody did, and broker 2 was elected uncleanly at 60: partition epochs 0 to 4,
# leader epochs 0, 1, 2. FROZEN: the process of broker 1 that led was unfenced later without a new registration.
UP = 1 register 1 i1; 2 register 2 i2; 3 register 3 i3; 4 unfence 1; 5 unfence 2; 6 unfence 3
LOST = 50 isr= leader=-1; 60 isr=2 leader=2 recovering; 80 isr=2,3 recovered
UNCLEAN = 10 isr=1,2,3; 20 isr=1; LOST
FROZEN = UP; 50 fence 1; 70 unfence 1
KILLED = UP; 50 fence 1; 90 register 1 j1
STOPPED = UP; 49 shutdown 1; 51 fence 1; 90 register 1 j1
WON = b2 leads e2 p3 at=80 hw=80 from=-1/1
STAYS = b1 stays e0 p1 hw=150
SAME = machine 1 a@8 a@95; machine 2 b@8 b@95; machine 3 c@8 c@95
CAME_BACK = b1 follows -1 e1 p2 at=80 hw=80
LOADS = b1 loads t=52 utc=52 at=80
LED_ON = ran 1 until 49 next 51-70
LOST_AND_LED_AGAIN = 10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1; 60 isr=2 leader=2 recovering; 80 isr= leader=-1;
    90 isr=1,3 leader=1 recovering; 110 isr= leader=-1; 120 isr=3 leader=3 recovering; judged 120
CAME_AFTER = 10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1; 60 isr=2 leader=2 recovering; 70 isr= leader=-1;
    80 isr=2 leader=2 recovering; 90 isr=2,1 recovered
CUT = b1 follows 2 e2 p4 at=150 hw=150 t=40; b1 cuts 2 r0 to=80 hw=150 t=40.1
CUT_OLD = b1 follows 2 e2 p4 at=150 hw=150 t=40 old; b1 cuts-old 2 r0 to=80 hw=150 t=40.1
CUT_LATE = b1 follows 2 e4 p5 at=150 hw=150 t=40; b1 cuts 2 r0 to=80 hw=150 t=40.1
LED_TWICE = WON; b2 leads e4 p5 at=170 hw=170 from=-1/3
HANDED_OVER = 10 isr=1,2,3; 50 isr=2,3 leader=-1; 60 isr=2,3 leader=2
MEMBER_LEFT = 10 isr=1,3; 20 isr=1; LOST
LEADER_GONE = newer; UP; 20 fence 3; 50 fence 1; 55 register 3 j3; 90 register 1 j1
ENDED = ran 3 until 19 next 54-90
LOADED_BY_NEXT = b3 loads t=55 utc=55 at=80
MEMBER_STOPPED = newer; UP; 20 shutdown 3; 21 fence 3; 50 fence 1; 90 register 1 j1
STOP_FILES = 52 b3 rp=80/3; 55 b3 rp=80/3
FOUND_LATE = 70 b3 rp=80/3; 75 b3 rp=80/3
LEARNED = b3 follows 2 e2 p3 at=80 hw=70 from=1/0 t=85 utc=85
LED_BETWEEN = 10 isr=1,2,3; 30 isr=1,2,3 leader=2; 40 isr=1,3 leader=1; 50 isr=3 leader=-1; 60 isr=3 leader=3
SHRINKS = b1 shrinks 1 t=20 hw=150 utc=?
ALL_UP = UP; 39 fence 2; 49 shutdown 1; 51 fence 1
FETCHED = 10 isr=1,2,3; 20 isr=2,1 leader=2; 30 isr=2,1,3; 45 isr=2; 50 leader=-1; 60 isr=3 leader=3
FOLLOWED_SECOND = 30 isr=2,1,3 dirs=d1,d2,d3; 45 isr=2 dirs=d1,d2,d3; 50 leader=-1 dirs=d1,d2,d3;
    60 isr=3 leader=3 dirs=d1,d2,d3; 44 fence 3; 50 fence 2; 52 register 3 j3 d3,d9; 53 unfence 3; 70 unfence 2;
    b2 leads e1 p1 at=90 hw=90 from=1/0 utc=20.2; b3 leads e3 p5 at=100 hw=90 from=-1/2 utc=60.2;
    b2 follows 3 e3 p5 at=97 hw=95 from=2/1 utc=60.4
FOLLOWED_SECOND_FOR_LONG = 30 isr=2,1,3 dirs=d1,d2,d3; 145 isr=2 dirs=d1,d2,d3; 150 leader=-1 dirs=d1,d2,d3;
    160 isr=3 leader=3 dirs=d1,d2,d3; 144 fence 3; 150 fence 2; 152 register 3 j3 d3,d9; 153 unfence 3; 170 unfence 2;
    judged 160; b2 leads e1 p1 at=90 hw=90 from=1/0 utc=20.2; b3 leads e3 p5 at=100 hw=90 from=-1/2 utc=160.2;
    b2 follows 3 e3 p5 at=97 hw=95 from=2/1 utc=160.4
LED_AFTER_SECOND = 30 isr=1 leader=1 dirs=d1,d2,d3; 50 isr= leader=-1 dirs=d1,d2,d3; 60 isr=1 leader=1 dirs=d1,d2,d3;
    29 fence 2; 50 fence 1; 52 register 1 j1 d1,d9; 53 unfence 1;
    b1 leads e2 p2 at=92 hw=90 from=2/1 utc=30.1; b1 leads e4 p4 at=100 hw=90 from=-1/3 utc=60.2
DEAD = 10 isr=1,2; 30 leader=2; 40 isr=1 leader=1; 50 isr= leader=-1; 60 isr=2 leader=2 recovering
DIED = UP; 40 fence 2; 50 fence 1; 57 register 2 j2; 58 unfence 2; 70 unfence 1

# L1: the exact log end of the new leader.
test_the_line_of_a_new_leader_is_its_exact_log_end: UNCLEAN; FROZEN; WON; STAYS -> proven 70..
test_what_is_no_first_line_of_the_new_leader: UNCLEAN; FROZEN -> possible
  # A process that knew nothing before may have started after a crash inside the session.
  b2 leads e2 p3 at=80 hw=80; STAYS
  # Of another leader epoch, another broker, another state.
  b2 leads e1 p3 at=80 hw=80 from=-1/0; STAYS
  b3 leads e2 p3 at=80 hw=80 from=-1/1; STAYS
  b2 leads e2 p9 at=80 hw=80 from=-1/1; STAYS
  b2 leads e2 p2 at=80 hw=80 from=-1/1; STAYS
test_a_log_end_read_later_takes_nothing_from_the_line: UNCLEAN; FROZEN; 75 b2 isr=1 leo=120 proc=1
  # It is only an upper bound, since the leader may have appended before it was read.
  STAYS -> proven 30..
  WON; STAYS -> proven 70..
test_first_lines_that_differ_are_none: UNCLEAN; FROZEN; WON; b2 leads e2 p3 at=70 hw=70 from=-1/1; STAYS -> possible
test_a_line_is_of_the_first_process_only_if_none_knew_its_epoch_before: UNCLEAN; FROZEN; 82 register 2 j2
  # A process that reads of epoch 2 again is told of its first and its second state at once.
  b2 leads e2 p3 at=80 hw=80 from=-1/1 utc=60.2; STAYS -> proven 70..
  b2 leads e2 p4 at=80 hw=80 from=-1/1 utc=80.5; STAYS -> possible
test_a_process_on_a_new_disk_reads_again_although_its_machine_ran_on: UNCLEAN; FROZEN; SAME;
    b2 leads e2 p3 at=0 hw=0 from=-1/1 utc=90; STAYS
  # The disk of broker 2 was replaced while its machine ran: its copy of the metadata log begins anew, too, and it
  # leads epoch 2 in its own eyes with an empty log.
  82 register 2 j2 -> proven 150..
  82 register 2 j2 d9 -> possible
  # A disk failed to write what the machine had of it in memory.
  82 register 2 j2; disk-error 2@70 -> possible
  82 register 2 j2; disk-error 2@? -> possible

# L2, L3: floors of the high watermark.
test_a_high_watermark_that_was_logged_is_a_floor: UNCLEAN; FROZEN; WON -> proven 70..; floor_logged
  STAYS
  b1 leads e0 p0 at=150 hw=150
  # The process knew that it led, or nobody did, when it learned of the new leader.
  b1 follows 2 e2 p3 at=150 hw=150 from=1/0 -> proven 70..70; floor_logged
  b1 follows 2 e2 p4 at=150 hw=150 from=-1/1
  b1 follows -1 e1 p2 at=150 hw=150 from=1/0 -> proven 70..70; floor_logged
  # It follows nobody, so it has that from before.
  b1 follows -1 e1 p2 at=150 hw=150 -> proven 70..70; floor_logged
test_a_high_watermark_that_may_be_the_new_leaders_is_no_floor: UNCLEAN; FROZEN; WON -> possible 0..70
  # What a process logs first may be what an earlier one learned from the new leader.
  b1 follows 2 e2 p3 at=150 hw=150
  # Up to 4.1 the previous leader is not printed.
  b1 follows 2 e2 p3 at=150 hw=150 old
  # Of the new leader itself, and of its followers.
  b2 stays e2 p4 hw=150 -> possible
  b3 follows 2 e2 p4 at=150 hw=150 -> possible
test_a_high_watermark_logged_by_a_process_that_nobody_reached_is_no_floor: UNCLEAN; KILLED; WON -> proven 70..
  # The checkpoint's value, of the state before broker 1 was alone.
  b1 leads e0 p0 at=150 hw=150
  newer; b1 leads e0 p0 at=150 hw=150
  # A process that nobody reached may have logged these, alone in the ISR.
  STAYS -> possible
  newer; STAYS -> proven 70..70
  b1 follows -1 e1 p2 at=150 hw=150 from=1/0 -> possible
  newer; b1 follows -1 e1 p2 at=150 hw=150 from=1/0
  b1 follows -1 e1 p2 at=150 hw=150 -> possible
  newer; b1 follows -1 e1 p2 at=150 hw=150
test_a_floor_passes_an_election_only_as_far_as_its_winner_had_it: 10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1;
    60 isr=2 leader=2 recovering; 80 isr= leader=-1; 90 isr=3 leader=3 recovering; 95 isr=3,1; FROZEN; judged 90; WON;
    STAYS; b3 leads e4 p5 at=60 hw=60 from=-1/3 -> proven 20..
test_a_high_watermark_may_be_of_an_earlier_topic_of_that_name: 57 isr= leader=-1; 60 isr=2 leader=2 recovering; UP;
    55 fence 1; 90 register 1 j1; newer; SAME; b2 leads e2 p2 at=80 hw=80 from=-1/1 -> possible
  # Its leader was killed before it rewrote its checkpoint file, which still has the earlier topic's: the next
  # process begins with that, cut to its log's end.
  # The next process, inside the session; one that follows the new leader.
  50 isr=1,3; b1 leads e0 p0 at=150 hw=150 t=52 utc=52
  20 isr=1,3; b1 leads e0 p0 at=150 hw=150 t=52 utc=52 -> proven 70..
  50 isr=1,3; b1 follows -1 e1 p1 at=150 hw=150 t=53 utc=53 -> possible 0..70
  20 isr=1,3; b1 follows -1 e1 p1 at=150 hw=150 t=53 utc=53 -> proven 70..70
  50 isr=1,3; b1 follows 2 e2 p2 at=150 hw=150 t=92 utc=92; b1 cuts 2 r0 to=80 hw=150 t=92.1 utc=92.1
  20 isr=1,3; b1 follows 2 e2 p2 at=150 hw=150 t=92 utc=92; b1 cuts 2 r0 to=80 hw=150 t=92.1 utc=92.1 -> proven 70..
  # It had not run for the minute in which log-start-offset-checkpoint is written: what that says of the name is the
  # high watermark of a log that ends below (UnifiedLog.updateLogStartOffset).
  20 isr=1,3; earlier t; b1 leads e0 p0 at=150 hw=150 t=52 utc=52
  20 isr=1,3; earlier t; b1 follows -1 e1 p1 at=150 hw=150 t=53 utc=53 -> possible

# L4: a truncation below the high watermark.
test_a_truncation_below_the_high_watermark_is_a_floor: UNCLEAN; WON -> proven 70..; floor_logged_truncation
  FROZEN; CUT
  KILLED; newer; CUT
  # Who was alone in the ISR when it was killed may have come back and set its high watermark to its log end.
  KILLED; CUT -> possible; no floor_logged_truncation
  FROZEN; CUT_OLD
  KILLED; newer; CUT_OLD
  KILLED; CUT_OLD -> possible; no floor_logged_truncation
test_what_is_no_truncation_below_an_earlier_high_watermark: UNCLEAN; KILLED; newer; WON;
    b1 follows 2 e2 p4 at=150 hw=80 t=40 -> excluded; no floor_logged_truncation
  # It has records of the new leader, so its high watermark may be from it.
  b1 cuts 2 r2 to=80 hw=150 t=40.1
  # Its high watermark is not above what the new leader began with.
  b1 cuts 2 r0 to=60 hw=80 t=40.1
test_a_truncation_shows_a_high_watermark_from_before_the_leaders_first_epoch: CAME_AFTER; KILLED; newer; LED_TWICE;
    CUT_LATE -> proven 70..; floor_logged_truncation
  # Whoever follows broker 2 in epoch 2 truncates to 80: so 150 is from before that, although it led on and on.
test_what_a_later_truncation_does_not_show: KILLED; newer -> no floor_logged_truncation
  # Another one led between, from which it may have the high watermark and these records.
  10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1; 60 isr=2 leader=2 recovering; 70 isr=3 leader=3;
    80 isr=2 leader=2 recovering; 90 isr=2,1 recovered; LED_TWICE; CUT_LATE
  # Where the new leader's log ended is not known.
  CAME_AFTER; b2 leads e4 p5 at=170 hw=170 from=-1/3; CUT_LATE
  # A log in another directory may have taken the place of the one that it had.
  10 isr=1,2,3 dirs=d9,d2,d3; 20 isr=1; 50 isr= leader=-1; 60 isr=2 leader=2 recovering; 70 isr= leader=-1;
    80 isr=2 leader=2 recovering; 90 isr=2,1 recovered; LED_TWICE; CUT_LATE

# L5: the last word of the old leader.
test_the_same_process_bounds_the_high_watermark_when_it_learns_that_it_no_longer_leads: UNCLEAN; FROZEN; WON;
    b1 follows 2 e2 p3 at=160 hw=150 from=1/0 -> proven 70..70; unacked 70..80; ceiling_logged_high_watermark=150;
    high_watermark_at_most=150
test_an_old_leader_that_lost_nothing_bounds_the_loss_exactly: UNCLEAN; FROZEN; SAME; WON;
    b1 follows 2 e2 p3 at=160 hw=150 from=1/0; b2 follows 1 e0 p0 at=0 hw=0 -> proven 70..70; unacked 70..80; first 80
test_what_is_not_the_last_word_of_the_process_that_led_excludes_nothing: WON -> possible; no high_watermark_at_most
  # Broker 2 led between, so the log was cut to 80 before.
  10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1; 60 isr=2 leader=2 recovering; 80 isr= leader=-1;
    90 isr=3 leader=3 recovering; 95 isr=3,1; FROZEN; b1 follows 3 e4 p5 at=80 hw=80 from=-1/3
  # It was no replica for a while, and its log is a new one.
  10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1; 60 isr=2 leader=2 replicas=2,3 recovering; 80 replicas=1,2,3; 90 isr=2,3;
    FROZEN; b1 follows 2 e2 p4 at=0 hw=0
  # Its next process logged it, after a power loss.
  UNCLEAN; STOPPED; CAME_BACK
test_a_process_that_reads_again_that_it_led_may_have_less_than_the_one_that_led: UNCLEAN;
    b2 leads e2 p3 at=100 hw=100 from=-1/1 -> excluded; high_watermark_at_most
  # The process that led ran on until it had logged the line.
  FROZEN; b1 follows 2 e2 p3 at=100 hw=100 from=1/0 utc=62
  # It stopped at some time from 51 on. Its machine did not start again before the line.
  STOPPED; SAME; b1 follows 2 e2 p3 at=100 hw=100 from=1/0 utc=62
  # It did, and the next process may have read that it leads in epoch 0, and then of epoch 2 at once.
  STOPPED; b1 follows 2 e2 p3 at=100 hw=100 from=1/0 utc=62 -> possible; no high_watermark_at_most
  STOPPED; machine 1 a@8 c@55 c@95; machine 2 b@8 b@95; b1 follows 2 e2 p3 at=100 hw=100 from=1/0 utc=60.2 -> possible;
    no high_watermark_at_most
test_the_high_watermark_of_a_log_that_was_moved_may_have_gone_back: 20 isr=1 dirs=d1,d2,d3;
    50 isr= leader=-1 dirs=d1,d2,d3; 60 isr=2 leader=2 recovering dirs=d1,d2,d3; 80 isr=2,3 recovered dirs=d1,d2,d3;
    FROZEN; 52 register 2 j2; 53 unfence 2; newer; b2 leads e2 p3 at=150 hw=150 from=-1/1 -> excluded;
    high_watermark_at_most=150
  # Its new copy has what it fetched of it, when it takes the place of the old one.
  10 isr=1,2,3 dirs=d1,d2,d3; b1 follows 2 e2 p3 at=160 hw=150 from=1/0
  10 isr=1,2,3 dirs=d1,d2,d3; STAYS
  10 isr=1,2,3 dirs=d9,d2,d3; b1 follows 2 e2 p3 at=160 hw=150 from=1/0 -> possible 0..10; high_watermark_at_most=160
  10 isr=1,2,3 dirs=d9,d2,d3; STAYS -> possible; no high_watermark_at_most
test_bounds_of_lines_exclude: UNCLEAN; FROZEN; SAME; b2 leads e2 p3 at=150 hw=150 from=-1/1;
    b1 follows 2 e2 p3 at=150 hw=150 from=1/0 -> excluded
test_logs_may_have_parted_before_the_snapshot_with_which_history_begins: FROZEN; b2 leads e2 p3 at=160 hw=150 from=-1/1;
    b1 follows 2 e2 p3 at=160 hw=150 from=1/0
  # So that they end alike excludes nothing.
  UNCLEAN -> excluded
  10 checkpoint isr=1,2,3; 20 isr=1; LOST -> possible
test_a_high_watermark_that_lags_at_the_begin_of_the_term_is_no_ceiling: 10 isr=1,2,3; 20 isr=1,2 leader=2;
    30 isr=1 leader=1; 50 isr= leader=-1; 60 isr=3 leader=3 recovering; FROZEN; b1 leads e2 p2 at=100 hw=80 from=2/1;
    b1 follows 3 e4 p4 at=110 hw=90 from=1/2; b3 leads e4 p4 at=90 hw=80 from=-1/3 -> possible; ceiling_logged_log_end
  # Broker 1 led from 100 on, and its high watermark never came that far: what its predecessor had promised may be
  # above it.

# L6: a log end after a restart of the process, with the same boot id (I8).
test_a_machine_that_ran_on_kept_the_log_of_a_killed_leader: UNCLEAN; KILLED; SAME; WON; CAME_BACK -> excluded;
    ceiling_logged_log_end
test_a_machine_that_may_have_started_again_bounds_nothing: UNCLEAN; KILLED; WON; CAME_BACK -> possible;
    no ceiling_logged_high_watermark; no ceiling_logged_log_end
  ->
  machine 1 a@8 b@95; machine 2 b@8 b@95; machine 3 c@8 c@95
  # Nothing from before it was last heard of, nothing from after.
  machine 1 a@55 a@95; machine 2 b@8 b@95; machine 3 c@8 c@95
  machine 1 a@8 a@55; machine 2 b@8 b@95; machine 3 c@8 c@95
  # Another id between.
  machine 1 a@8 b@55 a@95; machine 2 b@8 b@95; machine 3 c@8 c@95
test_a_machine_that_ran_on_without_the_logs_directory_bounds_nothing: UNCLEAN; KILLED; 55 offline 1 other; SAME; WON;
    CAME_BACK -> possible
  # The log that it came back with is a new one, in another directory.
test_an_old_leader_that_came_back_to_a_new_one_may_have_truncated_before: UNCLEAN; KILLED; SAME; WON
  # An earlier process of it may have followed broker 2: only what it truncates itself shows that none had.
  85 isr=1,2,3; b1 follows 2 e2 p4 at=80 hw=80 t=40 -> possible
  newer; b1 follows 2 e2 p3 at=150 hw=120 t=40; b1 cuts 2 r0 to=80 hw=120 t=40.1 -> proven 40..70
test_a_leader_that_may_never_have_learned_of_its_election_bounds_nothing: 10 isr=1,2,3; 20 isr=1,3 leader=3;
    30 isr=1 leader=1; LOST; UP; 19 fence 3; 33 fence 1; 90 register 1 j1; machine 1 a@8 a@1010;
    b2 leads e4 p4 at=80 hw=80 from=-1/3; b1 leads e2 p2 at=80 hw=80 from=3/1 utc=?; b1 follows -1 e3 p3 at=80 hw=80
  # It was last heard of when it was elected: the leader before it may have gone on.
  ran 1 until 31 -> ceiling_logged_log_end
  ran 1 until 30 -> no ceiling_logged_log_end
test_who_is_elected_again_by_the_process_that_led_lost_nothing: 10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1;
    60 isr=1 leader=1
  UP; 50 fence 1; 60 unfence 1; b1 leads e2 p3 at=90 hw=90 from=1/0 -> excluded
  KILLED; b1 leads e2 p3 at=90 hw=90 -> undetermined
test_who_is_elected_again_after_another_process_led_may_have_lost_some: 10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1;
    60 isr=1 leader=1; UP; 50 fence 1; 60 unfence 1; newer; b1 stays e0 p1 hw=80; b1 leads e2 p3 at=90 hw=90 from=1/0
  # A ceiling below its log end excludes no loss: the second process may have written these offsets anew.
  -> excluded
  40 register 1 j1; 41 unfence 1 -> possible

# L8: the high watermark that a leader logged when it learned that it was below min ISR.
test_a_high_watermark_logged_below_min_isr_stands_still: UNCLEAN; KILLED; newer; SAME
  WON; STAYS -> proven 70..70; ceiling_logged_below_min_isr
  b2 leads e2 p3 at=150 hw=150 from=-1/1; STAYS -> excluded; ceiling_logged_below_min_isr
test_what_does_not_show_that_the_high_watermark_stood_still: SAME; WON -> possible; no ceiling_logged_below_min_isr
  # Of a release that may go on.
  UNCLEAN; KILLED; STAYS
  # A process that came back within the session may have logged it, with a lower one.
  UNCLEAN; UP; 22 fence 1; newer; STAYS -> proven 70..; no ceiling_logged_below_min_isr
  UNCLEAN; KILLED; newer; b1 leads e0 p1 at=150 hw=150 -> proven 70..; no ceiling_logged_below_min_isr
  # Of a state that is not below min ISR, or that lasted only for a while.
  UNCLEAN; KILLED; newer; b1 stays e0 p0 hw=150 -> proven 70..; no ceiling_logged_below_min_isr
  10 isr=1,2,3; 20 isr=1 min=1; LOST; KILLED; newer; STAYS
  # Brokers may have different values of it.
  10 isr=1,2,3; 20 isr=1 source=static; LOST; KILLED; newer; STAYS
test_a_min_isr_that_was_raised_in_the_same_leader_epoch_may_not_be_known_yet: 10 isr=1,2,3 min=1; 20 isr=1 min=2; LOST;
    KILLED; newer; SAME; WON; STAYS -> possible
  # The leader applies states before configs, and a delta may hold both.
test_a_leader_that_begins_below_min_isr_bounds_it_by_its_log_end: 10 isr=1,2,3; 20 isr=2 leader=2; 50 isr= leader=-1;
    60 isr=3 leader=3 recovering; UP; 19 fence 1; 50 fence 2; newer; SAME
  # Its high watermark may lag: what the leader before had promised is in its log too.
  b2 leads e1 p1 at=150 hw=140 from=1/0; b3 leads e3 p3 at=130 hw=80 from=-1/2 -> proven 10..20
  b2 leads e1 p1 at=150 hw=140; b3 leads e3 p3 at=130 hw=80 from=-1/2 -> proven 10..

# L9: the high watermark that a leader logs when it asks for a smaller ISR.
test_a_high_watermark_logged_with_a_smaller_isr_is_a_floor: UNCLEAN; FROZEN; WON; b1 shrinks 1 t=20 hw=150;
    b1 updates p1 t=21 -> proven 70..; floor_logged_shrink
test_a_smaller_isr_of_an_unknown_leader_epoch_is_no_floor: UNCLEAN; FROZEN; WON -> possible
  # Nothing after it shows that broker 1 did not lead again, later.
  b1 shrinks 1 t=20 hw=150
  b1 updates p0 t=19; b1 shrinks 1 t=20 hw=150
  # The file's order and the clock's do not agree: two files, joined in the wrong order.
  b1 shrinks 1 t=90 hw=150; b1 updates p1 t=21
  # Of a state that another broker led, or that is not known.
  b1 shrinks 1 t=20 hw=150; b1 updates p3 t=21
  b1 shrinks 1 t=20 hw=150; b1 updates p9 t=21
test_a_smaller_isr_that_may_be_of_another_log_proves_no_more: -> excluded
  # It may be of the epoch that it led later.
  10 isr=1,2,3; 20 isr=1; 50 isr= leader=-1; 60 isr=1 leader=1 recovering; 80 isr=1,3 recovered; FROZEN;
    b1 leads e2 p3 at=80 hw=80 from=-1/1; b1 updates p0 t=19; SHRINKS; b1 updates p4 t=21
  # A process that began then may repeat the checkpoint file, of the longer log that was lost in between: only 80
  # offsets were passed on.
  LOST_AND_LED_AGAIN; UP; 50 fence 1; 85 unfence 1; 93 fence 1; WON; b1 leads e4 p5 at=80 hw=80 from=-1/3;
    b3 leads e6 p7 at=60 hw=60 from=-1/5; b1 updates p5 t=19; SHRINKS; b1 updates p5 t=21 -> proven 20..
test_a_follower_that_led_may_repeat_the_high_watermark_of_the_longer_log_before: LOST_AND_LED_AGAIN; UP; 50 fence 1;
    85 unfence 1; 93 fence 1; machine 1 a@8 a@190; WON; b1 leads e4 p5 at=80 hw=80 from=-1/3;
    b3 leads e6 p7 at=60 hw=60 from=-1/5; b1 follows 3 e6 p7 at=150 hw=150 from=-1/5 utc=121 -> proven 20..
  # Its process may have begun when it followed: only 80 offsets were passed on.

# N13: what a start loads.
test_what_a_start_loads_bounds_nothing: UNCLEAN; KILLED; SAME; WON -> possible; unacked ..
  b1 loads t=52 utc=52 at=150
  ->
  b2 loads t=55 utc=55 at=80
  ->
  b1 loads-hw t=52 utc=52 hw=150
  ->
test_a_replica_that_was_moved_may_have_come_back_with_its_new_log: LOST; KILLED; SAME -> possible;
    no ceiling_logged_log_end
  10 isr=1,2,3; 20 isr=1 dirs=other,d2,d3; WON; CAME_BACK
  # Before the directory is known there is none to be moved from.
  10 isr=1,2,3 dirs=AAAAAAAAAAAAAAAAAAAAAA,d2,d3; 20 isr=1; WON; CAME_BACK -> excluded; ceiling_logged_log_end
  # Before a snapshot it may have been in another one.
  8 isr=1,2,3 leader=2; 10 leader=1 epoch=5; 20 isr=1; b1 leads e5 p1 at=50 hw=50 from=2/4;
    b1 follows -1 e6 p3 at=80 hw=80 -> possible; ceiling_logged_log_end
  10 checkpoint isr=1,2,3 epoch=5; 20 isr=1; b1 leads e5 p0 at=50 hw=50 from=2/4; b1 follows -1 e6 p2 at=80 hw=80

# L10 to L12: what contiguous bytes of server.log show, when the machine started, and what the next process loaded.
test_the_log_end_that_the_next_process_loaded_is_the_old_leaders: UNCLEAN; KILLED; LED_ON; WON; LOADS -> excluded;
    ceiling_loaded_log_end
  SAME
  machine 1 -@95 booted=8 disks
test_what_a_start_loads_bounds_nothing_without_its_process_and_its_machine: UNCLEAN; KILLED; WON -> possible;
    no ceiling_loaded_log_end
  # Which process loaded it is not known, or it is a later one.
  SAME; LOADS
  SAME; ran 1 until 49; LOADS
  SAME; LED_ON; b1 loads t=72 utc=72 at=80
  SAME; LED_ON; LOADS; b1 loads t=53 utc=53 at=70
  # Without the broker's own disks the machine that booted long ago may be another one.
  LED_ON; LOADS
  machine 1 -@95 booted=8; LED_ON; LOADS
  # It started again after the leader's last line.
  machine 1 -@95 booted=50 disks; LED_ON; LOADS
  # Another broker loaded it.
  SAME; LED_ON; b2 loads t=55 utc=55 at=80
test_a_leader_that_lived_on_may_have_followed_the_next_one_and_truncated: UNCLEAN; 84 register 1 j1; SAME; WON;
    b1 loads t=83 utc=83 at=80 -> possible; no ceiling_loaded_log_end
  # It was fenced and came back, followed broker 2 and truncated to its 80 offsets, and was killed only then.
  # Or the controller heard of it, although it logged nothing: its loggers may be at WARN.
  FROZEN; 82 fence 1; ran 1 until 75 next 82.5-90
  FROZEN; 82 fence 1; ran 1 until 59 next 82.5-90
  UP; 50 fence 1; ran 1 until 59 next 82.5-90 -> excluded; ceiling_loaded_log_end
test_the_log_of_a_leader_that_was_no_replica_for_a_while_is_another_one: 10 isr=1,2 replicas=1,2; 20 isr=1;
    52 replicas=1,2; 60 leader=2; UP; 19 fence 2; 55 fence 1; 58 register 2 j2; 59 unfence 2; 90 register 1 j1;
    b2 leads e2 p4 at=10 hw=10 from=-1/1 -> possible
  50 isr=2 leader=-1 replicas=2; SAME; ran 1 until 53 next 56-70; b1 loads t=57 utc=57 at=0
  50 isr=2 leader=-1 replicas=2; 56 b1 rp=0/1; 57 b1 rp=0/1
  50 isr=2 leader=-1 replicas=1,2; SAME; ran 1 until 53 next 56-70; b1 loads t=57 utc=57 at=0 -> excluded
  50 isr=2 leader=-1 replicas=1,2; 56 b1 rp=0/1; 57 b1 rp=0/1 -> excluded
test_contiguous_bytes_show_which_process_was_elected: HANDED_OVER; UP; 50 fence 1; 62 fence 2 -> no premise_alive
  # It wrote a line after it was elected. Or the next process of its file is a later one, and nobody ran between.
  ran 2 until 61 -> premise_alive
  SAME; ran 2 until 59 next 62-70 -> premise_alive
  ran 2 until 59
  SAME; ran 2 until 59 next 60.5-70
  # A machine that started again may have taken the lines of a process in between with it.
  machine 2 b@8 b@55 c@95; ran 2 until 59 next 62-70

# E7: what a member of the ISR kept bounds the high watermark.
test_the_log_that_a_member_kept_is_a_ceiling: MEMBER_LEFT; LEADER_GONE; SAME; ENDED; WON; LOADED_BY_NEXT -> excluded;
    ceiling_members_log_end@3
test_what_a_replica_loaded_is_no_ceiling: WON -> possible; no ceiling_members_log_end
  # The leader alone could acknowledge, or its release does not wait for min ISR.
  10 isr=1,3 min=1; 20 isr=1 min=1; 50 isr= leader=-1 min=1; 60 isr=2 leader=2 recovering min=1;
    80 isr=2,3 recovered min=1; LEADER_GONE; SAME; ENDED; LOADED_BY_NEXT
  MEMBER_LEFT; KILLED; SAME; ENDED; LOADED_BY_NEXT
  # It was no member, or no replica for a while, so that its log was deleted.
  10 isr=1; 20 isr=1; LOST; LEADER_GONE; SAME; ENDED; LOADED_BY_NEXT
  MEMBER_LEFT; 30 isr=1 replicas=1,2; 40 isr=1 replicas=1,2,3; LEADER_GONE; SAME; ENDED; LOADED_BY_NEXT -> undetermined;
    no ceiling_members_log_end
  # Its machine may have started again; its process may have followed the winner.
  MEMBER_LEFT; LEADER_GONE; ENDED; LOADED_BY_NEXT
  MEMBER_LEFT; KILLED; 20 fence 3; 70 register 3 j3; newer; SAME; ran 3 until 61 next 62-90; b3 loads t=63 utc=63 at=80
  # The next process may have followed the last leader, which may have counted it as a member.
  MEMBER_LEFT; LEADER_GONE; SAME; ran 3 until 19 next 44-90; b3 loads t=45 utc=45 at=80
  # Nothing shows that the leader ever led: the one before it may have gone on.
  MEMBER_LEFT; UP; 10 fence 1; newer; SAME; ENDED; LOADED_BY_NEXT
test_the_log_end_of_a_member_that_stopped_cleanly_is_a_ceiling: MEMBER_LEFT; STOP_FILES
  # It had not started again when nobody led any more.
  MEMBER_STOPPED; WON -> excluded; ceiling_members_log_end
  # The next process of the same member had more.
  17; UP; 15 register 3 j3; 16 unfence 3; 20 shutdown 3; 21 fence 3; 50 fence 1; newer;
    b2 leads e2 p4 at=80 hw=80 from=-1/1 -> possible; no ceiling_members_log_end
test_which_files_of_a_clean_stop_are_a_ceiling: MEMBER_LEFT; MEMBER_STOPPED; WON -> possible; no ceiling_members_log_end
  # Read when the leader may still have counted it as a member: its metadata publisher waits for a disk, it sends
  # heartbeats, and the next process of the member has fetched more from it (maybeIncrementLeaderHW, 4.3.1).
  21.5 b3 rp=80/3; 23 b3 rp=80/3
  40 b3 rp=80/3; 45 b3 rp=80/3
  # Read after the election: it may have followed the winner before it stopped, unless all of its lines say no.
  FOUND_LATE
  ran 3 until 22 quiet 72; FOUND_LATE
  ran 3 until 22 quiet 80; FOUND_LATE -> excluded; ceiling_members_log_end
  ran 3 until 61 quiet 80; FOUND_LATE
  # A start was logged at 30, of a tool or of a process that did not get the lock; it ran on.
  ran 3 until 22 next 30-72; FOUND_LATE
  # Of a future log, maybe.
  52 b3 rp=80/3 future; 55 b3 rp=80/3 future
  # Of another session; or two log ends.
  52 b3 rp=80/7; 55 b3 rp=80/7
  52 b3 rp=80/3; 55 b3 rp=80/3; 56 b3 rp=70/3
test_a_member_that_learns_late_of_the_next_leader_says_where_its_log_ended: MEMBER_LEFT; UP; 20 fence 3; 50 fence 1;
    newer; ran 3 until 95; WON -> possible; no ceiling_members_log_end
  58 register 1 j1; LEARNED -> excluded; ceiling_members_log_end
  # The leader may still have run: the line is printed before the fetcher is removed.
  LEARNED
  58 register 1 j1; b3 follows 2 e2 p3 at=80 hw=70 from=1/0 t=57 utc=57
  # Also beside the broker's next process, if that is on another machine.
  58 register 1 j1 d9; LEARNED
  # Its log may be a new one: the directory of the other one went.
  30 offline 3 other; 58 register 1 j1; LEARNED
  # Of a process that had followed somebody else, or nobody.
  58 register 1 j1; b3 follows 2 e2 p3 at=80 hw=70 from=-1/1 t=85 utc=85
  58 register 1 j1; b3 follows 2 e2 p3 at=80 hw=70 t=85 utc=85
  # When it was logged is not known.
  58 register 1 j1; b3 follows 2 e2 p3 at=80 hw=70 from=1/0 t=85
test_the_leader_has_gone_when_another_process_of_it_has_loaded_its_logs: MEMBER_LEFT; UP; 20 fence 3; 50 fence 1; newer;
    ran 3 until 95; ran 1 until 55 next 58-90; WON; LEARNED
  # One that only logged its start may be a tool, or did not get the lock (LogManager.lockLogDirs).
  b1 loads t=59 utc=59 at=150 -> excluded; ceiling_members_log_end
  -> possible; no ceiling_members_log_end

# H10: which log ends a leader counted.
test_a_leader_that_may_not_have_learned_who_led_between_may_count_old_log_ends: LED_BETWEEN; ALL_UP
  # It applies its own epochs in one delta, without the one between (Kafka's Replica.resetReplicaState).
  # What it learned after it led again shows nothing.
  -> undetermined; not_held_old_log_ends
  b1 follows -1 e3 p3 at=95 hw=95 from=1/2 -> possible; not_held_old_log_ends
test_who_led_before_a_snapshot_may_count_old_log_ends: 10 checkpoint isr=1,2,3 leader=2 epoch=5; 40 isr=1,3 leader=1;
    50 isr=3 leader=-1; 60 isr=3 leader=3; ALL_UP -> not_held_old_log_ends
test_an_election_after_one_that_may_count_old_log_ends_is_judged: 10 isr=1,2,3; 20 isr=1,2,3 leader=2;
    25 isr=1,3 leader=3; 30 isr=1,2,3; 40 isr=1,2,3 leader=1; 60 isr=1,2,3 leader=2; UP -> not_held_old_log_ends
  # Broker 1 leads again at 40 without having followed, and broker 2, which had followed, after it.
test_a_leader_that_began_anew_counts_no_old_log_ends: ALL_UP -> excluded; premise_log_ends_current
  # Its own line of the epoch between, or of the one that it knew before it led again.
  LED_BETWEEN; b1 follows 2 e1 p1 at=95 hw=95 from=1/0
  LED_BETWEEN; b1 leads e2 p2 at=95 hw=95 from=2/1
  # Another process.
  LED_BETWEEN; 33 register 1 j1; 34 unfence 1
  # The leader between took it into the ISR, so it had followed.
  10 isr=1,2,3; 30 isr=2,3 leader=2; 35 isr=1,2,3; 40 isr=1,3 leader=1; 50 isr=3 leader=-1; 60 isr=3 leader=3
  # Nobody led between.
  10 isr=1,2,3; 30 isr=1,3 leader=-1; 40 isr=1,3 leader=1; 50 isr=3 leader=-1; 60 isr=3 leader=3
  # It had never led before.
  10 isr=1,2,3 leader=2; 40 isr=1,3 leader=1; 50 isr=3 leader=-1; 60 isr=3 leader=3

# L7: which records two logs share.
test_a_tail_that_later_leaders_replaced_is_not_shared: 10 isr=1,2,3; 20 isr=1,2; 30 isr=2 leader=2; 50 isr= leader=-1;
    60 isr=3 leader=3 recovering; UP; 29 fence 1; 50 fence 2; 70 unfence 2; SAME; b2 leads e1 p2 at=60 hw=60 from=1/0;
    b2 follows 3 e3 p4 at=100 hw=100 from=2/1; b3 leads e3 p4 at=90 hw=50 from=-1/2 -> proven 10..40
  # Broker 3 was away while broker 2 led from 60 on; its own log ended at 90.
test_logs_may_have_parted_before_the_partition_came_from_zookeeper: 20 isr=1; LOST; FROZEN
  # A migration records the leader epoch that it has. Broker 2 may have a tail of an earlier one.
  10 isr=1,3 epoch=0; b2 leads e2 p3 at=150 hw=80 from=-1/1; b1 follows 2 e2 p3 at=150 hw=140 from=1/0 -> excluded
  10 isr=1,3 epoch=5; b2 leads e7 p3 at=150 hw=80 from=-1/6; b1 follows 2 e7 p3 at=150 hw=140 from=1/5 -> possible
test_a_tail_that_the_last_leader_kept_is_not_shared: 10 isr=1,2,3; 20 isr=1,2; 30 isr=2 leader=2; 50 isr= leader=-1;
    60 isr=3 leader=3 recovering; 70 isr= leader=-1; 80 isr=2 leader=2 recovering; UP; judged 80;
    b2 leads e1 p2 at=60 hw=60 from=1/0; b3 leads e3 p4 at=90 hw=50 from=-1/2; b2 leads e5 p6 at=100 hw=60 from=-1/4;
    b3 follows 2 e5 p6 at=95 hw=95 from=3/3 -> possible 0..35
  # Broker 3 was away while broker 2 led from 60 on, and led later with a tail up to 90 from before that.
test_a_log_from_another_directory_may_have_a_tail_that_was_truncated_in_the_first_one: 1 register 1 i1 d1,d9;
    2 register 2 i2; 3 register 3 i3 d3,d9; 4 unfence 1; 5 unfence 2; 6 unfence 3; newer; SAME;
    20 isr=2,1 leader=2 dirs=d1,d2,d3 -> possible 0..5
  # It was moved there: the new log had 100 offsets of epoch 0, and its thread hung before it had followed.
  # Broker 3 followed broker 2, which led from 90 on.
  10 isr=1,2,3 dirs=d1,d2,d3; FOLLOWED_SECOND -> excluded
  10 isr=1,2,3 dirs=d9,d2,d9; FOLLOWED_SECOND
  # It did for so long that what it had truncated was on disk.
  10 isr=1,2,3 dirs=d1,d2,d3; FOLLOWED_SECOND_FOR_LONG -> excluded
  10 isr=1,2,3 dirs=d9,d2,d9; FOLLOWED_SECOND_FOR_LONG
  # Broker 1 did, and led then.
  10 isr=1,2,3 dirs=d1,d2,d3; LED_AFTER_SECOND -> excluded
  10 isr=1,2,3 dirs=d9,d2,d9; LED_AFTER_SECOND -> possible
test_a_truncation_may_not_be_on_disk_when_the_power_fails: FETCHED; UP; 70 fence 2;
    b2 leads e1 p1 at=90 hw=90 from=1/0 utc=20.2; b3 leads e3 p5 at=100 hw=90 from=-1/2 utc=60.2;
    b2 follows 3 e3 p5 at=97 hw=95 from=2/1 utc=60.4 -> excluded
  # Broker 3 followed broker 2 from 90 on, lost its power, and came back with the 100 offsets that it had before.
  ->
  44 fence 3; 52 register 3 j3; 53 unfence 3; machine 3 c@8 c@95
  44 fence 3; 52 register 3 j3; 53 unfence 3 -> possible 0..5
test_a_leader_that_said_nothing_began_above_the_high_watermark_or_not_at_all: DEAD; SAME;
    b1 leads e2 p2 at=80 hw=80 from=2/1; b2 leads e4 p4 at=80 hw=0 from=-1/3;
    b1 follows 2 e4 p4 at=80 hw=80 from=1/2 -> possible
  DIED; b1 follows 2 e1 p1 at=80 hw=80 from=1/0 -> excluded
  DIED; b1 follows 2 e1 p1 at=80 hw=70 from=1/0 -> possible 0..10
  # Read by a process that may have learned of it in that epoch; and of nobody.
  DIED; b1 follows 2 e1 p1 at=80 hw=80
  DIED; b1 stays e2 p2 hw=80
  # It had registered again since it was taken into the ISR: it may have begun with less.
  UP; 20 register 2 j1; 40 fence 2; 50 fence 1; b1 follows 2 e1 p1 at=80 hw=80 from=1/0
test_a_high_watermark_of_an_earlier_log_says_nothing_of_such_a_leader: 10 isr=3 leader=3; 15 isr=1 leader=1 recovering;
    20 isr=1,2; 30 leader=2; 40 isr=1 leader=1; 50 isr= leader=-1; 60 isr=2 leader=2 recovering; DIED; SAME;
    b1 leads e3 p4 at=80 hw=80 from=2/2; b2 leads e5 p6 at=80 hw=0 from=-1/4; b1 leads e1 p1 at=80 hw=0 from=3/0;
    b1 follows 2 e5 p6 at=80 hw=80 from=1/3
  # Broker 1 was elected uncleanly at 15, so what broker 3 had reached before may be gone.
  b1 follows 2 e2 p3 at=80 hw=80 from=1/1 -> excluded
  b1 follows 3 e0 p0 at=90 hw=90 -> possible

# H7: whose leaders may have been two processes.
test_a_leader_whose_machine_ran_on_was_as_good_as_one_process: UNCLEAN; UP; 40 register 1 j1; 41 unfence 1; 50 fence 1;
    70 b2 e0@0 e2@80; WON; b1 stays e0 p1 hw=80
  -> no log_end; missing_word_of_process
  SAME -> log_end; no missing_word_of_process
test_damage_found_at_a_start_voids_what_a_boot_id_shows: UNCLEAN; KILLED; SAME; WON; CAME_BACK -> possible;
    no ceiling_logged_log_end; contradicted_by_corruption
  b1 damaged
  b1 damaged utc=55
test_damage_found_long_after_voids_nothing: UNCLEAN; KILLED; SAME; WON; CAME_BACK; b1 damaged utc=900 -> excluded
test_a_disk_that_failed_lost_what_was_not_on_it_although_its_machine_ran_on: UNCLEAN; KILLED; SAME; WON;
    CAME_BACK -> possible
  # Linux drops a page that it cannot write; Kafka halts, and the next process finds a shorter log.
  disk-error 1@?
  disk-error 1@49
  disk-error 1@900 -> excluded
test_a_log_of_a_name_that_was_used_before_may_be_emptied_at_a_start: 10 isr=1,2,3; 20 isr=1;
    100 isr=2 leader=2 recovering; 110 isr=2,3 recovered; UP; 120 register 1 j1; judged 100;
    machine 1 a@8 a@125; machine 2 b@8 b@125; machine 3 c@8 c@125; WON; CAME_BACK -> excluded
  # log-start-offset-checkpoint has names. Broker 1 was down when the earlier topic was deleted, and its next process
  # is killed before it writes that file again: a start deletes the log, which ends below what the file says.
  50 isr= leader=-1; 50 fence 1; earlier t -> possible
  50 isr= leader=-1; 50 fence 1; earlier u
  90 isr= leader=-1; 90 fence 1; earlier t
test_a_member_whose_log_was_deleted_and_made_anew_held_nothing: 10 isr=1,2 replicas=1,2,3; 80 isr=1 elr=2;
    100 isr= elr=1,2 leader=-1; 110 isr=2 elr=1 leader=2; UP; 79 shutdown 2; 80 fence 2; 89 register 2 j2; 95 unfence 2;
    100 fence 1; elr; judged 110; b1 follows -1 e1 p2 at=80 hw=80 utc=300 -> excluded; no contradicted_by_new_log
  # Its folder was deleted while it was stopped cleanly, so that the controller leaves it in the ELR.
  b2 creates t=90 utc=90 -> undetermined; contradicted_by_new_log
  # It is a log to move the replica to; it is the first one; of a replica that does not matter; or later.
  b2 creates t=90 utc=90 -future
  b2 creates t=11 utc=11
  b3 creates t=90 utc=90
  b2 creates t=130 utc=130

# Windows that only lines show.
test_a_clean_election_is_judged_when_lines_speak_against_it: 10 isr=1,2,3; 60 isr=2,3 leader=2; FROZEN;
    b2 leads e1 p1 at=80 hw=80 from=1/0; b1 follows 2 e1 p1 at=150 hw=150 from=1/0 -> proven 70..70
"""


@pytest.mark.parametrize("entry", entries(TABLE), ids=lambda entry: entry.name)
def test_window(entry: Entry) -> None:
    entry.check()


UP = up(1, 2, 3)
WON = "b2 leads e2 p3 at=80 hw=80 from=-1/1"
UNCLEAN = ("10 isr=1,2,3", "20 isr=1", "50 isr= leader=-1", "60 isr=2 leader=2 recovering")


def test_a_high_watermark_set_back_later_than_the_truncation_shows_nothing() -> None:
    """A new leader's high watermark may lag: 150 to 80 some seconds later is no loss."""
    rows = logged(WON, "b1 follows 2 e2 p4 at=150 hw=150 t=40 old", "b1 cuts-old 2 r0 to=80 hw=150 t=40.1").to_pylist()
    late = [{**r, "logged_at_ms": ms(44)} if r["kind"] == "high_watermark_set_back" else r for r in rows]
    lines, brokers = pa.Table.from_pylist(late, schema=logged().schema), newer(sessions(*UP, "50 fence 1"))
    assert judged_window((*UNCLEAN, "80 isr=2,3 recovered"), brokers=brokers, logs=lines)["loss_min"] == 0


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
    known = {"boots": {1: [BootReading("a", ms(at), ms(at)) for at in (8, 95)]}, "processes": processes}
    lines = logged(WON, "b1 loads t=76 utc=76 at=80")
    assert judged_window(UNCLEAN, brokers=brokers, logs=lines, **known)["verdict"] == verdict
