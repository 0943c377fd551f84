"""The sentence of every statement code, and its nature. Data only: `statements` makes prose of it.

Natures: a fact (the log or a captured file says so), a bound (what the evidence proves), a prediction (what a rule
would have done), an assumption (taken for true, and not shown), a meaning (what follows for people who use the topic).
Codes are stable: queries select by them. Figures are those of `statements.STATEMENT`.
"""

from __future__ import annotations

FACT, BOUND, PREDICTION, ASSUMPTION, MEANING = "fact", "bound", "prediction", "assumption", "meaning"

_FAULTS = {
    # Faults of the log and of files: the message is the reason.
    "fault": (FACT, "{text}"),
}

_WINDOWS = {
    "elected": (
        FACT,
        "At metadata offset {offset} broker {brokers} became leader of {text} with leader epoch {leader_epoch}.",
    ),
    "isr_before": (FACT, "Before that the ISR was: {brokers}."),
    "elr_before": (FACT, "The ELR was: {brokers}."),
    "outsider": (
        FACT,
        "It was in neither the ISR nor the ELR, so nothing promises that it held every acknowledged record.",
    ),
    "taken_in": (
        FACT,
        "It joined the ISR by this very change, which completes a reassignment: the leader before vouched for it.",
    ),
    # Premises of the protocol's promise.
    "premise_member": (FACT, "It was a member of the ISR or ELR without a break since metadata offset {offset}."),
    "premise_feature_on": (FACT, "The ELR feature was on all that time."),
    "premise_not_marked": (FACT, "The controller did not mark the partition as RECOVERING with this change."),
    "premise_no_registration": (FACT, "Its broker registered no new incarnation since it joined."),
    "premise_clean_registration": (
        FACT,
        "Its broker registered again (last at metadata offset {offset}), and the controller, with the ELR feature on, "
        "left it in the ISR or ELR: it had stopped cleanly.",
    ),
    "premise_same_directory": (FACT, "Its log stayed in the same directory over every restart."),
    "premise_alive": (
        BOUND,
        "The process of broker {brokers} that was elected surely ran at that time: the controller heard from it later.",
    ),
    "premise_leaders_ran": (
        BOUND,
        "Every leader that it can have followed since it joined surely was the process that had been elected.",
    ),
    "held_by_protocol": (
        ASSUMPTION,
        "Such a member holds every record below the high watermark: that is the protocol's promise, and nothing in the "
        "lake contradicts it.",
    ),
    # Why the promise does not hold, or is not known to.
    "restarted": (FACT, "It was in the ISR, but restarted since it joined, and nothing vouches for its log."),
    "not_held_joined_without_leader": (
        FACT,
        "Broker {brokers} came into the ISR at metadata offset {offset} while the partition had no leader: the "
        "controller put it there, whatever its log held.",
    ),
    "not_held_marked": (
        FACT,
        "With this change (metadata offset {offset}) the controller marked the partition as RECOVERING: its leader "
        "need not hold every acknowledged record.",
    ),
    "not_held_registered_with_it": (
        FACT,
        "Broker {brokers} registered a new incarnation in the very batch of the election (metadata offset {offset}): "
        "its membership says nothing about the log that it came back with.",
    ),
    "not_held_directory_changed": (
        FACT,
        "Broker {brokers} has the log in another directory since its restart: it may have begun an empty one.",
    ),
    "not_held_no_sign_of_life": (
        BOUND,
        "Nothing shows that the process of broker {brokers} still ran when it was elected: it may have crashed before, "
        "unnoticed, and lost the end of its log.",
    ),
    "not_held_leader_may_have_restarted": (
        BOUND,
        "Broker {brokers}, leader from metadata offset {offset} on, may have crashed and come back inside its session: "
        "its followers would have cut their logs back to what it had left.",
    ),
    "contradicted": (
        BOUND,
        "It was a member of the ISR or ELR; the evidence contradicts that it held everything.",
    ),
    "contradicted_by_truncation": (
        BOUND,
        "The log of broker {brokers} lost its end around that time, and no election explains it (see log_truncation).",
    ),
    "contradicted_by_high_watermark": (
        BOUND,
        "A high watermark above the new leader's log end was read before the election or around it.",
    ),
    "contradicted_by_rules": (
        FACT,
        "The change at metadata offset {offset} is not as the rules have it (see rule_mismatch).",
    ),
    "high_watermark_at_least": (BOUND, "The high watermark had reached {value} at least (broker {brokers} said so)."),
    "floor_leader_alone": (
        BOUND,
        "The high watermark had reached {value} at least: broker {brokers} led alone, not below min ISR, and its log "
        "ended there in two readings of one process.",
    ),
    "high_watermark_at_most": (BOUND, "The high watermark was at most {value}."),
    "ceiling_clean_stop": (
        BOUND,
        "Broker {brokers}, the leader before, stopped cleanly, and its log ended at {value} then.",
    ),
    "ceiling_below_min_isr": (
        BOUND,
        "With |ISR| < min ISR the high watermark stands still; the log of broker {brokers}, the leader, ended at "
        "{value} after it surely knew.",
    ),
    "ceiling_leaders_own_word": (
        BOUND,
        "Broker {brokers}, the leader, reported that it was below min ISR, where the high watermark stands still, and "
        "later a log end of {value}.",
    ),
    "log_end": (BOUND, "The new leader's log ended at {value}."),
    "log_end_at_most": (BOUND, "The new leader's log ended at {value} at most."),
    "log_end_at_least": (BOUND, "The new leader's log was the partition's log up to {value} at least."),
    "nothing_bounds": (BOUND, "No report of a high watermark or log end bounds the loss."),
    "lost_at_least": (BOUND, "Proven: at least {value} acknowledged offsets are gone."),
    "lost_at_most": (BOUND, "At most {value} acknowledged offsets are gone."),
    "lost_open": (BOUND, "No upper bound is known."),
    "first_lost": (BOUND, "The first one lost is {value}."),
    "nothing_lost": (BOUND, "Nothing below the high watermark is gone."),
    "nothing_proven": (BOUND, "A loss is possible, none is proven."),
    "unacked_at_least": (
        BOUND,
        "Of the old leader's log at least {value} offsets are gone, acknowledged by all or not: what producers with "
        "acks=0 or 1 lost.",
    ),
    "unacked_at_most": (BOUND, "Of the old leader's log at most {value} offsets are gone, acknowledged by all or not."),
    "missing_log_end": (
        FACT,
        "Missing: a leader-epoch-checkpoint of broker {brokers} with the line of leader epoch {leader_epoch}, which "
        "tells its log end at the election.",
    ),
    "missing_high_watermark_ceiling": (
        FACT,
        "Missing: an upper bound of the high watermark of broker {brokers}, the leader before. Cheapest are two rounds "
        "of copying after a clean stop (recovery-point-offset-checkpoint with .kafka_cleanshutdown), or two scrapes of "
        "one process below min ISR (UnderMinIsr, InSyncReplicasCount, process_start_time_seconds).",
    ),
    "missing_word_of_process": (
        FACT,
        "Missing: evidence that one process of broker {brokers}, the leader before, led all its time. Cheapest is a "
        "scrape with process_start_time_seconds from right before it went away, or its server.log.",
    ),
    "missing_high_watermark": (
        FACT,
        "Missing: a high watermark that was surely reported before the election, of a log that surely was this one.",
    ),
    "session_timeout_assumed": (
        ASSUMPTION,
        "broker.session.timeout.ms is taken to be {value}: no controller's server.properties in the evidence says it.",
    ),
    "clocks_measured": (
        BOUND,
        "The evidence itself shows that the controllers' clock was ahead of the capturer's by {value} ms at least: a "
        "file has what was recorded later.",
    ),
    "clocks": (ASSUMPTION, "Clocks of different nodes are taken to differ by {value} ms at most."),
    "min_isr_assumed": (ASSUMPTION, "min.insync.replicas is taken to be {value}: no config in the evidence says it."),
    "consumer_offsets": (
        MEANING,
        "This is a partition of __consumer_offsets: what is lost are committed offsets and group memberships of the "
        "groups that hash to it. Their consumers read records again, or start where auto.offset.reset says.",
    ),
    "transaction_state": (
        MEANING,
        "This is a partition of __transaction_state: what is lost are states of the transactional ids that hash to it. "
        "Transactions may stay open (read_committed consumers wait) or be half done, and fenced producers may write.",
    ),
    "would_elect": (
        PREDICTION,
        "Prediction: unclean recovery as KIP-966 describes it, had every replica answered with its log as last seen, "
        "would have picked broker {brokers}.",
    ),
}
_COUNTERFACTUALS = {
    "policy_elects": (PREDICTION, "Prediction: under {text} broker {brokers} would have led."),
    "recorded_leader": (FACT, "As recorded, broker {brokers} was elected at metadata offset {offset}."),
    "last_seen": (
        BOUND,
        "Broker {brokers} was last seen with log end {value}, the last record of leader epoch {leader_epoch}.",
    ),
    "would_lose_at_least": (PREDICTION, "Prediction: at least {value} acknowledged offsets would have been lost."),
    "would_lose_at_most": (PREDICTION, "Prediction: at most {value} acknowledged offsets would have been lost."),
    "lost_by_recorded": (BOUND, "The recorded election lost at least {value}."),
}

