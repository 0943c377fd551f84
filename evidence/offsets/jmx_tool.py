"""Read log end offsets from the output of Kafka's JmxTool (org.apache.kafka.tools.JmxTool), in any report format.

Facts, for 4.3.1:

* original: a header line of quoted names, "time" first, then "<object name>:<attribute>" in order; then one line of
  unquoted values per report. The beans are looked up once: a later partition gets no column, and a removed one ends the
  tool. Names are quoted but not escaped; values in an ObjectName are, if needed (ObjectName.quote).
* csv, tsv, properties: one line per value, `name,"value"`, `name<tab>value` or `name=value`; a report begins with its
  time.
"""

import re

from evidence.errors import Damage
from evidence.limits import MAX_INT64, int32_of
from evidence.redaction import excerpt, reason_for
from evidence.tables import Row
from evidence.text_files import text_lines

_FIELDS = {"LogEndOffset": "log_end_offset", "LogStartOffset": "log_start_offset"}
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_COLUMN = re.compile(rf'"((?:={_QUOTED}|[^"])*)"(?:,|$)')
_PROPERTY = re.compile(rf'([^=,:"]+)=({_QUOTED}|[^=,:"]*)(?:,|$)')
_UNQUOTE = re.compile(r'\\([\\"*?n])|([^\\"*?])')
_VALUE = re.compile(rb"[0-9]{1,19}")
# Times from 2001 to 2286 have 13 digits. Another number of digits is a date (--date-format yyyyMMddHHmmss has 14). No
# time beyond limits.MAX_TIME_MS is accepted.
_TIME_MS = re.compile(rb"[0-9]{13}")
_HEADER = b'"time"'
_TIME_LINE = re.compile(rb'time(,"|\t|=)([^"]*)"?')


# Of a replica: 'log_end_offset' or 'log_start_offset', topic, partition.
_Column = tuple[str, str, int]


def read_jmx_tool(data: bytes) -> tuple[list[Row], list[Damage]]:
    """A log_end_offsets row for each offset of each report, and damage for each line that cannot be read. Other beans
    are skipped.

    A row has its report's time, by the tool's clock. It is None if --date-format printed a date, whose format and time
    zone the file does not give: the time of the file is not the report's.
    Concatenated files are supported: each header applies to the lines after it.
    Errors: none.
    """
    rows: list[Row] = []
    damage: list[Damage] = []
    header: list[_Column | None] = []  # of a report in one line
    report: tuple[bytes, int | None] | None = None  # of one with a line per value: the separator after a name, its time
    for position, raw, ended in text_lines(data):
        is_header, time = raw.startswith(_HEADER), _TIME_LINE.fullmatch(raw)
        if is_header or time:
            header, report = [], (time[1], _milliseconds(time[2])) if time and not is_header else None
        try:
            if not ended:
                raise ValueError("the line does not end: its last value may lack digits")
            if is_header:
                header, error = _read_header(raw.decode("utf-8"))
                if error:
                    raise ValueError(error)
            elif raw and report is None:
                words = _words(raw, header)
                at_ms = _milliseconds(words[0])
                rows += [_row(c, i, words[i], position, at_ms) for i, c in enumerate(header) if c]
            elif raw and report is not None and not time:
                rows += _read_value(raw, position, *report)
        except ValueError as error:
            message = f"not a line that JmxTool prints ({reason_for(error, raw)}): {excerpt(raw)}"
            damage.append(Damage(position, len(raw), None, "bad_metric", message))
    return rows, damage


def _read_header(text: str) -> tuple[list[_Column | None], str | None]:
    """(the replica of each column or None, what is wrong with one)."""
    names: list[str] = []
    at = 0
    while match := _COLUMN.match(text, at):
        names.append(match[1])
        at = match.end()
    if at != len(text) or text.endswith(","):
        raise ValueError(f"its names cannot be separated from character {at} on")
    columns: list[_Column | None] = []
    error = None
    for index, name in enumerate(names):
        try:
            columns.append(_column(name, index))
        except ValueError as reason:
            error = error or str(reason)
            columns.append(None)
    return columns, error


def _column(name: str, index: int) -> _Column | None:
    """The replica of a column; None for another bean, and for a future replica, which does not count yet (KIP-113)."""
    bean, _, attribute = name.rpartition(":")
    domain, _, rest = bean.partition(":")
    if domain != "kafka.log" or attribute != "Value":
        return None
    properties = {match[1]: _unquoted(match[2]) for match in _PROPERTY.finditer(rest)}
    field = _FIELDS.get(properties.get("name", ""))
    if properties.get("type") != "Log" or field is None or properties.get("is-future") == "true":
        return None
    topic, partition = properties.get("topic", ""), properties.get("partition", "")
    number = int32_of(partition)
    if not topic or number is None:
        raise ValueError(f"column {index}: topic {topic!r}, partition {partition!r} is not a partition")
    return field, topic, number


def _unquoted(value: str) -> str:
    """The value of a property before ObjectName.quote."""
    if not value.startswith('"'):
        return value
    pieces = list(_UNQUOTE.finditer(value, 1, len(value) - 1))
    if sum(len(piece[0]) for piece in pieces) != len(value) - 2:
        raise ValueError(f"{value!r} is not quoted like an ObjectName")
    return "".join("\n" if piece[1] == "n" else piece[1] or piece[2] for piece in pieces)


def _words(raw: bytes, header: list[_Column | None]) -> list[bytes]:
    """The fields of a report's line."""
    words = raw.split(b",")
    if not header:
        raise ValueError("no header and no report time before it")
    if len(words) != len(header):
        raise ValueError(f"{len(words)} fields, the header has {len(header)}")
    return words


def _read_value(raw: bytes, position: int, separator: bytes, at_ms: int | None) -> list[Row]:
    """The row of a line `name<separator>value`; empty for another bean."""
    name, found, value = raw.rpartition(separator)
    if not found:
        raise ValueError("no name and value")
    column = _column(name.decode("utf-8"), 1)
    word = value.removesuffix(b'"') if separator.endswith(b'"') else value
    return [_row(column, 1, word, position, at_ms)] if column else []


def _row(column: _Column, index: int, word: bytes, position: int, at_ms: int | None) -> Row:
    if not _VALUE.fullmatch(word) or int(word) > MAX_INT64:
        raise ValueError(f"field {index} is not an offset")
    field, topic, partition = column
    return {"topic": topic, "partition": partition, field: int(word), "position": position, "captured_at_ms": at_ms}


def _milliseconds(word: bytes) -> int | None:
    return int(word) if _TIME_MS.fullmatch(word) else None
