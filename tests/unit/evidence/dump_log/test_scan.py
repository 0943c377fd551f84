"""kafka-dump-log's text gives the rows that the bytes give, and says of every byte and offset why not.

Golden: tests/unit/golden/dump_texts.jsonl has what is found in texts: a sample of tests/samples/dump-log, edits of it
(after what, old, new), how many bytes are cut off its end; lines (`spelled`).
"""

import gzip
import lzma
import re
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.dump_log.lines import MAX_LINE_BYTES
from evidence.dump_log.records import batches_in, read_dumped, read_unplaced
from evidence.dump_log.scan import DumpScan, scan_dump
from evidence.errors import Damage
from evidence.metadata_log.rows import to_json
from evidence.wire.batches import Batch, scan_batches
from evidence.wire.records import Record, read_records
from tests.support import writer
from tests.support.golden import filled
from tests.support.paths import ORACLE, ROOT, captured_file
from tests.unit.evidence.accounting import FUZZ

SAMPLES = ROOT / "tests" / "samples" / "dump-log"
DUMPS = sorted(ORACLE.glob("*dump-log*.txt.gz"))
HEAD = (
    "baseOffset: {base} lastOffset: {last} count: {count} baseSequence: -1 lastSequence: -1 producerId: -1 "
    "producerEpoch: -1 partitionLeaderEpoch: 1 isTransactional: false isControl: {control} deleteHorizonMs: "
    "OptionalLong.empty position: 0 CreateTime: 1795000000000 size: {size} magic: 2 compresscodec: none crc: 7 "
    "isvalid: true\n"
)
FULL = "| offset: {} CreateTime: 1795000000000 keySize: -1 valueSize: 4 sequence: -1 headerKeys: [] payload: {}\n"
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
        assert batches_in(data, batch.position, batch.end) == [batch]
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
    for path in DUMPS:
        case, node, rest = path.name.split("-", 2)
        named = rest.removesuffix(".dump-log.txt.gz") if ".checkpoint." in rest else f"{0:020d}.log"
        data = captured_file(case, f"controllers/{node}/__cluster_metadata-0/{named}")
        pairs[path.name] = (gzip.decompress(path.read_bytes()), data)
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


def spelled(line: str) -> str:
    """`@batch 10 13 4` (first and last offset, count; then what differs), `@10` or `@10 PAYLOAD` (a record), `@short`
    (one without its offset), `@no_op` (its payload), or the line itself."""
    word, _, rest = line.partition(" ")
    if word == "@batch":
        first, last, count, *more = rest.split(" ")
        changes = dict(change.split("=", 1) for change in more)
        size = changes.pop("size", 61 + 7 * int(count))
        text = HEAD.format(base=first, last=last, count=count, size=size, control=changes.pop("control", "false"))
        for name, value in changes.items():
            text = re.sub(rf"\b{name}: \S+", f"{name}: {value}", text)
        return text
    if re.fullmatch(r"@\d+", word):
        return FULL.format(word[1:], rest or NO_OP)
    return {"@short": f"| payload: {NO_OP}", "@no_op": NO_OP}.get(line, line) + "\n"


def text_of(case: dict[str, Any]) -> bytes:
    text = sample(case["sample"]).decode() if "sample" in case else ""
    for after, old, new in case.get("edits", []):
        begin = text.index(after)
        assert old in text[begin:]
        text = text[:begin] + text[begin:].replace(old, new, 1)
    text += "".join(map(spelled, case.get("lines", [])))
    return text[: len(text) - case.get("cut", 0)].encode("utf-8", "surrogateescape")


def shown(item: Any) -> str:
    if isinstance(item, Damage):
        return f"{item.offset} {item.reason}: {item.message}"
    name, data = (item.type, item.data) if isinstance(item, Record) else (item[1], item[3])
    return f"{item.offset if isinstance(item, Record) else '-'} {name} {to_json(data)}"


@filled("dump_texts")
def test_what_is_found_in_a_text(case: dict[str, Any]) -> dict[str, Any]:
    text = text_of(case)
    scan = accounted(text)
    logs = [[g.name, g.snapshot, [b.base_offset for b in g.batches], g.lacks] for g in scan.logs]
    items = [*read_all(text), *(read_unplaced(text, *scan.unplaced) if scan.unplaced else ())]
    told = {"logs": logs, "damage": [asdict(d) for d in scan.damage], "note": scan.note, "items": [*map(shown, items)]}
    return {**case, "found": told}


SNAPSHOT = gzip.decompress(
    (ORACLE / "elr-3000-00000000000000000000-0000000000.checkpoint.dump-log.txt.gz").read_bytes()
)
TOO_LARGE = b"Snapshot end offset: 9999999999999999999, epoch: 1\n"


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


@pytest.mark.parametrize("name", ["torn.txt", "skip.txt", "unknown.txt"])
def test_cut_anywhere_what_is_read_is_a_prefix(name: str) -> None:
    text = sample(name)
    text = text[: text.index(b"Dumping snap")] if name == "skip.txt" else text
    whole = [row(r) for r in records_of(read_all(text))]
    counts = set()
    for end in {*range(0, len(text), 1 + len(text) // 1500), len(text) - 1}:  # a line has more bytes
        scan = accounted(text[:end])
        assert end < text.index(b"\n") or all(d.reason == "crc_mismatch" for d in scan.damage)
        found = [row(r) for log in scan.logs for b in log.batches for r in records_of(items(text[:end], b))]
        assert found == whole[: len(found)]
        counts.add(len(found))
    assert counts == set(range(len(whole) + 1))


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


BROKER = '{"type":"UNREGISTER_BROKER_RECORD","version":0,"data":{"brokerId":%s,"brokerEpoch":7}}'
TOPIC = '{"type":"TOPIC_RECORD","version":0,"data":{"name":"%s","topicId":"AAECAwQFBgcICQoLDA0ODw"}}'


@pytest.mark.parametrize("payload", ["[" * 200_000, '{"a":' * 200_000, BROKER % ("9" * 5000), TOPIC % ("x" * 40_000)])
def test_a_payload_of_any_size_is_damage(payload: str) -> None:
    lines = ["@batch 10 12 3", "@10", f"@11 {payload}", "@12"]
    assert [isinstance(item, Damage) for item in read_all(text_of({"lines": lines}))] == [False, True, False]
    bare = text_of({"lines": ["@no_op", f"| payload: {payload}", "@no_op"]})
    assert [isinstance(item, Damage) for item in read_unplaced(bare, 0, len(bare))] == [False, True, False]


def test_the_longest_line() -> None:
    line = b"x" * (MAX_LINE_BYTES + 1)
    scan = accounted(sample("torn.txt") + b"| " + line + b"\n")
    assert [d.reason for d in scan.damage] == ["not_understood"]
    found = read_all(text_of({"lines": ["@batch 10 11 2", "@10", "| " + "x" * MAX_LINE_BYTES, "@batch 12 12 1"]}))
    assert [i.reason for i in found if isinstance(i, Damage)] == ["missing_record"] * 2


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
