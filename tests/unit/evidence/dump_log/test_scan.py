"""kafka-dump-log's text gives the rows that the bytes give, and says of every byte and offset why not.

Golden: tests/unit/golden/dumps.jsonl has what is found in each text of tests/samples/dump-log, a line each;
`python -m tests.unit.evidence.dump_log.test_scan` writes it.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
import tarfile
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.dump_log.lines import MAX_LINE_BYTES
from evidence.dump_log.records import read_dumped, read_unplaced
from evidence.dump_log.scan import DumpScan, scan_dump
from evidence.errors import Damage
from evidence.metadata_log.rows import to_json
from evidence.wire.batches import Batch, scan_batches
from evidence.wire.records import Record, read_records
from tests.support import writer
from tests.support.golden import cases, write
from tests.support.paths import ORACLE, ROOT, capture
from tests.unit.evidence.accounting import FUZZ

SAMPLES = ROOT / "tests" / "samples" / "dump-log"
DUMPS = sorted(ORACLE.glob("*dump-log*.txt.gz"))
HEAD = (
    "baseOffset: {base} lastOffset: {last} count: {count} baseSequence: -1 lastSequence: -1 producerId: -1 "
    "producerEpoch: -1 partitionLeaderEpoch: 1 isTransactional: false isControl: {control} deleteHorizonMs: "
    "OptionalLong.empty position: 0 CreateTime: 1795000000000 size: {size} magic: 2 compresscodec: none crc: 7 "
    "isvalid: true\n"
)
NO_OP = '{"type":"NO_OP_RECORD","version":0,"data":{}}'


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def every_record() -> bytes:
    return lzma.decompress(sample("every-record.txt.xz"))


def accounted(data: bytes) -> DumpScan:
    """Scan `data`: each byte is in one place, batches lie in the text, damage does not overlap them or itself."""
    scan = scan_dump(data)
    assert scan.parsed_bytes + scan.quarantined_bytes + scan.trailing_bytes == len(data)
    assert min(scan.parsed_bytes, scan.quarantined_bytes, scan.trailing_bytes) >= 0
    assert scan.quarantined_bytes == sum(d.length_bytes for d in scan.damage)
    assert (scan.note is not None) or scan.trailing_bytes == 0
    reached = 0
    for damage in scan.damage:
        assert damage.position >= reached
        assert damage.length_bytes > 0
        assert damage.reason
        assert damage.message
        reached = damage.position + damage.length_bytes
    assert reached <= len(data) - scan.trailing_bytes
    reached = 0
    for batch in (b for log in scan.logs for b in log.batches):
        assert batch.position >= reached
        assert batch.extent_bytes > 0
        reached = batch.end
        whole = [d for d in scan.damage if d.reason != "not_understood"]
        assert not any(d.position < batch.end and batch.position < d.position + d.length_bytes for d in whole)
    assert reached <= len(data)
    return scan


def items(data: bytes, batch: Batch, show_secrets: bool = False) -> list[Record | Damage]:
    """The records of `batch`. Offsets rise; each has a record, or one Damage, or a control line without its record."""
    found = list(read_dumped(data, batch, show_secrets))
    named: list[int] = []
    for item in found:
        assert batch.position <= item.position <= batch.end
        if isinstance(item, Damage) and item.reason == "missing_record":
            first, last = map(int, re.findall(r"\d+", item.message))
            assert first == item.offset
            named += range(first, last + 1)
        elif item.offset is not None:
            named.append(item.offset)
    assert named == sorted(set(named))
    assert set(named) <= set(range(batch.base_offset, batch.last_offset + 1))
    assert batch.is_control or len(named) == batch.record_count
    return found


def read_all(data: bytes) -> list[Record | Damage]:
    """Everything that the logs and snapshots of a text hold, and, of a text without batches, the bare payloads."""
    scan = accounted(data)
    if scan.unplaced:
        list(read_unplaced(data, *scan.unplaced))
    return [item for log in scan.logs for batch in log.batches for item in items(data, batch)]


def records_of(found: list[Record | Damage]) -> list[Record]:
    return [item for item in found if isinstance(item, Record)]


def row(record: Record) -> tuple[Any, ...]:
    """All that a table row is made of but the place."""
    return (replace(record, position=0), to_json(record.data))


def from_bytes(data: bytes) -> list[Record]:
    return [r for batch in scan_batches(data).batches for r in read_records(data, batch) if isinstance(r, Record)]


def batch_row(batch: Batch) -> Batch:
    return replace(batch, position=0, extent_bytes=0)


@pytest.fixture(scope="module")
def dumped() -> dict[str, tuple[bytes, bytes]]:
    """Name of a dump in tests/oracle -> (the text, the bytes of the file in the capture)."""
    pairs = {}
    for case, paths in groupby(DUMPS, key=lambda path: path.name.split("-", 1)[0]):
        with tarfile.open(capture(case)) as archive:
            for path in paths:
                _, node, rest = path.name.split("-", 2)
                named = rest.removesuffix(".dump-log.txt.gz") if ".checkpoint." in rest else f"{0:020d}.log"
                file = archive.extractfile(f"{case}/controllers/{node}/__cluster_metadata-0/{named}")
                assert file
                pairs[path.name] = (gzip.decompress(path.read_bytes()), file.read())
    return pairs


@pytest.mark.parametrize("name", [p.name for p in DUMPS])
def test_a_real_dump_gives_the_rows_of_the_bytes(name: str, dumped: dict[str, tuple[bytes, bytes]]) -> None:
    text, data = dumped[name]
    scan = accounted(text)
    (log,) = scan.logs
    assert (scan.damage, scan.note, scan.unplaced) == ([], None, None)
    assert [batch_row(b) for b in log.batches] == [batch_row(b) for b in scan_batches(data).batches]
    found = [item for batch in log.batches for item in items(text, batch)]
    expected = [r for r in from_bytes(data) if "skip" not in name or not r.is_control]
    assert [row(r) for r in records_of(found)] == [row(r) for r in expected]
    assert len(found) == len(expected)
    assert all(text.startswith(b"| ", r.position) for r in found)
    assert (log.lacks is None) == ("skip" not in name)
    stem = re.search(r"(\d{20})-(\d{10})\.checkpoint", name)
    assert log.snapshot == ((int(stem[1]), int(stem[2])) if stem else None)
    assert log.name == (stem[0] if stem else f"{0:020d}.log")


def test_what_skip_record_metadata_leaves_out_is_counted(dumped: dict[str, tuple[bytes, bytes]]) -> None:
    text, data = dumped["churn-3000-dump-log-skip-record-metadata.txt.gz"]
    controls = [b for b in scan_batches(data).batches if b.is_control]
    (log,) = scan_dump(text).logs
    count = sum(b.record_count for b in controls)
    assert log.lacks == (
        f"{count} control records of {len(controls)} batches are not in the text (--skip-record-metadata)"
    )
    assert [item for b in log.batches if b.is_control for item in read_dumped(text, b)] == []


@pytest.mark.parametrize("prefix", [b"", b"| payload: "])
def test_bare_payload_lines_hold_the_records_in_order(prefix: bytes, dumped: dict[str, tuple[bytes, bytes]]) -> None:
    text, data = dumped["elr-3000-dump-log-skip-record-metadata.txt.gz"]
    bare = b"".join(prefix + line[11:] + b"\n" for line in text.splitlines() if line.startswith(b"| payload: "))
    scan = accounted(bare)
    assert scan.logs == []
    assert scan.unplaced == (0, len(bare))
    found = [x for x in read_unplaced(bare, *scan.unplaced) if not isinstance(x, Damage)]
    expected = [r for r in from_bytes(data) if not r.is_control]
    assert [(t, v, to_json(d)) for _, t, v, d in found] == [(r.type, r.version, to_json(r.data)) for r in expected]
    assert [bare[at - 1 : at] for at, *_ in found[1:]] == [b"\n"] * (len(found) - 1)


@pytest.mark.parametrize("show_secrets", [False, True])
def test_every_record_type_and_version(show_secrets: bool) -> None:
    text, data = every_record(), (ORACLE / "every-record.log").read_bytes()
    found = [i for log in accounted(text).logs for b in log.batches for i in items(text, b, show_secrets)]
    expected = [i for b in scan_batches(data).batches for i in read_records(data, b, show_secrets)]
    assert len(found) == 740
    assert [row(i) for i in found if isinstance(i, Record)] == [row(i) for i in expected if isinstance(i, Record)]


@pytest.mark.parametrize("name", ["compressed", "torn", "logappend", "crc"])
def test_samples_give_the_rows_of_their_bytes(name: str) -> None:
    text, data = sample(f"{name}.txt"), sample(f"{name}.log")
    assert [row(i) for i in records_of(read_all(text))] == [row(r) for r in from_bytes(data)]
    (log,) = scan_dump(text).logs
    ours = [(b.key, b.record_count, b.codec, b.log_append_time, b.size_bytes) for b in log.batches]
    theirs = scan_batches(data).batches
    assert ours == [(b.key, b.record_count, b.codec, b.log_append_time, b.size_bytes) for b in theirs]


def test_secrets_are_redacted_by_default() -> None:
    text = sample("compressed.txt")
    (log,) = scan_dump(text).logs
    shown = [to_json(r.data) for b in log.batches for r in records_of(items(text, b, show_secrets=True))]
    assert sum("hunter2" in t for t in shown) == 5
    assert not any("hunter2" in str(i) for i in read_all(text))
    bare = b'{"type":"CONFIG_RECORD","version":0,"data":{"resourceType":2,"resourceName":"t","name":"a.password",'
    bare += b'"value":"hunter2"}}\n'
    assert "hunter2" not in str(list(read_unplaced(bare, 0, len(bare))))
    assert "hunter2" in str(list(read_unplaced(bare, 0, len(bare), show_secrets=True)))
    bad = bare.replace(b'"hunter2"', b'["hunter2"]')
    (damage,) = read_unplaced(bad, 0, len(bad))
    assert isinstance(damage, Damage)
    assert "hunter2" not in damage.message


def test_a_batch_that_the_tool_calls_invalid_is_quarantined_with_its_records() -> None:
    text = sample("crc.txt")
    scan = accounted(text)
    (damage,) = scan.damage
    stretch = text[damage.position : damage.position + damage.length_bytes]
    assert (damage.reason, damage.offset) == ("crc_mismatch", 1)
    assert stretch.startswith(b"baseOffset: 1 ")
    assert stretch.count(b"\n") == 3
    assert [b.base_offset for b in scan.logs[0].batches] == [0, 3, 5]


def found_in_samples() -> list[dict[str, Any]]:
    """Of each text its logs, damage and records."""
    found: list[dict[str, Any]] = []
    for path in sorted(SAMPLES.glob("*.txt")):
        scan = accounted(path.read_bytes())
        for log in scan.logs:
            bases = [batch.base_offset for batch in log.batches]
            found.append({"text": path.name, "log": log.name, "at": log.snapshot, "batches": bases, "lacks": log.lacks})
        found += [{"text": path.name, **asdict(damage)} for damage in scan.damage]
        found += [{"text": path.name, "note": scan.note}] if scan.note else []
        found += [{"text": path.name, **asdict(item)} for item in read_all(path.read_bytes())]
    return [json.loads(json.dumps(line)) for line in found]


def test_what_is_found_in_the_samples() -> None:
    assert found_in_samples() == cases("dumps")


SNAPSHOT = gzip.decompress(
    (ORACLE / "elr-3000-00000000000000000000-0000000000.checkpoint.dump-log.txt.gz").read_bytes()
)
TOO_LARGE = b"Snapshot end offset: 9999999999999999999, epoch: 1\n"
OF_A_TOPIC = HEAD.replace("producerId: -1", "producerId: 7")


@pytest.mark.parametrize(
    "text",
    [
        f"Dumping /var/lib/kafka/orders-0/{0:020d}.log\nLog starting offset: 0\n" + HEAD,
        "Log starting offset: 0\n" + OF_A_TOPIC + "| offset: 0 CreateTime: 1 keySize: 1 valueSize: 9 payload: x\n",
        OF_A_TOPIC,
    ],
)
def test_a_dump_of_a_topics_log_is_not_taken_for_the_metadata_log(text: str) -> None:
    """Its leader epochs and offsets would seem to replace the metadata log's."""
    data = text.format(base=0, last=0, count=1, control="false", size=100).encode()
    scan = accounted(data)
    assert [log.batches for log in scan.logs] == [[]]
    assert ([d.reason for d in scan.damage], scan.quarantined_bytes) == (["not_metadata_log"], len(data))


