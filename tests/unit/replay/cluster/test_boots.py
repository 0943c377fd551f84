"""Readings of boot ids: between which times a machine certainly did not start again."""

from __future__ import annotations

import pytest

from replay.cluster.boots import BootReading, boots_of, is_same_boot


def rows(*readings: tuple[int | None, str]) -> list[dict[str, object]]:
    return [{"node_id": 1, "boot_id": boot, "captured_at_ms": at, "uncertainty_ms": 10} for at, boot in readings]


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (110, 200, True),
        # The first reading may have been made at 110, the second one from 200 on.
        (109, 200, False),
        (110, 201, False),
        # Another id from 300 on.
        (210, 300, False),
        (310, 400, True),
    ],
)
def test_a_reading_before_and_one_after_have_the_same_id(since: int, until: int, expected: bool) -> None:
    own = boots_of(rows((100, "a"), (200, "a"), (300, "b"), (400, "b")))[1]
    assert is_same_boot(own, since, until, 0) is expected


def test_the_clock_error_counts_on_both_sides() -> None:
    own = boots_of(rows((100, "a"), (200, "a")))[1]
    assert is_same_boot(own, 120, 190, 10)
    assert not is_same_boot(own, 119, 190, 10)
    assert not is_same_boot(own, 120, 191, 10)


def test_readings_without_a_time_or_an_id_do_not_count() -> None:
    assert boots_of([*rows((None, "a")), {**rows((1, "a"))[0], "boot_id": None}]) == {}
    assert not is_same_boot([], 1, 2, 0)


def test_a_machine_whose_start_is_known_has_a_reading_without_an_id() -> None:
    machine = {"booted_by_ms": 70, "machine_id": "m", "node_name": "n", "local_disks": True}
    (without,) = rows((150, "a"))
    own = boots_of([*rows((100, "a"), (200, "a")), {**without, "boot_id": None, **machine}])[1]
    assert own[1] == BootReading(None, 150, 160, 70, "m", "n", True)
    assert is_same_boot(own, 110, 200, 0)
    assert not is_same_boot(own[:2], 110, 120, 0)