_EXPOSURES = {
    # Of both kinds.
    "exposed_since_snapshot": (
        FACT,
        "The history begins with a snapshot there (metadata offset {offset}): it may have been so before.",
    ),
    "exposed_for": (FACT, "It lasted {value} ms by the timestamps of the log."),
    "exposed_for_at_least": (BOUND, "It lasted at least {value} ms by the timestamps of the log."),
    "exposed_at_log_end": (FACT, "It had not ended where the log ends."),
    "exposed_into_hole": (FACT, "The log has a hole behind it: how it ended is not known."),
    "exposed_until_removal": (FACT, "It ended as metadata offset {offset} removed the topic."),
    # Without a leader.
    "leader_lost": (
        FACT,
        "Metadata offset {offset} left the partition without a leader, leader epoch {leader_epoch}; broker {brokers} "
        "had led before.",
    ),
    "no_leader": (
        FACT,
        "From metadata offset {offset} on the partition has no leader, leader epoch {leader_epoch}; who led before is "
        "not recorded.",
    ),
    "leaderless_isr": (FACT, "At the end of that time its ISR was: {brokers}."),
    "leaderless_elr": (FACT, "At the end of that time its ISR was empty and its ELR was: {brokers}."),
    "leaderless_last_known": (
        FACT,
        "At the end of that time its ISR and ELR were empty, and its last known leader was broker {brokers}.",
    ),
    "leaderless_nobody": (
        FACT,
        "At the end of that time its ISR and ELR were empty, and its list of last known leaders, which elects only "
        "with one member, was: {brokers}.",
    ),
    "clean_return": (
        PREDICTION,
        "Prediction: the return of one of these brokers, unless it had stopped uncleanly, ends it with a clean "
        "election: {brokers}.",
    ),
    "last_known_return": (
        PREDICTION,
        "Prediction: the return of broker {brokers} ends it, by an election of the last known leader: an unclean one.",
    ),
    "no_return": (PREDICTION, "Prediction: no broker's return ends it, only an unclean election does."),
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
    "unclean_on": (FACT, "unclean.leader.election.enable was true (layer: {text})."),
    "unclean_off": (FACT, "unclean.leader.election.enable was false (layer: {text})."),
    "unclean_assumed": (
        ASSUMPTION,
        "unclean.leader.election.enable is taken to be {text}: no config in the evidence says it.",
    ),
    "ended_from_isr": (
        FACT,
        "Metadata offset {offset} ended it: broker {brokers}, a member of the ISR, became leader, leader epoch "
        "{leader_epoch}.",
    ),
    "ended_from_elr": (
        FACT,
        "Metadata offset {offset} ended it: broker {brokers}, a member of the ELR, became leader, leader epoch "
        "{leader_epoch}.",
    ),
    "ended_by_outsider": (
        FACT,
        "Metadata offset {offset} ended it: broker {brokers}, which was in neither the ISR nor the ELR, became leader, "
        "leader epoch {leader_epoch}.",
    ),
    "leaderless_means": (MEANING, "Nobody could write to the partition or read from it in that time."),
    # With one replica left.
    "last_replica": (
        FACT,
        "From metadata offset {offset} on broker {brokers} was the only member of ISR and ELR together.",
    ),
    "last_replica_at_end": (FACT, "At the end of that time it was broker {brokers}."),
    "min_isr_in_force": (FACT, "The effective min ISR was {value} (layer: {text})."),
    "last_replica_led": (FACT, "The partition had a leader all that time."),
    "last_replica_led_partly": (FACT, "The partition had a leader for a part of that time."),
    "last_replica_not_led": (FACT, "The partition had no leader in that time."),
    "more_replicas": (FACT, "It ended at metadata offset {offset}: ISR and ELR together were then: {brokers}."),
    "no_replica_left": (FACT, "It ended at metadata offset {offset}: ISR and ELR were empty from there on."),
    "single_replica": (FACT, "It ended at metadata offset {offset}: from there on the partition has one replica only."),
    "last_replica_means": (
        MEANING,
        "One more failure, of that broker's disk, and acknowledged records would have been gone; with its mere absence "
        "they are out of reach.",
    ),
}

