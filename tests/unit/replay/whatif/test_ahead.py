"""What `ahead` says before an event is what Kafka's controllers then wrote, in captures of real clusters."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from replay.arrow.sets import empty
from replay.cluster.broker_events import CONTROLLED_SHUTDOWN, UNFENCE
from replay.cluster.facts import Clock, cluster_facts
from replay.controller.profiles import PROFILES
from replay.controller.transitions import Bucket
from replay.offsets.evidence import index_rows
from replay.partitions.reducer import build_history
from replay.whatif.ahead import (
    CUT_LOG,
    ELECT,
    LAST_COPY,
    LEADERLESS,
    MOST_DOUBTFUL,
    NOT_ELECTED,
    ONE_LEFT,
    RECOVERY_LOST,
    REPLACED_DIRECTORY,
    SET,
    START,
    STOP,
    UNCLEAN,
    UNDER_MIN_ISR,
    ClusterAction,
    Now,
    Possibility,
    after,
    branches,
    effects,
    in_sync,
    is_safe,
    loss_bound,
    newest,
    restart_order,
    rows_of,
)
from tests.support.paths import capture
from tests.support.pure import Decoded, changes_of, cluster_state, decode
from tests.support.scenario import evidence, ms, sessions, up

Row = dict[str, Any]
CAPTURES = ("elr", "churn", "unclean-4.4.0", "logs-4.1.1", "logs-4.0.2")
MIN_ISR, UNCLEAN_CONFIG = "min.insync.replicas", "unclean.leader.election.enable"


@cache
def bucket_of(name: str, end: int) -> Bucket:
    """A capture's cluster as it was before a metadata offset."""
    decoded = before(decode(capture(name)), end)
    state = cluster_state(decoded)
    history = build_history(changes_of(decoded, state), state.topic_events, state.configs).table
    return Bucket(history, cluster_facts("c", state, Clock(), None))


def before(decoded: Decoded, end: int) -> Decoded:
    return replace(
        decoded,
        batches=[b for b in decoded.batches if b["last_offset"] < end],
        records=[r for r in decoded.records if r["offset"] < end],
        snapshots=[r for r in decoded.snapshots if r["snapshot_end_offset"] <= end],
    )


def events(name: str, kind: str) -> Iterator[tuple[int, int, int]]:
    """(broker, base offset of the batch, offset after it) of each event of a capture."""
    bucket = bucket_of(name, 1 << 60)
    found = bucket.facts.broker_events
    ends = {b["base_offset"]: b["last_offset"] + 1 for b in decode(capture(name)).batches}
    for number in (found.kind == kind).nonzero()[0].tolist():
        yield int(found.broker[number]), int(found.batch[number]), ends[int(found.batch[number])]


def seen(now: Now) -> dict[tuple[str, int], Row]:
    places = zip(now.names["topic_id"].to_pylist(), now.names["partition"].to_pylist(), strict=True)
    cases = now.cases
    lists = {
        n: [{int(b) for b in row if b >= 0} for row in getattr(cases, n)] for n in ("isr", "elr", "last_known_elr")
    }
    return {
        place: {"leader": int(cases.leader[i]), "recovery": int(cases.recovery[i])}
        | {n: v[i] for n, v in lists.items()}
        for i, place in enumerate(places)
    }


def configs(bucket: Bucket) -> Any:
    known = bucket.facts.known_configs()
    return known.min_isr, known.unclean


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize(("kind", "step"), [(CONTROLLED_SHUTDOWN, STOP), (UNFENCE, START)])
def test_what_it_says_is_what_the_controller_wrote(name: str, kind: str, step: str) -> None:
    checked = 0
    for broker, batch, end in events(name, kind):
        bucket = bucket_of(name, batch)
        now, wanted = newest(bucket), seen(newest(bucket_of(name, end)))
        given = ClusterAction(step, broker)
        # The registration is in the log already: whether the broker had stopped cleanly has been answered.
        possible = [b for b in branches(bucket, [given]) if not b.unclean]
        found = [seen(after(now, given, branch, configs(bucket))) for branch in possible]
        assert wanted in found
        checked += 1
    assert checked >= (2 if (name, step) != ("logs-4.0.2", STOP) else 0)


