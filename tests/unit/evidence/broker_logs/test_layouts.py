"""Layouts: log4j patterns, what containers and archives put around a line, JSON, tables; and which a file has."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.broker_logs.layouts import KNOWN_PATTERNS, EventHead, Layout, csv_layout, detect, json_layout, of_pattern
from evidence.broker_logs.times import date_pattern, quarter_hours, read_iso, zone_offset_ms
from tests.unit.evidence.accounting import FUZZ
from tests.unit.evidence.broker_logs.support import SAMPLES

AT = 1795219200123  # 2026-11-21 00:00:00.123
INDIA = 19_800_000
TEXT = "[2026-11-21 00:00:00,123] WARN [Log partition=a-0, dir=/d] Truncating to offset 3 (kafka.log.UnifiedLog)"
MESSAGE = "[Log partition=a-0, dir=/d] Truncating to offset 3"
KNOWN = [of_pattern(p) for p in KNOWN_PATTERNS]


def begins(layout: Layout, line: bytes) -> bool:
    """As the scan of a chunk finds it: by RE2."""
    return pc.match_substring_regex(pa.array([line], pa.large_binary()), pattern=layout.head)[0].as_py()


def heads(text: str) -> tuple[Layout, EventHead]:
    layout = detect((text + "\n").encode())
    assert layout is not None
    last = text.split("\n")[-1].encode()
    head = layout.read(last)
    assert head is not None
    assert begins(layout, last)
    return layout, head


@pytest.mark.parametrize(
    ("prefix", "utc_ms"),
    [
        ("", None),
        ("2026-11-20T18:30:00.123456789Z ", AT - INDIA),
        ("2026-11-21T00:00:00.123+05:30 ", AT - INDIA),
        ("2026-11-20T18:30:00.123456789Z stdout F ", AT - INDIA),
        ("[pod/kafka-0/kafka] ", None),
        ("[pod/kafka-0/kafka] 2026-11-20T18:30:00.123456789Z ", AT - INDIA),
        ("kafka-1  | ", None),
        ("Nov 21 00:00:00 host-1 kafka-server-start.sh[1234]: ", None),
        ("Nov  1 00:00:00 host-1 kafka[1]: ", None),
        ("2026-11-21T00:00:00+0530 host-1 kafka[1234]: ", AT - INDIA),
        # The runtime reads a line a little later; what was read much later shows no zone.
        ("2026-11-20T18:30:00.125456789Z ", AT - INDIA),
        ("2026-11-20T18:30:59.123Z stdout F ", AT - INDIA),
        ("2026-11-20T18:35:00.123Z ", None),
        ("<14>1 2026-11-21T00:00:00.1+05:30 host kafka 12 - - ", None),
    ],
)
def test_what_stands_before_a_line(prefix: str, utc_ms: int | None) -> None:
    _, head = heads(prefix + TEXT)
    assert head == EventHead(AT, utc_ms, "WARN", "kafka.log.UnifiedLog", MESSAGE)


def test_a_line_that_a_runtime_cut_is_not_read() -> None:
    line = ("2026-11-20T18:30:00.123456789Z stdout P " + TEXT[:60]).encode()
    assert begins(KNOWN[0], line)
    assert KNOWN[0].read(line) is None


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("%d %p %m (%c) [%t]%n", "2026-11-21 00:00:00,123 WARN x (y) z (kafka.A) [main-1]"),
        ("%d{ISO8601} %p %m (%c) [%t]%n", "2026-11-21T00:00:00,123 WARN x (y) z (kafka.A) [main]"),
        (
            "%d{yyyy-MM-dd HH:mm:ss.SSS} %-5p [%t] %c{1}:%L - %m%n",
            "2026-11-21 00:00:00.123 WARN  [main] A:12 - x (y) z",
        ),
        ("%d{dd/MM/yyyy HH:mm:ss,SSS} %p %m%n", "21/11/2026 00:00:00,123 WARN x (y) z"),
        ("%d{yyyyMMdd'T'HHmmssSSS} %p %m%n", "20261121T000000123 WARN x (y) z"),
        ("%d{UNIX_MILLIS} %p %m%n", "1795219200123 WARN x (y) z"),
        ("%p [%d] 100%% %X{a} %m%n", "WARN [2026-11-21 00:00:00,123] 100% b x (y) z"),
        (r"(?P<time>\S+ \S+)\|(?P<level>\w+)\|(?P<message>.*)", "2026-11-21 00:00:00,123|WARN|x (y) z"),
    ],
)
def test_patterns_of_a_site(pattern: str, line: str) -> None:
    layout = of_pattern(pattern)
    assert begins(layout, line.encode())
    assert not begins(layout, b"\tat kafka.A.b(A.scala:12)")
    head = layout.read(line.encode())
    assert head is not None
    assert (head.logged_at_ms, head.level, head.message) == (AT, "WARN", "x (y) z")
    assert head.logger in (None, "kafka.A", "A")
    assert detect((line + "\n").encode(), [pattern]) is not None


# default-logging/KafkaCluster.properties of Strimzi's cluster operator at commit 8541da1e prints whole seconds.
STRIMZI = "2026-11-21 00:00:00 INFO  [main] Partition:66 - [Partition orders-0 broker=1] ISR updated to 1,2"


@pytest.mark.parametrize(
    ("text", "at", "utc"),
    [
        (STRIMZI, None, None),
        ("2026-11-20T18:30:00Z " + STRIMZI, None, None),
        # The time of a container or an archive is finer.
        ("2026-11-20T18:30:00.123456789Z " + STRIMZI, AT, AT - INDIA),
        ("2026-11-21T00:00:00.123+05:30 stdout F " + STRIMZI, AT, AT - INDIA),
        (json.dumps({"time": "2026-11-20T18:30:00.7Z", "log": STRIMZI}), AT + 577, AT + 577 - INDIA),
        (json.dumps({"time": "2026-11-20T18:30:00Z", "message": STRIMZI}), None, None),
        *(
            (json.dumps({"message": "m", name: value}), None, None)
            for name, value in (
                ("@timestamp", "2026-11-21T00:00:00Z"),
                ("timestamp", 1795219200),
                ("instant", {"epochSecond": 1795219200}),
            )
        ),
        # What an archive took in late shows no zone.
        (json.dumps({"@timestamp": "2026-11-20T18:33:00.123Z", "message": STRIMZI}), None, None),
        (json.dumps({"@timestamp": "2026-11-20T19:33:00.123Z", "message": TEXT}), AT, None),
    ],
)
def test_whole_seconds_are_no_time_of_a_line(text: str, at: int | None, utc: int | None) -> None:
    """A time that may be a second too early would show what a broker did before something that came first."""
    _, head = heads(text)
    assert (head.logged_at_ms, head.logged_at_utc_ms) == (at, utc)
    assert head.is_rounded or at is not None


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"(?P<time>\S+ \S+) (?P<message>.*)", "2026-11-21 00:00:00 x"),
        # log4j 1 prints 5 ms as `5`.
        ("%d{yyyy-MM-dd HH:mm:ss,S} %m%n", "2026-11-21 00:00:00,5 x"),
    ],
)
def test_whole_seconds_of_a_sites_pattern_are_no_time_of_a_line(pattern: str, line: str) -> None:
    assert of_pattern(pattern).read(line.encode()) == EventHead(None, None, None, None, "x", True)


def test_a_zone_that_a_pattern_prints_or_names() -> None:
    stamped = of_pattern("%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %p %m%n").read(b"2026-11-21T00:00:00.123+05:30 INFO x")
    assert stamped == EventHead(AT, AT - INDIA, "INFO", None, "x")
    named = of_pattern("%d{ISO8601}{UTC} %p %m%n").read(b"2026-11-21 00:00:00,123 INFO x")
    assert named == EventHead(AT, AT, "INFO", None, "x")


@pytest.mark.parametrize(
    "pattern",
    [
        *("%d %p %c%n", "%p %m%n", "%d{HH:mm:ss} %m", "%d{EEE yyyy-MM-dd HH:mm:ss} %m", "(?P<message>", "(?P<x>a)"),
        "(?P<message>(?!x).*)",
    ],
)
def test_patterns_that_say_too_little(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|format"):
        of_pattern(pattern)


def test_what_a_pattern_prints_twice_is_read_once() -> None:
    layout = of_pattern("%d %p %d{UNIX_MILLIS} %d %p %c %c %m [%c] [%c]%n")
    at = b"2026-11-21 00:00:00,123"
    read = layout.read(at + b" INFO 1795219200123 " + at + b" WARN a.B c.D x [e.F] [g.H]")
    assert read == EventHead(AT, AT, "INFO", "a.B", "x")


JSON_OF_KAFKA: list[dict[str, object]] = [
    {
        "instant": {"epochSecond": 1795219200, "nanoOfSecond": 123456789},
        "level": "WARN",
        "loggerName": "l",
        "message": "m",
    },
    {"timeMillis": 1795219200123, "level": "WARN", "loggerName": "l", "message": "m"},
    {"@timestamp": "2026-11-21T00:00:00.123Z", "log.level": "WARN", "message": "m", "log.logger": "l"},
    {"@timestamp": "2026-11-21T00:00:00.123Z", "log": {"level": "WARN", "logger": "l"}, "message": "m"},
    {"@timestamp": "2026-11-21T00:00:00.123+0000", "level": "WARN", "message": "m", "logger_name": "l"},
    {"version": "1.1", "short_message": "m", "timestamp": 1795219200.123, "level": "WARN", "_logger": "l"},
    {"__REALTIME_TIMESTAMP": "1795219200123456", "MESSAGE": "m", "level": "WARN", "logger": "l"},
    {"ts": 1795219200123456789, "msg": "m", "level": "WARN", "logger": "l"},
]


@pytest.mark.parametrize("fields", JSON_OF_KAFKA)
def test_json_layouts(fields: dict[str, object]) -> None:
    layout, head = heads(json.dumps(fields))
    assert (layout.name, head) == ("json", EventHead(AT, AT, "WARN", "l", "m"))


@pytest.mark.parametrize(
    "fields",
    [
        {"log": TEXT + "\n", "stream": "stdout", "time": "2026-11-20T18:30:00.123456789Z"},
        {"timestamp": "2026-11-20T18:30:00.123Z", "message": TEXT, "labels": {"pod": "kafka-0"}},
        {"_time": "2026-11-21T00:00:00.123+05:30", "_raw": TEXT + "\n\tat x\n"},
        {"@timestamp": "2026-11-20T18:30:07.900Z", "message": TEXT},
    ],
)
def test_a_line_of_kafkas_in_json(fields: dict[str, object]) -> None:
    _, head = heads(json.dumps(fields))
    assert head == EventHead(AT, AT - INDIA, "WARN", "kafka.log.UnifiedLog", MESSAGE)


@pytest.mark.parametrize("pattern", KNOWN_PATTERNS)
def test_a_line_of_many_spaces_takes_no_square_of_their_number(pattern: str) -> None:
    """A megabyte of them took hours."""
    for spaces in ("x" + " " * 900_000 + "y", "x (k.A)" + " " * 900_000):
        head = of_pattern(pattern).read(f"[2026-11-21 00:00:00,123] INFO {spaces}".encode())
        assert head is None or head.message.startswith("x")


def test_a_json_array_over_lines() -> None:
    text = (
        "["
        + json.dumps({"timeMillis": AT, "message": "a"})
        + ",\n"
        + json.dumps({"timeMillis": AT, "message": "b"})
        + "]"
    )
    _, head = heads(text)
    assert head.message == "b"


@pytest.mark.parametrize(
    "line", [b"{", b"{}", b"[]", b'{"message":1}', b'{"message":{}}', b'{"message":"m"', b"{" * 9999]
)
def test_json_that_is_no_event(line: bytes) -> None:
    assert json_layout(KNOWN).read(line) is None


@pytest.mark.parametrize(
    "value",
    [
        *("x", None, -1, 1e300, float("1e-300"), 10**30, "99999999999999999999", [], "2026-02-30T00:00:00Z"),
        *("0001-01-01T00:00:00.0+01:00", "9999-12-31T23:59:59.9-01:00"),
    ],
)
def test_a_time_that_is_none(value: object) -> None:
    head = json_layout([]).read(json.dumps({"time": value, "message": "m"}).encode())
    assert head is not None
    assert head.logged_at_ms is None or head.logged_at_ms >= 0


def test_half_a_surrogate_pair_in_json_is_replaced() -> None:
    """JSON can escape it, but it is no text: no table can hold it."""
    line = (
        rb'{"timeMillis":1795219200123,"level":"I\udc00","loggerName":"k.\ud83d","message":"a \ud83d b \ud83d\ude00"}'
    )
    head = json_layout(KNOWN).read(line)
    assert head is not None
    assert (head.level, head.logger, head.message) == ("I?", "k.?", "a ? b \U0001f600")


def test_a_table_of_an_archive() -> None:
    header = '"@timestamp",host,message'
    quoted = TEXT.replace("/d", '""d""')
    _, head = heads(f'{header}\n2026-11-20T18:30:00.123Z,kafka-0,"{quoted}"')
    expected = EventHead(AT, AT - INDIA, "WARN", "kafka.log.UnifiedLog", MESSAGE.replace("/d", '"d"'))
    assert head == expected
    layout, head = heads(f'{header}\n2026-11-20T18:30:00.123Z,"a, b","{quoted}')
    assert (layout.name, head.logged_at_ms) == ("csv", AT), "a message that goes on in the next line"
    layout, head = heads("timestamp,level,logger,message\n2026-11-21T00:00:00.123Z,WARN,l,m")
    assert (layout.name, head) == ("csv", EventHead(AT, AT, "WARN", "l", "m"))
    assert csv_layout(b"a,b,c", KNOWN) is None


@pytest.mark.parametrize(("name", "zone_ms"), [("ecs", 0), ("logstash", INDIA)])
def test_json_that_log4j2_wrote(name: str, zone_ms: int) -> None:
    data = (SAMPLES / "4.0.2" / f"{name}.json").read_bytes()
    layout = detect(data)
    assert layout is not None
    assert layout.name == "json"
    for line in data.splitlines():
        head = layout.read(line)
        assert head is not None
        assert head.logged_at_ms is not None
        assert head.logged_at_utc_ms is not None
        assert head.logged_at_ms - head.logged_at_utc_ms == zone_ms
        assert head.logger is not None


@pytest.mark.parametrize("text", [b"", b"\n", b"hello\nworld\n", b"1,2,3\n", b"\0" * 1000, b"{}\n{}\n", b"a,b\nc,d\n"])
def test_other_texts_have_no_layout(text: bytes) -> None:
    assert detect(text) is None


def test_times() -> None:
    assert read_iso("2026-11-21 00:00:00") == (AT - 123, None)
    assert read_iso("2026-11-21T00:00:00.123456-08:00") == (AT, AT + 28_800_000)
    assert read_iso("2026-11-21 00:00:60") == (AT - 123 + 60_000, None), "a leap second"
    for text in ("2026-02-29 00:00:00", "2026-11-21 24:00:00", "0000-01-01 00:00:00", "x", "1969-12-31"):
        assert read_iso(text) == (None, None)
    for text in ("0001-01-01T00:00:00.000+01:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999-01:00"):
        assert read_iso(text) == (None, None), "before 1970 or after 9999 in UTC; the second is Go's zero"
    assert [zone_offset_ms(z) for z in ("Z", "UTC", "+05:30", "-0330", "+02", None)] == [
        0,
        0,
        INDIA,
        -12_600_000,
        7_200_000,
        None,
    ]
    assert [quarter_hours(ms) for ms in (0, 40, INDIA + 899_999, -3_600_000 + 5, -1)] == [
        0,
        0,
        INDIA,
        -3_600_000,
        -900_000,
    ]
    assert date_pattern("ISO8601_BASIC") == date_pattern("yyyyMMdd'T'HHmmss,SSS")


@FUZZ
@given(
    st.binary(max_size=200), st.sampled_from(["", "{", "[2026-11-21 00:00:00,123] INFO ", '{"message":', "a,message\n"])
)
def test_any_text_has_a_layout_or_none(data: bytes, start: str) -> None:
    layout = detect(start.encode() + data)
    for line in (start.encode() + data).split(b"\n"):
        if layout is not None and line:
            layout.read(line)
