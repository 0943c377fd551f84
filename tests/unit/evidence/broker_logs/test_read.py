"""Files of broker logs -> rows: what is stored, where it points, whose it is; and that no secret gets out."""

from __future__ import annotations

import gzip
import json
import os
import tomllib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import kinds, tables
from evidence.broker_logs.read import MAX_MESSAGE_CHARS, read_broker_logs
from evidence.broker_logs.times import QUARTER_MS
from tests.support.paths import ROOT
from tests.unit.evidence.accounting import FUZZ
from tests.unit.evidence.broker_logs.support import RELEASES, SAMPLES, log_file, read, said

AT = 1795219200123  # 2026-11-21 00:00:00.123
TIME = "[2026-11-21 00:00:00,123]"
LOADED = (
    f"{TIME} INFO [Partition a-0 broker=4] Log loaded for partition a-0 with initial high watermark 7 (k.Partition)\n"
)
CONFIG = f"""{TIME} INFO KafkaConfig values:
\tlistener.name.sasl.scram-sha-512.sasl.jaas.config = org.x.ScramLoginModule required password="PLANTED";
\tssl.keystore.password = PLANTED
\tuser.secret = java.lang.OutOfMemoryError: PLANTED
 (kafka.server.KafkaConfig)
"""


@pytest.mark.parametrize("release", RELEASES)
def test_samples_of_each_release(release: str, tmp_path: Path) -> None:
    """Golden: tests/samples/broker_logs/<release>/events.jsonl has every event's kind and fields, a line each."""
    found = []
    for name, kind in (
        ("server", kinds.SERVER_LOG),
        ("state-change", kinds.STATE_CHANGE_LOG),
        ("controller", kinds.CONTROLLER_LOG),
    ):
        data = (SAMPLES / release / f"{name}.log").read_bytes()
        result = read(tmp_path, data, name=f"{name}.log", kind=kind)
        assert result.events.schema.equals(tables.BROKER_LOG_EVENTS, check_metadata=True)
        rows = result.events.to_pylist()
        for row in rows:
            line = data[row["position"] : row["position"] + row["length_bytes"]].decode()
            assert line.endswith("\n")
            assert row["message"][:500] in line
            assert (row["capture"], row["path"], len(row["sha256"])) == ("c", f"logs/{name}.log", 64)
            assert row["logged_at_ms"] is not None
        found += [json.dumps({"file": name, **said(row)}) for row in rows]
        events, stored = result.counts[f"logs/{name}.log"]
        assert stored == len(rows) < events
    expected = (SAMPLES / release / "events.jsonl").read_text().splitlines()
    assert found == expected


@pytest.mark.parametrize(
    ("data", "is_collected", "expected"),
    [
        (LOADED.encode(), True, True),
        (LOADED.encode(), False, False),
        # Its last line was being written.
        (LOADED.encode() + LOADED[:40].encode(), True, True),
        (gzip.compress(LOADED.encode() * 2000), True, True),
        (gzip.compress(LOADED.encode() * 2000 + os.urandom(100_000))[:-70_000], True, False),
        # A line that is too long is quarantined: what was in it is not known.
        (LOADED.encode() + b"x" * (9 << 20) + b"\n" + LOADED.encode(), True, False),
    ],
)
def test_only_a_file_that_was_collected_and_read_whole_lacks_no_line(
    tmp_path: Path, data: bytes, is_collected: bool, expected: bool
) -> None:
    events = read(tmp_path, data, node_id=4, is_collected=is_collected).events
    assert set(events["file_is_whole"].to_pylist()) == {expected}


def test_a_stack_trace_is_of_the_event_before(tmp_path: Path) -> None:
    text = f"{TIME} ERROR [ReplicaManager broker=4] Error while writing to highwatermark file in directory /d (k.R)\n"
    trace = (
        "java.io.IOException: No space left on device\n\tat a.b(C.java:1)\nCaused by: java.lang.OutOfMemoryError: x\n"
    )
    result = read(tmp_path, (text + trace + LOADED).encode())
    rows = result.events.to_pylist()
    assert [(r["kind"], r["detail"], r["level"], r["logged_at_ms"]) for r in rows[1:3]] == [
        ("disk_error", "No space left on device", "ERROR", AT),
        ("out_of_memory", "x", "ERROR", AT),
    ]
    assert [r["position"] for r in rows[1:3]] == [len(text), len(text) + trace.index("Caused")]