_TRUNCATION = {
    # A replica's log.
    "log_end_before": (FACT, "At {text} the log of broker {brokers} ended at {value}."),
    "log_end_after": (FACT, "At {text} it ended at {value}."),
    "epoch_began_below": (
        FACT,
        "Its leader-epoch-checkpoint has leader epoch {leader_epoch} begin at {value}; metadata offset {offset} opened "
        "that epoch, after the log end was read.",
    ),
    "tail_lost": (BOUND, "At least {value} offsets that it had are gone from its log, or were replaced."),
    "elections_between": (
        FACT,
        "In between leader epochs began that may have made it cut its log: {value}. The last is leader epoch "
        "{leader_epoch}, of metadata offset {offset}, leader: {brokers}.",
    ),
    "election_before": (
        FACT,
        "Nothing shows that its log had reached leader epoch {leader_epoch} (metadata offset {offset}, leader: "
        "{brokers}) when its end was read first.",
    ),
    "no_election_explains": (BOUND, "No election explains it."),
    "cut_back": (
        MEANING,
        "A replica cuts off what the new leader does not have (KIP-101, KIP-279): that would explain it.",
    ),
    "maybe_cut_back": (
        MEANING,
        "It may have cut its log back to that leader's (KIP-101, KIP-279), or lost the records by itself.",
    ),
    "lost_by_itself": (
        MEANING,
        "It lost records by itself: an unclean stop before they were on disk, a disk that was replaced, restored or "
        "altered.",
    ),
    "one_copy_less": (
        MEANING,
        "That is one replica's log: no acknowledged record is gone by this alone, but fewer replicas have them.",
    ),
    # A replica's high watermark.
    "mark_before": (
        FACT,
        "At {text} the replication-offset-checkpoint of broker {brokers} had the high watermark {value}.",
    ),
    "mark_after": (FACT, "At {text} it had {value}."),
    "no_election_between": (
        BOUND,
        "The broker had followed the leader of leader epoch {leader_epoch}, and none began up to the second reading: "
        "it was no election that put it back.",
    ),
    "mark_means": (
        MEANING,
        "A checkpoint file that is lost makes a broker start from its log's start (KAFKA-16452): consumers may read "
        "records again. Nothing acknowledged is gone by this alone.",
    ),
    # Of both.
    "restarted_between": (FACT, "It registered a new incarnation in between, at metadata offset {offset}."),
    "not_restarted": (FACT, "It registered no new incarnation in between."),
    "led_before": (FACT, "It led the partition before."),
    "leads_after": (FACT, "It led the partition after that."),
    "states_not_known": (
        FACT,
        "Not all states of the partition in that time are known, so what the broker had may be another replica's log.",
    ),
}

