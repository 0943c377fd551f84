"""Copies of /proc/sys/kernel/random/boot_id: which machine, which id, read when."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.broker_logs.boot_ids import read_boot_ids
from evidence.capture.files import open_capture

BOOT = "1b2a0043-ad54-40b7-82e8-af05c1184838"


def capture(folder: Path, path: str, text: str) -> Path:
    file = folder / "case" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return folder / "case"


def test_a_reading_has_its_node_and_time(tmp_path: Path) -> None:
    with open_capture(capture(tmp_path, "snapshots/1795329926058/broker-2/boot_id", f"{BOOT}\n")) as opened:
        found = read_boot_ids(opened.name, opened.files, 5_000)
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
        found = read_boot_ids(opened.name, opened.files, 5_000)
    assert not len(found.rows)
    assert [d.reason for a in found.accounts.values() for d in a.damage] == [reason]
