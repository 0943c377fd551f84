"""Who is concerned by lost records: consumers, consumer groups and transactional ids.

Sources: Kafka's GroupCoordinatorService.partitionFor and TransactionStateManager.partitionFor (which partition of
__consumer_offsets and __transaction_state holds an id), Utils.abs, KIP-320 (a consumer detects a cut log), KIP-664
(hanging transactions).
"""

from collections.abc import Iterator

from replay.arrow.runs import groups
from replay.loss.verdicts import PROVEN
from replay.plan.inputs import PlanInput
from replay.plan.step import MOST_PLACES, Action, Phase, PlanStep, What, about, is_legal, place, some

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
_CONCERNED = "docs/findings.md#which-consumers-and-transactional-ids-a-loss-concerns"
# Topic -> (ids in it, what lists them, what may be lost of them).
_COORDINATED = {
    OFFSETS: (
        "consumer groups",
        What.GROUP_IDS,
        "committed offsets and members: such a group may start again from older offsets, or by auto.offset.reset",
    ),
    TRANSACTIONS: (
        "transactional ids",
        What.TRANSACTION_IDS,
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


def clients(given: PlanInput) -> Iterator[PlanStep]:
    """The step that finds who is concerned: by proven losses, and by windows of the internal topics that are not
    excluded. No action names a topic that was deleted since."""
    lost, current, counts = given.lost, given.current, given.partition_counts
    internal = groups([row for row in lost if row["topic"] in _COORDINATED], lambda row: row["topic"])
    proven = [row for row in lost if row["verdict"] == PROVEN and row["topic"] not in _COORDINATED]
    rows = [*proven, *(row for found in internal.values() for row in found)]
    if not rows:
        return
    facts, predictions, actions = [], [], list[Action]()
    if proven:
        for row in proven[:MOST_PLACES]:
            offset = "not known" if row["first_lost_offset"] is None else row["first_lost_offset"]
            facts.append(f"{place(row)}: the first lost offset is {offset}.")
        predictions.append("Groups may have read records that are gone, and transactions may stay open.")
        predictions.append(
            "A consumer beyond the log's end, or of a leader epoch that was cut off, resets by auto.offset.reset, or "
            "fails if that is none (KIP-320)."
        )
        actions.append(Action(What.GROUPS))
        stays, gone = (
            [row for row in proven if (current.get(row["topic"] or "") == row["topic_id"]) is still]
            for still in (True, False)
        )
        places = {(row["topic"], row["partition"]) for row in stays if is_legal(row["topic"])}
        actions += [Action(What.HANGING, topic, partition) for topic, partition in sorted(places)]
        if gone:
            facts.append(f"Deleted since, so that no command names them: {some(sorted(set(map(place, gone))))}.")
    for topic, found in internal.items():
        ids, lists, what = _COORDINATED[topic]
        partitions = tuple(sorted({row["partition"] for row in found}))
        number = next((counts[r["topic_id"]] for r in found if r["topic_id"] in counts), None)
        facts.append(
            f"An id belongs to the partition abs(hashCode(id)) mod {number or 'the number of partitions'} of {topic}; "
            f"concerned: {some([str(p) for p in partitions])}."
        )
        predictions.append(f"What can be lost of {ids} is {what}.")
        actions.append(Action(lists, value=None if number is None else str(number), partitions=partitions))
    if given.left_out:
        facts.append(f"{given.left_out} more windows were not read for this plan: kraft-forensics findings.")
    number = len({place(row) for row in proven})
    lossy = "the partition" if number == 1 else f"the {number} partitions"
    named = [f"consumers and transactions of {lossy} that lost records"]
    named = (named if proven else []) + [f"the {_COORDINATED[topic][0]} of {topic}" for topic in internal]
    yield PlanStep(
        Phase.CHECK,
        "check_clients",
        f"Check {' and '.join(named)}.",
        "hwm_regression, P1" + (", coordinator_partition" if internal else ""),
        _CONCERNED,
        facts=tuple(dict.fromkeys(facts)),
        assumptions=("Which groups, producers and ids there are is not in the evidence.",),
        predictions=tuple(predictions),
        actions=tuple(actions),
        **about(rows),
    )
