"""`inspect`: records and damage as one stream, in the order of the file."""

from __future__ import annotations

import json
import lzma
from itertools import accumulate
from pathlib import Path

import pytest

from evidence.errors import KraftForensicsError
from evidence.metadata_log.inspect import inspect_file
from tests.support import writer
from tests.support.paths import ORACLE, ROOT

LOG = writer.log(batches=5)
STARTS = [0, *accumulate(len(b) for b in LOG)]


def lines(path: Path, data: bytes) -> list[dict[str, object]]:
    path.write_bytes(data)
    return list(inspect_file(path))


def test_a_line_has_kafkas_names_and_the_place_of_the_record(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    (line,) = lines(path, writer.batch([writer.topic("orders")], 17, 3))
    assert line == {
        "offset": 17,
        "timestamp": writer.TIMESTAMP_MS,
        "leaderEpoch": 3,
        "type": "TOPIC_RECORD",
        "version": 0,
        "data": {"name": "orders", "topicId": writer.TOPIC_ID_TEXT},
        "file": str(path),
        "position": 61,
    }


def test_damage_stands_in_the_order_of_the_file(tmp_path: Path) -> None:
    bad_record = writer.batch(
        records=writer.record(writer.topic("a"), 0) + writer.record(b"\x00", 1), count=2, base_offset=3
    )
    data = b"".join([LOG[0], b"junk" * 20, LOG[1], bad_record, writer.flip(LOG[3], 70), LOG[4][:-9]])
    found = lines(tmp_path / "0.log", data)
    assert [f.get("reason", f.get("type")) for f in found] == [
        "LEADER_CHANGE",
        "bad_magic",
        "TOPIC_RECORD",
        "TOPIC_RECORD",
        "TOPIC_RECORD",
        "frame_version",
        "crc_mismatch",
        "torn_batch",
    ]
    positions = [f["position"] for f in found]
    assert positions == sorted(positions, key=int)


def test_a_line_of_damage_names_file_byte_and_offset(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    damaged = next(f for f in lines(path, writer.flip(b"".join(LOG), STARTS[2] + 70)) if "error" in f)
    assert set(damaged) == {"file", "position", "offset", "length", "error", "reason"}
    assert (damaged["position"], damaged["length"], damaged["offset"]) == (STARTS[2], len(LOG[2]), 3)
    assert str(damaged["error"]).startswith(f"{path}: byte {STARTS[2]} (offset 3): stored CRC32C")


@pytest.mark.parametrize(("data", "reasons"), [(b"", []), (bytes(99), []), (b"hello", ["not_a_segment"])])
def test_a_file_without_records_has_only_its_damage(data: bytes, reasons: list[str], tmp_path: Path) -> None:
    assert [f["reason"] for f in lines(tmp_path / "0.log", data)] == reasons


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.log"):
        with pytest.raises(KraftForensicsError, match="cannot be read") as caught:
            list(inspect_file(path))
        assert str(caught.value).startswith(f"{path}: ")


def test_the_text_of_kafka_dump_log_gives_the_same_lines_as_the_bytes(tmp_path: Path) -> None:
    text = tmp_path / "dump.txt"
    text.write_bytes(lzma.decompress((ROOT / "tests/samples/dump-log/every-record.txt.xz").read_bytes()))
    names = ("offset", "timestamp", "leaderEpoch", "type", "version", "data")
    expected = [[row[n] for n in names] for row in inspect_file(ORACLE / "every-record.log", show_secrets=True)]
    found = [[row[n] for n in names] for row in inspect_file(text, show_secrets=True)]
    assert len(expected) == 740
    assert found == expected


def test_bare_payloads_have_no_place(tmp_path: Path) -> None:
    path = tmp_path / "payloads.txt"
    path.write_text('{"type":"NO_OP_RECORD","version":0,"data":{}}\n')
    (row,) = inspect_file(path)
    assert (row["offset"], row["leaderEpoch"], row["type"], row["data"]) == (None, None, "NO_OP_RECORD", {})


def test_a_log_made_with_another_seed_equals_kafkas_json(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(lzma.decompress((ORACLE / "every-record-seed-7.log.xz").read_bytes()))
    with lzma.open(ORACLE / "every-record-seed-7.jsonl.xz", "rt", encoding="utf-8") as lines_:
        expected = [json.loads(line) for line in lines_]
    names = ("offset", "timestamp", "type", "version", "data")
    assert len(expected) > 740
    assert [{n: row[n] for n in names} for row in inspect_file(log, show_secrets=True)] == expected
