"""What Kafka's JmxTool 4.3.1 printed, and every way in which a line of it can be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from evidence.offsets.jmx_tool import read_jmx_tool

Row = dict[str, Any]
LEO = "kafka.log:type=Log,name=LogEndOffset"
HEADER = f'"time","{LEO},topic=a,partition=0:Value","{LEO},topic=b,partition=7:Value"\n'.encode()
GOOD = HEADER + b"1795240300707,5,6\n"


def values(rows: list[Row]) -> dict[tuple[str, str, int], int]:
    fields = ("log_end_offset", "log_start_offset")
    return {(f, r["topic"], r["partition"]): r[f] for r in rows for f in fields if f in r}


def test_a_value_line_that_is_none_is_damage_at_its_bytes() -> None:
    bean = b"kafka.log:type=Log,name=LogEndOffset,topic=a,partition=0:Value"
    rows, damage = read_jmx_tool(b"time=1795240314600\n" + bean + b"=x\n" + bean + b"=7\n" + bean + b"=1")
    assert [r["log_end_offset"] for r in rows] == [7]
    assert [(d.position, d.length_bytes) for d in damage] == [
        (19, len(bean) + 2),
        (19 + 2 * len(bean) + 6, len(bean) + 2),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1795240300707,5,6", "does not end"),
        (b"1795240300707,5\n", "2 fields, the header has 3"),
        (b"1795240300707,5,6,7\n", "4 fields, the header has 3"),
        (b"Sat, 21 Nov,5,6\n", "4 fields, the header has 3"),
        (b"1795240300707,5,-1\n", "field 2 is not an offset"),
        (b"1795240300707,5,6.0\n", "field 2 is not an offset"),
        (b"1795240300707,,6\n", "field 1 is not an offset"),
        (b"1795240300707,null,6\n", "field 1 is not an offset"),
        (b"1795240300707,\xff\xfe,6\n", "field 1 is not an offset"),
        (b"1795240300707,9223372036854775808,6\n", "field 1 is not an offset"),
        (b"1795240300707,99999999999999999999,6\n", "field 1 is not an offset"),
        ("1795240300707,٣,6\n".encode(), "field 1 is not an offset"),
        (b"\tat java.base/java.lang.Thread.run(Thread.java:840)\n", "1 fields, the header has 3"),
    ],
)
def test_a_line_that_is_not_a_report(line: bytes, message: str) -> None:
    rows, (damage,) = read_jmx_tool(GOOD + line)
    assert values(rows) == {("log_end_offset", "a", 0): 5, ("log_end_offset", "b", 7): 6}
    assert (damage.position, damage.length_bytes) == (len(GOOD), len(line.rstrip(b"\n")))
    assert (damage.reason, damage.offset) == ("bad_metric", None)
    assert message in damage.message


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.replace(b"topic=b", b"topic=\xff"), "invalid start byte"),
        (HEADER.replace(b':Value"\n', b":Value\n"), "cannot be separated"),
        (HEADER.replace(b"\n", b",\n"), "cannot be separated"),
    ],
)
def test_an_unreadable_header_makes_its_reports_damage(header: bytes, message: str) -> None:
    rows, damage = read_jmx_tool(GOOD + header + b"1795240300708,5,6\n")
    assert len(rows) == 2
    assert [d.position for d in damage] == [len(GOOD), len(GOOD) + len(header)]
    assert message in damage[0].message
    assert "no header and no report time" in damage[1].message


@pytest.mark.parametrize(
    "bad",
    [b"partition=2147483648", b"partition=-1", b"partition=", b"partition=x", b"part=7", b"partition=99999999999"],
)
def test_a_column_without_a_partition_costs_only_itself(bad: bytes) -> None:
    rows, (damage,) = read_jmx_tool(GOOD.replace(b"partition=7", bad))
    assert values(rows) == {("log_end_offset", "a", 0): 5}
    assert damage.position == 0
    assert "column 2" in damage.message
    assert "is not a partition" in damage.message


def test_the_greatest_values_are_read() -> None:
    data = GOOD.replace(b"partition=7", b"partition=2147483647").replace(b",6\n", b",9223372036854775807\n")
    rows, damage = read_jmx_tool(data)
    assert damage == []
    assert values(rows)["log_end_offset", "b", 2147483647] == 9223372036854775807


def test_a_replica_that_is_being_moved_between_disks_is_left_out() -> None:
    rows, damage = read_jmx_tool(GOOD.replace(b"partition=7", b"partition=7,is-future=true"))
    assert damage == []
    assert values(rows) == {("log_end_offset", "a", 0): 5}
    rows, _ = read_jmx_tool(GOOD.replace(b"partition=7", b"is-future=false,partition=7"))
    assert values(rows)["log_end_offset", "b", 7] == 6


@pytest.mark.parametrize(
    "other",
    [
        b"kafka.log:type=Log,name=Size,topic=b,partition=7:Value",
        b"kafka.log:type=Other,name=LogEndOffset,topic=b,partition=7:Value",
        b"kafka.server:type=Log,name=LogEndOffset,topic=b,partition=7:Value",
        b"kafka.log:type=Log,name=LogEndOffset,topic=b,partition=7:Count",
        b"no bean",
        b"",
    ],
)
def test_other_columns_may_hold_anything(other: bytes) -> None:
    data = GOOD.replace(b"kafka.log:type=Log,name=LogEndOffset,topic=b,partition=7:Value", other)
    rows, damage = read_jmx_tool(data.replace(b",6\n", b",\xff not a number\n"))
    assert damage == []
    assert values(rows) == {("log_end_offset", "a", 0): 5}


@pytest.mark.parametrize(
    ("quoted", "topic"),
    [
        (r'"my\*topic"', "my*topic"),
        (r'"a\"b\\c\?d\ne"', 'a"b\\c?d\ne'),
        (r'"a,partition=3:Value"', "a,partition=3:Value"),
        (r'"a\","', 'a",'),
        ('"Zürich"', "Zürich"),
        ("mail.v1", "mail.v1"),
    ],
)
def test_quoted_names(quoted: str, topic: str) -> None:
    rows, damage = read_jmx_tool(GOOD.replace(b"topic=b", f"topic={quoted}".encode()))
    assert damage == []
    assert values(rows) == {("log_end_offset", "a", 0): 5, ("log_end_offset", topic, 7): 6}


@pytest.mark.parametrize("quoted", [r'"a\xb"', '"a*b"', '"a?b"', '""'])
def test_names_that_are_not_quoted_as_an_object_names_are(quoted: str) -> None:
    rows, (damage,) = read_jmx_tool(GOOD.replace(b"topic=b", f"topic={quoted}".encode()))
    assert values(rows) == {("log_end_offset", "a", 0): 5}
    assert damage.position == 0


@pytest.mark.parametrize("time", [b"20261121055155", b"202611210551", b"2026-11-21", b"", b"now", b"05:51"])
def test_a_time_that_is_not_in_ms_is_not_one(time: bytes) -> None:
    rows, damage = read_jmx_tool(HEADER + time + b",5,6\n")
    assert damage == []
    assert [r["captured_at_ms"] for r in rows] == [None, None]


def test_stderr_in_front_costs_only_its_lines() -> None:
    talk = b"Trying to connect to JMX url: service:jmx:rmi:///jndi/rmi://host:9999/jmxrmi\n"
    rows, (damage,) = read_jmx_tool(talk + GOOD)
    assert (damage.position, damage.length_bytes) == (0, len(talk) - 1)
    assert [r["position"] for r in rows] == [len(talk) + len(HEADER)] * 2


def test_concatenated_files() -> None:
    other = f'"time","{LEO},topic=c,partition=1:Value"\r\n\r\n1795240300999,8\r\n'.encode()
    rows, damage = read_jmx_tool(GOOD + other)
    assert damage == []
    assert values(rows[2:]) == {("log_end_offset", "c", 1): 8}
    assert rows[2]["captured_at_ms"] == 1795240300999


def test_nothing() -> None:
    assert read_jmx_tool(b"") == ([], [])
    assert read_jmx_tool(HEADER) == ([], [])
    assert read_jmx_tool(b'"time"\n1795240300707\n') == ([], [])
