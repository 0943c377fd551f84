"""An exporter's text in a site's own spelling, in another encoding, and any text; others: test_texts.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.offsets.clean_text import clean_metrics
from evidence.offsets.jmx_exporter import MetricNames, process_start_ms, read_metrics
from tests.unit.evidence.accounting import FUZZ

NAMES = MetricNames()
LABELS = b'{topic="orders",partition="3"}'


@pytest.mark.parametrize("read_as", [None, "utf-16-le", "utf-16"])
def test_lines_with_zero_bytes_are_damage_whatever_they_were(read_as: str | None) -> None:
    """A stretch that a power loss left unwritten, or what PowerShell's `>` makes of an exporter's text."""
    whole = b"kafka_log_Log_LogEndOffset" + LABELS + b" 12\n"
    text = bytes(30) + whole[30:] if read_as is None else whole.decode().encode(read_as)
    rows, damage = read_metrics(text + whole, NAMES)
    assert [row["log_end_offset"] for row in rows] == ([] if read_as else [12])
    assert {(d.reason, d.message.partition(":")[0]) for d in damage} == {("bad_metric", "zero bytes")}
    assert clean_metrics(text + whole, NAMES) is None


def test_a_sites_own_spelling_is_read_through_metric_names() -> None:
    names = MetricNames(("leo", "my:leo"), ("lso",), topic_label="t", partition_label="p")
    data = b'leo{t="a",p="0"} 1\nmy:leo{t="a",p="1"} 2\nlso{t="a",p="0"} 3\nkafka_log_Log_LogEndOffset{t="a",p="0"} 4\n'
    rows, damage = read_metrics(data, names)
    assert damage == []
    assert [(r["partition"], r.get("log_end_offset"), r.get("log_start_offset")) for r in rows] == [
        (0, 1, None),
        (1, 2, None),
        (0, None, 3),
    ]


START = b"process_start_time_seconds"


@pytest.mark.parametrize(("time", "ends"), [(b"", []), (b" 1795722281290", [7])])
def test_a_collector_may_have_read_long_ago_what_it_gives_without_a_time(time: bytes, ends: list[int]) -> None:
    """Telegraf's prometheus_client gives the values of its last gathering, for up to a minute (expiration_interval)."""
    sample = b'kafka_log_Log_LogEndOffset{topic="t",partition="0"} 7' + time + b"\n"
    rows, damage = read_metrics(sample + b"go_goroutines 9\n", NAMES)
    assert clean_metrics(sample + b"go_goroutines 9\n", NAMES) is None
    assert [row["log_end_offset"] for row in rows] == ends
    assert [d.reason for d in damage] == ([] if ends else ["several_processes"])


@FUZZ
@given(
    st.lists(st.one_of(st.binary(max_size=20), st.text('{}"=,.0123456789eE+-NaIf \n#', max_size=20).map(str.encode)))
)
def test_any_text_has_a_time_of_start_that_can_be_or_none(parts: list[bytes]) -> None:
    start_ms = process_start_ms(b"".join(START + part for part in parts), NAMES)
    assert start_ms is None or 0 < start_ms <= 253402300799999


@FUZZ
@given(st.lists(st.binary(max_size=40)), st.text(alphabet='{}"=,\\ #topicartn0123.eE+-NaIf\t', max_size=60))
def test_any_text_is_samples_or_damage(parts: list[bytes], tail: str) -> None:
    data = b"".join(b"kafka_log_Log_LogEndOffset" + p + b"\n" for p in [*parts, tail.encode()])
    rows, damage = read_metrics(data, NAMES)
    assert all(0 <= r["log_end_offset"] < 1 << 63 and 0 <= r["partition"] < 1 << 31 for r in rows)
    assert all(data[d.position :].startswith(b"kafka_log_Log_LogEndOffset") for d in damage)