def test_secrets_do_not_get_out(tmp_path: Path) -> None:
    failed = (
        f"{TIME} ERROR Error while loading log dir /d sasl.password=PLANTED; url https://u:PLANTED@h/ "
        "ssl.key.password -> PLANTED (k.L)\n"
        f'{TIME} ERROR Error while loading log dir /d Login: org.x.PlainLoginModule required password="PLANTED" (k.L)\n'
    )
    rows = read(tmp_path, (CONFIG + failed).encode()).events.to_pylist()
    assert "PLANTED" not in json.dumps(rows)
    assert [r["kind"] for r in rows] == ["disk_error", "disk_error"]
    assert rows[0]["message"] == (
        "Error while loading log dir /d sasl.password=[redacted]; url https://u:[redacted]@h/ "
        "ssl.key.password -> [redacted]"
    )
    assert rows[1]["message"] == rows[1]["detail"] == "[redacted]"


def test_held_back_bytes_show_no_secret(tmp_path: Path) -> None:
    data = (LOADED + "ssl.key.password = PLANTED ").encode() + b"\xff\n"
    account = read(tmp_path, data).accounts["logs/server.log"]
    assert account.quarantined_bytes == len(data) - len(LOADED)
    assert "PLANTED" not in str(account)


def test_long_messages_are_cut(tmp_path: Path) -> None:
    partitions = ", ".join(f"topic-{i}=PartitionData(topicId=x)" for i in range(500))
    failed = f"Error in response for fetch request (fetchData={{{partitions}}})"
    line = f"{TIME} WARN [ReplicaFetcher replicaId=4, leaderId=2, fetcherId=0] {failed} (k.R)\n"
    (row,) = read(tmp_path, line.encode()).events.to_pylist()
    assert (row["count"], len(row["message"])) == (500, MAX_MESSAGE_CHARS)


@pytest.mark.parametrize(("node", "expected"), [(None, 4), (4, 4), (3, 4)])
def test_a_line_names_its_node(tmp_path: Path, node: int | None, expected: int) -> None:
    version = f"{TIME} INFO Kafka version: 4.0.2 (k.A)\n"
    result = read(tmp_path, (LOADED + version).encode(), node_id=node)
    assert [r["node_id"] for r in result.events.to_pylist()] == [expected, expected], "its folder's name may be wrong"
    note = result.accounts["logs/server.log"].note
    assert note == ("lines of node 4 in a file of node 3" if node == 3 else None)


def test_a_folder_that_other_files_contradict_names_no_node(tmp_path: Path) -> None:
    """kafka-1 is the pod of node 4: its rotated file of a start names nobody."""
    load = f"{TIME} INFO Kafka version: 4.0.2 (k.A)\n"
    files = [
        log_file(tmp_path, load.encode(), "server.log.1", node_id=1),
        log_file(tmp_path, LOADED.encode(), "server.log", node_id=1),
        log_file(tmp_path, load.encode(), "server.log.2", node_id=2),
    ]
    rows = read_broker_logs("c", files).events.to_pylist()
    assert [row["node_id"] for row in rows] == [None, 4, 2]


ISR = f"{TIME} INFO [Partition a-0 broker=4] ISR updated to 4,5  and version updated to 12 (k.Partition)\n"


CUT = f"{TIME} WARN [LogLoader partition=a-0, dir=/d] Corruption found in segment 0, truncating to offset 12 (k.L)\n"


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (ISR, [("isr_updated", 12)]),
        # A disk that was full, or a power loss: the next event stands right behind what was written.
        (ISR[: ISR.index("2 (k")] + ISR, [("isr_updated", None)]),
        # A log shipper's limit.
        (ISR[: ISR.index("2 (k")] + "\n" + ISR, [("isr_updated", None), ("isr_updated", 12)]),
        (ISR[: ISR.index(" and")] + "\n" + ISR, [("isr_updated", 12)]),
        # That a start cut a log off is known without the offset.
        (CUT[: CUT.index("2 (k")] + ISR, [("corruption_found", None)]),
        (CUT, [("corruption_found", 12)]),
    ],
)
def test_a_number_that_may_lack_digits_is_not_read(
    tmp_path: Path, data: str, kept: list[tuple[str, int | None]]
) -> None:
    """A partition epoch of 1 instead of 12 would date what stands before it too early."""
    result = read(tmp_path, data.encode())
    rows = result.events.to_pylist()
    assert [(row["kind"], row["partition_epoch"] or row["truncated_to"]) for row in rows] == kept
    reasons = [damage.reason for damage in result.accounts["logs/server.log"].damage]
    assert reasons == (["two_events"] if data.count("\n") < data.count(TIME) else [])