def test_a_dump_of_the_metadata_log_from_any_folder_counts() -> None:
    head = HEAD.format(base=0, last=0, count=1, control="false", size=100)
    scan = accounted(f"Dumping /tmp/node-1/{0:020d}.log\nLog starting offset: 0\n{head}{full(0)}\n".encode())
    assert ([len(log.batches) for log in scan.logs], scan.damage) == ([1], [])


def test_a_snapshot_is_used_whole_or_not_at_all() -> None:
    rows = SNAPSHOT.splitlines(keepends=True)
    bad = {
        "no footer": rows[:-2],
        "no header": [*rows[:2], *rows[-2:]],
        "a record is missing": [*rows[:4], *rows[5:]],
        "cut in the last line": [*rows[:-1], rows[-1][:-4]],
        "the footer's record is missing": rows[:-1],
        "noise": [*rows[:5], b"noise\n", *rows[5:]],
        "wrong crc": [*rows[:2], rows[2].replace(b"isvalid: true", b"isvalid: false"), *rows[3:]],
        "empty": rows[:2],
        "no end offset": rows[2:],
        "an end offset beyond 64 bits": [b"Dumping a.checkpoint\n", TOO_LARGE, *rows[2:]],
    }
    for why, text in bad.items():
        data = b"".join(text)
        scan = accounted(data)
        assert [(d.reason, d.position, d.length_bytes) for d in scan.damage] == [("bad_snapshot", 0, len(data))], why
        assert [log.batches for log in scan.logs] == [[]], why
    (damage,) = accounted(sample("no-footer.txt")).damage
    assert damage.reason == "bad_snapshot"