_RULES = {
    # A partition change that is not as predicted.
    "rule_change": (FACT, "The partition change at metadata offset {offset} is not as the rules have it in: {text}."),
    "rule_trigger": (FACT, "What made the controller write it: {text}."),
    "rule_no_trigger": (FACT, "Nothing in the log shows what made the controller write it."),
    "rule_known_bug": (FACT, "It is as the running release wrote it, by a bug that was mended since: {text}."),
    "rule_unexplained": (
        FACT,
        "No rule profile that the active controller may have run writes it, and no unknown input explains it.",
    ),
    "rule_predicts_none": (PREDICTION, "Prediction: by profile {text} the partition has no leader then."),
    "rule_predicts_leader": (PREDICTION, "Prediction: by profile {text} the leader is broker {brokers}."),
    "rule_predicts_isr": (PREDICTION, "Prediction: by profile {text} the ISR is: {brokers}."),
    "rule_predicts_elr": (PREDICTION, "Prediction: by profile {text} the ELR is: {brokers}."),
    # A broken invariant.
    "invariant_broken": (FACT, "This does not hold: {text}"),
    "invariant_detail": (FACT, "At metadata offset {offset}: {text}."),
    "invariant_brokers": (FACT, "It is about the nodes {brokers}."),
    "invariant_rows": (FACT, "Consecutive states or records that break it: {value}."),
    "invariant_means": (MEANING, "{text}"),
}

SENTENCES: dict[str, tuple[str, str]] = {
    **_FAULTS,
    **_WINDOWS,
    **_COUNTERFACTUALS,
    **_EXPOSURES,
    **_TRUNCATION,
    **_RULES,
}