START = f"{TIME} INFO Registered signal handlers for TERM, INT, HUP (k.L)\n"
PACKED = "2026-11-21T00:00:00.123456789Z "


@pytest.mark.parametrize(
    ("data", "is_collected", "shown"),
    [
        (START + LOADED + START, False, [True, True]),
        # Container runtimes and archives drop lines, and people join what they give.
        (PACKED + START + PACKED + LOADED + PACKED + START, False, [False, False]),
        (PACKED + START + PACKED + LOADED + PACKED + START, True, [True, True]),
        (json.dumps({"log": START}) + "\n" + json.dumps({"log": START}) + "\n", False, [False, False]),
        (START + "\0\0\0\n" + START, False, [False, False]),
    ],
)
def test_a_process_begins_in_a_file_only_if_no_line_can_be_missing(
    tmp_path: Path, data: str, is_collected: bool, shown: list[bool]
) -> None:
    boots = read(tmp_path, data.encode(), node_id=4, is_collected=is_collected).boots.to_pylist()
    assert [row["begins_in_file"] for row in boots] == shown


STRIMZI = "2026-11-21 00:00:00 INFO  [main] {logger}:66 - {message}\n"
STRIMZIS = "".join(
    STRIMZI.format(logger=logger, message=message)
    for logger, message in (
        ("LoggingSignalHandler", "Registered signal handlers for TERM, INT, HUP"),
        ("Partition", "[Partition a-0 broker=4] ISR updated to 4,5  and version updated to 12"),
    )
)


@pytest.mark.parametrize(
    "data",
    [
        START + LOADED,
        STRIMZIS,
        "".join(f"2026-11-20T18:30:00.125456789Z {line}\n" for line in (START + LOADED).splitlines()),
        "".join(f"2026-11-21T00:00:00.125456789Z stdout F {line}\n" for line in STRIMZIS.splitlines()),
        "".join(json.dumps({"@timestamp": "2026-11-21T00:00:09.1Z", "message": m}) + "\n" for m in (START, LOADED)),
        "".join(json.dumps({"timestamp": 1795219200, "message": m}) + "\n" for m in (START[:-1], LOADED[:-1])),
    ],
)
def test_rows_of_every_layout_pass_the_checks_of_their_tables(tmp_path: Path, data: str) -> None:
    """A check that fails says that the rows were changed: the verdict is not valid then."""
    result = read(tmp_path, data.encode(), node_id=4)
    assert (len(result.events), len(result.boots)) == (2, 1)
    checks = tomllib.loads((ROOT / "quality" / "checks" / "tables.toml").read_text())
    for name, table in (("broker_log_events", result.events), ("node_boots", result.boots)):
        assert [column for column in checks[name]["not_null"] if table[column].null_count] == []
    for row in result.events.to_pylist():
        known = row["logged_at_utc_ms"] is not None
        assert not known or (row["logged_at_ms"] - row["logged_at_utc_ms"]) % QUARTER_MS == 0


