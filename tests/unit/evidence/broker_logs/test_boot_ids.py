"""Copies of /proc/sys/kernel/random/boot_id: which machine, which id, read when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evidence.broker_logs.boot_ids import read_boot_ids
from evidence.capture.files import open_capture
from tests.support.small_captures import write_files

BOOT = "1b2a0043-ad54-40b7-82e8-af05c1184838"


READ_MS = 1_795_000_100_000


def capture(folder: Path, path: str, text: str) -> Path:
    return write_files(folder / "case", {path: text})


def test_a_reading_has_its_node_and_time(tmp_path: Path) -> None:
    with open_capture(capture(tmp_path, "snapshots/1795329926058/broker-2/boot_id", f"{BOOT}\n")) as opened:
        found = read_boot_ids(opened, 5_000)
    (row,) = found.rows.to_pylist()
    assert (row["node_id"], row["boot_id"], row["captured_at_ms"]) == (2, BOOT, 1795329926058)
    assert row["uncertainty_ms"] is not None
    (account,) = found.accounts.values()
    assert (account.parsed_bytes, account.quarantined_bytes) == (37, 0)


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("broker-2/boot_id", "not an id\n", "bad_boot_id"),
        ("broker-2/boot_id", "", "bad_boot_id"),
        ("somewhere/boot_id", f"{BOOT}\n", "unknown_node"),
    ],
)
def test_what_is_no_boot_id_of_a_node_is_quarantined(tmp_path: Path, path: str, text: str, reason: str) -> None:
    with open_capture(capture(tmp_path, path, text)) as opened:
        found = read_boot_ids(opened, 5_000)
    assert not len(found.rows)
    assert [d.reason for a in found.accounts.values() for d in a.damage] == [reason]


def rows_of(folder: Path, node: str, *files: str) -> list[dict[str, Any]]:
    """Of a capture with a manifest with one node, and boot ids with these paths."""
    for path in files:
        capture(folder, path, BOOT)
    capture(folder, "node-1/meta.properties", "node.id=1\n")
    capture(folder, "capture.toml", f"captured_at = {READ_MS}\nclock_error_ms = 7\n[[nodes]]\nid = 1\n{node}\n")
    with open_capture(folder / "case") as opened:
        rows: list[dict[str, Any]] = read_boot_ids(opened, 5_000).rows.to_pylist()
    return sorted(rows, key=lambda row: row["captured_at_ms"])


@pytest.mark.parametrize(
    ("node", "began_ms", "read_by_ms"),
    [
        ("uptime_s = 100", READ_MS, READ_MS + 5_000),
        ("uptime_s = 100\nsnapshot_duration_ms = 900", READ_MS, READ_MS + 900),
        (f"uptime_s = 100\nuptime_read_by = {READ_MS + 30}", READ_MS, READ_MS + 30),
        (f"uptime_s = 100\ncaptured_at = {READ_MS + 10}\nuptime_read_by = {READ_MS + 30}", READ_MS + 10, READ_MS + 30),
        # Read before reading began: one of the times is wrong.
        (f"uptime_s = 100\nuptime_read_by = {READ_MS - 1}", READ_MS, READ_MS + 5_000),
    ],
)
@pytest.mark.parametrize("files", [("node-1/boot_id",), ()])
def test_a_machine_started_its_uptime_before_that_was_read(
    tmp_path: Path, node: str, began_ms: int, read_by_ms: int, files: tuple[str, ...]
) -> None:
    (row,) = rows_of(tmp_path, f'path = "node-1"\n{node}', *files)
    assert (row["node_id"], row["boot_id"]) == (1, BOOT if files else None)
    # The uptime was between 100 and 101 s, by a clock that runs up to 0.05 % too fast or too slow.
    assert row["booted_by_ms"] == read_by_ms + 7 - 99_950
    assert row["booted_after_ms"] == began_ms - 7 - 101_050 - 1 - 0
    assert row["captured_at_ms"] == began_ms - 7


def test_what_is_known_of_a_machine_is_of_its_own_reading(tmp_path: Path) -> None:
    node = 'path = "node-1"\nuptime_s = 100\nmachine_id = "abc"\nnode_name = "rack-1"'
    early, late = rows_of(tmp_path, node, "node-1/boot_id", f"snapshots/{READ_MS - 60_000}/node-1/boot_id")
    names = ("machine_id", "node_name", "local_disks")
    assert [early[name] for name in ("booted_by_ms", *names)] == [None, None, None, None]
    assert [late[name] for name in names] == ["abc", "rack-1", None]
    assert late["booted_by_ms"] == READ_MS + 5_000 + 7 - 99_950


def test_a_round_of_a_schedule_is_a_node_of_the_manifest(tmp_path: Path) -> None:
    at_ms = READ_MS - 60_000
    (row,) = rows_of(tmp_path, f'path = "snapshots/{at_ms}/node-1"\nuptime_s = 100\nsnapshot_duration_ms = 1')
    assert (row["captured_at_ms"], row["booted_by_ms"]) == (at_ms - 7, at_ms + 1 + 7 - 99_950)


def test_without_an_uptime_the_manifest_is_no_reading(tmp_path: Path) -> None:
    assert rows_of(tmp_path, 'path = "node-1"\nmachine_id = "abc"') == []
