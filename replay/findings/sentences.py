"""The sentence and the nature of each statement code. Data only: `statements` makes prose of it.

Natures: a fact (the log or a captured file says so), a bound (what the evidence proves), a prediction (what a rule
would have done), an assumption (assumed to be true, not shown), a meaning (what follows for people who use the topic).
Codes are stable: queries select by them. Figures are those of schemas.STATEMENT.
"""

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


_FAULTS = {
    # Faults of the log and of files: the message is the reason.
    "fault": (FACT, "{text}"),
}

_COUNTERFACTUALS = {
    "policy_elects": (PREDICTION, "Prediction: under {text} broker {brokers} would have led."),
    "recorded_leader": (FACT, "As recorded, broker {brokers} was elected at metadata offset {offset}."),
    "last_seen": (
        BOUND,
        "Broker {brokers} was last seen with log end {value} and a last record of leader epoch {leader_epoch}.",
    ),
    "would_lose_at_least": (PREDICTION, "Prediction: at least {value} acknowledged offsets would have been lost."),
    "would_lose_at_most": (PREDICTION, "Prediction: at most {value} acknowledged offsets would have been lost."),
    "lost_by_recorded": (BOUND, "The recorded election lost at least {value}."),
}

_EXPOSURES = {
    # Of both kinds.
    "exposed_since_snapshot": (
        FACT,
        "The history starts with a snapshot there (metadata offset {offset}), so this may have begun earlier.",
    ),
    "exposed_for": (FACT, "It lasted {value} ms by the timestamps of the log."),
    "exposed_for_at_least": (BOUND, "It lasted at least {value} ms by the timestamps of the log."),
    "exposed_at_log_end": (FACT, "It had not ended when the log ended."),
    "exposed_into_hole": (FACT, "The log has a gap after it, so how it ended is unknown."),
    "exposed_until_removal": (FACT, "It ended when metadata offset {offset} removed the topic."),
    # Without a leader.
    "leader_lost": (
        FACT,
        "Metadata offset {offset} left the partition without a leader in leader epoch {leader_epoch}; broker {brokers} "
        "had led before.",
    ),
    "no_leader": (
        FACT,
        "From metadata offset {offset} on the partition has no leader in leader epoch {leader_epoch}; nothing "
        "recorded right before shows who had led.",
    ),
    "leaderless_isr": (FACT, "At the end of that time its ISR was: {brokers}."),
    "leaderless_elr": (FACT, "At the end of that time its ISR was empty and its ELR was: {brokers}."),
    "leaderless_last_known": (
        FACT,
        "At the end of that time its ISR and ELR were empty, and its last known leader was broker {brokers}.",
    ),
    "leaderless_nobody": (
        FACT,
        "At the end of that time its ISR and ELR were empty, and its list of last known leaders, from which Kafka "
        "elects only if it has one member, was: {brokers}.",
    ),
    "clean_return": (
        PREDICTION,
        "Prediction: the return of one of these brokers, unless it had stopped uncleanly, ends it with a clean "
        "election: {brokers}.",
    ),
    "last_known_return": (
        PREDICTION,
        "Prediction: the return of broker {brokers} ends it with an election of the last known leader, which is "
        "unclean.",
    ),
    "no_return": (PREDICTION, "Prediction: no broker's return ends it; only an unclean election does."),
    "replicas_alive": (
        FACT,
        "Replicas on brokers that were registered, unfenced and not shutting down at metadata offset {offset}: "
        "{brokers}.",
    ),
    "unclean_possible": (
        PREDICTION,
        "Prediction: an unclean election, by unclean.leader.election.enable or by an administrator, could have made "
        "one of the brokers {brokers} leader then.",
    ),
    "unclean_on": (FACT, "At metadata offset {offset} unclean.leader.election.enable was true (config layer: {text})."),
    "unclean_off": (
        FACT,
        "At metadata offset {offset} unclean.leader.election.enable was false (config layer: {text}).",
    ),
    "unclean_assumed": (
        ASSUMPTION,
        "unclean.leader.election.enable is assumed to be {text}: no config in the evidence sets it.",
    ),
    "ended_from_isr": (
        FACT,
        "Metadata offset {offset} ended it: broker {brokers}, a member of the ISR, became leader in leader epoch "
        "{leader_epoch}.",
    ),
    "ended_from_elr": (
        FACT,
        "Metadata offset {offset} ended it: broker {brokers}, a member of the ELR, became leader in leader epoch "
        "{leader_epoch}.",
    ),
    "ended_by_outsider": (
        FACT,
        "Metadata offset {offset} ended it: broker {brokers}, which was in neither the ISR nor the ELR, became leader "
        "in leader epoch {leader_epoch}.",
    ),
    "leaderless_means": (MEANING, "Nobody could write to the partition or read from it during that time."),
    # With one replica left.
    "last_replica": (
        FACT,
        "At metadata offset {offset} broker {brokers} became the only member of the ISR and ELR together.",
    ),
    "last_replica_at_end": (FACT, "At the end of that time it was broker {brokers}."),
    "min_isr_in_force": (FACT, "At metadata offset {offset} the effective min ISR was {value} (config layer: {text})."),
    "last_replica_led": (FACT, "The partition had a leader all that time."),
    "last_replica_led_partly": (FACT, "The partition had a leader for part of that time."),
    "last_replica_not_led": (FACT, "The partition had no leader during that time."),
    "more_replicas": (FACT, "It ended at metadata offset {offset}: the ISR and ELR together were then: {brokers}."),
    "no_replica_left": (FACT, "It ended at metadata offset {offset}: the ISR and ELR were empty then."),
    "single_replica": (FACT, "It ended at metadata offset {offset}: the partition had only one replica then."),
    "last_replica_means": (
        MEANING,
        "One more failure, of that broker's disk, and acknowledged records would have been gone; while that broker is "
        "merely down they cannot be reached.",
    ),
}

