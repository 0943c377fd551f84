"""The sentence and the nature of each statement code. Data only: `statements` makes prose of it. Those of
recorded windows are in window_sentences.py.

Natures: a fact (the log or a captured file says so), a bound (what the evidence proves), a prediction (what a rule
would have done), an assumption (assumed to be true, not shown), a meaning (what follows for people who use the topic).
Codes are stable: queries select by them. Figures are those of schemas.STATEMENT.
"""

from __future__ import annotations

from replay.findings.kinds import ASSUMPTION, BOUND, FACT, MEANING, PREDICTION
from replay.findings.window_sentences import WINDOW_SENTENCES

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
