"""What Kafka's JmxTool 4.3.1 printed, and every way in which a line of it can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.offsets.jmx_tool import read_jmx_tool
from tests.support.paths import ROOT
from tests.unit.evidence.accounting import FUZZ, edited

Row = dict[str, Any]

TOOLS = ROOT / "tests" / "samples" / "tools"
ORIGINAL = (TOOLS / "jmx-original.csv").read_bytes()
LEO = "kafka.log:type=Log,name=LogEndOffset"
HEADER = f'"time","{LEO},topic=a,partition=0:Value","{LEO},topic=b,partition=7:Value"\n'.encode()
GOOD = HEADER + b"1795240300707,5,6\n"


def values(rows: list[Row]) -> dict[tuple[str, str, int], int]:
    fields = ("log_end_offset", "log_start_offset")
    return {(f, r["topic"], r["partition"]): r[f] for r in rows for f in fields if f in r}


def test_the_tools_own_format() -> None:
    rows, damage = read_jmx_tool(ORIGINAL)
    assert damage == []
    times = [1795240300707, 1795240303705, 1795240306699, 1795240309701, 1795240312700]
    positions = [ORIGINAL.index(b"\n%d," % t) + 1 for t in times]
    assert [(r["position"], r["captured_at_ms"]) for r in rows[::10]] == list(zip(positions, times, strict=True))
    assert len(rows) == 50
    grown = [r["log_end_offset"] for r in rows if r["topic"] == "mail.v1" and "log_end_offset" in r]
    assert grown == [1, 1, 4, 4, 4]
    assert values(rows[:10]) == {
        ("log_end_offset", "__cluster_metadata", 0): 137,
        ("log_end_offset", "__transaction_state", 0): 7,
        ("log_end_offset", "mail.v1", 0): 1,
        ("log_end_offset", "orders", 0): 12,
        ("log_end_offset", "orders", 1): 31,
        **{("log_start_offset", r["topic"], r["partition"]): 0 for r in rows[:5]},
    }


@pytest.mark.parametrize(
    ("name", "captured_at_ms", "metadata_log_end"),
    [("jmx-attributes.csv", 1795240315690, 167), ("jmx-others.csv", 1795240316062, 168), ("jmx-date.csv", None, 167)],
)
def test_one_report(name: str, captured_at_ms: int | None, metadata_log_end: int) -> None:
    data = (TOOLS / name).read_bytes()
    rows, damage = read_jmx_tool(data)
    assert damage == []
    assert {(r["position"], r["captured_at_ms"]) for r in rows} == {(data.index(b"\n") + 1, captured_at_ms)}
    assert values(rows) == {
        ("log_end_offset", "__cluster_metadata", 0): metadata_log_end,
        ("log_end_offset", "__transaction_state", 0): 7,
        ("log_end_offset", "mail.v1", 0): 4,
        ("log_end_offset", "orders", 0): 12,
        ("log_end_offset", "orders", 1): 31,
    }


def test_a_topic_that_was_created_while_the_tool_ran_has_no_column() -> None:
    rows, damage = read_jmx_tool((TOOLS / "jmx-topic-created.csv").read_bytes())
    assert damage == []
    assert len(rows) == 5 * 6
    assert {r["topic"] for r in rows} == {"__cluster_metadata", "__transaction_state", "aaa", "mail.v1", "orders"}


@pytest.mark.parametrize("name", ["jmx-csv.txt", "jmx-tsv.txt", "jmx-properties.txt"])
def test_the_formats_with_a_line_for_each_value_say_the_same(name: str) -> None:
    data = (TOOLS / name).read_bytes()
    rows, damage = read_jmx_tool(data)
    assert damage == []
    assert [(r["topic"], r["partition"]) for r in rows] == [
        ("__cluster_metadata", 0),
        ("__transaction_state", 0),
        ("mail.v1", 0),
        ("orders", 0),
        ("orders", 1),
    ]
    assert [r["log_end_offset"] for r in rows][1:] == [7, 4, 12, 31]
    (time,) = {r["captured_at_ms"] for r in rows}
    assert str(time).encode() in data.splitlines()[0]
    assert all(str(r["log_end_offset"]).encode() in data[r["position"] :].splitlines()[0] for r in rows)


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


def check(data: bytes) -> None:
    rows, damage = read_jmx_tool(data)
    lines = {}
    position = 0
    for line in data.split(b"\n"):
        lines[position] = line.rstrip(b"\r")
        position += len(line) + 1
    for found in damage:
        assert lines[found.position] == data[found.position : found.position + found.length_bytes]
        assert (found.reason, found.offset) == ("bad_metric", None)
        found.message.encode()
    assert len({d.position for d in damage}) == len(damage)
    assert not {d.position for d in damage} & {r["position"] for r in rows}
    for row in rows:
        assert row["position"] in lines
        assert row["topic"].encode()
        assert 0 <= row["partition"] < 1 << 31
        assert all(0 <= value < 1 << 63 for value in values([row]).values())


FILES = [path.read_bytes() for path in sorted(Path(TOOLS).glob("jmx-*"))] + [GOOD]


@FUZZ
@given(edited(st.sampled_from(FILES), most=6), st.integers(0, 3000))
def test_any_change_to_a_file_is_survived(data: bytes, cut: int) -> None:
    check(data)
    check(data[: cut % (len(data) + 1)])


@FUZZ
@given(st.lists(st.sampled_from([b'"', b",", b"\\", b"=", b":", b"\n", b"time", b"5", LEO.encode(), b',topic="'])))
def test_any_mix_of_the_formats_own_signs_is_survived(parts: list[bytes]) -> None:
    check(b'"time",' + b"".join(parts))
