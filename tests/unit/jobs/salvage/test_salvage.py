"""What is salvaged from a copy, what is said of it, and what damaged or wrong copies lead to."""

import json
import stat
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.errors import KraftForensicsError
from jobs.salvage.produce import _chosen, _Ledger
from jobs.salvage.stage import salvage
from tests.support.data_logs import TIME_MS, Written, write_copy
from tests.support.invoked import invoke
from tests.support.small_captures import write_files
from tests.support.writer import crc32c

SECRET = b"secret-payload"
SEGMENT = f"ledger-0/{0:020}.log"
SHARED = [Written(0, 0, [(b"a", b"1"), (b"b", b"2")]), Written(2, 0, [(b"a", b"3")])]
LOST = [
    Written(3, 0, [(b"a", SECRET)], headers=[("trace", b"\xff")]),
    Written(4, 0, [(b"c", b"4"), (None, b"\xfe")], producer=(7, 0, 10), transactional=True),
    Written(6, 0, producer=(7, 0, -1), control=1),
    Written(7, 0, [(b"d", b"5")], producer=(8, 1, 0), transactional=True),
    Written(8, 0, producer=(8, 1, -1), control=0),
    Written(9, 0, [(b"e", b"6")], producer=(9, 0, 3), transactional=True),
    Written(10, 0, [(b"f", b"7")], producer=(10, 0, 5)),
    Written(11, 0, [(b"g", b"8")]),
]
WON = [Written(3, 2, [(b"a", b"9")]), Written(4, 2, [(b"f", b"7")], producer=(10, 0, 5)), Written(5, 2, [(b"g", b"8")])]


def saved(tmp_path: Path, old: Sequence[Written] = (), won: Sequence[Written] = ()) -> tuple[dict[str, Any], list[Any]]:
    """(The summary of the partition, its records)."""
    write_copy(tmp_path / "old/ledger-0", old or [*SHARED, *LOST], [(0, 0)])
    write_copy(tmp_path / "new/ledger-0", won or [*SHARED, *WON], [(0, 0), (2, 3)])
    return again(tmp_path)


def again(tmp_path: Path) -> tuple[dict[str, Any], list[Any]]:
    summary = salvage(tmp_path / "old", tmp_path / "new", (), None, tmp_path / "out", lambda line: None)
    lines = (tmp_path / "out/ledger-0/records.jsonl").read_text().splitlines()
    (found,) = summary["partitions"]
    of = found["bytes"]
    assert of["parsed"] + of["damaged"] + of["trailing"] == of["size"]
    assert of["size"] == sum(path.stat().st_size for at in ("old", "new") for path in tmp_path.glob(f"{at}/*/*.log"))
    return found, [json.loads(line) for line in lines]


def test_the_records_and_what_is_known_of_them(tmp_path: Path) -> None:
    found, rows = saved(tmp_path)
    assert (found["parting_offset"], found["common_leader_epoch"], found["shared_batches"]) == (3, 0, 2)
    names = ("offset", "transaction", "newer_offset", "sent_again_offset")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (3, None, 3, None),  # the current log has a later value of its key, at an offset of its own
        (4, "committed", None, None),
        (5, "committed", None, None),
        (7, "aborted", None, None),
        (9, "open", None, None),
        (10, None, 4, 4),  # the same producer, epoch and sequence
        (11, None, 5, 5),  # the same key, value and timestamp
    ]
    assert rows[0]["headers"] == [{"key": "trace", "value": {"base64": "/w=="}}]
    assert (rows[1]["key"], rows[2]["key"], rows[2]["value"]) == ("c", None, {"base64": "/g=="})
    assert (rows[2]["timestamp_ms"], rows[2]["sequence"], rows[2]["producer_id"]) == (TIME_MS + 1, 11, 7)
    assert (found["aborted"], found["open"], found["sent_again"], found["below_high_watermark"]) == (1, 1, 2, None)
    table = pq.read_table(tmp_path / "out/ledger-0/records.parquet").to_pylist()
    assert [row["offset"] for row in table] == [row["offset"] for row in rows]
    assert table[0]["value"] == SECRET
    assert table[0]["headers"] == [{"key": "trace", "value": b"\xff"}]
    batches = [batch.bytes for batch in LOST if batch.control is None]
    assert (tmp_path / f"out/ledger-0/{3:020}.log").read_bytes() == b"".join(batches)


