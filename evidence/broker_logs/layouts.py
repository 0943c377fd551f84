"""How a log's lines are laid out: Kafka's log4j patterns, JSON layouts, and what containers and log archives put around
them. A layout knows which lines begin an event and reads such a line into its time, level, logger and message.

Facts: Kafka's config/log4j2.yaml (4.0 and later) and log4j.properties (3.9) print `[%d] %p %m (%c)%n`, local time
without a zone; a stack trace follows on lines of its own. Strimzi's (default-logging/KafkaCluster.properties of its
cluster operator) prints whole seconds from Kafka 4.0 on. Log4j2's JsonLayout and JsonTemplateLayout (ECS, Logstash,
GELF) print an object a line. `docker logs -t`, `kubectl logs --timestamps` and CRI files begin a line with a time in
RFC 3339; journald prints `<time> <host> <unit>[<pid>]: `; Docker's own files hold {"log": line, "time": ...}.
"""

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from evidence.broker_logs.times import ISO, Times, date_pattern, is_rounded, read_iso, read_time, zone_by_stamp
from evidence.limits import MAX_TIME_MS
from evidence.text_files import without_colours

# Kafka's own pattern, and those of Strimzi's and other images; the first that fits most lines is taken.
KNOWN_PATTERNS = (
    *("[%d] %p %m (%c)%n", "%d{yyyy-MM-dd HH:mm:ss} %-5p [%t] %c{1}:%L - %m%n", "%d %-5p [%t] %c{1}:%L - %m%n"),
    *("%d %p [%t] %c - %m%n", "%d %p %m (%c) [%t]%n", "%d [%t] %p %c - %m%n", "%d %p [%t] %c: %m%n"),
)
# What the first of them reads as well, each message then with its thread before it. A thread's name has no blank and no
# `=`, which what Kafka begins a message with has: `[Broker id=1]`, `[GroupCoordinator 1]`.
_WITH_THREAD = "[%d] %p [%t] %m (%c)%n"
_THREAD = re.compile(r"\[(?:[^\s=\]]+|SIG[A-Z]+ handler)\] ")
HEAD_BYTES = 256 << 10
_ENOUGH_LINES = 30
_MOST_TAIL = 2048

