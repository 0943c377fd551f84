"""What to do now, and what prevents the next loss: advice that follows from recorded facts.

Each piece of advice names the rule that it follows from, and keeps apart what is recorded (`facts`), what is assumed,
and what would happen (`predictions`). Advice claims no loss and changes no verdict. The data is the key `advice` of the
verdict document (docs/verdict.md).

Sources: Kafka's PartitionChangeBuilder (who may be elected), KIP-966 (ELR), KIP-101 (a replica truncates its log).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replay.incident.advice_consumers import concerned
from replay.incident.advice_piece import (
    BEFORE_RESTART,
    EXPOSURE,
    MOST_PLACES,
    NOW,
    PREVENTION,
    UNCLEAN,
    WINDOWS,
    Row,
    broker_state,
    config_command,
    count,
    groups,
    legal_topics,
    listed,
    piece,
    place,
    sentences_of,
    unclean_commands,
)
from replay.incident.advice_replicas import reassignments
from replay.incident.prevention import elr_off, known_bugs, longest_exposed, unsafe_configs

TITLES = {
    BEFORE_RESTART: "Copy first, before a broker is started or a log is deleted",
    NOW: "Do now",
    PREVENTION: "Prevent the next loss",
}
# At most this many findings of a kind are read for advice; a cluster may have one for each of a million partitions.
MOST_READ = 5000
_CUT = "docs/findings.md#logs-that-were-cut-back"
_CHECKPOINTS = (
    "replication-offset-checkpoint, recovery-point-offset-checkpoint, log-start-offset-checkpoint, "
    ".kafka_cleanshutdown and meta.properties of each log directory; server.log and "
    "state-change.log; /proc/sys/kernel/random/boot_id"
)


@dataclass(frozen=True, slots=True)
class AdviceInput:
    """Facts that advice follows from, as rows of the tables.

    leaderless, last_replica: FINDINGS of these kinds that had not ended when the log ended; longest: last_replica ones,
    longest first; known_bugs: rule_mismatch; lost: windows (hwm_regression) that are not excluded, with
    previous_leader of their election. left_out: kind -> how many of its findings were not read. placements:
    (topic_id, partition) -> state at the log's end, of last_replica; partition_counts: topic id -> number of
    partitions, of the internal topics in `lost`. configs: CONFIG_HISTORY in force at the log's end; features: name ->
    level; brokers: broker -> its BROKER_HISTORY row at the log's end. last_seen: (topic_id, partition) -> broker ->
    {log_end_offset, high_watermark}, as last read; null where never read.
    """

    leaderless: Sequence[Row] = ()
    last_replica: Sequence[Row] = ()
    longest: Sequence[Row] = ()
    known_bugs: Sequence[Row] = ()
    lost: Sequence[Row] = ()
    configs: Sequence[Row] = ()
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[int, Row] = field(default_factory=dict)
    last_seen: Mapping[tuple[str, int], Mapping[int, Row]] = field(default_factory=dict)
    placements: Mapping[tuple[str, int], Row] = field(default_factory=dict)
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)


def advise(given: AdviceInput) -> list[Row]:
    """Pieces of advice, the most urgent first. Each has `code`, `when` (NOW, BEFORE_RESTART, PREVENTION), `advice` (a
    sentence), `facts`, `assumptions`, `predictions` (sentences), `commands`, `not_to_run` (commands), `brokers`,
    `partitions` (at most MOST_PLACES), `partition_count`, `rule`, `see` (a section of the docs) and `finding_ids`."""
    return [
        *_copies(given),
        *_leaderless(given),
        *_last_replicas(given),
        *reassignments(given.last_replica, given.placements, given.brokers),
        *concerned(given.lost, given.partition_counts),
        *_left_out(given.left_out),
        *unsafe_configs(given.configs),
        *elr_off(given.features),
        *known_bugs(given.known_bugs),
        *longest_exposed(given.longest),
    ]


def _leaderless(given: AdviceInput) -> Iterator[Row]:
    """For each set of brokers that partitions without a leader wait for."""
    for (code, brokers, unclean), rows in groups(given.leaderless, _waits_for).items():
        named, number = listed(brokers), count(len(rows), "partition")
        states = [each for each in (broker_state(given.brokers, broker) for broker in brokers) if each]
        facts = (*_members(rows), *sentences_of(rows, ("unclean_on", "unclean_off")), *states)
        common = {"brokers": brokers, "facts": facts, "assumptions": sentences_of(rows, _ASSUMED)}
        if code == "clean_return":
            yield piece(
                "bring_back",
                NOW,
                f"Start broker {named}: {number} without a leader {'waits' if len(rows) == 1 else 'wait'} for "
                f"{'it' if len(brokers) == 1 else 'one of these'}. No other broker is worth waiting for.",
                "leaderless, H1",
                EXPOSURE,
                rows,
                predictions=(f"Prediction: broker {named} is elected cleanly, unless it had stopped uncleanly.",),
                **common,
            )
        elif code == "last_known_return":
            yield piece(
                "bring_back_last_known",
                NOW,
                f"Start broker {named}, the last known leader of {number}, after copying its logs: its election is "
                "unclean.",
                "leaderless, H1",
                EXPOSURE,
                rows,
                predictions=(f"Prediction: broker {named} is elected uncleanly when it returns.",),
                **common,
            )
        else:
            yield piece(
                "last_resort",
                NOW,
                f"No broker's return gives {number} a leader. Copy the logs of all their replicas, compare their last "
                "leader epochs and log ends, start only the broker with the highest (epoch, log end), then elect it.",
                "leaderless, E2",
                EXPOSURE,
                rows,
                commands=(*(_config_off(rows) if unclean else ()), *unclean_commands(rows)),
                predictions=(_ONLY_UNCLEAN, *((_FIRST_BACK,) if unclean else ())),
                **common,
            )
            continue
        yield _no_unclean(given, rows, brokers, unclean)


_MEMBERS = {
    "leaderless_isr": "When the log ended, their ISR was: {}.",
    "leaderless_elr": "When the log ended, their ISR was empty and their ELR was: {}.",
    "leaderless_last_known": "When the log ended, their ISR and ELR were empty; the last known leader was broker {}.",
    "leaderless_nobody": "When the log ended, their ISR and ELR were empty; their last known leaders were: {}.",
}
_ASSUMED = ("unclean_assumed",)
_ONLY_UNCLEAN = "Prediction: only an unclean election gives these partitions a leader."
_FIRST_BACK = "Prediction: while it is on, the first other replica that comes back is elected, and nobody is asked."


def _config_off(rows: Sequence[Row]) -> list[str]:
    return [config_command(topic, f"{UNCLEAN}=false") for topic in legal_topics(rows)]


def _members(rows: Sequence[Row]) -> list[str]:
    found = [(s["code"], s["brokers"] or ()) for row in rows for s in row["reason"] or () if s["code"] in _MEMBERS]
    texts = [_MEMBERS[code].format(", ".join(map(str, sorted(ids))) or "none") for code, ids in found]
    return list(dict.fromkeys(texts))[:MOST_PLACES]


def _no_unclean(given: AdviceInput, rows: Sequence[Row], brokers: Sequence[int], unclean: bool) -> Row:
    """The unclean election not to run for partitions that wait for `brokers`, and what it would lose."""
    named = listed(brokers)
    advice = f"Do not run an unclean election for these partitions: it elects a replica other than broker {named}."
    commands: list[str] = []
    predictions = [
        f"Prediction: it would lose what only broker {named} {'has' if len(brokers) == 1 else 'have'}, for good."
    ]
    if unclean:
        advice = f"{UNCLEAN} is on: turn it off before any broker but {named} starts, and run no unclean election."
        predictions.append(_FIRST_BACK)
        commands = _config_off(rows)
    seen = [text for row in rows[:MOST_PLACES] for text in _would_lose(given, row, brokers)]
    predictions += seen or ["How much it would lose is not known."]
    return piece(
        "no_unclean_election",
        NOW,
        advice,
        "leaderless, N10",
        EXPOSURE,
        rows,
        brokers=tuple(brokers),
        facts=sentences_of(rows, ("unclean_on", "unclean_off")),
        assumptions=sentences_of(rows, _ASSUMED),
        predictions=tuple(predictions),
        commands=tuple(commands),
        not_to_run=unclean_commands(rows),
    )


def _would_lose(given: AdviceInput, row: Row, brokers: Sequence[int]) -> Iterator[str]:
    """What the election of each other replica would lose, by the log ends and the high watermark last seen."""
    seen = given.last_seen.get((row["topic_id"], row["partition"]), {})
    marks = [seen[b]["high_watermark"] for b in _leader(row) if b in seen and seen[b]["high_watermark"] is not None]
    for broker, replica in sorted(seen.items()):
        end = replica["log_end_offset"]
        if marks and end is not None and broker not in brokers and end < max(marks):
            yield (
                f"Prediction for {place(row)}: broker {broker} would lose at least {max(marks) - end} acknowledged "
                f"records, if its log still ends where it was last seen, at {end}; the last leader's high watermark "
                f"was last seen at {max(marks)}."
            )


def _leader(row: Row) -> Sequence[int]:
    return next((s["brokers"] or () for s in row["reason"] or () if s["code"] == "leader_lost"), ())


def _waits_for(row: Row) -> tuple[str, tuple[int, ...], bool]:
    """(statement code, brokers, whether unclean election is on) of a partition without a leader."""
    codes = {statement["code"]: statement for statement in row["reason"] or ()}
    code = next((each for each in ("clean_return", "last_known_return") if each in codes), "no_return")
    assumed = codes.get("unclean_assumed")
    unclean = "unclean_on" in codes or (assumed is not None and assumed["text"] == "true")
    return code, tuple(sorted(codes[code]["brokers"] or ())) if code in codes else (), unclean


def _last_replicas(given: AdviceInput) -> Iterator[Row]:
    for brokers, rows in groups(given.last_replica, _last_broker).items():
        yield piece(
            "protect_last_replica",
            NOW,
            f"Do not stop broker {listed(brokers)}, replace its disk or move its replicas before others have caught "
            f"up: {count(len(rows), 'partition')} had no other replica in the ISR or ELR when the log ended. "
            "If it is down, copy its logs before it starts.",
            "last_replica_standing",
            EXPOSURE,
            rows,
            brokers=brokers,
            facts=sentences_of(rows, ("last_replica_at_end", "min_isr_in_force")),
            assumptions=sentences_of(rows, ("min_isr_assumed",)),
            predictions=("Prediction: if that disk is lost, acknowledged records are gone.",),
        )


def _last_broker(row: Row) -> tuple[int, ...]:
    found = {statement["code"]: statement for statement in row["reason"] or ()}
    last = found.get("last_replica_at_end") or found.get("last_replica")
    return tuple(last["brokers"] or ()) if last else ()


def _left_out(kinds: Mapping[str, int]) -> Iterator[Row]:
    """kinds: kind -> how many of its findings were not read."""
    some = {kind: number for kind, number in kinds.items() if number}
    if some:
        named = ", ".join(f"{number} more {kind}" for kind, number in some.items())
        yield piece(
            "more_findings",
            NOW,
            f"Look at the rest yourself: this advice is from the first {MOST_READ} findings of each kind, and there "
            f"are {named}.",
            ", ".join(some),
            "docs/verdict.md#advice",
            facts=(f"Not read for advice: {named}.",),
            commands=tuple(
                f"kraft-forensics findings --kind {kind} --limit {MOST_READ + n}" for kind, n in some.items()
            ),
        )


def _copies(given: AdviceInput) -> Iterator[Row]:
    """What to copy of brokers that may still have what is lost, undecided or waited for."""
    waiting = [(broker, row) for row in given.leaderless for broker in _waits_for(row)[1]]
    led = [(row["previous_leader"], row) for row in given.lost if row["previous_leader"] not in (None, -1)]
    for (broker, back), pairs in groups([*waiting, *led], lambda pair: (pair[0], _is_back(given, *pair))).items():
        rows = [row for _, row in pairs]
        state = broker_state(given.brokers, broker)
        if back:
            yield piece(
                "look_for_old_copies",
                BEFORE_RESTART,
                f"Look for backups and disk snapshots of broker {broker} from before it came back: it led before these "
                "elections, and what was lost may be in them. Do not delete its logs.",
                "log_truncation, N1",
                _CUT,
                rows,
                brokers=(broker,),
                facts=(state,) if state else (),
                predictions=("Prediction: its own log no longer has what the new leader lacked (KIP-101).",),
            )
        else:
            yield piece(
                "copy_first",
                BEFORE_RESTART,
                f"Before broker {broker} starts, copy from its disks the folders of these partitions, and "
                f"{_CHECKPOINTS}.",
                "E3, P7, L5",
                WINDOWS,
                rows,
                brokers=(broker,),
                facts=(state,) if state else (),
                predictions=(
                    "Prediction: a start rewrites these files, and a follower truncates what its leader lacks "
                    "(KIP-101).",
                ),
            )


def _is_back(given: AdviceInput, broker: int, row: Row) -> bool:
    """Whether the broker came back after the window's election."""
    known, election = given.brokers.get(broker), row["election_offset"]
    if known is None or election is None or known["incarnation_id"] is None:
        return False
    return bool(known["broker_epoch"] is not None and known["broker_epoch"] > election) or not known["fenced"]