def test_a_lost_dumping_line_costs_only_the_folder() -> None:
    (log,) = accounted(SNAPSHOT[SNAPSHOT.index(b"\n") + 1 :]).logs
    assert (log.name, log.snapshot, len(log.batches)) == (f"{0:020d}-{0:010d}.checkpoint", (0, 0), 2)
    text = sample("several.txt").replace(b"Dumping torn/00000000000000000000.log\n", b"")
    assert [log.name for log in accounted(text).logs][-1] == f"{0:020d}.log"
    assert len(accounted(text).logs) == 6
    headless = sample("crc.txt").split(b"\n", 2)[2]
    assert [(log.name, len(log.batches)) for log in accounted(headless).logs] == [("", 3)]


@pytest.mark.parametrize("name", ["torn.txt", "skip.txt", "unknown.txt"])
def test_cut_at_every_byte_what_is_read_is_a_prefix(name: str) -> None:
    text = sample(name)
    text = text[: text.index(b"Dumping snap")] if name == "skip.txt" else text
    whole = [row(r) for r in records_of(read_all(text))]
    counts = set()
    for end in range(len(text)):
        scan = accounted(text[:end])
        assert end < text.index(b"\n") or all(d.reason == "crc_mismatch" for d in scan.damage)
        found = [row(r) for log in scan.logs for b in log.batches for r in records_of(items(text[:end], b))]
        assert found == whole[: len(found)]
        counts.add(len(found))
    assert counts == set(range(len(whole) + 1))


