"""Files of broker logs -> rows: what is stored, where it points, whose it is; which processes wrote them; and that no
secret gets out.

tests/unit/golden/node_logs.jsonl has a text a line, what it shows, and what is read of it: rows without nulls, and the
account of its bytes.
"""

import gzip
import json
import os
import tarfile
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import kinds, tables
from evidence.broker_logs.read import MAX_MESSAGE_CHARS, read_broker_logs
from evidence.broker_logs.times import QUARTER_MS
from tests.support.golden import filled
from tests.support.paths import ROOT, capture
from tests.unit.evidence.accounting import FUZZ
from tests.unit.evidence.broker_logs.support import RELEASES, SAMPLES, Row, log_file, read, said

TIME = "[2026-11-21 00:00:00,123]"
LOADED = (
    f"{TIME} INFO [Partition a-0 broker=4] Log loaded for partition a-0 with initial high watermark 7 (k.Partition)\n"
)
CHECKS = tomllib.loads((ROOT / "quality" / "checks" / "tables.toml").read_text())
PLACE = ["capture", "path", "sha256"]
INDIA = 19_800_000
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


@filled("node_logs")
def test_what_is_read_of_a_log(case: Row) -> Row:
    with TemporaryDirectory() as folder:
        result = read(Path(folder), case["text"].encode("utf-8", "surrogateescape"), **case["options"])
    assert result.boots.schema.equals(tables.NODE_BOOTS, check_metadata=True)
    # A check of these tables that fails says that the rows were changed: the verdict is not valid then.
    for name, table in (("broker_log_events", result.events), ("node_boots", result.boots)):
        assert [column for column in CHECKS[name]["not_null"] if table[column].null_count] == []
    for row in result.events.to_pylist():
        known = row["logged_at_utc_ms"] is not None
        assert not known or (row["logged_at_ms"] - row["logged_at_utc_ms"]) % QUARTER_MS == 0
    events, boots = (
        [{k: v for k, v in row.items() if v is not None} for row in table.drop_columns(PLACE).to_pylist()]
        for table in (result.events, result.boots)
    )
    read_of = {"events": events, "boots": boots, "account": asdict(result.accounts["logs/server.log"])}
    assert "PLANTED" not in str(read_of)
    return {**case, **read_of}


def test_a_pattern_that_says_too_little(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="log pattern"):
        read(tmp_path, b"x\n", patterns=["%p"])


@pytest.mark.parametrize("release", ["3.9.1", "4.0.2", "4.1.1"])
def test_processes_of_a_real_cluster(release: str, tmp_path: Path) -> None:
    """tests/captures/logs.sh: broker 2 is killed and started again, in Asia/Kolkata; then it stops cleanly."""
    name = f"logs-{release}"
    with tarfile.open(capture(name)) as tar:
        stream = tar.extractfile(f"{name}/logs/broker-2/server.log")
        assert stream is not None
        rows = read(tmp_path, stream.read()).boots.to_pylist()
    assert [r["previous_shutdown"] for r in rows] == [None, "unclean"]
    assert [r["stopped"] for r in rows] == [None, "complete"]
    assert {(r["node_id"], r["kafka_version"], r["zone_ms"]) for r in rows} == {(2, release, INDIA)}
    assert rows[0]["broker_epoch"] < rows[1]["broker_epoch"]
    assert rows[0]["incarnation_id"] != rows[1]["incarnation_id"]


def test_long_messages_are_cut(tmp_path: Path) -> None:
    partitions = ", ".join(f"topic-{i}=PartitionData(topicId=x)" for i in range(500))
    failed = f"Error in response for fetch request (fetchData={{{partitions}}})"
    line = f"{TIME} WARN [ReplicaFetcher replicaId=4, leaderId=2, fetcherId=0] {failed} (k.R)\n"
    (row,) = read(tmp_path, line.encode()).events.to_pylist()
    assert (row["count"], len(row["message"])) == (500, MAX_MESSAGE_CHARS)


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
