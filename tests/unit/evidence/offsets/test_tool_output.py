"""Text of kafka-topics that a terminal changed, or somebody made long; other texts: test_texts.py."""

import pytest

from evidence.offsets.tool_output import read_topics
from tests.support.cli import printed


@pytest.mark.parametrize("name", ["unclean", "diverge"])
@pytest.mark.parametrize("tab", [b"\t", b"    "])
def test_every_line_that_kafka_topics_printed_is_read(tab: bytes, name: str) -> None:
    """What is copied from a terminal has spaces for tabs."""
    for text in printed(name, "kafka-topics"):
        rows, damage = read_topics(text.replace(b"\t", tab))
        assert damage == []
        assert [{**row, "position": 0} for row in rows] == [{**row, "position": 0} for row in read_topics(text)[0]]
        assert len(rows) == text.count(b"\tPartition: ")


def test_a_line_of_many_spaces_takes_no_square_of_their_number() -> None:
    (row,), _ = read_topics(
        b"Topic: a"
        + b" " * 500_000
        + b"Partition: 0 Leader: 1 x"
        + b" " * 500_000
        + b"y Replicas: 1 Isr: 1\n"
        + b"Topic: a\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    )
    assert row["partition"] == 1
