"""Who is concerned by lost records: consumers, consumer groups and transactional ids.

Sources: Kafka's GroupCoordinatorService.partitionFor and TransactionStateManager.partitionFor (which partition of
__consumer_offsets and __transaction_state holds an id), Utils.abs, KIP-320 (a consumer detects a cut log), KIP-664
(hanging transactions).
"""

from collections.abc import Iterator

from replay.arrow.runs import groups
from replay.loss.verdicts import PROVEN
from replay.plan.inputs import PlanInput
from replay.plan.step import MOST_PLACES, Action, PlanStep, What, about, is_legal, place, say, some, step

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
# Topic -> (ids in it, what lists them, the sentence that says what may be lost of them).
_COORDINATED = {
    OFFSETS: ("consumer groups", What.GROUP_IDS, "lost_groups"),
    TRANSACTIONS: ("transactional ids", What.TRANSACTION_IDS, "lost_ids"),
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
            facts.append(say("first_lost", place=place(row), offset=offset))
        predictions += [say("may_have_read"), say("beyond_end")]
        actions.append(Action(What.GROUPS))
        stays, gone = (
            [row for row in proven if (current.get(row["topic"] or "") == row["topic_id"]) is still]
            for still in (True, False)
        )
        places = {(row["topic"], row["partition"]) for row in stays if is_legal(row["topic"])}
        actions += [Action(What.HANGING, topic, partition) for topic, partition in sorted(places)]
        if gone and current:  # after a gap nothing is known
            facts.append(say("deleted_since", places=some(sorted(set(map(place, gone))))))
    for topic, found in internal.items():
        _, lists, lost_of_them = _COORDINATED[topic]
        partitions = tuple(sorted({row["partition"] for row in found}))
        number = next((counts[r["topic_id"]] for r in found if r["topic_id"] in counts), None)
        listed = some([str(p) for p in partitions])
        modulus = number or "the number of partitions"
        facts.append(say("place_of_id", number=modulus, topic=topic, partitions=listed))
        predictions.append(say(lost_of_them))
        actions.append(Action(lists, value=None if number is None else str(number), partitions=partitions))
    if given.left_out:
        facts.append(say("left_out", number=given.left_out))
    number = len({place(row) for row in proven})
    lossy = "the partition" if number == 1 else f"the {number} partitions"
    concerned = [f"consumers and transactions of {lossy} that lost records"] if proven else []
    yield step(
        "check_clients",
        concerned=" and ".join([*concerned, *(f"the {_COORDINATED[topic][0]} of {topic}" for topic in internal)]),
        coordinators=", coordinator_partition" if internal else "",
        facts=dict.fromkeys(facts),
        assumptions=(say("ids_unknown"),),
        predictions=predictions,
        actions=actions,
        of=about(rows),
    )