def test_a_cut_line_is_trailing_and_its_offset_is_named() -> None:
    text = sample("crc.txt")[:-9]
    scan = accounted(text)
    assert scan.note == f"the text is cut off in the line at byte {len(text) - scan.trailing_bytes}"
    last = items(text, scan.logs[0].batches[-1])[-1]
    assert isinstance(last, Damage)
    assert (last.reason, last.offset) == ("cut_line", 6)
    scan = accounted(sample("crc.txt")[:-1])  # only the line end is gone: nothing is cut
    assert scan.trailing_bytes == 0


def one_batch(lines: list[str], count: int | None = None, end: bool = False) -> list[Record | Damage]:
    """What becomes of these lines in a batch of `count`, before another batch (or, `end`, at the text's end)."""
    count = len(lines) if count is None else count
    head = {"base": 10, "last": 9 + count, "count": count, "size": 61 + 7 * count, "control": "false"}
    text = HEAD.format(**head) + "".join(line + "\n" for line in lines)
    text += "" if end else HEAD.format(base=10 + count, last=10 + count, count=1, size=99, control="true")
    data = text.encode("utf-8", "surrogateescape")
    (log,) = accounted(data).logs
    return items(data, log.batches[0])


def full(offset: int, payload: str = NO_OP) -> str:
    return (
        f"| offset: {offset} CreateTime: 1795000000000 keySize: -1 valueSize: 4 sequence: -1 headerKeys: [] "
        f"payload: {payload}"
    )