def test_an_archives_export_of_several_nodes(tmp_path: Path) -> None:
    version = f"{TIME} INFO Kafka version: 4.0.2 (k.A)\n"
    data = (LOADED + LOADED.replace("broker=4", "broker=5") + version).encode()
    result = read(tmp_path, data)
    assert [r["node_id"] for r in result.events.to_pylist()] == [4, 5, None]
    assert result.accounts["logs/server.log"].note == "lines of several nodes"
    assert len(result.boots) == 0


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_compressed_files(tmp_path: Path, codec: str) -> None:
    text = (LOADED * 50).encode()
    packed = gzip.compress(text) if codec == "gzip" else pa.compress(text, codec="zstd", asbytes=True)
    result = read(tmp_path, packed, name="server.log.1.gz")
    assert [r["position"] for r in result.events.to_pylist()] == [i * len(LOADED) for i in range(50)]
    cut = read(tmp_path, packed[:-3], name="server.log.1.gz").accounts["logs/server.log.1.gz"]
    assert cut.damage[0].reason == "bad_compression"
    odd = gzip.compress(text + b"\xff\n" + text)
    account = read(tmp_path, odd, name="server.log.1.gz").accounts["logs/server.log.1.gz"]
    assert (account.parsed_bytes, account.quarantined_bytes) == (len(odd), 0)
    assert account.damage[0].message.startswith(f"in the unpacked text, byte {len(text)}, 2 bytes: ")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"hello\n", "unknown_layout"),
        (b"\x1f\x8bgarbage", "bad_compression"),
        (b"\0" * 100, "unknown_layout"),
        (LOADED.encode("utf-16"), "unknown_layout: UTF-16 text"),
        (
            b"\x1b[32m" + LOADED.encode(),
            "unknown_layout: no line begins as in any known layout: name the log4j pattern of the site, or remove",
        ),
    ],
)
def test_what_is_no_log_is_held_back(tmp_path: Path, data: bytes, reason: str) -> None:
    account = read(tmp_path, data).accounts["logs/server.log"]
    assert account.quarantined_bytes == len(data)
    assert f"{account.damage[0].reason}: {account.damage[0].message}".startswith(reason)


def test_an_empty_file(tmp_path: Path) -> None:
    result = read(tmp_path, b"")
    assert result.accounts["logs/server.log"].note == "an empty file"
    assert len(result.events) == len(result.boots) == 0


def test_a_pattern_of_the_site(tmp_path: Path) -> None:
    line = "21.11.2026 00:00:00.123|INFO|Kafka version: 4.0.2\n"
    assert read(tmp_path, line.encode()).accounts["logs/server.log"].quarantined_bytes == len(line)
    pattern = "%d{dd.MM.yyyy HH:mm:ss.SSS}|%p|%m%n"
    (row,) = read(tmp_path, line.encode(), patterns=[pattern]).events.to_pylist()
    assert (row["logged_at_ms"], row["detail"]) == (AT, "4.0.2")
    with pytest.raises(ValueError, match="log pattern"):
        read(tmp_path, line.encode(), patterns=["%p"])


@pytest.mark.parametrize(
    ("line", "utc"), [("[2026-11-22 05:30:00,000] INFO ", "manifest"), ("2026-11-22T00:00:00.000Z INFO ", "Z")]
)
def test_the_zone_of_the_manifest_counts_where_a_line_prints_none(tmp_path: Path, line: str, utc: str) -> None:
    text = f"{line}[KafkaRaftServer nodeId=1] Kafka Server started (kafka.server.KafkaRaftServer)\n".encode()
    file = replace(log_file(tmp_path, text), log_utc_offset_ms=19_800_000)
    (row,) = read_broker_logs("c", [file], ["%d %p %m (%c)%n"] if utc == "Z" else ()).events.to_pylist()
    assert row["logged_at_utc_ms"] == 1795305600000


def test_a_file_that_begins_with_a_long_dump(tmp_path: Path) -> None:
    """Rotated inside what Kafka prints at every start."""
    dump = b"\tssl.a.config.with.a.long.name = null\n" * 12_000
    result = read(tmp_path, dump + LOADED.encode(), chunk_bytes=50_000)
    assert [r["position"] for r in result.events.to_pylist()] == [len(dump)]
    assert result.accounts["logs/server.log"].trailing_bytes == len(dump)


@pytest.mark.parametrize("size", [61, 4096])
def test_any_size_of_chunk_gives_the_same_rows(tmp_path: Path, size: int) -> None:
    """Wherever a chunk ends: test_lines.py."""
    data = (SAMPLES / "4.3.1" / "server.log").read_bytes()
    whole, chunked = read(tmp_path, data), read(tmp_path, data, chunk_bytes=size)
    assert chunked.events.equals(whole.events)
    assert chunked.boots.equals(whole.boots)
    assert chunked.accounts == whole.accounts


@FUZZ
@given(
    st.lists(
        st.one_of(st.binary(max_size=30), st.sampled_from([LOADED.encode(), CONFIG.encode(), b"\x1f\x8b", b"{"])),
        max_size=8,
    )
)
def test_any_bytes_are_accounted_for(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    read(tmp_path_factory.mktemp("log"), b"".join(pieces))
