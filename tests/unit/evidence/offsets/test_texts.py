"""Texts that are odd, damaged or of other releases, a line each in tests/unit/golden/texts.jsonl: who reads it, what it
shows, the text, and what is read of it (rows; of damage its position, length, reason and message).
"""

from collections.abc import Callable, Sequence
from typing import Any

from evidence.errors import Damage
from evidence.offsets import json_responses, tool_output
from evidence.offsets.clean_text import clean_checkpoint, clean_metrics
from evidence.offsets.jmx_exporter import process_start_ms, read_metrics
from evidence.offsets.jmx_tool import read_jmx_tool
from evidence.text_files import read_checkpoint
from tests.support.golden import cases, filled
from tests.support.metric_names import NAMES

Rows = list[dict[str, Any]]


def metrics(data: bytes) -> tuple[Rows, Sequence[Damage]]:
    """What is read as columns has no other rows, and what is damaged is not read so."""
    rows, damage = read_metrics(data, NAMES)
    clean = clean_metrics(data, NAMES)
    assert clean is None or not damage
    assert clean is None or [{k: v for k, v in r.items() if v is not None} for r in clean.to_pylist()] == rows
    return rows, damage


def process_start(data: bytes) -> tuple[Rows, Sequence[Damage]]:
    found = process_start_ms(data, NAMES)
    assert process_start_ms(b"jvm_threads 12\n" + data, NAMES) == found
    return [{"process_start_ms": found}], []


def describe_quorum(data: bytes) -> tuple[Rows, Sequence[Damage]]:
    offsets, reports, damage = json_responses.read_describe_quorum(data)
    return [*offsets, *reports], damage


def checkpoint(data: bytes) -> tuple[Rows, Sequence[Damage]]:
    lines, damage = read_checkpoint(data, 3)
    clean = clean_checkpoint(data, "high_watermark")
    assert clean is None or not damage
    assert clean is None or clean["position"].to_pylist() == [entry.position for entry in lines]
    return [
        {"words": [w.decode() for w in e.words], "position": e.position, "bytes": e.length_bytes} for e in lines
    ], damage


READERS: dict[str, Callable[[bytes], tuple[Rows, Sequence[Damage]]]] = {
    "jmx_exporter": metrics,
    "process_start": process_start,
    "jmx_tool": read_jmx_tool,
    "get_offsets": tool_output.read_get_offsets,
    "consumer_groups": tool_output.read_consumer_groups,
    "quorum_replication": tool_output.read_quorum_replication,
    "quorum_status": tool_output.read_quorum_status,
    "topics": tool_output.read_topics,
    "log_dirs": json_responses.read_log_dirs,
    "describe_log_dirs": json_responses.read_describe_log_dirs,
    "describe_quorum": describe_quorum,
    "quorum_state": json_responses.read_quorum_state,
    "clean_shutdown": json_responses.read_clean_shutdown,
    "prometheus": lambda data: json_responses.read_prometheus(data, NAMES, 6),
    "checkpoint": checkpoint,
    "listing": lambda data: tool_output.read_listing(data, 1 << 20),
}


@filled("texts")
def test_what_is_read_of_a_text(case: dict[str, Any]) -> dict[str, Any]:
    rows, damage = READERS[case["reader"]](case["text"].encode("utf-8", "surrogateescape"))
    named = [[d.position, d.length_bytes, d.reason, d.message] for d in damage]
    assert "hunter2" not in str(named)
    return {**{name: case[name] for name in ("reader", "what", "text")}, "rows": rows, "damage": named}


def test_every_reader_has_texts() -> None:
    assert {case["reader"] for case in cases("texts")} == READERS.keys()


def test_nesting_of_any_depth_is_damage() -> None:
    rows, (damage,) = json_responses.read_clean_shutdown(b'{"a":' + b"[" * 100_000)
    assert (rows, damage.reason) == ([], "bad_json")
    reports = [case["text"] for case in cases("texts") if case["reader"] == "quorum_status"]
    status = next(text for text in reports if "[1,2]" in text)
    (row,), damages = tool_output.read_quorum_status(status.replace("[1,2]", "[" * 100_000).encode())
    assert (row["voters"], len(damages)) == (None, 1)