def outcomes(found: list[Record | Damage]) -> list[tuple[int | None, str]]:
    return [(i.offset, i.reason if isinstance(i, Damage) else "ok") for i in found]


OK2, OK3, OK4 = ([(10 + i, "ok") for i in range(n)] for n in (2, 3, 4))


def test_lines_that_are_lost_doubled_or_garbled() -> None:
    good = [full(10 + i) for i in range(4)]
    short = [f"| payload: {NO_OP}"] * 4
    doubt, gap = "unplaced_record", "missing_record"
    assert outcomes(one_batch(good)) == OK4
    assert outcomes(one_batch([*good[:2], *good[3:]], 4)) == [*OK2, (12, gap), (13, "ok")]
    assert outcomes(one_batch([*good[:2], full(17), good[3]])) == [*OK2, (12, doubt), (13, "ok")]
    assert outcomes(one_batch([*good[:3], full(12)])) == [*OK3, (13, doubt)]
    assert outcomes(one_batch([good[0], good[1], good[1], *good[2:]], 4)) == [
        (10, "ok"), (11, doubt), (None, doubt), (12, "ok"), (13, "ok")
    ]  # fmt: skip
    assert outcomes(one_batch([good[0], full(99), *good[1:]], 4)) == [(10, "ok"), (None, doubt), *OK4[1:]]
    assert outcomes(one_batch([*good[:2], "% garbled", good[3]])) == [*OK2, (12, gap), (13, "ok")]
    assert outcomes(one_batch(short)) == OK4
    assert outcomes(one_batch([*short[:2], "| paiload", short[3]])) == [*OK2, (12, "bad_record_line"), (13, "ok")]
    assert outcomes(one_batch([*short[:2], "% garbled", short[3]])) == [(o, doubt) for o in (10, 11, 12)] + [(13, gap)]
    assert outcomes(one_batch(short[:3], 4)) == [(o, doubt) for o in (10, 11, 12)] + [(13, gap)]
    assert outcomes(one_batch(short[:3], 4, end=True)) == [*OK3, (13, gap)]
    cut = one_batch([short[0], "% garbled", short[0]], 4, end=True)
    assert outcomes(cut) == [(10, doubt), (11, doubt), (12, gap)]
    assert outcomes(one_batch([*short, short[0]], 4)) == [(o, doubt) for o in (10, 11, 12, 13, None)]


def test_a_count_that_lies_costs_one_damage() -> None:
    found = one_batch([full(10)], 90_000)
    assert outcomes(found) == [(10, "ok"), (11, "missing_record")]


def test_a_count_that_its_size_cannot_hold() -> None:
    (damage,) = accounted(HEAD.format(base=0, last=8, count=9, size=61 + 62, control="false").encode()).damage
    assert damage.reason == "bad_count"
    assert accounted(HEAD.format(base=0, last=8, count=9, size=61 + 63, control="false").encode()).damage == []


def test_a_tagged_field_with_its_default_is_left_out_as_in_the_bytes() -> None:
    fields = '"partitionId":3,"topicId":"AAECAwQFBgcICQoLDA0ODw","leader":-2,"isr":[1]'
    payload = f'{{"type":"PARTITION_CHANGE_RECORD","version":2,"data":{{{fields}}}}}'
    (item,) = records_of(one_batch([full(10, payload)]))
    assert to_json(item.data) == '{"partitionId":3,"topicId":"AAECAwQFBgcICQoLDA0ODw","isr":[1]}'


NOISE = b'Exception in thread "main" java.lang.RuntimeException: x\n\tat org.apache.kafka.X.y(X.java:1)\n'
NOISE += b"Caused by: java.lang.X\n\t... 7 more\nSLF4J: Defaulting\nFound 5 invalid bytes at the end of 0.log\n"
NOISE += b"Non-consecutive offsets in /x/0.log\n  1 is followed by 5\nPicked up JAVA_TOOL_OPTIONS: -Xmx1g\n\n"
NOISE += b"Ignoring unknown file a.txt\nOpenJDK 64-Bit Server VM warning: Option X was deprecated\n"


