"""Log end offsets from an exporter's text, in the spellings that sites really have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.offsets.clean_text import clean_metrics
from evidence.offsets.jmx_exporter import MetricNames, process_start_ms, read_metrics
from tests.unit.evidence.accounting import FUZZ

NAMES = MetricNames()
LABELS = b'{topic="orders",partition="3"}'


def end_of(topic: str, value: int) -> dict[str, object]:
    return {"topic": topic, "partition": 3, "log_end_offset": value, "position": 0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0),
        (b"123", 123),
        (b"123.0", 123),
        (b"1.23E2", 123),
        (b"1.2345678E7", 12_345_678),
        (b"9007199254740993", 9_007_199_254_740_993),
        (b"9223372036854775807", (1 << 63) - 1),
        (b'123 # {trace_id="abc"} 1.0 1520879607.789', 123),
        (b" \t 7", 7),
    ],
)
def test_values_are_read_in_every_notation(text: bytes, value: int) -> None:
    rows, damage = read_metrics(b"kafka_log_Log_LogEndOffset" + LABELS + b" " + text + b"\n", NAMES)
    assert (rows, damage) == ([end_of("orders", value)], [])


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [(b"1795221569450", 1795221569450), (b"1795221569.45", 1795221569450), (b"7", None), (b"99999999999999999", None)],
)
def test_a_sample_with_a_timestamp_is_of_that_time(text: bytes, at_ms: int | None) -> None:
    """Prometheus' /federate prints what it read up to five minutes before: in ms, or in OpenMetrics in seconds."""
    rows, damage = read_metrics(b"kafka_log_Log_LogEndOffset" + LABELS + b" 123 " + text + b"\n", NAMES)
    assert (rows, damage) == ([{**end_of("orders", 123), "captured_at_ms": at_ms}], [])


@pytest.mark.parametrize(
    "lines",
    [
        ('topic="a",partition="0",instance="kafka-1:7071"', 'topic="a",partition="0",instance="kafka-2:7071"'),
        ('topic="a",partition="0",instance="kafka-1:7071"', 'topic="b",partition="0",instance="kafka-2:7071"'),
        ('topic="a",partition="0",site="x"', 'topic="a",partition="0",site="y"'),
    ],
)
def test_a_text_of_several_processes_says_of_no_broker_what_it_has(lines: tuple[str, str]) -> None:
    data = "".join(f"kafka_log_Log_LogEndOffset{{{labels}}} {n}\n" for n, labels in enumerate(lines, 7)).encode()
    rows, (damage,) = read_metrics(data, NAMES)
    assert (rows, damage.reason, damage.length_bytes) == ([], "several_processes", len(data))
    assert clean_metrics(data, NAMES) is None


def test_a_text_of_several_scrapes_says_of_no_time_what_it_has() -> None:
    line = b"kafka_log_Log_LogEndOffset" + LABELS + b" %d\n"
    rows, (damage,) = read_metrics(line % 7 + line % 7 + line % 8, NAMES)
    assert (rows, damage.reason, damage.position, damage.length_bytes) == ([], "several_scrapes", 0, 3 * len(line % 7))
    assert damage.message.startswith(f"byte {2 * len(line % 7)}: ")
    assert clean_metrics(line % 7 + line % 8, NAMES) is None
    timed = [line.replace(b"%d", b"%d 179522156%d000") % (n, n) for n in (7, 8)]
    assert [row["log_end_offset"] for row in read_metrics(b"".join(timed), NAMES)[0]] == [7, 8]


def test_labels_of_a_topic_are_no_processes() -> None:
    text = 'kafka_log_Log_LogEndOffset{{topic="{0}",partition="0",tier="{0}",instance="k"}} 7\n'
    rows, damage = read_metrics((text.format("a") + text.format("b")).encode(), NAMES)
    assert ([row["topic"] for row in rows], damage) == (["a", "b"], [])