TRANSACTIONS = [
    Written(3, 2, [(b"a", b"9")], producer=(11, 0, 0), transactional=True),
    Written(4, 2, producer=(11, 0, 0), control=0),
    Written(5, 2, [(b"c", b"4")], producer=(11, 0, 0), transactional=True),
    Written(6, 2, producer=(9, 0, -1), control=1),
]
COMPACTED = [Written(1, 0, [(b"b", b"2")], time_ms=TIME_MS + 1), SHARED[1]]
DIFFERS = [SHARED[0], Written(2, 0, [(b"a", b"another")])]


def clicks(epoch: int, *offsets: int) -> list[Written]:
    return [*SHARED, *(Written(at, epoch, [(None, b"click")]) for at in offsets)]


def sent(epoch: int, value: bytes) -> list[Written]:
    return [*SHARED, Written(3, epoch, [(b"k", value)], producer=(7, 0, 5))]


@pytest.mark.parametrize(
    ("old", "won", "column", "expected", "known"),
    [
        ((), [*SHARED, Written(3, 2, [(b"z", b"")]), Written(4, 2, [(b"a", None)])], "newer_offset", [4], {}),
        # What was aborted is no newer value; the marker of a transaction went to the new leader.
        ((), [*SHARED, *TRANSACTIONS], "newer_offset", [None] * 7, {}),
        ((), [*SHARED, *TRANSACTIONS], "transaction", [None, *["committed"] * 2, "aborted", "committed"], {}),
        # A record that is there once stands for one of several that are alike.
        (clicks(0, 3, 4), clicks(2, 3), "sent_again_offset", [3, None], {"sent_again": 1}),
        # A sequence that another record has is none that was sent again.
        (sent(0, b"old"), sent(2, b"new"), "sent_again_offset", [None], {}),
        ((), [*DIFFERS, *WON], "offset", [2, 3], {"parting_offset": 2, "parted_by": "bytes"}),
        ((), [*COMPACTED, *WON], "offset", [3], {"missing_before_parting": 0, "offsets_not_compared": 0}),
        ((), [Written(8, 5, [(b"z", b"z")])], "offset", [9, 10, 11], {"offsets_not_compared": 5}),
    ],
)
def test_what_the_current_log_shows(
    tmp_path: Path, old: list[Written], won: list[Written], column: str, expected: list[Any], known: dict[str, Any]
) -> None:
    """expected: of the first records."""
    found, rows = saved(tmp_path, old, won)
    assert [row[column] for row in rows][: len(expected)] == expected
    assert found | known == found


def test_leader_epochs_alone_show_where_the_logs_part(tmp_path: Path) -> None:
    saved(tmp_path)
    (tmp_path / "out").rename(tmp_path / "first")
    (tmp_path / "new" / SEGMENT).unlink()
    found, rows = again(tmp_path)
    assert (found["parting_offset"], len(rows), found["sent_again"], found["newer_value"]) == (3, 7, None, None)


def test_a_current_copy_that_ends_in_a_common_epoch_shows_no_parting(tmp_path: Path) -> None:
    write_copy(tmp_path / "old/ledger-0", [*SHARED, *LOST], [(0, 0)])
    write_copy(tmp_path / "new/ledger-0", SHARED, [(0, 0)])
    found, rows = again(tmp_path)
    assert (found["parted_by"], len(rows)) == ("end of the copy", 7)
    assert any("nothing shows that its log ended there" in note for note in found["notes"])


def joined(batches: Sequence[Written]) -> bytes:
    return b"".join(batch.bytes for batch in batches)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({f"new/{SEGMENT}": None, "new/ledger-0/leader-epoch-checkpoint": b"0\n1\n0 0\n"}, "its segments are not"),
        (
            {f"new/{SEGMENT}": joined([Written(0, 0, [(b"q", b"q")]), Written(1, 0), Written(2, 0), *WON])},
            "no batch or record is the same",
        ),
        ({f"old/{SEGMENT}": b""}, "no whole batch"),
        ({f"old/ledger-0/{5:020}.log": Written(5, 0).bytes}, "files of two logs are in one folder"),
        ({f"old/other/{SEGMENT}": joined(SHARED)}, "two copies of ledger-0"),
        ({f"old/ledger-1/{0:020}.log": joined(SHARED), "old/ledger-0": None}, "no replica of the same partition"),
    ],
)
def test_a_copy_that_cannot_be_used(tmp_path: Path, files: dict[str, bytes | None], message: str) -> None:
    """files: what is written over a copy, or deleted."""
    saved(tmp_path)
    write_files(tmp_path, {name: data for name, data in files.items() if data is not None})
    for name in (name for name, data in files.items() if data is None):
        (tmp_path / name).rename(tmp_path / "gone")
    done = invoke(["salvage", "--from", tmp_path / "old", "--current", tmp_path / "new"])
    assert (done.exit_code, message in str(done.exception)) == (1, True)