def test_who_asked_for_a_controlled_shutdown_may_have_been_killed_in_it() -> None:
    """The controller fences a broker that it lets go before that closes its logs, and one whose session ends in its
    controlled shutdown (BrokerServer.shutdown, BrokerHeartbeatManager.calculateNextBrokerState)."""
    bucket = bucket_of("elr", 1 << 60)
    assert bucket.facts.brokers.states[2][-1].in_controlled_shutdown
    start = [ClusterAction(START, 2)]

    assert {branch.unclean for branch in branches(bucket, start)} == {frozenset(), frozenset({2})}
    assert {branch.unclean for branch in branches(bucket, start, clean=[2])} == {frozenset()}
    assert {branch.unclean for branch in branches(bucket, [ClusterAction(STOP, 2), *start])} == {frozenset()}


def test_of_many_brokers_that_may_have_stopped_either_way_all_are_taken_to_have_done_the_same() -> None:
    many = [ClusterAction(START, broker) for broker in range(MOST_DOUBTFUL + 1)]

    ways = {branch.unclean for branch in branches(bucket_of("elr", 1 << 60), many)}
    assert ways == {frozenset(), frozenset(range(MOST_DOUBTFUL + 1))}


def at_end(name: str = "elr") -> tuple[Bucket, Now, Possibility]:
    bucket = bucket_of(name, 1 << 60)
    return bucket, newest(bucket), Possibility(PROFILES[bucket.profiles.at(1 << 60)[-1]], frozenset())


def with_leaders() -> tuple[Bucket, Now, Possibility]:
    """Everybody back and in sync."""
    bucket, now, branch = at_end()
    for broker in (3, 4, 2, 1):
        now = in_sync(after(now, ClusterAction(START, broker), branch, configs(bucket)), branch.profile)
    assert now.active == {1, 2, 3, 4}
    assert (now.cases.leader >= 0).all()
    return bucket, now, branch


def worst(bucket: Bucket, now: Now, branch: Possibility, *steps: ClusterAction) -> set[str]:
    found: set[str] = set()
    for step in steps:
        then = after(now, step, branch, configs(bucket))
        found |= {effect for of in effects(now, then, step) for effect in of}
        now = then
    return found


def test_brokers_that_stop_in_order_take_the_copies_with_them() -> None:
    given = with_leaders()

    assert is_safe(worst(*given, ClusterAction(STOP, 1)))
    everything = worst(*given, *(ClusterAction(STOP, broker) for broker in (1, 2, 3, 4)))
    assert {LEADERLESS, LAST_COPY, UNDER_MIN_ISR, ONE_LEFT} <= everything


def test_without_elr_a_member_that_stopped_uncleanly_leads_with_what_its_log_still_has() -> None:
    """With ELR it leaves ISR and ELR as it registers (handleBrokerShutdown, 4.0.2 to 4.3.1)."""
    bucket, now, branch = at_end()
    first = now.cases.replicas[:, :1]
    waits = replace(now.cases, isr=first, leader=np.full(len(first), -1), elr=empty(first), last_known_elr=empty(first))
    broker = int(first[0, 0])
    for elr_on, is_unclean, expected in ((False, True, None), (False, False, 0), (True, True, 0)):
        cases = replace(waits, elr_enabled=np.full(len(first), elr_on))
        given = replace(now, cases=cases, active=frozenset(), passed_over=empty(first))
        start, way = ClusterAction(START, broker), replace(branch, unclean=frozenset({broker} if is_unclean else ()))
        then = after(given, start, way, configs(bucket))
        row = next(rows_of(given, then, start, None))
        assert (row["leader"], row["loss_max"]) == (-1 if elr_on else broker, expected)
        assert (CUT_LOG in row["effects"]) == (expected is None)


def test_a_start_in_the_wrong_order_elects_uncleanly_and_the_order_that_is_found_does_not() -> None:
    bucket, now, branch = at_end("unclean-4.4.0")
    order, stuck = restart_order([(now, branch)], [1, 2, 3, 4], -1, configs(bucket))

    assert UNCLEAN in worst(bucket, now, branch, ClusterAction(START, 2))
    assert not stuck
    assert sorted(order) == [1, 2, 3, 4]
    assert is_safe(worst(bucket, now, branch, ClusterAction(START, order[0])))


def test_an_order_that_is_not_there_is_explained() -> None:
    bucket, now, branch = with_leaders()
    alone = after(
        after(now, ClusterAction(STOP, 1), branch, configs(bucket)), ClusterAction(STOP, 2), branch, configs(bucket)
    )
    only = replace(alone, active=frozenset({3}))
    order, stuck = restart_order([(only, branch)], [3], -1, configs(bucket))

    assert order == []
    assert LEADERLESS in {effect for row in stuck[3] for effect in row["effects"]}