@pytest.mark.parametrize(
    "text",
    [b"NaN", b"+Inf", b"-Inf", b"-1", b"-1.0", b"1.5", b"1e400", b"1e19", b"9223372036854775808", b"", b"abc", b"0x10"],
)
def test_a_value_that_is_no_offset_is_damage_on_its_line(text: bytes) -> None:
    line = b"kafka_log_Log_LogEndOffset" + LABELS + b" " + text
    data = b"# HELP x\n" + line + b"\nkafka_log_Log_LogStartOffset" + LABELS + b" 5\n"
    (row,), (damage,) = read_metrics(data, NAMES)
    assert (row.get("log_end_offset"), row["log_start_offset"]) == (None, 5)
    assert damage.reason == "bad_metric"
    assert data[damage.position : damage.position + damage.length_bytes] == line
    assert damage.message.startswith("not a sample of kafka_log_Log_LogEndOffset: ")


@pytest.mark.parametrize(
    ("labels", "topic"),
    [
        (rb'{topic="a\"b",partition="3"}', 'a"b'),
        (rb'{topic="a\\b\nc",partition="3"}', "a\\b\nc"),
        (b'{topic="a}{ # ",partition="3"}', "a}{ # "),
        (b'{partition="3",topic="a",}', "a"),
        (b'{ topic = "a" , partition = "3" }', "a"),
        (b'{broker="1",topic="a",partition="3",client="x"}', "a"),
        ('{topic="größe",partition="3"}'.encode(), "größe"),
    ],
)
def test_labels_are_read_with_their_escapes(labels: bytes, topic: str) -> None:
    rows, damage = read_metrics(b"kafka_log_Log_LogEndOffset" + labels + b" 9\n", NAMES)
    assert (rows, damage) == ([end_of(topic, 9)], [])


@pytest.mark.parametrize(
    "labels",
    [
        b"",
        b"{}",
        b"{",
        b'{topic="a"}',
        b'{partition="3"}',
        b'{topic="",partition="3"}',
        b'{topic="a",partition=""}',
        b'{topic="a",partition="-1"}',
        b'{topic="a",partition="1.0"}',
        b'{topic="a",partition="1_0"}',
        b'{topic="a",partition="2147483648"}',
        b'{topic="a",partition="99999999999999999999"}',
        b'{topic="a",topic="b",partition="3"}',
        b'{topic="a,partition="3"}',
        b'{topic="\xff",partition="3"}',
    ],
)
def test_labels_that_name_no_partition_are_damage(labels: bytes) -> None:
    samples, (damage,) = read_metrics(b"kafka_log_Log_LogEndOffset" + labels + b" 9\n", NAMES)
    assert samples == []
    assert damage.reason == "bad_metric"


def test_a_missing_label_is_named_with_what_to_do() -> None:
    _, (damage,) = read_metrics(b'kafka_log_Log_LogEndOffset{t="a",partition="3"} 9\n', NAMES)
    assert damage.message.endswith("label 'topic' is missing; metric and label names are settings")


def test_a_sample_that_was_cut_off_is_damage_even_if_it_reads_well() -> None:
    samples, (damage,) = read_metrics(b"kafka_log_Log_LogEndOffset" + LABELS + b" 12", NAMES)
    assert samples == []
    assert damage.message.endswith("the line does not end: its value may lack digits")


@pytest.mark.parametrize("read_as", [None, "utf-16-le", "utf-16"])
def test_lines_with_zero_bytes_are_damage_whatever_they_were(read_as: str | None) -> None:
    """A stretch that a power loss left unwritten, or what PowerShell's `>` makes of an exporter's text."""
    whole = b"kafka_log_Log_LogEndOffset" + LABELS + b" 12\n"
    text = bytes(30) + whole[30:] if read_as is None else whole.decode().encode(read_as)
    rows, damage = read_metrics(text + whole, NAMES)
    assert [row["log_end_offset"] for row in rows] == ([] if read_as else [12])
    assert {(d.reason, d.message.partition(":")[0]) for d in damage} == {("bad_metric", "zero bytes")}
    assert clean_metrics(text + whole, NAMES) is None


