"""Readings of boot ids: between which times a machine certainly did not start again."""

from dataclasses import replace
from typing import Any

import pytest

from replay.cluster.boots import BootReading, LoggedProcess, boots_of, is_same_boot, processes_of, ran_until_read
from tests.support.scenario import sessions
from tests.support.window_table import Entry, beside, entries


def rows(*readings: tuple[int | None, str]) -> list[dict[str, object]]:
    return [{"node_id": 1, "boot_id": boot, "captured_at_ms": at, "uncertainty_ms": 10} for at, boot in readings]


def span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last)


def reading(item: str) -> BootReading:
    (boot, times), *words = item.split()[0].split("@"), *item.split()[1:]
    known = dict(word.split("=") for word in words if "=" in word)
    is_local = True if "local" in words else False if "foreign" in words else None
    booted = int(known["booted"]) if "booted" in known else None
    return BootReading(None if boot == "-" else boot, *span(times), booted, is_local, known.get("machine"))


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_whether_a_machine_ran_on(entry: Entry) -> None:
    for story, answer in entry.cases:
        items = story.split("; ")
        own = [reading(item) for item in items if "@" in item]
        words = {item.split()[0]: item.split()[1:] for item in items if "@" not in item}
        error = int(words.get("error", ["0"])[0])
        if "ran" in words:
            assert str(is_same_boot(own, *span(words["ran"][0]), error)) == answer, story
        if "files" in words:
            assert str(ran_until_read(own, int(words["files"][0]), span(words["files"][1]), error)) == answer, story


def test_readings_without_a_time_or_an_id_do_not_count() -> None:
    assert boots_of([*rows((None, "a")), {**rows((1, "a"))[0], "boot_id": None}]) == {}


def test_a_machine_whose_start_is_known_has_a_reading_without_an_id() -> None:
    machine = {"booted_by_ms": 70, "local_disks": True}
    (without,) = rows((150, "a"))
    own = boots_of([*rows((100, "a"), (200, "a")), {**without, "boot_id": None, **machine}])[1]
    assert own[1] == BootReading(None, 150, 160, 70, True)
    assert is_same_boot(own, 110, 200, 0)
    assert not is_same_boot(own[:2], 110, 120, 0)


# Processes that a server.log shows.


def boot(position: int, first: int | None, last: int | None, epoch: int | None, **more: Any) -> dict[str, Any]:
    row = {"capture": "c", "path": "server.log", "node_id": 1, "first_position": position, "broker_epoch": epoch}
    row |= {"begins_in_file": True, "incarnation_id": None, "load_ms": 30}
    row |= {"kafka_version": "4.1.1", "stopped": None}
    return {**row, "first_event_ms": first, "last_event_ms": last, **more}


def test_the_process_after_one_in_the_same_file_is_the_next_one() -> None:
    rows = [boot(90, 300, 400, 12), boot(0, 0, 100, 5, begins_in_file=False), boot(50, 200, 250, None)]
    assert processes_of(rows, {}) == {(1, 5): LoggedProcess(100, (200, 250)), (1, 12): LoggedProcess(400)}
    assert processes_of(rows, {})[1, 5].is_of_the_next(250)
    assert not processes_of(rows, {})[1, 5].is_of_the_next(251)
    assert not processes_of(rows, {})[1, 12].is_of_the_next(400)


@pytest.mark.parametrize(
    "after",
    [
        # A hole, another file, another node, an unknown clock.
        boot(50, 200, 250, None, begins_in_file=False),
        boot(50, 200, 250, None, path="server.log.1"),
        boot(50, 200, 250, None, node_id=2),
        boot(50, 200, 250, None, capture="d"),
        boot(50, None, None, None),
    ],
)
def test_what_does_not_follow_in_the_same_file_is_not_the_next_process(after: dict[str, Any]) -> None:
    assert processes_of([boot(0, 0, 100, 5), after], {})[1, 5] == LoggedProcess(100)


