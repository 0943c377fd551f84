"""Invariants of the metadata log itself: what breaks each, and what does not."""

from collections.abc import Sequence
from typing import Any

from replay.cluster.state import log_shape
from replay.invariants.catalogue import INVARIANT_VIOLATIONS
from replay.invariants.quorum import quorum_violations
from tests.support.scenario import ms

Row = dict[str, Any]


def batch(base: int, last: int, epoch: int, nodes: Sequence[int] = (1, 2, 3), **columns: Any) -> Row:
    control = columns.pop("control", False)
    place = {"capture": "c", "path": f"{nodes[0]}/{'0' * 20}.log", "sha256": "00", "position": base}
    row = {"base_offset": base, "last_offset": last, "epoch": epoch, "crc": base * 100 + epoch, "nodes": list(nodes)}
    return {**row, "is_control": control, "base_timestamp_ms": ms(base), **place, **columns}


def leads(base: int, epoch: int, nodes: Sequence[int] = (1, 2, 3), **columns: Any) -> Row:
    """The batch of a LeaderChangeMessage."""
    return batch(base, base, epoch, nodes, control=True, **columns)


def change(base: int, epoch: int, leader: int = 1, voters: Sequence[int] = (1, 2, 3)) -> Row:
    data = {"leaderId": leader, "voters": [{"voterId": v} for v in voters]}
    return {"offset": base, "epoch": epoch, "type": "LEADER_CHANGE", "data": data}


def of_log(
    batches: Sequence[Row], control: Sequence[Row] = (), snapshots: Sequence[tuple[int, int]] = ()
) -> list[tuple[Any, ...]]:
    """(invariant, start, end, brokers, evidence) of each violation."""
    table = quorum_violations(log_shape(batches, snapshots), control)
    assert table.schema.equals(INVARIANT_VIOLATIONS)
    assert all(r["topic_id"] is None and r["partition"] is None for r in table.to_pylist())
    names = ("invariant", "start_offset", "end_offset", "brokers", "evidence_offsets")
    return [tuple(r[n] for n in names) for r in table.to_pylist()]


WHOLE = [leads(0, 1), batch(1, 9, 1), leads(10, 2), batch(11, 19, 2)]
CHANGES = [change(0, 1, 1), change(10, 2, 2)]


def test_a_whole_log_breaks_nothing() -> None:
    assert of_log(WHOLE, CHANGES, [(10, 1), (20, 2)]) == []
    assert of_log([], []) == []


def test_a_gap_is_a_finding_and_no_violation() -> None:
    assert of_log([leads(0, 1), batch(5, 9, 1), batch(15, 19, 2)], CHANGES) == []


def test_epochs_that_fall_within_one_folder() -> None:
    name = "log_epochs_never_decrease"
    kept = [leads(0, 1), leads(10, 3), batch(11, 19, 3)]
    control = [change(0, 1), change(10, 3)]
    assert of_log([*kept, batch(20, 24, 2), batch(25, 29, 2)], control) == [(name, 20, 30, [1, 2, 3], [20, 25])]
    # Other nodes, other captures and what is no segment: logs of other times.
    for other in ({"path": "2/" + "0" * 20 + ".log"}, {"capture": "d"}, {"path": "1/log.txt"}):
        assert of_log([*kept, batch(20, 24, 2, [2], **other)], control) == []


def test_an_epoch_that_nobody_opened() -> None:
    name = "epoch_begins_with_leader_change"
    log = [*WHOLE, batch(20, 24, 3), batch(25, 29, 3), leads(30, 4)]
    assert of_log(log, [*CHANGES, change(30, 4)]) == [(name, 20, 30, [1, 2, 3], [20])]
    other = {"offset": 20, "epoch": 3, "type": "KRAFT_VERSION", "data": {}}
    assert of_log([*WHOLE, leads(20, 3)], [*CHANGES, other]) == [(name, 20, None, [1, 2, 3], [20])]
    assert of_log([batch(0, 4, 1)]) == [(name, 0, None, [1, 2, 3], [0])]
    # Its record cannot be read, its beginning was not captured, or the log begins later.
    assert of_log([*WHOLE, leads(20, 3)], CHANGES) == []
    assert of_log([*WHOLE, batch(22, 24, 3)], CHANGES) == []
    assert of_log([batch(5, 9, 1), leads(10, 2)], CHANGES) == []


def test_two_leaders_of_one_epoch() -> None:
    log = [leads(0, 1), batch(1, 4, 1), leads(5, 1, [2]), leads(9, 2, [1, 3])]
    control = [change(0, 1, 1), change(5, 1, 2), change(9, 2, 3)]
    assert of_log(log, control) == [("one_leader_per_epoch", 0, 9, [1, 2], [0, 5])]
    assert of_log(log, [*control[:1], change(5, 1, 1), control[2]]) == []


def test_a_leader_without_a_vote() -> None:
    control = [change(0, 1, 4), change(10, 2, 2)]
    assert of_log(WHOLE, control) == [("leader_is_voter", 0, 10, [4], [0])]
    assert of_log(WHOLE, [change(0, 1, 4, []), change(10, 2, 2)]) == []


def test_committed_entries_that_were_replaced() -> None:
    name = "committed_entries_survive"
    log = [leads(0, 1), batch(1, 9, 1), batch(10, 14, 1, [1]), leads(10, 2, [2, 3])]
    assert of_log(log, CHANGES) == []
    assert of_log(log, CHANGES, [(10, 1)]) == []
    assert of_log(log, CHANGES, [(15, 1)]) == [(name, 10, 15, [2, 3], [10])]
    held = [leads(0, 1), batch(1, 9, 1), batch(10, 14, 1, [1, 2]), leads(10, 2, [2, 3])]
    assert of_log(held, CHANGES) == [(name, 10, 15, [1, 2], [10])]
    # Controller 2 may have got them in epoch 3, from 1, which had not replicated that epoch when 3 was elected.
    late = [*held[:3], leads(15, 3, [1]), leads(10, 2, [3]), leads(11, 4, [2, 3])]
    assert of_log(late, [*CHANGES, change(15, 3), change(11, 4, 3)]) == []
    # So it may be although the record with which that epoch begins was not captured.
    assert of_log([*late[:3], *late[4:]], [*CHANGES, change(11, 4, 3)]) == []
    # Two controllers were added in epoch 1, so one of them is no majority.
    alone = [leads(0, 1), batch(1, 9, 1), batch(10, 14, 1, [1]), leads(10, 2, [2, 3])]
    added = {"offset": 5, "epoch": 1, "type": "KRAFT_VOTERS", "data": change(5, 1)["data"]}
    assert of_log(alone, [change(0, 1, voters=[1]), CHANGES[1]]) == [(name, 10, 15, [1], [10])]
    assert of_log(alone, [change(0, 1, voters=[1]), added, CHANGES[1]]) == []
    # Nobody says who votes.
    assert of_log(held, [change(0, 1, 1, []), CHANGES[1]]) == []