def test_a_changed_min_isr_clears_the_elr_and_with_it_the_way_back() -> None:
    bucket, now, branch = at_end()
    topic = now.names["topic"][0].as_py()
    step = ClusterAction(SET, topic=topic, key=MIN_ISR, value="1")
    rows = list(rows_of(now, after(now, step, branch, configs(bucket)), step, None))

    assert {row["topic"] for row in rows} == {topic}
    assert all(row["elr"] == [] and RECOVERY_LOST in row["effects"] for row in rows)
    assert not is_safe(e for row in rows for e in row["effects"])


def test_a_member_that_runs_and_does_not_lead_may_be_elected_with_an_empty_log_by_any_start() -> None:
    """Its directory was replaced and assigned: handleAssignReplicasToDirs elects by the old one, and the next
    handleBrokerUnfenced looks at all partitions without a leader (ReplicationControlManager, 3.9.1 to 4.3.1)."""
    bucket = bucket_of.__wrapped__("elr", 1 << 60)
    own = bucket.facts.brokers.states[2]
    own[-1] = replace(own[-1], fenced=False, in_controlled_shutdown=False)
    now, branch = newest(bucket), at_end()[2]
    step = ClusterAction(START, 4)
    rows = [r for r in rows_of(now, after(now, step, branch, configs(bucket)), step, None) if r["leader"] == 2]

    assert rows
    assert all(REPLACED_DIRECTORY in row["effects"] and row["loss_max"] is None for row in rows)
    assert not now.copies[(now.passed_over == 2).any(axis=1)].any()
    assert not (after(now, step, branch, configs(bucket)).passed_over == 2).any()


def test_a_copy_in_a_directory_that_failed_is_no_copy() -> None:
    _, now, _ = with_leaders()
    failed = replace(now, online=np.where(now.online == 2, -1, now.online))
    place = next(i for i in range(len(now.names)) if {1, 2} <= set(now.cases.isr[i].tolist()))

    assert failed.copies[place] == now.copies[place] - 1


def test_unclean_election_that_is_switched_on_elects_whoever_is_alive() -> None:
    bucket, now, branch = at_end()
    alive = replace(now, active=frozenset({1}))
    step = ClusterAction(SET, key=UNCLEAN_CONFIG, value="true")
    rows = list(rows_of(alive, after(alive, step, branch, configs(bucket)), step, None))

    assert rows
    assert all(row["leader"] == 1 and UNCLEAN in row["effects"] and row["loss_max"] is None for row in rows)


def test_an_administrator_elects_the_preferred_replica_and_nobody_else() -> None:
    bucket, now, branch = with_leaders()
    now = in_sync(
        after(
            after(now, ClusterAction(STOP, 1), branch, configs(bucket)),
            ClusterAction(START, 1),
            branch,
            configs(bucket),
        ),
        branch.profile,
    )
    place = next(i for i in range(len(now.names)) if now.cases.replicas[i, 0] == 1)
    name, partition = now.names["topic"][place].as_py(), now.names["partition"][place].as_py()
    preferred = after(now, ClusterAction(ELECT, 1, name, partition), branch, configs(bucket))

    assert now.cases.leader[place] != 1
    assert preferred.cases.leader[place] == 1
    other = next(b for b in now.cases.replicas[place].tolist() if b not in (1, now.cases.leader[place]))
    assert worst(bucket, now, branch, ClusterAction(ELECT, other, name, partition)) == {NOT_ELECTED}


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (ClusterAction(STOP, 3), "stop 3"),
        (ClusterAction(SET, topic="t", key="k", value="1"), "set k=1 of t"),
        (ClusterAction(ELECT, 2, "t", 0), "elect t-0=2"),
    ],
)
def test_a_step_is_named(step: ClusterAction, text: str) -> None:
    assert str(step) == text


@pytest.mark.parametrize(
    ("again", "bound"), [((), 5), (("22 register 1 j1",), 5), (("30 register 1 j1", "31 unregister 1"), None)]
)
def test_a_last_leader_that_came_back_since_may_have_lost_some_before_it_stopped_cleanly(
    again: tuple[str, ...], bound: int | None
) -> None:
    """Nobody leads since 25. It had been killed, started, was not unfenced, and stopped."""
    rows = evidence("40 b1 heads=90:100/0", "40 b2 heads=90:95/0")
    brokers = sessions(*up(1, 2), "20 fence 1", *again)
    assert loss_bound(index_rows(rows), brokers, 1, 2, ms(25), Clock()) == bound