def test_of_several_copies_the_earliest_next_process_counts_and_the_last_line() -> None:
    """A copy that lacks lines may show a later process as the next one."""
    copies = [boot(0, 0, 90, 5), boot(50, 200, 250, None)], [boot(0, 0, 100, 5), boot(50, 300, 350, None)]
    rows = [{**row, "capture": str(n)} for n, copy in enumerate(copies) for row in copy]
    assert processes_of(rows, {}) == {(1, 5): LoggedProcess(100, (200, 250))}


@pytest.mark.parametrize(
    ("registered", "error", "following"),
    [
        # The next process of the file registered, or one after it did.
        (12, 0, (200, 250)),
        (13, 0, (200, 250)),
        # Another one registered before: it was started by hand and logged elsewhere.
        (9, 0, None),
        # So it may have, by clocks that differ.
        (13, 60, None),
    ],
)
def test_a_process_that_registered_and_is_not_in_the_file_logged_elsewhere(
    registered: int, error: int, following: tuple[int, int] | None
) -> None:
    rows = [boot(0, 0, 100, 5), boot(50, 200, 250, 12)]
    at = {5: 10, 9: 150, 12: 230, 13: 230}
    begun = sessions(*(f"{epoch} register 1 i{epoch}" for epoch in (5, registered))).new_incarnations
    begun = [replace(state, timestamp_ms=at[state.broker_epoch]) for state in begun]
    assert processes_of(rows, {}, begun, error)[1, 5].next_ms == following


@pytest.mark.parametrize(
    ("stopped", "found", "is_next"),
    [
        (None, "unclean", True),
        (None, None, True),
        ("complete", "clean", True),
        ("signal", "clean", True),
        ("signal", "unclean", True),
        # It was killed, and the logs had been left by a clean stop; or it stopped cleanly, and they had not.
        (None, "clean", False),
        ("complete", "unclean", False),
    ],
)
def test_a_process_that_did_not_register_shows_in_how_the_next_one_finds_the_logs(
    stopped: str | None, found: str | None, is_next: bool
) -> None:
    rows = [boot(0, 0, 100, 5, stopped=stopped), boot(50, 200, 250, 12, previous_shutdown=found)]
    assert processes_of(rows, {})[1, 5].next_ms == ((200, 250) if is_next else None)


@pytest.mark.parametrize(("registered_ms", "quiet"), [(150, None), (300, 300), (90, None)])
def test_a_file_is_not_quiet_while_a_process_registers(registered_ms: int, quiet: int | None) -> None:
    (state,) = sessions("9 register 1 i").new_incarnations
    rows = [boot(0, 0, 100, 5, whole_until_ms=300)]
    found = processes_of(rows, {}, [replace(state, timestamp_ms=registered_ms)])
    assert found == {(1, 5): LoggedProcess(100, quiet_until_ms=quiet)}


def test_a_process_that_had_not_loaded_its_logs_is_not_known() -> None:
    """A tool with the same appender, or a second start that does not get the lock, logged a start before it had: what
    it loads later looks like theirs."""
    assert processes_of([boot(0, 0, 100, 5, load_ms=None), boot(50, 200, 250, None)], {}) == {}


def test_a_process_without_a_broker_epoch_or_a_last_line_is_not_known() -> None:
    assert (
        processes_of([boot(0, 0, 100, None), boot(0, None, None, 5, path="b"), boot(0, 0, 1, 5, node_id=None)], {})
        == {}
    )


def test_a_process_of_an_earlier_cluster_is_none_of_this_one() -> None:
    """The cluster was set up anew, and its brokers go on with the log files of the one before."""
    earlier = boot(0, 0, 50, 5, incarnation_id="other"), boot(20, 60, 70, None)
    own = boot(40, 200, 250, 5, incarnation_id="a"), boot(60, 300, 350, None)
    known = {(1, 5): LoggedProcess(250, (300, 350))}
    assert processes_of([*earlier, *own], {(1, 5): "a"}) == known
    assert (
        processes_of(own, {}) == processes_of([{**row, "incarnation_id": None} for row in own], {(1, 5): "a"}) == known
    )
