"""Layouts: log4j patterns, what containers and archives put around a line, JSON, tables; and which a file has.

tests/unit/golden/layouts.jsonl has a text a line, the patterns that the site names, and what is read of its last line.
"""

from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.broker_logs.layouts import KNOWN_PATTERNS, Layout, detect, of_pattern
from evidence.broker_logs.times import date_pattern, quarter_hours, read_iso, zone_offset_ms
from tests.support.golden import filled
from tests.unit.evidence.accounting import FUZZ
from tests.unit.evidence.broker_logs.support import SAMPLES

INDIA = 19_800_000
TEXT = "[2026-11-21 00:00:00,123] WARN [Log partition=a-0, dir=/d] Truncating to offset 3 (kafka.log.UnifiedLog)"
KNOWN = [of_pattern(p) for p in KNOWN_PATTERNS]


def begins(layout: Layout, line: bytes) -> bool:
    """As the scan of a chunk finds it: by RE2."""
    return pc.match_substring_regex(pa.array([line], pa.large_binary()), pattern=layout.head)[0].as_py()


@filled("layouts")
def test_what_is_read_of_a_line(case: dict[str, Any]) -> dict[str, Any]:
    data = case["text"].encode("utf-8", "surrogateescape")
    layout = detect(data + b"\n", case["patterns"])
    line = data.split(b"\n")[-1]
    head = layout.read(line) if layout is not None else None
    assert head is None or (layout is not None and begins(layout, line))
    for pattern in case["patterns"]:
        assert not begins(of_pattern(pattern), b"\tat kafka.A.b(A.scala:12)")
    return {**case, "layout": layout and layout.name, "head": head and asdict(head)}


def test_a_line_that_a_runtime_cut_is_not_read() -> None:
    line = ("2026-11-20T18:30:00.123456789Z stdout P " + TEXT[:60]).encode()
    assert begins(KNOWN[0], line)
    assert KNOWN[0].read(line) is None


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


@pytest.mark.parametrize("pattern", KNOWN_PATTERNS)
def test_a_line_of_many_spaces_takes_no_square_of_their_number(pattern: str) -> None:
    """A megabyte of them took hours."""
    for spaces in ("x" + " " * 900_000 + "y", "x (k.A)" + " " * 900_000):
        head = of_pattern(pattern).read(f"[2026-11-21 00:00:00,123] INFO {spaces}".encode())
        assert head is None or head.message.startswith("x")


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


@filled("times")
def test_times(case: dict[str, Any]) -> dict[str, Any]:
    """A leap second is one; none is before 1970 or after 9999 in UTC (Go's zero is of the year 1)."""
    if "iso" in case:
        return {"iso": case["iso"], "local_and_utc_ms": list(read_iso(case["iso"]))}
    if "zone" in case:
        return {"zone": case["zone"], "offset_ms": zone_offset_ms(case["zone"])}
    return {"ms": case["ms"], "quarter_hours_ms": quarter_hours(case["ms"])}


def test_names_of_date_patterns() -> None:
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