_STAMP = re.sub(r"\?P<(\w+)>", r"?P<stamp_\1>", ISO.replace("[T ]", "T"))
# What may stand before an event's own text: kubectl --prefix, stern (pod and container), docker compose; Grafana's
# milliseconds; a time, with CRI's stream and flag, logcli's labels or the stream of `aws logs tail`; what
# `aws logs filter-log-events --output text` prints, also after the message; syslog and journald (short, -precise,
# -full, -iso, -unix, -monotonic; RFC 5424).
_PREFIX = (
    r"(?:\[pod/(?P<from_pod>[^\]\n]{1,300})\] |(?P<from_stern>(?:[a-z0-9][a-z0-9.-]* ){1,2}[a-z0-9][a-z0-9-]*) |"
    r"(?P<from_service>[a-zA-Z0-9._-]{1,100}) +\| ?)?(?:\d\d-\d\d \d\d:\d\d:\d\d )?"
    rf"(?:\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{{3}}\t|(?:\d{{13}}\t)?{_STAMP}[ \t]"
    r"(?:(?:stdout|stderr) (?P<flag>[FP]) |\{(?P<labels>[^}\n]*)\} +|(?P<from_stream>[^\s\[{]+) )?|"
    r"EVENTS\t(?:\d{20,60}\t)?\d{13}\t(?:(?P<from_events>[^\t\n]{1,512})\t)?)?"
    r"(?:(?:(?:[A-Z][a-z]{2} )?(?:[A-Z][a-z]{2} [ \d]\d|\d{4}-\d\d-\d\d) \d\d:\d\d:\d\d(?:\.\d{1,6})? (?:[A-Z]{3,5} )?|"
    r"\d{10}\.\d{6} |\[ *\d{1,9}\.\d{6}\] )?"
    r"(?P<from_host>[a-zA-Z0-9._-]{1,100}) [a-zA-Z0-9._@/-]{1,100}(?:\[\d{1,10}\])?: |"
    r"<\d{1,3}>1 \S{1,40} (?P<from_sender>\S{1,100}) \S{1,100} \S{1,40} \S{1,40} (?:-|\[[^\]\n]{0,500}\]) )?"
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_LEVEL = r"(?P<level>[A-Z]{4,8})"
_CONVERSION = re.compile(r"%(?:-?\d*(?:\.-?\d+)?)(?P<word>[a-zA-Z]+)(?P<options>(?:\{[^}]*\})*)|(?P<text>[^%]+|%%)")
_MESSAGE = ("m", "msg", "message")
_SKIPPED = ("n", "ex", "exception", "throwable", "xEx", "rEx", "notEmpty")
_JSON_MESSAGE = (
    *("message", "MESSAGE", "msg", "short_message", "log", "line", "Line", "_raw", "@message", "body"),
    *("textPayload", "Message"),
)
# What an archive puts around an event: elasticdump, Splunk, Cloud Logging.
_JSON_OUTER = ("_source", "result", "jsonPayload")
_JSON_LEVEL = ("level", "log.level", "severity", "loglevel", "thread_level", "_level")
_JSON_LOGGER = ("loggerName", "logger_name", "log.logger", "logger", "_logger", "category")
_JSON_FROM = (
    *("podName", "pod", "pod_name", "kubernetes.pod_name", "labels.pod", "fields.pod", "logStreamName", "@logStream"),
    *("_HOSTNAME", "hostname", "host.name", "host", "Host", "labels.host", "instance"),
)
_JSON_TIME = ("timeMillis", "@timestamp", "timestamp", "time", "_time", "ts", "date", "__REALTIME_TIMESTAMP")
_NO_TIME: Times = (None, None)
_EPOCH = datetime(1970, 1, 1)
_GREATEST_UNITS = ((10**17, 10**6), (10**14, 10**3), (10**11, 1))


@dataclass(frozen=True, slots=True)
class EventHead:
    """What the first line of an event says. logged_at_ms: its wall-clock time in ms, as if its zone were UTC;
    logged_at_utc_ms: the time itself, None where no zone is printed. None: not printed. A time in whole seconds says
    too little (is_rounded): both are None then, unless a container's own time before the line is finer. is_cut: what
    the layout prints after a message is missing: the message may lack its end, and a number there digits. source: the
    pod, host or stream that a container's runtime or a log archive names."""

    logged_at_ms: int | None
    logged_at_utc_ms: int | None
    level: str | None
    logger: str | None
    message: str
    is_rounded: bool = False
    is_cut: bool = False
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """head: a regular expression (RE2's subset) for the beginning of a line that begins an event. read: such a line ->
    EventHead; None where it cannot be read, or is a part of a line that a container runtime cut. shows_its_end: a line
    that can be read is whole, even without a line end. has_header: the first line names columns. begin: of a text
    layout: how any event begins, without what containers put before it."""

    name: str
    head: str
    read: Callable[[bytes], EventHead | None]
    shows_its_end: bool = False
    has_header: bool = False
    begin: re.Pattern[str] | None = None

    def is_own(self, line: bytes) -> bool:
        """Whether a line that begins an event stands as a node writes it into its own file: in a text, without what a
        container's runtime or a log archive puts before it."""
        return self.begin is not None and self.begin.match(line.decode("utf-8", "replace")) is not None


def of_pattern(pattern: str) -> Layout:
    """The layout of a log4j pattern (%d %p %m %c %t ...; %m is needed), or of a regular expression with the groups
    `message` and, as far as printed, `time`, `level`, `logger` (it begins with `(?` or holds `(?P<message>`).

    Errors: ValueError saying what is not supported.
    """
    if "(?P<" in pattern:
        return _of_expression(pattern)
    before, after, zone_ms = _converted(pattern)
    return _text_layout(pattern, before, after, zone_ms)


def _converted(pattern: str) -> tuple[str, str, int | None]:
    """Regular expressions of what stands before and after the message; the zone that %d's second option names."""
    parts: tuple[list[str], list[str]] = ([], [])
    side, zone_ms = 0, None
    for token in _CONVERSION.finditer(pattern):
        word, options = token["word"], re.findall(r"\{([^}]*)\}", token["options"] or "")
        if token["text"] is not None:
            parts[side].append(re.escape(token["text"].replace("%%", "%")).replace(r"\ ", r" +"))
        elif word in _MESSAGE:
            side = 1
        elif word in ("d", "date"):
            parts[side].append(date_pattern(options[0] if options else ""))
            zone_ms = 0 if len(options) > 1 and options[1] in ("UTC", "GMT", "Z") else zone_ms
        elif word in ("p", "level"):
            parts[side].append(_LEVEL)
        elif word in ("c", "logger"):
            parts[side].append(r"(?P<logger>[a-zA-Z0-9_.$]{1,200})")
        elif word in ("L", "line"):
            parts[side].append(r"[0-9?]{1,7}")
        elif word in ("t", "thread", "threadName", "tn"):
            parts[side].append(r"[^\n]{1,200}?")
        elif word not in _SKIPPED:
            parts[side].append(r"[^\n]{0,500}?")
    if not side:
        raise ValueError(f"log pattern {pattern!r} has no %m: nothing says where the message is")
    if "(?P<year>" not in "".join(parts[0]) and "(?P<epoch_ms>" not in "".join(parts[0]):
        raise ValueError(f"log pattern {pattern!r} prints no %d before the message: nothing says where an event begins")
    return _named_once("".join(parts[0])), _named_once("".join(parts[1])).rstrip("\n"), zone_ms


def _named_once(expression: str) -> str:
    """Without the names of groups that stand there again: a pattern may print its level twice."""
    seen = set[str]()

    def first(group: re.Match[str]) -> str:
        is_new = group[1] not in seen
        seen.add(group[1])
        return group[0] if is_new else "?:"

    return re.sub(r"\?P<(\w+)>", first, expression)


def _text_layout(name: str, before: str, after: str, zone_ms: int | None) -> Layout:
    plain, prefixed = re.compile(before), re.compile(_PREFIX + before)
    tail = re.compile(after + r"(?:\t\d{13})?\s*$")

    def read(line: bytes) -> EventHead | None:
        text = line.decode("utf-8", "replace")
        found = plain.match(text) or prefixed.match(text)
        if found is None:
            return None
        groups = found.groupdict()
        if groups.get("flag") == "P":
            return None
        end = _tail_match(tail, text, found.end())
        message = text[found.end() : end.start() if end else len(text)]
        logger = groups.get("logger") or (end.groupdict().get("logger") if end else None)
        wall_ms, utc_ms = read_time(groups, zone_ms)
        is_whole_s = wall_ms is not None and not (groups.get("fraction") or groups.get("epoch_ms"))
        if wall_ms is not None and (utc_ms is None or is_whole_s):
            wall_ms, utc_ms = _stamped(wall_ms, is_whole_s, groups)
        is_cut = end is None
        source = next((text for name, text in groups.items() if text and name.startswith("from_")), None)
        source = source or _first(dict(_LABEL.findall(groups.get("labels") or "")), _JSON_FROM)
        return EventHead(wall_ms, utc_ms, groups.get("level"), logger, message.rstrip(), is_whole_s, is_cut, source)

    return Layout(name, "^" + _for_re2(_PREFIX + before), read, begin=plain)


def _stamped(wall_ms: int, is_whole_s: bool, groups: Mapping[str, str | None]) -> Times:
    """The times of a line without a zone, or in whole seconds, by the time that a container's runtime put before it."""
    stamp_ms = None
    if groups.get("stamp_zone"):
        stamp_ms = read_time({k.removeprefix("stamp_"): v for k, v in groups.items() if k.startswith("stamp_")})[1]
    zone_ms = None if stamp_ms is None else zone_by_stamp(wall_ms, stamp_ms)
    if not is_whole_s:
        return wall_ms, None if zone_ms is None else wall_ms - zone_ms
    if stamp_ms is None or zone_ms is None or not groups.get("stamp_fraction"):
        return _NO_TIME
    return stamp_ms + zone_ms, stamp_ms


def _tail_match(tail: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    """The shortest match at the end of the line, of at most _MOST_TAIL characters: a search through all of a line with
    many spaces takes the square of their number."""
    text = text.rstrip()
    start = max(start, len(text) - _MOST_TAIL)
    at = max(text.rfind(" (", start), text.rfind("(", start), start)
    return tail.search(text, at) or tail.search(text, start)


def _of_expression(expression: str) -> Layout:
    try:
        whole = re.compile(expression)
    except re.error as error:
        raise ValueError(f"log pattern {expression!r} is not a regular expression: {error}") from None
    if "message" not in whole.groupindex:
        raise ValueError(f"log pattern {expression!r} has no group `message`")

    def read(line: bytes) -> EventHead | None:
        found = whole.match(line.decode("utf-8", "replace"))
        if found is None:
            return None
        groups = found.groupdict()
        time = groups.get("time") or ""
        wall_ms, utc_ms = (None, None) if is_rounded(time) else read_iso(time)
        message = groups["message"].rstrip()
        return EventHead(wall_ms, utc_ms, groups.get("level"), groups.get("logger"), message, is_rounded(time))

    head = "^(?:" + _for_re2(expression.lstrip("^")) + ")"
    import pyarrow as pa  # most who read settings need neither
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern=head)
    except pa.ArrowInvalid as error:
        raise ValueError(f"log pattern {expression!r} is not a regular expression of RE2: {error}") from None
    return Layout(expression, head, read)


def _for_re2(expression: str) -> str:
    """Without names: RE2 allows each only once, as Python does, but needs none here."""
    return re.sub(r"\(\?P<\w+>", "(?:", expression)


def json_layout(inner: Sequence[Layout]) -> Layout:
    """An object a line, or of an object over lines the one with the message, which must have the time. The message may
    be a line of Kafka's own pattern (Docker's files, an archive's export)."""

    def read(line: bytes) -> EventHead | None:
        if line[-1:] in b",]" or line[:1] in b"[,":  # of a JSON array
            line = line.strip().lstrip(b"[,").rstrip(b",]")
        if line.lstrip()[:1] == b'"':
            line = b"{" + line + b"}"
        return _of_object(line, inner)

    member = f'"(?:{"|".join(_JSON_MESSAGE)})"\\s*:\\s*"'
    return Layout("json", rf"^\s*(?:(?:\[\s*|,\s*)?\{{\s*[^\s]|{member})", read, shows_its_end=True)


def csv_layout(header: bytes, inner: Sequence[Layout]) -> Layout | None:
    """The export of a log archive: a header, a column `message` (or one of its other names). None: no such header."""
    names = [name.strip().strip('"') for name in header.decode("utf-8", "replace").lstrip("\ufeff").split(",")]
    if not any(name in _JSON_MESSAGE for name in names):
        return None

    def read(line: bytes) -> EventHead | None:
        try:
            values = next(csv.reader([line.decode("utf-8", "replace")]), [])
        except csv.Error:
            return None
        return _of_fields(dict(zip(names, values, strict=False)), inner)

    columns = names.index(next(name for name in names if name in _JSON_MESSAGE))
    field = r'(?:"(?:[^"]|"")*"|[^",\n]*),' * columns
    starts = [layout.head.removeprefix("^") for layout in inner]
    own_time = r"" if columns else r"\S"
    head = f'^{field}(?:"?(?:{"|".join(starts)})' + (f"|{own_time})" if columns else ")")
    return Layout("csv", head, read, has_header=True)


def _of_object(text: bytes, inner: Sequence[Layout]) -> EventHead | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _of_fields(value, inner) if isinstance(value, dict) else None


def _of_fields(fields: Mapping[str, Any], inner: Sequence[Layout]) -> EventHead | None:
    for name in _JSON_OUTER:
        if isinstance(own := fields.get(name), dict):
            fields = {**fields, **own}
    message = _first(fields, _JSON_MESSAGE)
    if not isinstance(message, str):
        return None
    (wall_ms, utc_ms), is_whole_s = _time_of(fields)
    text = without_colours(message.encode("utf-8", "replace"))
    message, line = text.decode(), text.split(b"\n", 1)[0].rstrip(b"\r")
    stamp = b"" if utc_ms is None else f"{_EPOCH + timedelta(milliseconds=utc_ms):%Y-%m-%dT%H:%M:%S.%f}Z ".encode()
    source = _first(fields, _JSON_FROM)
    source = None if source is None else str(source)
    if text.startswith(b"{") and (head := _of_object(text, inner)) is not None:  # what a node printed as JSON itself
        return replace(head, source=source or head.source)
    for layout in inner:
        if (head := layout.read(stamp + line) or layout.read(line)) is not None:
            return replace(head, source=source or head.source)
    level, logger = _first(fields, _JSON_LEVEL), _first(fields, _JSON_LOGGER)
    return EventHead(
        wall_ms,
        utc_ms,
        level if isinstance(level, str) else None,
        logger if isinstance(logger, str) else None,
        message.rstrip(),
        is_whole_s,
        source=source,
    )


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first of the fields that is there; `log.level` may be a field, or `level` in an object `log`. Half of a
    surrogate pair, which JSON can escape, is no text and is replaced."""
    for name in names:
        value = fields.get(name)
        if value is None and "." in name and isinstance(outer := fields.get(name.split(".")[0]), dict):
            value = outer.get(name.split(".", 1)[1])
        if value is not None and not isinstance(value, dict):
            return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
    return None


def _time_of(fields: Mapping[str, Any]) -> tuple[Times, bool]:
    """The time in the fields, and whether it is there in whole seconds only: none then."""
    instant = fields.get("instant")
    if isinstance(instant, dict) and isinstance(seconds := instant.get("epochSecond"), int):
        nanos = instant.get("nanoOfSecond")
        return (_in_bounds(seconds * 1000 + nanos // 10**6), False) if isinstance(nanos, int) else (_NO_TIME, True)
    value = _first(fields, _JSON_TIME)
    if isinstance(value, str) and not re.fullmatch(r"\d{10,19}(\.\d{1,9})?", value):
        return (_NO_TIME, True) if is_rounded(value) else (read_iso(value), False)
    try:
        number = float(value) if isinstance(value, str | float) and "." in str(value) else int(value)
    except (TypeError, ValueError, OverflowError):
        return _NO_TIME, False
    for least, divisor in _GREATEST_UNITS:
        if number >= least:
            return _in_bounds(int(number // divisor)), False
    return (_NO_TIME, True) if isinstance(number, int) else (_in_bounds(int(number * 1000)), False)


def _in_bounds(ms: int) -> Times:
    return (ms, ms) if 0 <= ms <= MAX_TIME_MS else _NO_TIME


def detect(start: bytes, patterns: Sequence[str] = ()) -> Layout | None:
    """The layout of a text by its first HEAD_BYTES; None where no line begins an event. patterns: what the site uses,
    tried before KNOWN_PATTERNS. Errors: ValueError of `of_pattern`."""
    texts = [of_pattern(pattern) for pattern in (*patterns, *KNOWN_PATTERNS)]
    lines = [line.strip(b"\r\0") for line in without_colours(start.removeprefix(b"\xef\xbb\xbf")).split(b"\n")]
    lines = [line for line in lines if line]
    objects = json_layout(texts)
    sheet = csv_layout(lines[0], texts) if lines and b"," in lines[0] and lines[0][:1] != b"{" else None
    candidates = [*texts, objects, *([sheet] if sheet else [])]
    counts = [0] * len(candidates)
    for line in lines:
        counts = [count + _fits(layout, line) for count, layout in zip(counts, candidates, strict=True)]
        if max(counts) >= _ENOUGH_LINES:
            break
    best = max(range(len(candidates)), key=lambda i: (counts[i], -i))
    if counts[best] and candidates[best].name == KNOWN_PATTERNS[0] and _prints_threads(candidates[best], lines):
        return of_pattern(_WITH_THREAD)
    return candidates[best] if counts[best] else None


def _prints_threads(layout: Layout, lines: Sequence[bytes]) -> bool:
    """Whether the first messages all begin with the name of a thread."""
    heads = (layout.read(line) for line in lines if re.match(layout.head.encode(), line))
    return all(_THREAD.match(head.message) for head in islice(filter(None, heads), _ENOUGH_LINES))


def _fits(layout: Layout, line: bytes) -> bool:
    head = layout.read(line) if re.match(layout.head.encode(), line) else None
    return head is not None and (head.logged_at_ms is not None or head.is_rounded)