def test_stderr_between_the_lines_changes_nothing() -> None:
    for name in ("torn.txt", "skip.txt", "several.txt"):
        lines = sample(name).splitlines(keepends=True)
        clean = [row(r) for r in records_of(read_all(sample(name)))]
        for index in range(len(lines)):
            noisy = b"".join([*lines[:index], NOISE, *lines[index:]])
            assert accounted(noisy).quarantined_bytes == accounted(sample(name)).quarantined_bytes + (
                len(NOISE) if within_bad_batch(lines, index) else 0
            )
            assert [row(r) for r in records_of(read_all(noisy))] == clean


def within_bad_batch(lines: list[bytes], index: int) -> bool:
    before = [line for line in lines[:index] if line.startswith((b"baseOffset", b"Dumping"))]
    return bool(before) and before[-1].endswith(b"isvalid: false\n")


def test_line_ends_of_windows_and_a_byte_order_mark() -> None:
    for name in ("several.txt", "skip.txt"):
        text = sample(name)
        clean = [row(r) for r in records_of(read_all(text))]
        changed = b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")
        assert [row(r) for r in records_of(read_all(changed))] == clean
    (damage,) = accounted("Dumping x.log\n".encode("utf-16")).damage
    assert "UTF-16" in damage.message


def topic(name: str = '"a"', rest: str = "") -> str:
    return f'{{"type":"TOPIC_RECORD","version":0,"data":{{"name":{name},"topicId":"AAECAwQFBgcICQoLDA0ODw"{rest}}}}}'


def quota(value: str) -> str:
    return (
        f'{{"type":"CLIENT_QUOTA_RECORD","version":0,"data":{{"entity":[],"key":"k","value":{value},"remove":false}}}}'
    )


def broker(broker_id: str, epoch: str = "7") -> str:
    return f'{{"type":"UNREGISTER_BROKER_RECORD","version":0,"data":{{"brokerId":{broker_id},"brokerEpoch":{epoch}}}}}'


BAD = [(case["reason"], case["payload"]) for case in cases("dump_payloads")]
BAD += [("bad_json", "[" * 200_000), ("bad_json", '{"a":' * 200_000), ("bad_json", broker("9" * 5000))]
BAD += [("bad_payload", topic('"' + "x" * 40_000 + '"'))]


@pytest.mark.parametrize(("reason", "payload"), BAD, ids=range(len(BAD)))
def test_a_payload_that_kafka_would_not_print(reason: str, payload: str) -> None:
    found = one_batch([full(10), full(11, payload), full(12)])
    assert outcomes(found) == [(10, "ok"), (11, reason), (12, "ok")]
    bare = f"{NO_OP}\n| payload: {payload}\n{NO_OP}\n".encode("utf-8", "surrogateescape")
    scan = accounted(bare)
    assert scan.unplaced == (0, len(bare))
    ends = [x.reason if isinstance(x, Damage) else "ok" for x in read_unplaced(bare, *scan.unplaced)]
    assert ends == ["ok", reason, "ok"]


LINES = cases("dump_lines")


@pytest.mark.parametrize("case", [case for case in LINES if case["line"] == "record"])
def test_a_record_line_that_no_kraft_controller_causes(case: dict[str, str]) -> None:
    changed = full(11).replace(case["old"], case["new"])
    assert outcomes(one_batch([full(10), changed])) == [(10, "ok"), (11, case["reason"])]


def test_exact_numbers_and_special_floats() -> None:
    big = (1 << 63) - 1
    (item,) = records_of(one_batch([full(10, broker("-1", str(big)))]))
    assert to_json(item.data) == f'{{"brokerId":-1,"brokerEpoch":{big}}}'
    for value in ("0.1", "1.0E10", "4.9E-324", '"NaN"', '"-Infinity"', "-0.0"):
        (item,) = records_of(one_batch([full(10, quota(value))]))
        assert json.loads(to_json(item.data))["value"] == json.loads(value)


