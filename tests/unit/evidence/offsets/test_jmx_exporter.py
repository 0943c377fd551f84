"""An exporter's text in a site's own spelling, and any text; others: test_texts.py."""

from hypothesis import given
from hypothesis import strategies as st

from evidence.offsets.jmx_exporter import process_start_ms, read_metrics
from tests.support.metric_names import NAMES, named
from tests.unit.evidence.accounting import FUZZ


def test_a_sites_own_spelling_is_read_through_metric_names() -> None:
    names = named(("leo", "my:leo"), ("lso",), topic_label="t", partition_label="p")
    data = b'leo{t="a",p="0"} 1\nmy:leo{t="a",p="1"} 2\nlso{t="a",p="0"} 3\nkafka_log_Log_LogEndOffset{t="a",p="0"} 4\n'
    rows, damage = read_metrics(data, names)
    assert damage == []
    assert [(r["partition"], r.get("log_end_offset"), r.get("log_start_offset")) for r in rows] == [
        (0, 1, None),
        (1, 2, None),
        (0, None, 3),
    ]


START = b"process_start_time_seconds"


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
