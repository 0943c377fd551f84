"""Text filters of the report, for the templates and the timelines: `x_text` is the filter x of the templates.

Every function turns values of the tables into text. Null becomes "not known", never 0. Functions that return `str` do
not escape HTML: jinja2's autoescape and `Markup.format` do.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from markupsafe import Markup

from jobs.console.output import utc
from jobs.console.text import SYMBOLS, range_text

UNKNOWN = "not known"
OPEN_END = "never closed in this log"
MAX_BROKERS = 100
MAX_TOPIC_NAME = 249  # Kafka's own limit (org.apache.kafka.common.internals.Topic)

_MARKED = re.compile(r"([\\`*_{}\[\]<>#|!~&])")


def visible(value: object) -> str:
    """Escape control, format (bidi) and unassigned characters, and every space except the ASCII one."""
    text = _text(value)
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def topic_text(topic: str | None) -> str:
    r"""A topic name that is safe to show: legal names unchanged, anything beyond printable ASCII as \xNN or \uNNNN.

    Legal names are ASCII, so look-alike letters are escaped, too. Names longer than Kafka allows are shortened.
    """
    name = _text(topic)
    shown = "".join(char if " " <= char <= "~" and char != "\\" else _escape(char) for char in name[:MAX_TOPIC_NAME])
    return shown if len(name) <= MAX_TOPIC_NAME else f"{shown}… ({len(name)} characters)"


def partition_text(row: Mapping[str, Any]) -> str:
    """`topic-partition`, or "whole cluster" for a row that is not about a partition."""
    if row["topic"] is None and row["topic_id"] is None:
        return "whole cluster"
    name = topic_text(row["topic"]) if row["topic"] is not None else f"topic id {topic_text(row['topic_id'])}"
    return name if row["partition"] is None else f"{name}-{row['partition']}"


def paragraphs(text: str | None) -> list[str]:
    """The non-empty lines of a text, each made visible."""
    return [visible(line) for line in re.split(r"\r?\n", text or "") if line.strip()]


def utc_text(timestamp_ms: int | None) -> str:
    """A time in UTC, `2026-11-20 22:05:20.460`; in ms if it is out of the calendar's range."""
    return UNKNOWN if timestamp_ms is None else utc(timestamp_ms).replace("T", " ").removesuffix("Z")


def axis_texts(from_ms: int, to_ms: int, ticks: int = 5) -> list[tuple[str, str]]:
    """(time, date) at equal distances from the first to the last time, as exact as the span is short."""
    times = (from_ms + (to_ms - from_ms) * tick // (ticks - 1) for tick in range(ticks))
    cut = 12 if to_ms - from_ms < 10_000 else 8 if to_ms - from_ms < 86_400_000 else 5
    moments = [utc_text(time).partition(" ") for time in times]
    return [(clock[:cut], day) for day, _, clock in moments]


def duration_text(start_ms: int | None, end_ms: int | None) -> str:
    """How long a window lasted by the records' timestamps; empty if an end is unknown or time ran backwards."""
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


def lost_text(row: Mapping[str, Any], style: tuple[str, str, str] = SYMBOLS) -> str:
    """Lost offsets, from the bounds `loss_min` and `loss_max`, as "70", "70–75", "≥ 70", "≤ 75" or "not known"
    (style: of `range_text`)."""
    return range_text(row["loss_min"], row["loss_max"], style)


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
    """A list of brokers in the given order: `[3, 1, 2]`. Only a damaged record has more than MAX_BROKERS."""
    if broker_ids is None:
        return UNKNOWN
    shown = [str(broker) for broker in broker_ids]
    more = [f"… ({len(shown)} brokers)"] if len(shown) > MAX_BROKERS else []
    return f"[{', '.join(shown[:MAX_BROKERS] + more)}]"


def breakable(value: object) -> Markup:
    """A path or identifier made visible, with a possible line break after each slash and underscore."""
    pieces = re.split(r"(?<=[/_])(?=[^/_])", visible(value))
    return Markup("<wbr>").join(pieces)


def middle_text(text: str, most: int = 24) -> str:
    """The text; a long one without its middle."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[-(most - most // 2) :]}"


def dash_text(value: object) -> str:
    """Like `known_text`, but a dash for null: for columns that do not apply to every row."""
    return "–" if value is None else known_text(value)


def known_text(value: object) -> str:
    """The value made visible; "not known" for null. Zero and false are values."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNKNOWN if value is None else visible(value)


def escaped(text: object) -> str:
    """Text that marks nothing up in Markdown."""
    return _MARKED.sub(r"\\\1", visible(text))


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