@pytest.mark.parametrize("case", [case for case in LINES if case["line"] == "batch"])
def test_a_damaged_batch_line_takes_its_records_with_it(case: dict[str, str]) -> None:
    text = sample("crc.txt").replace(b"isvalid: false", b"isvalid: true")
    at = text.index(b"baseOffset: 3")
    text = text[:at] + text[at:].replace(case["old"].encode(), case["new"].encode(), 1)
    (damage,) = accounted(text).damage
    assert (damage.position, damage.offset) == (at, 3)
    assert text[at : at + damage.length_bytes].count(b"\n") == 3
    assert [i.offset for i in read_all(text)] == [0, 1, 2, 5, 6]


def test_a_leader_change_that_an_older_release_does_not_print() -> None:
    text = sample("crc.txt")
    line = re.search(rb"LeaderChange: .*", text)
    assert line
    older = text.replace(line[0], b"controlType: LEADER_CHANGE(2)")
    (log,) = accounted(older).logs
    assert log.lacks is not None
    assert log.lacks.startswith("1 control records of 1 batches are not in the text")
    assert [row(i) for i in records_of(read_all(older))] == [row(i) for i in records_of(read_all(text))[1:]]
    assert not any(isinstance(i, Damage) for i in read_all(older))


def test_the_longest_line() -> None:
    line = b"x" * (MAX_LINE_BYTES + 1)
    scan = accounted(sample("torn.txt") + b"| " + line + b"\n")
    assert [d.reason for d in scan.damage] == ["not_understood"]
    assert outcomes(one_batch([full(10), "| " + "x" * MAX_LINE_BYTES])) == [(10, "ok"), (11, "missing_record")]


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\0" * 99, b"\xff" * 99, b"|", b"{", b"{\n", b"Dumping", b"baseOffset: "]
)
def test_texts_that_are_nothing(data: bytes) -> None:
    scan = accounted(data)
    assert not any(log.batches for log in scan.logs)
    assert read_all(data) == []


def test_payloads_outside_the_batches_of_a_dump_are_quarantined() -> None:
    text = sample("torn.txt") + b"noise\n"
    scan = accounted(f"{NO_OP}\n".encode() * 2 + text)
    assert scan.unplaced is None
    size = 2 * len(NO_OP) + 2
    spans = [("unplaced_payload", 0, size), ("not_understood", size + len(text) - 6, 6)]
    assert [(d.reason, d.position, d.length_bytes) for d in scan.damage] == spans


MUTANTS = [sample(n) for n in ("several.txt", "skip.txt", "control.txt", "deep.txt")] + [SNAPSHOT, NO_OP.encode() * 3]
PIECES = [b"\n", b"\0", b"|", b"{", b"baseOffset: ", b"Dumping a.log\n", b"isvalid: ", b"\xff", b'"', b"9" * 25]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A real text with stretches cut out, doubled, moved or overwritten."""
    text = draw(st.sampled_from(MUTANTS))
    for _ in range(draw(st.integers(1, 6))):
        at, length = draw(st.integers(0, len(text))), draw(st.integers(0, 400))
        new = draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=8), st.just(text[at : at + length] * 2)))
        text = text[:at] + new + text[at + length :]
    return text


@FUZZ
@given(mutated())
def test_no_mutation_breaks_the_account(data: bytes) -> None:
    for item in read_all(data):
        assert isinstance(item, (Record, Damage))


@FUZZ
@given(st.data())
def test_a_flipped_byte_never_makes_a_wrong_record(data: st.DataObject) -> None:
    """A flip may change a value (text has no checksum), never a record's offset, nor add or reorder one."""
    text = sample("torn.txt")
    at = data.draw(st.integers(0, len(text) - 1))
    changed = writer.flip(text, at, data.draw(st.integers(1, 255)))
    ours = {i.position: i.offset for i in records_of(read_all(text))}
    for record in records_of(read_all(changed)):
        if changed[:at].count(b"\n") == text[:at].count(b"\n") and record.position in ours:
            line = text.rindex(b"\n", 0, record.position)
            in_head = at < line and text.rfind(b"baseOffset", 0, at) > text.rfind(b"\n", 0, at)
            assert record.offset == ours[record.position] or in_head


if __name__ == "__main__":
    write("dumps", found_in_samples())
