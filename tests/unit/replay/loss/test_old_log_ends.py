"""Which elections are judged because a leader may have counted old log ends: where nothing but the log is known, none
is left out that the log alone contradicts."""

import random

import pyarrow as pa

from evidence.tables import LOG_END_OFFSETS
from replay.bucket import detect
from tests.support.detection import windows
from tests.support.scenario import facts_with, sessions, states, together

PARTITIONS, STATES = 100, 14


def _history(chance: random.Random) -> pa.Table:
    """Partitions with random states, as if many brokers had been cut off and had come back."""
    return together(*(states(*_lines(chance), partition=number) for number in range(PARTITIONS)))


def _lines(chance: random.Random) -> list[str]:
    replicas, batch = [1, 2, 3], 10
    lines = []
    for number in range(STATES):
        offset = 10 + 5 * number
        batch = offset if chance.random() < 0.9 else batch
        if chance.random() < 0.1:
            replicas = chance.sample([1, 2, 3, 4], 3)
        isr = sorted(chance.sample(replicas, chance.choice([1, 2, 3, 3])))
        elr = [b for b in replicas if b not in isr and chance.random() < 0.3]
        leader = chance.choice(isr if chance.random() < 0.8 else [*replicas, -1])
        words = [f"{offset} replicas={_ids(replicas)} isr={_ids(isr)} elr={_ids(elr)} leader={leader} batch={batch}"]
        if chance.random() < (0.3 if not number else 0.03):
            words = [
                f"{offset} replicas={_ids(replicas)} isr={_ids(isr)} leader={leader} epoch={2 * number} checkpoint"
            ]
        lines.append(" ".join(words))
    return lines


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))


def test_evidence_that_proves_nothing_adds_no_election() -> None:
    chance = random.Random(11)
    brokers = sessions(
        *(f"{n} register {n} i{n}" for n in (1, 2, 3)),
        *(f"{n + 4} unfence {n}" for n in (1, 2, 3)),
        *("31 fence 2", "33 register 2 j2", "34 unfence 2", "51 unregister 3", "53 register 3 j3", "54 unfence 3"),
    )
    history, facts = _history(chance), facts_with(brokers)
    # As kafka-get-offsets prints them: of no broker.
    row = dict.fromkeys(LOG_END_OFFSETS.names) | {"topic": "t", "source": "kafka_get_offsets", "log_end_offset": 5}
    row |= {"topic_id": history["topic_id"][0].as_py()}
    offsets = pa.Table.from_pylist([{**row, "partition": p} for p in range(PARTITIONS)], schema=LOG_END_OFFSETS)
    found = [detect(history, rows, facts) for rows in (offsets[:0], offsets)]
    judged = [windows(each.findings) for each in found]
    old = [w for w in judged[0] if any(s["code"] == "not_held_old_log_ends" for s in w["reason"])]
    assert judged[0] == judged[1]
    assert len(old) > 10