def test_other_metrics_comments_and_blank_lines_are_left_aside() -> None:
    data = b"""# TYPE kafka_log_Log_LogEndOffset gauge
kafka_log_Log_Size{topic="orders",partition="3"} NaN
kafka_log_Log_LogEndOffset_total{topic="orders",partition="3"} 1

  kafka_log_Log_LogEndOffset{topic="orders",partition="3"} 9
# EOF
"""
    (row,), damage = read_metrics(data, NAMES)
    assert damage == []
    assert data[row["position"] :].splitlines()[0].strip() == b"kafka_log_Log_LogEndOffset" + LABELS + b" 9"


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


@pytest.mark.parametrize(
    ("metric", "value", "message"),
    [
        ("kafka_cluster_Partition_UnderMinIsr", "2.0", "2.0 is neither 0 nor 1"),
        ("kafka_cluster_partition_underminisr", "-1", "-1 is neither 0 nor 1"),
        ("kafka_cluster_Partition_UnderMinIsr", "0.5", "0.5 is neither 0 nor 1"),
        ("kafka_cluster_Partition_InSyncReplicasCount", "2147483648", "2147483648 is not a number of replicas"),
        ("kafka_cluster_partition_insyncreplicascount", "1.5", "1.5 is not a number of replicas"),
    ],
)
def test_a_leaders_metric_with_an_impossible_value_is_damage(metric: str, value: str, message: str) -> None:
    data = f'{metric}{{topic="a",partition="0"}} {value}\n'.encode()
    samples, (damage,) = read_metrics(data, NAMES)
    assert samples == []
    assert (damage.position, damage.length_bytes) == (0, len(data) - 1)
    assert damage.message == f"not a sample of {metric}: {message}"


def test_where_a_text_shows_both_that_a_broker_leads_and_that_it_does_not_neither_counts() -> None:
    values = {"Partition_InSyncReplicasCount": 3, "partition_insyncreplicascount": 0, "Partition_UnderMinIsr": 1}
    data = "".join(
        f'kafka_cluster_{name}{{topic="a",partition="0"}} {value}\n' for name, value in values.items()
    ).encode()
    assert read_metrics(data, NAMES) == ([], [])


START = b"process_start_time_seconds"


@pytest.mark.parametrize(
    ("text", "start_ms"),
    [
        (START + b" 1.795221120887E9\n", 1795221120887),
        (START + b" 1795221120.887\n", 1795221120887),
        (START + b" 1795221120.8874999\n", 1795221120887),
        (START + b" 1795221120\n", 1795221120000),
        (START + b"{} 1.795221120887E9 1795221343066\n", 1795221120887),
        (START + b'{instance="a:1",job="}"} 1.795221120887E9\r\n', 1795221120887),
        (b"# HELP " + START + b" x\n# TYPE " + START + b" gauge\n \t" + START + b" 7\n# EOF\n", 7000),
        (START + b" 7\n" + START + b" 7.0\n" + START + b" NaN\n", 7000),
        (START + b" 253402300799.999\n", 253402300799999),
        # Two processes; no time; a line that does not end, or does not begin so; another metric.
        (START + b" 7\n" + START + b" 8\n", None),
        (START + b" 253402300800\n", None),
        (START + b" 0\n", None),
        (START + b" -1\n", None),
        (START + b" NaN\n", None),
        (START + b" +Inf\n", None),
        (START + b" 1e400\n", None),
        (START + b" x\n", None),
        (START + b"\n", None),
        (START + b'{a="\xff"} 7\n', None),
        (START + b" 1.79522112", None),
        (b"x " + START + b" 7\n", None),
        (START + b"_total 7\n", None),
        (b"", None),
    ],
)
def test_the_time_at_which_the_process_was_started(text: bytes, start_ms: int | None) -> None:
    for data in (text, b"jvm_threads 12\n" + text):
        assert process_start_ms(data, NAMES) == start_ms


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
