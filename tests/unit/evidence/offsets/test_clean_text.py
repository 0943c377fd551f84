"""What is read as columns is what the readers that go line by line give, and nothing that they find fault with."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.offsets.clean_text import clean_checkpoint, clean_metrics
from evidence.offsets.columns import ENCODED
from evidence.offsets.jmx_exporter import MetricNames, read_metrics
from evidence.text_files import read_checkpoint
from tests.support.metric_names import NAMES, named
from tests.unit.evidence.accounting import FUZZ

Row = dict[str, Any]

SAMPLE = b'kafka_log_Log_LogEndOffset{topic="orders",partition="3"} 12.0\n'

topics = st.text("abzAZ019._-", min_size=1, max_size=12)
offsets = st.one_of(st.integers(0, 99), st.integers(0, 10**18 - 1))


def entry(topic: str, partition: int, offset: int, zeros: str = "") -> bytes:
    return f"{topic} {zeros}{partition} {zeros}{offset}\n".encode()


entries = st.lists(st.builds(entry, topics, st.integers(0, 10**6), offsets.map(lambda n: n // 100), st.just("")))
odd_entries = st.one_of(
    st.builds(entry, topics, st.integers(-1, 1 << 31), st.integers(-1, 1 << 64), st.sampled_from(["", "0", "+"])),
    st.sampled_from(
        [b"\n", b"orders 0 7", b"orders  0 7\n", b"orders\t0 7\n", b"orders 0 7\r\n", b"0 7\n", b"a b 0 7\n"]
    ),
    st.sampled_from(
        [b" orders 0 7\n", b"orders 0 7 \n", b"gr\xc3\xb6\xc3\x9fe 0 7\n", b"a/b 0 7\n", b"o" * 250 + b" 0 7\n"]
    ),
    st.sampled_from(
        [b"orders 2147483648 7\n", b"orders 0 1.0\n", b"orders 0 0x1\n", b"orders 0 1_0\n", b"or ders 0 7\n"]
    ),
)


def entries_by_line(data: bytes) -> list[Row] | None:
    """What the reference makes of a checkpoint file; None if it finds a fault."""
    lines, damage = read_checkpoint(data, 3)
    rows = [
        {"topic": w[0].decode(), "partition": int(w[1]), "high_watermark": int(w[2]), "position": line.position}
        for line in lines
        for w in [line.words]
    ]
    return None if damage else rows


NO_SAMPLE: Row = dict.fromkeys(["log_end_offset", "log_start_offset", "in_sync_replicas_count", "under_min_isr"])


def samples_by_line(data: bytes, names: MetricNames) -> list[Row] | None:
    rows, damage = read_metrics(data, names)
    return None if damage else [{**NO_SAMPLE, **row} for row in rows]


def rows_of(batch: Any) -> list[Row]:
    assert all(ENCODED.field(field.name).type == field.type for field in batch.schema)
    rows: list[Row] = batch.to_pylist()
    return rows


def samples_of(batch: Any) -> list[Row]:
    return [{**NO_SAMPLE, **{k: v for k, v in row.items() if v is not None}} for row in rows_of(batch)]


@FUZZ
@given(entries.filter(bool).map(lambda lines: list({line.rsplit(b" ", 1)[0]: line for line in lines}.values())))
def test_a_checkpoint_file_as_kafka_writes_it_is_read_as_columns(lines: list[bytes]) -> None:
    data = b"0\n%d\n" % len(lines) + b"".join(lines)
    batch = clean_checkpoint(data, "high_watermark")
    assert batch is not None
    assert rows_of(batch) == entries_by_line(data)


@FUZZ
@given(entries, odd_entries, entries, st.integers(-1, 1), st.sampled_from([b"0\n", b"00\n", b"0\r\n", b"0 \n", b"1\n"]))
def test_of_a_checkpoint_file_that_is_odd_nothing_is_read_but_what_the_lines_say(
    before: list[bytes], odd: bytes, after: list[bytes], more: int, version: bytes
) -> None:
    count = len(before) + 1 + len(after)
    for head in (version, b"0\n"):
        for counted_line in (b"%d\n" % (count + more), b"0%d\n" % count, b"%d\r\n" % count):
            data = head + counted_line + b"".join([*before, odd, *after])
            batch = clean_checkpoint(data, "high_watermark")
            assert batch is None or rows_of(batch) == entries_by_line(data)


def java(number: int) -> str:
    """Much as Double.toString prints it."""
    mantissa, exponent = f"{number:.16e}".split("e+")
    return f"{number}.0" if number < 10**7 else f"{mantissa.rstrip('0')}E{int(exponent)}".replace(".E", ".0E")


metrics = st.sampled_from(sorted(NAMES.fields().keys() - NAMES.high_watermark))
offset_values = st.one_of(
    st.integers(0, 10**15 - 1).map(str), st.integers(0, (1 << 53) - 1).map(float).map(int).map(java)
)
VALUES = {
    "log_end_offset": offset_values,
    "log_start_offset": offset_values,
    "in_sync_replicas_count": st.sampled_from(["0", "0.0", "1.0", "3.0", "3", "2147483647", "2.147483647E9"]),
    "under_min_isr": st.sampled_from(["0", "1", "0.0", "1.0"]),
}
ODD_VALUES = st.sampled_from(["2.0", "0.5", "2147483648", "-1", "NaN", "1E19"])
texts = st.text("az09 ,={}#:._-", max_size=8)
extras = st.dictionaries(st.sampled_from(["broker", "_env", "topic2", "le"]), texts, max_size=2)
others = st.sampled_from(
    [
        "# HELP kafka_log_Log_LogEndOffset Attribute exposed for management kafka.log:name=LogEndOffset",
        *("# TYPE kafka_log_Log_LogEndOffset gauge", 'kafka_log_Log_Size{topic="orders",partition="3"} NaN'),
        "kafka_log_Log_LogEndOffsetMax 7",
        "# HELP kafka_cluster_Partition_InSyncReplicasCount Attribute exposed for management",
        *("# TYPE kafka_cluster_Partition_UnderMinIsr untyped", "kafka_cluster_Partition_UnderMinIsr_total 7"),
        *("process_start_time_seconds 1.795221120887E9", "jvm_threads 12", "", "# EOF"),
    ]
)


@st.composite
def exports(draw: st.DrawFn, odd: bool) -> bytes:
    """The lines of an exporter. odd: with lines among them that are spelt otherwise, or have no sample."""
    extra_labels, order = draw(extras), draw(st.randoms(use_true_random=False))
    names = ["topic", "partition", *extra_labels]
    order.shuffle(names)
    comma, turned = draw(st.sampled_from(["", ","])), draw(st.booleans())

    def line() -> str:
        # Of few partitions, so that one has several metrics.
        partition = draw(st.one_of(st.integers(0, 2), st.integers(0, 10**9 - 1)))
        of = {**extra_labels, "topic": draw(st.one_of(st.just("t"), topics)), "partition": str(partition)}
        metric = draw(metrics)
        # Metrics of one kind of bean have the same labels; those of another may have others.
        order_of = names[::-1] if turned and "artition" in metric else names
        labels = ",".join(f'{name}="{of[name]}"' for name in order_of)
        value = draw(ODD_VALUES if odd and draw(st.integers(0, 9)) == 0 else VALUES[NAMES.fields()[metric]])
        return f"{metric}{{{labels}{comma}}} {value}"

    lines = [line()]
    for _ in range(draw(st.integers(0, 9))):
        lines.append(draw(others) if draw(st.booleans()) else line())
    if not odd:  # a replica has one sample of a metric
        lines = list({line.rpartition("}")[0] or line: line for line in lines}.values())
    text = "\n".join(lines)
    if odd:
        for _ in range(draw(st.integers(1, 2))):
            at = draw(st.integers(0, len(text)))
            cut = draw(st.integers(0, 2))
            text = text[:at] + draw(st.sampled_from(ODD)) + text[at + cut :]
    return text.encode() + draw(st.sampled_from([b"\n", b"", b"\r\n"] if odd else [b"\n"]))


ODD = ["", " ", "\t", "\n", "\r", "\\", '"', ",", "{", "}", "#", "0", "9", ".", "-", "+", "_", "E", "e9", "E99", "NaN"]
ODD += [" 1700000000000", "topic", 'topic="x",', ',is_future="true"', "__", "\\n", "\\\\", "ß", "\x00", "# HELP ", "\v"]
ODD += [
    NAMES.log_end_offset[0],
    NAMES.under_min_isr[0] + "{",
    f"\n {SAMPLE.decode()}",
    f"\n{SAMPLE.decode()[:-1]} 5\n",
    "x" * 250,
    "1234567890",
]


@FUZZ
@given(exports(odd=False))
def test_an_export_as_the_exporter_writes_it_is_read_as_columns(data: bytes) -> None:
    batch = clean_metrics(data, NAMES)
    assert batch is not None
    assert samples_of(batch) == samples_by_line(data, NAMES)


@FUZZ
@given(exports(odd=True))
def test_of_an_export_that_is_odd_nothing_is_read_but_what_the_lines_say(data: bytes) -> None:
    batch = clean_metrics(data, NAMES)
    assert batch is None or samples_of(batch) == samples_by_line(data, NAMES)


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (named(("le.o",), ("lso",)), b'le.o{topic="a",partition="0"} 1\n'),
        (named(("leo",), ("leo",)), b'leo{topic="a",partition="0"} 1\n'),
        (named(("leo",), (), topic_label="p", partition_label="p"), b'leo{p="0"} 1\n'),
        (named(("leo",), (), topic_label="t.x", partition_label="p"), b'leo{t.x="a",p="0"} 1\n'),
        (named(("leo", "leo_x:y"), ()), b'leo_x:y{topic="a",partition="0"} 1\nleo{topic="a",partition="0"} 2\n'),
        (named((), ()), b'{topic="a",partition="0"} 1\n'),
    ],
)
def test_a_sites_names_mean_the_same_in_columns(names: MetricNames, line: bytes) -> None:
    batch = clean_metrics(line, names)
    assert batch is None or samples_of(batch) == samples_by_line(line, names)
