"""The sentences of recorded windows, by statement code: see sentences.py, which holds the others."""

from __future__ import annotations

from replay.findings.kinds import ASSUMPTION, BOUND, FACT, MEANING, PREDICTION

WINDOW_SENTENCES: dict[str, tuple[str, str]] = {
    "elected": (
        FACT,
        "At metadata offset {offset} broker {brokers} became leader of {text} with leader epoch {leader_epoch}.",
    ),
    "isr_before": (FACT, "The ISR before that was: {brokers}."),
    "elr_before": (FACT, "The ELR before that was: {brokers}."),
    "outsider": (
        FACT,
        "It was in neither the ISR nor the ELR, so nothing guarantees that it held every acknowledged record.",
    ),
    "taken_in": (
        FACT,
        "It joined the ISR with this same change, which completes a reassignment: the previous leader vouched for it.",
    ),
    # Premises of the protocol's promise.
    "premise_member": (FACT, "It had been a member of the ISR or ELR without a break since metadata offset {offset}."),
    "premise_feature_on": (FACT, "The ELR feature was on all that time."),
    "premise_not_marked": (FACT, "The controller did not mark the partition as RECOVERING with this change."),
    "premise_no_registration": (FACT, "Its broker had registered no new incarnation since it joined."),
    "premise_clean_registration": (
        FACT,
        "Its broker registered again (last at metadata offset {offset}), and the controller, with the ELR feature on, "
        "left it in the ISR or ELR: it took that stop for a clean one.",
    ),
    "premise_same_directory": (FACT, "Across its restarts no other directory is recorded for its log."),
    "premise_alive": (
        BOUND,
        "The process of broker {brokers} that was elected was certainly running then: the controller heard from it "
        "later.",
    ),
    "premise_leaders_ran": (
        BOUND,
        "In every term of the known history only one process of the leader was registered, and so reached by anybody, "
        "or a later one had all that the one before had, as far as that can have changed this log.",
    ),
    "premise_member_once": (
        BOUND,
        "Broker {brokers} was a member of the ISR or ELR up to metadata offset {offset}, and after that the high "
        "watermark could not advance: nobody led, or the ISR was smaller than min ISR.",
    ),
    "premise_kept_its_log": (
        BOUND,
        "Broker {brokers} still had the log that it had then: its process ran on, or its machine did not start again.",
    ),
    "premise_log_ends_current": (
        BOUND,
        "No leader since then can have counted on a log end that the new leader no longer had.",
    ),
    "held_by_protocol": (
        ASSUMPTION,
        "Such a member holds every record below the high watermark: the protocol promises this, and nothing in the "
        "lake contradicts it.",
    ),
    # Why the promise does not hold, or is not known to.
    "restarted": (
        FACT,
        "It was in the ISR, but the log does not show that it had not restarted since it joined, nor how it stopped.",
    ),
    "not_held_joined_without_leader": (
        FACT,
        "Broker {brokers} joined the ISR at metadata offset {offset} while the partition had no leader: the "
        "controller added it regardless of what its log held.",
    ),
    "not_held_marked": (
        FACT,
        "With this change (metadata offset {offset}) the controller marked the partition as RECOVERING: its leader "
        "need not hold every acknowledged record.",
    ),
    "not_held_registered_with_it": (
        FACT,
        "Broker {brokers} registered a new incarnation in the same batch as the election (metadata offset {offset}): "
        "its membership says nothing about the log that it came back with.",
    ),
    "not_held_directory_changed": (
        FACT,
        "Since its restart broker {brokers} has the log in another directory: it may have started an empty one.",
    ),
    "not_held_no_sign_of_life": (
        BOUND,
        "Nothing shows that the process of broker {brokers} was still running when it was elected: it may have crashed "
        "unnoticed before that and lost the end of its log.",
    ),
    "not_held_earlier_leaders_unknown": (
        BOUND,
        "The captured log begins with a snapshot (metadata offset {offset}). An earlier leader may have registered "
        "again within its term with less, so the logs of members may differ.",
    ),
    "not_held_leader_may_have_restarted": (
        BOUND,
        "More than one process may have written as broker {brokers}, leader from metadata offset {offset} on: it "
        "registered again within the term, its directories do not exclude two processes at once, or brokers append to "
        "this topic by themselves. The logs of its followers may differ.",
    ),
    "not_held_old_log_ends": (
        BOUND,
        "Broker {brokers}, leader from metadata offset {offset} on, had led before and may not have learned who led in "
        "between: then it counted on log ends from before, of replicas that had truncated since.",
    ),
    "contradicted": (BOUND, "It was a member of the ISR or ELR, but the evidence contradicts that it held everything."),
    "contradicted_by_truncation": (
        BOUND,
        "The log of broker {brokers} lost its end around that time, and no election explains it (see log_truncation).",
    ),
    "contradicted_by_corruption": (
        BOUND,
        "Broker {brokers} cut damaged records off its log when it started, although its machine had not started again.",
    ),
    "contradicted_by_high_watermark": (
        BOUND,
        "A high watermark above the new leader's log end was read before or around the election.",
    ),
    "contradicted_by_rules": (
        FACT,
        "The change at metadata offset {offset} does not match the rules (see rule_mismatch).",
    ),
    "high_watermark_at_least": (
        BOUND,
        "The high watermark had reached at least {value} (reported by broker {brokers}).",
    ),
    "floor_leader_alone": (
        BOUND,
        "The high watermark had reached at least {value}: broker {brokers} was leader and alone in the ISR, not below "
        "min ISR, and its log ended there in two readings of one process.",
    ),
    "floor_lone_leaders_log": (
        BOUND,
        "The high watermark had reached at least {value}: broker {brokers} led and was alone in the ISR until its term "
        "ended, and its log has as many batches from there on as can have been without an acknowledgement.",
    ),
    "floor_logged": (
        BOUND,
        "The high watermark had reached at least {value}: broker {brokers} logged it when it began to lead or to "
        "follow, or went on to lead.",
    ),
    "floor_logged_shrink": (
        BOUND,
        "The high watermark had reached at least {value}: broker {brokers} logged it when it took replicas out of the "
        "ISR.",
    ),
    "floor_logged_truncation": (
        BOUND,
        "The high watermark had reached at least {value}: broker {brokers} logged that it truncated its log below it.",
    ),
    "high_watermark_at_most": (BOUND, "The high watermark was at most {value}."),
    "ceiling_clean_stop": (
        BOUND,
        "Broker {brokers}, the previous leader, stopped cleanly, and its log ended at {value} then.",
    ),
    "ceiling_logged_high_watermark": (
        BOUND,
        "Broker {brokers}, the previous leader, logged its last high watermark, {value}, when it learned that it no "
        "longer led.",
    ),
    "ceiling_logged_log_end": (
        BOUND,
        "The log of broker {brokers}, the previous leader, still ended at {value} when it logged that it did not lead; "
        "until then it had neither truncated nor lost anything.",
    ),
    "ceiling_loaded_log_end": (
        BOUND,
        "The log of broker {brokers}, the previous leader, ended at {value} when the next process of the broker loaded "
        "it; no other one ran in between, and the machine did not start again.",
    ),
    "ceiling_members_log_end": (
        BOUND,
        "As long as broker {brokers} was in the ISR the high watermark was at most its log's end, and after that it "
        "could not advance; that log still ended at {value} before the broker followed the next leader.",
    ),
    "ceiling_logged_below_min_isr": (
        BOUND,
        "While |ISR| < min ISR the high watermark does not advance; broker {brokers}, the leader, logged that it led "
        "below min ISR, which lasted up to the election: the high watermark was {value} at most.",
    ),
    "ceiling_below_min_isr": (
        BOUND,
        "While |ISR| < min ISR the high watermark does not advance; the log of broker {brokers}, the leader, ended at "
        "{value} after the broker certainly knew of it.",
    ),
    "ceiling_leaders_own_word": (
        BOUND,
        "Broker {brokers}, the leader, reported that it was below min ISR, where the high watermark does not advance, "
        "and later a log end of {value}.",
    ),
    "log_end": (BOUND, "The new leader's log ended at {value}."),
    "log_end_at_most": (BOUND, "The new leader's log ended at {value} at most."),
    "log_end_at_least": (BOUND, "The new leader's log matched the partition's log up to at least {value}."),
    "premise_epochs_written_once": (
        BOUND,
        "Each leader epoch in that part of the new leader's log was certainly written by one process, or it is the "
        "previous leader's own log: so the records are the same, too.",
    ),
    "nothing_bounds": (BOUND, "No report of a high watermark or log end bounds the loss."),
    "lost_at_least": (
        BOUND,
        "Proven: at least {value} acknowledged offsets are gone. Retention or compaction may have removed some of "
        "their records before.",
    ),
    "lost_at_most": (BOUND, "At most {value} acknowledged offsets are gone."),
    "lost_open": (BOUND, "No upper bound is known."),
    "first_lost": (BOUND, "The first lost offset is {value}."),
    "nothing_lost": (BOUND, "Nothing below the high watermark is gone."),
    "nothing_proven": (BOUND, "A loss is possible but not proven."),
    "unacked_at_least": (
        BOUND,
        "At least {value} offsets of the old leader's log are gone, acknowledged by all in-sync replicas or not: this "
        "is what producers with acks=0 or 1 lost.",
    ),
    "unacked_at_most": (
        BOUND,
        "At most {value} offsets of the old leader's log are gone, acknowledged by all in-sync replicas or not.",
    ),
    "missing_log_end": (
        FACT,
        "Missing: a leader-epoch-checkpoint of broker {brokers} with the line for leader epoch {leader_epoch}, which "
        "shows its log end at the election.",
    ),
    "missing_high_watermark_ceiling": (
        FACT,
        "Missing: an upper bound on the high watermark of broker {brokers}, the previous leader. The cheapest evidence "
        "is two rounds of copying after a clean stop (recovery-point-offset-checkpoint with .kafka_cleanshutdown), or "
        "two scrapes of one process below min ISR (UnderMinIsr, InSyncReplicasCount, process_start_time_seconds).",
    ),
    "missing_word_of_process": (
        FACT,
        "Missing: evidence that one process of broker {brokers} led for its whole term. The cheapest evidence is a "
        "scrape with process_start_time_seconds from right before it went away, or its server.log.",
    ),
    "missing_high_watermark": (
        FACT,
        "Missing: a high watermark that is known to be from before the election, and to be about this log.",
    ),
    "session_timeout_assumed": (
        ASSUMPTION,
        "broker.session.timeout.ms is assumed to be {value}: no controller's server.properties in the evidence sets "
        "it.",
    ),
    "clocks_measured": (
        BOUND,
        "The evidence itself shows that the controllers' clock was ahead of the capturer's clock by at least {value} "
        "ms: a file contains something that was recorded later.",
    ),
    "clocks": (ASSUMPTION, "Clocks of different nodes are assumed to differ by at most {value} ms."),
    "min_isr_assumed": (ASSUMPTION, "min.insync.replicas is assumed to be {value}: no config in the evidence sets it."),
    "consumer_offsets": (
        MEANING,
        "This is a partition of __consumer_offsets: a loss here is a loss of committed offsets and group memberships "
        "of the groups that hash to it. Their consumers read records again, or start where auto.offset.reset says.",
    ),
    "transaction_state": (
        MEANING,
        "This is a partition of __transaction_state: a loss here is a loss of the states of transactional ids that "
        "hash to it. Transactions may stay open (read_committed consumers wait) or be half done, and fenced producers "
        "may write.",
    ),
    "would_elect": (
        PREDICTION,
        "Prediction: unclean recovery as KIP-966 describes it would have picked broker {brokers}, had every replica "
        "answered with its log as last seen.",
    ),
}