def test_only_the_files_that_were_asked_for_have_payloads(tmp_path: Path) -> None:
    saved(tmp_path)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {stat.S_IMODE(path.parent.stat().st_mode) for path in files} == {0o700}
    assert SECRET not in (tmp_path / "out/salvage.json").read_bytes()
    done = invoke(["salvage", "--from", tmp_path / "old", "--current", tmp_path / "new", "--format", "json"])
    assert (done.exit_code, SECRET.decode() in done.output) == (0, False)
    assert json.loads(done.stdout)["partitions"][0]["records"] == 7


def test_nothing_is_left_of_an_output_that_failed(tmp_path: Path) -> None:
    write_copy(tmp_path / "old/ledger-0", [*SHARED, *LOST], topic_id="o" * 22)
    write_copy(tmp_path / "new/ledger-0", [*SHARED, *WON], topic_id="t" * 22)
    with pytest.raises(KraftForensicsError, match="another partition's folder"):
        again(tmp_path)
    assert not (tmp_path / "out").exists()
    for home in ("old", "new"):
        write_copy(tmp_path / home / "kept-0", [*SHARED, *(LOST if home == "old" else WON)], topic_id="k" * 22)
    found = salvage(tmp_path / "old", tmp_path / "new", (), None, tmp_path / "out", lambda line: None)
    assert [row["topic"] for row in found["partitions"]] == ["kept"]


