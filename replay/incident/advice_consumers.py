"""Advice on who is concerned by lost records: consumers, consumer groups and transactional ids.

Sources: Kafka's GroupCoordinatorService.partitionFor and TransactionStateManager.partitionFor (which partition of
__consumer_offsets and __transaction_state holds an id), Utils.abs, KIP-320 (a consumer detects a cut log), KIP-664
(hanging transactions).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from replay.incident.advice_piece import (
    MOST_PLACES,
    NOW,
    SERVER,
    Row,
    count,
    groups,
    is_legal,
    piece,
    place,
)
from replay.loss.verdicts import PROVEN

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
_CONCERNED = "docs/findings.md#which-consumers-and-transactional-ids-a-loss-concerns"
_HANGING = 3
# Topic -> (code, ids in it, what lists them, what may be lost of them).
_COORDINATED = {
    OFFSETS: (
        "check_groups",
        "consumer groups",
        f"kafka-consumer-groups.sh {SERVER} --list",
        "committed offsets and members: such a group may start again from older offsets, or by auto.offset.reset",
    ),
    TRANSACTIONS: (
        "check_transactions",
        "transactional ids",
        f"kafka-transactions.sh {SERVER} list",
        "the state of transactions: such an id may be unknown, or have an older epoch, and a transaction may stay open",
    ),
}


def coordinator_partition(name: str, partitions: int) -> int:
    """The partition of __consumer_offsets or __transaction_state that holds a group id or a transactional id:
    abs(hashCode(id)) mod the number of partitions, with Java's String.hashCode; the smallest int has the abs 0."""
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2])) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def concerned(lost: Sequence[Row], partition_counts: Mapping[str, int]) -> Iterator[Row]:
    """lost: windows that are not excluded, with `verdict` and `first_lost_offset`. partition_counts: topic id -> number
    of partitions at the log's end, of the two internal topics."""
    proven = [row for row in lost if row["verdict"] == PROVEN and row["topic"] not in _COORDINATED]
    if proven:
        yield _readers(proven)
    internal = [row for row in lost if row["topic"] in _COORDINATED]
    for topic, rows in groups(internal, lambda row: row["topic"]).items():
        yield _coordinated(topic, rows, partition_counts)


def _readers(rows: Sequence[Row]) -> Row:
    """Consumers and transactions of partitions with a proven loss."""
    begin = [
        f"{place(row)}: the first lost offset is "
        + ("not known." if row["first_lost_offset"] is None else f"{row['first_lost_offset']}.")
        for row in rows[:MOST_PLACES]
    ]
    places = sorted({(row["topic"], row["partition"]) for row in rows if is_legal(row["topic"])})[:_HANGING]
    hanging = [
        f"kafka-transactions.sh {SERVER} find-hanging --topic {shlex.quote(topic)} --partition {partition}"
        for topic, partition in places
    ]
    number = count(len({place(row) for row in rows}), "partition")
    return piece(
        "check_consumers",
        NOW,
        f"Check who read and wrote {number} with a proven loss: groups that had read beyond the first lost offset may "
        "have records that Kafka no longer has, and transactions whose marker is lost stay open.",
        "hwm_regression, P1",
        _CONCERNED,
        rows,
        facts=tuple(dict.fromkeys(begin)),
        assumptions=("Which groups and producers use these topics is not in the evidence.",),
        predictions=(
            "Prediction: a consumer beyond the log's end, or of a leader epoch that was cut off, resets by "
            "auto.offset.reset, or fails if that is none (KIP-320).",
        ),
        commands=(f"kafka-consumer-groups.sh {SERVER} --describe --all-groups", *hanging),
    )


def _coordinated(topic: str, rows: Sequence[Row], partition_counts: Mapping[str, int]) -> Row:
    code, ids, lists, lost = _COORDINATED[topic]
    partitions = sorted({row["partition"] for row in rows})
    number = next((partition_counts[r["topic_id"]] for r in rows if r["topic_id"] in partition_counts), None)
    shown = ", ".join(map(str, partitions[:MOST_PLACES]))
    proven = any(row["verdict"] == PROVEN for row in rows)
    rule = f"An id belongs to the partition abs(hashCode(id)) mod {number or 'the number of partitions'} of {topic}."
    only = f" | kraft-forensics coordinator --partitions {number} --only {','.join(map(str, partitions[:MOST_PLACES]))}"
    return piece(
        code,
        NOW,
        f"Check the {ids} whose id belongs to partition {shown} of {topic}: "
        f"{'records of these partitions are lost' if proven else 'whether records of these are lost is not known'}.",
        "hwm_regression, coordinator_partition",
        _CONCERNED,
        rows,
        facts=(rule,),
        assumptions=("Which ids exist is not in the evidence.",),
        predictions=(f"Prediction: what can be lost is {lost}.",),
        commands=(lists + (only if number else ""),),
    )
