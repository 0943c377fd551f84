"""The text filters of the report: the templates and the drawings use them.

Every function here turns values of the tables into text a person reads. Null always reads as "unknown", never as 0.
Those that return `str` do not escape for HTML: jinja2's autoescape and `Markup.format` do where the text is placed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup

UNKNOWN = "unknown"
OPEN_END = "never closed in this log"
MAX_TOPIC_NAME = 249  # Kafka's own limit (org.apache.kafka.common.internals.Topic)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(value: object) -> str:
    """Text with every control, format (bidi) and unassigned character, and every odd space, shown as an escape."""
    return "".join(_escape(char) if _is_hidden(char) else char for char in _text(value))


def topic_text(topic: str | None) -> str:
    r"""A topic name safe to read: legal names unchanged, anything beyond printable ASCII as \xNN or \uNNNN.

    Legal names are ASCII, so this also shows look-alike letters for what they are. Longer than Kafka allows: cut.
    """
    name = _text(topic)
    shown = "".join(char if " " <= char <= "~" and char != "\\" else _escape(char) for char in name[:MAX_TOPIC_NAME])
    return shown if len(name) <= MAX_TOPIC_NAME else f"{shown}… ({len(name)} characters)"


def is_legal_topic(topic: str | None) -> bool:
    """False for a name that no Kafka broker would have accepted; a missing name is not judged."""
    return topic is None or (_LEGAL_TOPIC.fullmatch(topic) is not None and topic not in {".", ".."})


def partition_text(row: Mapping[str, Any]) -> str:
    """`topic-partition`, or "whole cluster" for a row about no partition."""
    if row["topic"] is None and row["topic_id"] is None:
        return "whole cluster"
    name = topic_text(row["topic"]) if row["topic"] is not None else f"topic id {topic_text(row['topic_id'])}"
    return name if row["partition"] is None else f"{name}-{row['partition']}"


def paragraphs(text: str | None) -> list[str]:
    """The non-empty lines of a prose field, each made visible."""
    return [visible(line) for line in re.split(r"\r?\n", text or "") if line.strip()]


def utc_text(timestamp_ms: int | None) -> str:
    """`2026-11-20 22:05:20.460`, in UTC; a time that no calendar holds is given as its number."""
    if timestamp_ms is None:
        return UNKNOWN
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def duration_text(start_ms: int | None, end_ms: int | None) -> str:
    """How long a window lasted, by the records' own clocks; empty where one end is not known or time ran backwards."""
    if start_ms is None or end_ms is None or end_ms < start_ms:
        return ""
    elapsed_ms = end_ms - start_ms
    if elapsed_ms < 1000:
        return f"{elapsed_ms} ms"
    if elapsed_ms < 60_000:
        return f"{elapsed_ms / 1000:.1f} s"
    minutes, seconds = divmod(elapsed_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def loss_text(row: Mapping[str, Any]) -> str:
    """Lost offsets as "70", "70–75", "≥ 70", "≤ 75" or "unknown", from the bounds `loss_min` and `loss_max`."""
    low, high = row["loss_min"], row["loss_max"]
    if low is None:
        return UNKNOWN if high is None else f"≤ {high}"
    if high is None:
        return f"≥ {low}"
    return str(low) if low == high else f"{low}–{high}"


def window_text(row: Mapping[str, Any]) -> str:
    """The metadata offsets of a window: `91–145`, or `91, never closed in this log`."""
    start = UNKNOWN if row["start_offset"] is None else row["start_offset"]
    return f"{start}, {OPEN_END}" if row["end_offset"] is None else f"{start}–{row['end_offset']}"


def leader_text(broker_id: int | None) -> str:
    """A broker id; "none" for Kafka's -1 (no leader)."""
    if broker_id is None:
        return UNKNOWN
    return "none" if broker_id < 0 else str(broker_id)


def brokers_text(broker_ids: Iterable[int] | None) -> str:
    """A list of brokers in the order given: `[3, 1, 2]`."""
    return UNKNOWN if broker_ids is None else f"[{', '.join(str(broker) for broker in broker_ids)}]"


def breakable(value: object) -> Markup:
    """A path or an identifier made visible, with a place to break the line after each slash and underscore."""
    pieces = re.split(r"(?<=[/_])(?=[^/_])", visible(value))
    return Markup("<wbr>").join(pieces)


def or_dash(value: object) -> str:
    """As `or_unknown`, but a dash for null: for tables where a column need not apply."""
    return "–" if value is None else or_unknown(value)


def or_unknown(value: object) -> str:
    """The value made visible, "unknown" for null: zero and false are values."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNKNOWN if value is None else visible(value)


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _is_hidden(char: str) -> bool:
    category = unicodedata.category(char)
    return category in _HIDDEN_CATEGORIES or (category == "Zs" and char != " ")


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
