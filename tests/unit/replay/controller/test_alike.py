"""Changes that share a prediction get the one that each would get by itself."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.arrow.ragged import members_of
from replay.cluster.brokers import ControllerReleases
from replay.cluster.facts import ClusterFacts
from replay.controller.predictions import State, predict_all, predict_each
from replay.controller.transitions import Bucket
from tests.unit.replay.controller.test_predictions import real

CAPTURES = ("unclean", "elr", "churn", "diverge", "jbod-4.0.2", "jbod-4.1.1")
LOST = "AAAAAAAAAAAAAAAAAAAAAg"


def forged(history: pa.Table, random: Random, share: float) -> pa.Table:
    """Some states with another value in one field, of the brokers that there are and one more."""
    rows = history.to_pylist()
    brokers = [*sorted({b for row in rows for b in row["replicas"] or ()}), 99]
    for row in rows:
        if row["removed"] or random.random() > share:
            continue
        name = random.choice(["leader", "leader_epoch", "leader_recovery_state", "directories", "replicas", "other"])
        if name == "leader":
            row[name] = random.choice([-1, *brokers])
        elif name == "leader_epoch":
            row[name] += 1
        elif name == "leader_recovery_state":
            row[name] = "RECOVERING"
        elif name == "directories":
            row[name] = random.choice([[LOST, *row[name][1:]], row[name][::-1], row[name][:1] * len(row[name])])
        else:
            lists = ("isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas")
            row[random.choice(lists) if name == "other" else name] = random.sample(brokers, random.randint(1, 3))
    return pa.Table.from_pylist(rows, schema=history.schema)


def renumbered(history: pa.Table, by: int) -> pa.Table:
    """The same partitions as another topic's, whose brokers have other ids, which no record shows."""
    changed = history.to_pylist()
    for row in changed:
        for name in ("replicas", "isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas"):
            row[name] = row[name] and [b + by for b in row[name]]
        row["leader"] = row["leader"] + by if row["leader"] is not None and row["leader"] >= 0 else row["leader"]
        row["topic_id"] = f"{by}-{row['topic_id']}"
    return pa.Table.from_pylist(changed, schema=history.schema)


def shared_and_alone(history: pa.Table, facts: ClusterFacts) -> tuple[list[Any], list[Any]]:
    """Each change's predictions: shared with those of its kind, and its own."""
    bucket = Bucket(history, facts)
    rows = bucket.changed_rows
    shared, alone = predict_all(bucket, rows), predict_each(bucket, rows)
    kind, of_kinds, every = shared.alike.kind, shared.predictions, np.arange(len(rows))

    def lists(state: State, changes: Any = None) -> list[Any]:
        columns = list(state.values())
        if changes is not None:
            columns = [column[kind] for column in columns]
            recovery = columns[1]
            columns = [shared.alike.renamed(column, changes) for column in columns]
            columns[1] = recovery
        return [[members_of(row) if row.ndim else int(row) for row in column] for column in columns]

    def answers(found: Any, of: Any, changes: Any = None) -> list[Any]:
        result: list[Any] = []
        for name, answer in found.answers.items():
            leader = answer.leader[of] if changes is None else shared.alike.renamed(answer.leader[of], changes)
            result += [found.may_be[name][of].tolist(), answer.as_recorded[of].tolist(), leader.tolist()]
        names = ("trigger", "shown_by", "difference", "reason", "profile", "differs")
        return result + [getattr(found, name)[of].tolist() for name in names]

    return [*answers(of_kinds, kind, every), lists(of_kinds.state, every)], [*answers(alone, every), lists(alone.state)]


@settings(max_examples=10)
@given(st.sampled_from(CAPTURES), st.integers(0, 1 << 32), st.sampled_from([0, 0.1, 0.5]), st.booleans())
def test_a_shared_prediction_is_each_changes_own(name: str, seed: int, share: float, release_known: bool) -> None:
    history, facts = real(name)
    random = Random(seed)
    other = renumbered(history, random.choice([4, 16, 100, 1 << 16]))
    both = forged(pa.concat_tables([history, other]), random, share)
    known = facts if release_known else replace(facts, controller_releases=ControllerReleases())
    shared, alone = shared_and_alone(both, known)
    assert shared == alone


def test_most_changes_of_a_cluster_share_their_prediction() -> None:
    history, facts = real("churn")
    copies = pa.concat_tables([history, *(renumbered(history, 16 * n) for n in range(1, 5))])
    bucket = Bucket(copies, facts)
    kinds = predict_all(bucket, bucket.changed_rows).alike
    assert len(kinds.first) < len(kinds.kind) / 4
    assert kinds.kind[kinds.first].tolist() == list(range(len(kinds.first)))