_TRUNCATION = {
    # A replica's log.
    "log_end_before": (FACT, "At {text} the log of broker {brokers} ended at {value}."),
    "log_end_after": (FACT, "At {text} it ended at {value}."),
    "epoch_began_below": (
        FACT,
        "In its leader-epoch-checkpoint leader epoch {leader_epoch} begins at {value}; metadata offset {offset} opened "
        "that epoch, after the log end was read.",
    ),
    "tail_lost": (BOUND, "At least {value} offsets that it had are gone from its log, or were replaced."),
    "elections_between": (
        FACT,
        "Leader epochs that began in between and may have made it truncate its log: {value}. The last is leader epoch "
        "{leader_epoch}, at metadata offset {offset}, leader: {brokers}.",
    ),
    "election_before": (
        FACT,
        "Nothing shows that its log had reached leader epoch {leader_epoch} (metadata offset {offset}, leader: "
        "{brokers}) when its end was first read.",
    ),
    "no_election_explains": (BOUND, "No election explains it."),
    "leader_restarted": (
        FACT,
        "Its leader, broker {brokers}, registered a new incarnation at metadata offset {offset} in leader epoch "
        "{leader_epoch}, which it led before.",
    ),
    "maybe_cut_back_to_leader": (
        MEANING,
        "If that leader had lost the end of its log, the replica cut its own log back to it; else it lost the records "
        "by itself.",
    ),
    "cut_back": (
        MEANING,
        "A replica truncates what the new leader does not have (KIP-101, KIP-279): that would explain it.",
    ),
    "maybe_cut_back": (
        MEANING,
        "It may have truncated its log to that leader's (KIP-101, KIP-279), or lost the records by itself.",
    ),
    "lost_by_itself": (
        MEANING,
        "It lost records by itself: an unclean stop before they were on disk, or a disk that was replaced, restored or "
        "altered.",
    ),
    "one_copy_less": (
        MEANING,
        "This is one replica's log: no acknowledged record is gone by this alone, but fewer replicas have them.",
    ),
    # A replica's high watermark.
    "mark_before": (
        FACT,
        "At {text} the replication-offset-checkpoint of broker {brokers} contained the high watermark {value}.",
    ),
    "mark_after": (FACT, "At {text} it contained {value}."),
    "no_election_between": (
        BOUND,
        "The broker had followed the leader of leader epoch {leader_epoch}, and no other epoch began up to the second "
        "reading: no election set the high watermark back.",
    ),
    "mark_means": (
        MEANING,
        "A broker that loses its checkpoint file starts from its log's start (KAFKA-16452): consumers may read records "
        "again. No acknowledged record is gone by this alone.",
    ),
    # Of both.
    "restarted_between": (FACT, "It registered a new incarnation in between, at metadata offset {offset}."),
    "not_restarted": (FACT, "It registered no new incarnation in between."),
    "led_before": (FACT, "It led the partition before that."),
    "leads_after": (FACT, "It led the partition after that."),
    "states_not_known": (
        FACT,
        "Not all states of the partition during that time are known, so what the broker had may be another replica's "
        "log.",
    ),
}

_RULES = {
    # A partition change that is not as predicted.
    "rule_change": (FACT, "The partition change at metadata offset {offset} does not match the rules in: {text}."),
    "rule_trigger": (FACT, "What made the controller write it: {text}."),
    "rule_no_trigger": (FACT, "Nothing in the log shows what made the controller write it."),
    "rule_known_bug": (FACT, "The running release writes it this way because of a bug fixed since: {text}."),
    "rule_unexplained": (
        FACT,
        "No rule profile that the active controller may have run writes it, and no unknown input explains it.",
    ),
    "rule_predicts_none": (PREDICTION, "Prediction: under profile {text} the partition has no leader then."),
    "rule_predicts_leader": (PREDICTION, "Prediction: under profile {text} the leader is broker {brokers}."),
    "rule_predicts_isr": (PREDICTION, "Prediction: under profile {text} the ISR is: {brokers}."),
    "rule_predicts_elr": (PREDICTION, "Prediction: under profile {text} the ELR is: {brokers}."),
    # A broken invariant.
    "invariant_broken": (FACT, "This does not hold: {text}"),
    "invariant_detail": (FACT, "At metadata offset {offset}: {text}."),
    "invariant_brokers": (FACT, "It concerns the nodes {brokers}."),
    "invariant_rows": (FACT, "Consecutive states or records that break it: {value}."),
    "invariant_means": (MEANING, "{text}"),
}

SENTENCES: dict[str, tuple[str, str]] = {
    **_FAULTS,
    **WINDOW_SENTENCES,
    **_COUNTERFACTUALS,
    **_EXPOSURES,
    **_TRUNCATION,
    **_RULES,
}
