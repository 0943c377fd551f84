"""A plan that is followed: what was there before it, and what counts as lost by it."""

from pathlib import Path
from typing import Any

import pytest

from drill.disks import DiskCopy, read_copy
from drill.follow import best_of, held_by, lost_of
from drill.ledger import Ledger, SentRecord
from tests.support import writer

STATE: dict[str, Any] = {"leader": -1, "replicas": [1, 2, 3], "isr": [], "elr": [], "last_known_elr": []}
COPIES = {
    1: DiskCopy((1, 2), {0: "v0", 1: "v1"}),
    2: DiskCopy((2, 1), {0: "v0"}),
    3: DiskCopy((1, 3), {0: "v0", 1: "v1", 2: "v2"}),
}


def test_a_copy_has_the_clients_records_and_no_markers(tmp_path: Path) -> None:
    first = writer.batch([b"v0", b"v1"], 0, 1)
    marker = writer.control_batch(1, b"\0\0", 2, 1)
    second = writer.batch([b"\xea3"], 3, 4)  # a coordinator's
    (tmp_path / f"{0:020d}.log").write_bytes(first + marker)
    (tmp_path / f"{3:020d}.log").write_bytes(second + second[:20])
    assert read_copy(tmp_path) == DiskCopy((4, 4), {0: "v0", 1: "v1", 3: "\\xea3"})


@pytest.mark.parametrize(
    ("state", "brokers"),
    [
        ({"leader": 1, "isr": [1, 3]}, [1]),
        ({"isr": [2], "elr": [3]}, [2]),
        ({"elr": [1, 2], "last_known_elr": [3]}, [1, 2]),
        ({"last_known_elr": [3]}, [3]),
        ({"last_known_elr": [1, 3]}, [2]),
        ({"isr": [4]}, []),
        ({"isr": [4], "replicas": [4]}, []),
    ],
)
def test_what_is_held_is_on_the_disks_of_those_who_may_lead(state: dict[str, Any], brokers: list[int]) -> None:
    expected = {offset: value for broker in brokers for offset, value in COPIES[broker].records.items()}
    assert held_by(STATE | state, COPIES) == expected


def test_the_replica_that_holds_most_has_the_newest_epoch() -> None:
    assert best_of(STATE, COPIES) == [2]
    assert best_of({**STATE, "replicas": [1, 3]}, COPIES) == [3]
    assert best_of({**STATE, "replicas": [4]}, COPIES) == []


def test_only_what_was_held_and_acknowledged_by_all_is_lost_by_an_order() -> None:
    ledger = Ledger()
    ledger.ids["t"] = "id"
    told = [("v0", "all", 0, True), ("v1", "all", 1, False), ("v2", "1", 2, True), ("v3", "all", 3, True)]
    told += [("v4", "all", 4, True)]
    ledger.of("t", 0).records = [SentRecord(value, acks, 0, 0, offset, lost) for value, acks, offset, lost in told]
    assert lost_of(ledger, {"t-0": {0: "v0", 1: "v1", 2: "v2", 3: "other"}}) == {"t-0": 1}
    assert lost_of(ledger, {}) == {}