def test_archives_are_read_like_folders_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, rows = saved(tmp_path)
    for name, mode in (("old.tar.gz", "w:gz"), ("new.tar", "w:")):
        with tarfile.open(tmp_path / name, mode) as tar:
            tar.add(tmp_path / name[:3], "capture/node-1")
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    modes = list[int]()

    def look(_: str) -> None:
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "temp").iterdir())

    archives = tmp_path / "old.tar.gz", tmp_path / "new.tar"
    (summary,) = salvage(*archives, (), None, tmp_path / "packed", look)["partitions"]
    places = {side: f"{at}/capture/node-1/ledger-0" for side, at in zip(("from", "current"), archives, strict=True)}
    assert summary == found | places
    lines = (tmp_path / "packed/ledger-0/records.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert modes == [0o700, 0o700]
    archives[1].write_bytes(archives[1].read_bytes()[:700])
    with pytest.raises(KraftForensicsError, match=r"new\.tar: the archive cannot be read"):
        salvage(*archives, (), None, tmp_path / "cut", look)
    assert not (tmp_path / "cut").exists()
    assert list((tmp_path / "temp").iterdir()) == []
    words = ["salvage", "--from", str(tmp_path / "out/salvage.json"), "--current", str(archives[0])]
    assert "neither a folder nor an archive" in str(invoke(words).exception)


def test_a_torn_end_is_no_loss_of_what_is_before_it(tmp_path: Path) -> None:
    saved(tmp_path)
    segment = tmp_path / "old" / SEGMENT
    segment.write_bytes(segment.read_bytes()[:-3])
    (tmp_path / "out").rename(tmp_path / "whole")
    found, rows = again(tmp_path)
    assert ([row["offset"] for row in rows], found["partial"]) == ([3, 4, 5, 7, 9, 10], False)
    assert any("torn batch" in note for note in found["notes"])


def test_damage_in_the_middle_is_passed_over_and_named(tmp_path: Path) -> None:
    saved(tmp_path)
    segment = tmp_path / "old" / SEGMENT
    data = bytearray(segment.read_bytes())
    at = sum(len(batch.bytes) for batch in SHARED)
    data[at + 70] ^= 0xFF
    segment.write_bytes(data)
    (tmp_path / "out").rename(tmp_path / "whole")
    found, rows = again(tmp_path)
    assert ([row["offset"] for row in rows], found["partial"]) == ([4, 5, 7, 9, 10, 11], True)
    assert found["bytes"]["damaged"] == len(LOST[0].bytes)
    assert any(f"byte {at} (offset 3): stored CRC32C" in note for note in found["notes"])
    done = invoke(["salvage", "--from", tmp_path / "old", "--current", tmp_path / "new"])
    assert (done.exit_code, f"PARTIAL: {len(LOST[0].bytes)} bytes" in done.output) == (1, True)


def test_a_record_that_cannot_be_decoded_is_named_and_the_rest_is_saved(tmp_path: Path) -> None:
    bad = Written(3, 0, [(b"a", b"")])
    rest = bad.bytes[21:]
    body = rest[:40] + b"\x7f" + rest[41:]  # a record longer than its batch, with a good CRC
    segment = write_copy(tmp_path / "old/ledger-0", SHARED, [(0, 0)])
    head = bad.bytes[:17] + crc32c(body).to_bytes(4, "big")
    segment.write_bytes(segment.read_bytes() + head + body + LOST[1].bytes)
    write_copy(tmp_path / "new/ledger-0", [*SHARED, *WON], [(0, 0), (2, 3)])
    found, rows = again(tmp_path)
    assert [row["offset"] for row in rows] == [4, 5]
    assert (found["partial"], found["unreadable_batches"]) == (True, 1)
    assert any("cannot be read" in note for note in found["notes"])


def test_what_cannot_be_produced_is_refused_before_a_broker_is_asked(tmp_path: Path) -> None:
    saved(tmp_path)
    words = ["salvage", "--output", str(tmp_path / "out"), "--bootstrap", "127.0.0.1:1", "--produce-to"]
    done = invoke([*words, "ledger"])
    assert (done.exit_code, "--into-original allows that" in str(done.exception)) == (1, True)
    copies = ["salvage", "--from", str(tmp_path / "old")]
    words[2] = str(tmp_path / "old")
    assert "holds no records" in str(invoke([*words, "other"]).exception)
    assert not (tmp_path / "out/produced.jsonl").exists()
    (tmp_path / "client.properties").write_text("socket.timeout.ms=2 s\n")
    live = [*copies, "--bootstrap", "127.0.0.1:1", "--client-config", str(tmp_path / "client.properties")]
    assert "socket.timeout.ms=2 s is no number" in str(invoke(live).exception)
    (tmp_path / "client.properties").write_text("no.such.property=1\n")
    assert '"no.such.property"' in str(invoke(live).exception)


def test_what_is_left_out_when_records_are_produced(tmp_path: Path) -> None:
    saved(tmp_path)
    summary = json.loads((tmp_path / "out/salvage.json").read_text())
    reasons = {"in an aborted transaction": 1, "in an open transaction": 1, "sent again by its producer": 2}
    for superseded, compacted, more in ((None, None, 0), (None, True, 1), (True, True, 0), (False, None, 1)):
        summary["partitions"][0]["compacted"] = compacted
        left_out = Counter[str]()
        chosen = _chosen(tmp_path / "out", summary, superseded, left_out)
        assert [row["offset"] for row in chosen] == ([3] if not more else []) + [4, 5]
        assert left_out == reasons | ({"its key has a newer value": 1} if more else {})


def test_a_ledger_goes_on_after_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "produced.jsonl"
    ledger = _Ledger(path, "again")
    ledger.begin({0: 5})
    ledger.write({"sent": "ledger-0@3"})
    path.write_text(path.read_text() + '{"sent": "ledg')
    torn = _Ledger(path, "again")
    assert (torn.ends, torn.sent) == ({0: 5}, {"ledger-0@3"})
    torn.begin({0: 9})
    torn.write({"sent": "ledger-0@4"})
    whole = _Ledger(path, "again")
    assert (whole.ends, whole.sent) == ({0: 5}, {"ledger-0@3", "ledger-0@4"})
    with pytest.raises(KraftForensicsError, match="were sent to again before"):
        _Ledger(path, "elsewhere")


@given(data=st.data())
def test_every_byte_is_accounted_for_and_only_the_tail_is_salvaged(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("logs")
    sizes = st.lists(st.integers(1, 3), min_size=1, max_size=5)
    batches, base = list[Written](), 0
    for epoch in (0, 1):
        for size in data.draw(sizes):
            batches.append(Written(base, epoch, [(b"k", bytes([size]))] * size))
            base += size
    kept = [batch for batch in batches if batch.epoch == 0]
    part = kept[-1].base + len(kept[-1].records)
    write_copy(tmp_path / "new/ledger-0", [*kept, Written(part, 2)], [(0, 0), (2, part)])
    segment = write_copy(tmp_path / "old/ledger-0", batches, [(0, 0), (1, part)])
    whole = segment.read_bytes()
    cut = data.draw(st.integers(len(b"".join(b.bytes for b in kept)), len(whole)))
    flipped = bytearray(whole[:cut])
    if cut < len(whole) and data.draw(st.booleans()):
        flipped += bytes(16)
    segment.write_bytes(flipped)
    found, rows = again(tmp_path)
    offsets = {at for batch in batches if batch.epoch for at in range(batch.base, batch.base + len(batch.records))}
    assert {row["offset"] for row in rows} <= offsets
    assert len(rows) == found["records"]
    if cut == len(whole):
        assert {row["offset"] for row in rows} == offsets
