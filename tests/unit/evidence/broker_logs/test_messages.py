"""Every message that is evidence, as a release printed it: its kind and fields; and what must not pass for one."""

import json
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import tables
from evidence.broker_logs.events import KINDS, MESSAGES, WANTED, read_event
from evidence.limits import MAX_INT32, MAX_INT64, MAX_TIME_MS
from replay.offsets.broker_lines import DAMAGED
from tests.support.paths import ROOT
from tests.unit.evidence.accounting import FUZZ
from tests.unit.evidence.broker_logs.support import SAMPLES

Fields = dict[str, Any]

# Texts of real logs (the samples beside it) or, where no capture has one, of Kafka's source with values put in.
SAMPLED = [json.loads(line) for line in (SAMPLES / "messages.jsonl").read_text().splitlines()]
LINES: list[tuple[str, Fields]] = [(s["message"], s["fields"]) for s in SAMPLED if "message" in s]
FURTHER_LINES: list[tuple[str, Fields]] = [(s["further"], s["fields"]) for s in SAMPLED if "further" in s]


@pytest.mark.parametrize(("message", "fields"), LINES, ids=lambda v: v["kind"] if isinstance(v, dict) else None)
def test_a_message_and_its_fields(message: str, fields: Fields) -> None:
    assert read_event(message) == fields
    assert re.search(WANTED, message), "the scan of chunks has to find the line, too"


@pytest.mark.parametrize(("message", "fields"), FURTHER_LINES)
def test_a_line_of_a_stack_trace(message: str, fields: Fields) -> None:
    assert read_event(message, is_head=False) == fields
    assert re.search(WANTED, message)


def test_every_pattern_has_a_line() -> None:
    texts = [re.sub(r"^\[[^\]]*\] ", "", message) for message, _ in LINES] + [message for message, _ in FURTHER_LINES]
    without = [m.kind for m in MESSAGES if not any(re.search(m.pattern, text) for text in texts)]
    assert without == []
    assert {fields["kind"] for _, fields in (*LINES, *FURTHER_LINES)} == set(KINDS)


def test_what_changes_a_disk_at_a_start_are_kinds_of_one_replica() -> None:
    assert set(DAMAGED) <= set(KINDS)
    of_these = [fields for _, fields in LINES if fields["kind"] in DAMAGED]
    assert all({"topic", "partition"} <= set(fields) for fields in of_these)


def test_every_field_is_a_column() -> None:
    names = {name for _, fields in (*LINES, *FURTHER_LINES) for name in fields} - {"speaker_id"}
    assert names <= set(tables.BROKER_LOG_EVENTS.names)


def test_every_kind_is_explained() -> None:
    text = (ROOT / "docs" / "broker_logs.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []


@pytest.mark.parametrize("message", [s["none"] for s in SAMPLED if "none" in s])
def test_other_messages_are_none(message: str) -> None:
    assert read_event(message) is None


def test_a_stack_traces_line_is_no_message_of_a_broker() -> None:
    for message, fields in LINES:
        if fields["kind"] not in ("out_of_memory",):
            assert read_event(message, is_head=False) is None


@FUZZ
@given(st.sampled_from(LINES), st.data())
def test_a_message_that_was_changed_raises_nothing(line: tuple[str, Fields], data: st.DataObject) -> None:
    message = line[0]
    start = data.draw(st.integers(0, len(message)))
    end = data.draw(st.integers(start, len(message)))
    event = read_event(message[:start] + data.draw(st.text(max_size=5)) + message[end:])
    assert event is None or event["kind"] in KINDS


@pytest.mark.parametrize("value", [MAX_INT64 + 1, MAX_INT64, MAX_INT32 + 1, MAX_INT32, MAX_TIME_MS + 1, -1])
def test_any_number_in_a_message_fits_its_column_or_is_none(value: int) -> None:
    """2^63 - 1 as the last offset: the log ends after it, at an offset that does not exist."""
    for message, _ in LINES:
        for number in re.finditer(r"(?<![\w.])-?\d+(?![\w.])", message):
            event = read_event(f"{message[: number.start()]}{value}{message[number.end() :]}")
            if event is not None:
                event.pop("speaker_id", None)
                pa.RecordBatch.from_pylist([event], schema=tables.BROKER_LOG_EVENTS)
