"""Read the text output of command-line tools: of Kafka's offsets, partition states and the metadata quorum; of `ls` the
sizes of replicas.

Sources: GetOffsetShell, TopicCommand and MetadataQuorumCommand of Kafka 4.3.1, as run and in source;
ConsumerGroupCommand of 3.9.1 to 4.3.1 in source; LogFileUtils (a
segment's name is its base offset). POSIX `ls -lnRA`: a section for each folder, its path and a colon, then a line for
each file; GNU, busybox and toybox print it alike.
"""

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from evidence import kinds
from evidence.errors import Damage, DecodeError
from evidence.limits import MAX_INT32, MAX_INT64
from evidence.redaction import excerpt, reason_for
from evidence.strict_json import read_object
from evidence.tables import Row
from evidence.text_files import text_lines
from evidence.wire.compression import decompress

METADATA_TOPIC = "__cluster_metadata"

_OFFSET = re.compile(r"([a-zA-Z0-9._-]{1,249}):([0-9]{1,10}):(-?[0-9]{0,19})")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_GROUPS_HEAD = re.compile(r"GROUP +TOPIC +PARTITION .*LOG-END-OFFSET +LAG ")
# What the tool prints between the groups' tables.
_OF_GROUPS = ("Consumer group '", "Warning: Consumer group '", "Error: ")
_NUMBERS = re.compile(r"-?[0-9]{1,10}(,-?[0-9]{1,10})*")
_INT32 = re.compile(r"-?[0-9]{1,10}")
_INT64 = re.compile(r"[0-9]{1,19}")
# Between the cells of kafka-topics; a terminal prints its tabs as spaces. Two names, of a reassignment, have two words.
_CELL_END = re.compile(r"\t|(?<! )(?<!Adding)(?<!Removing) ++(?=(?:(?:Add|Remov)ing )?[A-Z]\w*:(?: |$))")
_NODE_LISTS = (b"CurrentVoters", b"CurrentObservers")
_STATUS = (b"ClusterId", b"LeaderId", b"LeaderEpoch", b"HighWatermark", *_NODE_LISTS)

_GZIP = b"\x1f\x8b"
# Of `ls`: mode (with a mark of ACLs or SELinux), links, owner, group, size in bytes, time and name.
_ENTRY = re.compile(rb"[-a-z][-a-zA-Z]{9}[.+@]? +[0-9]+ +\S+ +\S+ +(?P<size>[0-9]{1,15}) +\S.*")
_FOLDER = re.compile(rb"(?P<path>.+):")
_SEGMENT = re.compile(rb" [0-9]{20}\.log$")
# A sum of blocks, a device with two numbers, a file that was deleted while `ls` ran.
_NO_FILE = re.compile(rb"total [0-9]+|[bc][-a-zA-Z]{9}.*|.\?{9} .*")


class _UnreadableError(ValueError):
    """A line that the tool does not print."""


def read_get_offsets(data: bytes) -> tuple[list[Row], list[Damage]]:
    """kafka-get-offsets: log_end_offsets rows with only `high_watermark`, and no broker.

    The tool asks the leader like a consumer: its latest offset is the high watermark, not the log end
    (Partition.fetchOffsetForTimestamp). With another --time it prints an offset that is never larger, and the text does
    not show which was used. Either way it is a lower bound of the high watermark. A partition with an unknown offset
    gives no row.
    """

    def read(text: str) -> Row | None:
        match = _OFFSET.fullmatch(text)
        if match is None:
            raise _UnreadableError("not topic:partition:offset")
        if not match[3]:
            return None
        return {"topic": match[1], "partition": _int32(match[2]), "high_watermark": _offset(match[3])}

    return _by_line(data, read)


def read_consumer_groups(data: bytes) -> tuple[list[Row], list[Damage]]:
    """kafka-consumer-groups --describe: as `read_get_offsets`, from LOG-END-OFFSET, which is a consumer's latest offset
    (OffsetSpec.latest: ConsumerGroupCommand.getLogEndOffsets of 3.9.1, OffsetsUtils of 4.3.1).

    Several groups may have read one partition, each at its own time: its row is the first with the largest value. What
    groups have committed is not read: a client may commit any offset. 3.9.1 ends no line but begins each with a line
    end, so the last may be cut off; LOG-END-OFFSET is whole if LAG follows.
    """
    columns: list[str] = []
    begin = 0  # of the topic's column: a group's id may hold spaces

    def read(text: str) -> Row | None:
        nonlocal begin
        if _GROUPS_HEAD.match(text):
            columns[:] = text.split()[1:]
            begin = text.index("TOPIC")
            return None
        if text.startswith(_OF_GROUPS):
            return None
        cells = text[begin:].split(None, len(columns))
        named = dict(zip(columns, cells, strict=False))
        if text[begin - 1 : begin] != " " or text[begin : begin + 1] == " " or "LAG" not in named:
            raise _UnreadableError("not in the columns of a head before it")
        topic, partition, end = named["TOPIC"], named["PARTITION"], named["LOG-END-OFFSET"]
        if "-" in (partition, end):
            return None
        if not _TOPIC.fullmatch(topic):
            raise _UnreadableError("not a topic")
        place = {"topic": topic, "partition": _int32(partition), "group": text[:begin].strip()}
        return {**place, "high_watermark": _offset(end)}

    rows, damage = _by_line(data, read, ends_lines=False)
    largest: dict[tuple[str, int], Row] = {}
    for row in rows:
        known = largest.setdefault((row["topic"], row["partition"]), row)
        if row["high_watermark"] > known["high_watermark"]:
            largest[row["topic"], row["partition"]] = row
    return list(largest.values()), damage


def read_quorum_replication(data: bytes) -> tuple[list[Row], list[Damage]]:
    """kafka-metadata-quorum describe --replication: the log end of each controller's and broker's metadata log, as
    known to the leader. -1 (unknown) gives no row."""
    columns: list[str] = []

    def read(text: str) -> Row | None:
        words = [word.strip() for word in text.split("\t")] if "\t" in text else text.split()
        words = [word for word in words if word]
        if words[0] == "NodeId":
            columns[:] = words
            return None
        if len(words) != len(columns):
            raise _UnreadableError(f"{len(words)} columns, the head has {len(columns)}")
        named = dict(zip(columns, words, strict=True))
        node, end = _int32(named["NodeId"]), named["LogEndOffset"]
        if end == "-1":
            return None
        return {"broker_id": node, "topic": METADATA_TOPIC, "partition": 0, "log_end_offset": _offset(end)}

    return _by_line(data, read)


def read_topics(data: bytes) -> tuple[list[Row], list[Damage]]:
    """kafka-topics --describe: described_partitions rows. The topic id comes from the topic's own line. A line is
    damage if the next one is none of the tool's: a terminal may have broken it, inside its last list."""
    topic_ids: dict[str, str] = {}

    def read(text: str) -> Row | None:
        named = _tabbed(text)
        topic = named["Topic"]
        if "Partition" not in named:
            if "TopicId" in named:
                topic_ids[topic] = named["TopicId"]
            return None
        leader = named["Leader"]
        return {
            "topic": topic,
            "topic_id": named.get("TopicId", topic_ids.get(topic)),
            "partition": _int32(named["Partition"]),
            "leader": -1 if leader in ("none", "-1") else _int32(leader),
            "replicas": _nodes(named["Replicas"]),
            "isr": _nodes(named["Isr"]),
            "elr": _nodes(named.get("Elr", "N/A")),
            "last_known_elr": _nodes(named.get("LastKnownElr", "N/A")),
        }

    rows, damage = _by_line(data, read)
    odd = {
        d.position for d in damage if not data[d.position : d.position + d.length_bytes].lstrip().startswith(b"Topic:")
    }
    broken = {at: end for row in rows if (end := data.find(b"\n", at := row["position"]) + 1) in odd}
    message = "the next line is none of the tool's: this one may go on there"
    damage += [Damage(at, end - at - 1, None, "bad_tool_output", message) for at, end in broken.items()]
    damage.sort(key=lambda found: found.position)
    return [row for row in rows if row["position"] not in broken], damage


def read_quorum_status(data: bytes) -> tuple[list[Row], list[Damage]]:
    """kafka-metadata-quorum describe --status: a quorum_reports row for each report in the text.

    Concatenated reports are never mixed. A report without a required number is damage as a whole; a list of nodes that
    cannot be read costs only its line. A high watermark of -1 is one that a new leader does not know yet.
    """
    rows: list[Row] = []
    damage: list[Damage] = []
    for begin, end, report in _reports(data):
        list_damage: list[Damage] = []
        try:
            row = _status(report, list_damage)
        except (KeyError, UnicodeDecodeError, _UnreadableError) as error:
            message = f"not output of kafka-metadata-quorum: {reason_for(error, data[begin:end])}"
            damage.append(Damage(begin, end - begin, None, "bad_tool_output", message))
        else:
            damage += list_damage
            rows.append({**row, "position": begin})
    return rows, damage


_Report = dict[bytes, tuple[int, bytes, bool]]


def _reports(data: bytes) -> list[tuple[int, int, _Report]]:
    """(begin, end, lines by name) of each report. A report begins with its first line, or when a line occurs again;
    other lines belong to the report before them. A text without lines of a report is one report."""
    begins: list[int] = []
    reports: list[_Report] = []
    for position, line, ended in text_lines(data):
        name = line.partition(b":")[0].strip()
        if name not in _STATUS:
            continue
        if not reports or name == b"ClusterId" or name in reports[-1]:
            begins.append(position)
            reports.append({})
        reports[-1][name] = (position, line, ended)
    if not reports:
        return [(0, len(data), {})]
    return list(zip(begins, [*begins[1:], len(data)], reports, strict=True))


def _status(report: _Report, list_damage: list[Damage]) -> Row:
    """The row of one report. Damage for each list of nodes that cannot be read is appended to `list_damage`."""
    named = {
        k.decode(): v[1].decode().partition(":")[2].strip() for k, v in report.items() if v[2] and k not in _NODE_LISTS
    }
    lists: dict[bytes, list[int] | None] = {}
    for name in _NODE_LISTS:
        position, line, _ = report.get(name, (0, b"", True))
        try:
            # A list that was cut off does not parse, so it needs no line end.
            lists[name] = _ids(line.partition(b":")[2].strip()) if line else None
        except (DecodeError, _UnreadableError) as error:
            lists[name] = None
            message = f"not a list of nodes ({reason_for(error, line)}): {excerpt(line)}"
            list_damage.append(Damage(position, len(line), None, "bad_tool_output", message))
    high_watermark = named["HighWatermark"]
    return {
        "quorum_cluster_id": named.get("ClusterId") or None,
        "leader_id": _int32(named["LeaderId"], least=-1),
        "leader_epoch": _int32(named["LeaderEpoch"]),
        "high_watermark": None if high_watermark == "-1" else _offset(high_watermark),
        "voters": lists[b"CurrentVoters"],
        "observers": lists[b"CurrentObservers"],
    }


def _by_line(data: bytes, read: Callable[[str], Row | None], ends_lines: bool = True) -> tuple[list[Row], list[Damage]]:
    """The rows that `read` returns for each line, and damage for each line that it rejects or that was cut off. A text
    of several outputs that differ in a partition (of a group) is damage as a whole: nothing says when each was printed.
    ends_lines: whether the tool ends its last line."""
    rows: list[Row] = []
    damage: list[Damage] = []
    known: dict[tuple[str, str, int], Row] = {}
    for position, raw, ended in text_lines(data):
        if not raw.strip():
            continue
        try:
            row = read(raw.decode().strip("\r\n "))
            if b"\0" in raw or (row is not None and ends_lines and not ended):
                raise _UnreadableError("the line is not whole: its last number may lack digits")
        except (_UnreadableError, KeyError, IndexError, UnicodeDecodeError) as error:
            message = f"not a line that the tool prints ({reason_for(error, raw)}): {excerpt(raw)}"
            damage.append(Damage(position, len(raw), None, "bad_tool_output", message))
            continue
        if row is not None:
            before = known.setdefault((row.pop("group", ""), row["topic"], row["partition"]), row)
            if "broker_id" not in row and any(
                None not in (row[name], before[name]) and row[name] != before[name] for name in row
            ):
                message = f"byte {position}: another value of one partition: store each output in a file"
                return [], [Damage(0, len(data), None, "several_outputs", message)]
            rows.append({**row, "position": position})
    return rows, damage


def _tabbed(text: str) -> dict[str, str]:
    """The `Name: value` cells of a line of kafka-topics."""
    cells = [cell.partition(":") for cell in _CELL_END.split(text) if cell.strip()]
    named = {name.strip(): value.strip() for name, colon, value in cells if colon}
    if "Topic" not in named:
        raise _UnreadableError("no `Topic:`")
    if named.keys().isdisjoint(("Partition", "PartitionCount")) or len(named) < len(cells):
        raise _UnreadableError("neither of a topic nor of a partition, or of two")
    return named


def _nodes(text: str) -> list[int] | None:
    if text == "N/A":
        return None
    if text and not _NUMBERS.fullmatch(text):
        raise _UnreadableError(f"{text[:40]!r} is not a list of node ids")
    return [_int32(word, least=-MAX_INT32 - 1) for word in text.split(",") if word]


def _ids(text: bytes) -> list[int]:
    """Node ids of `[3000,3001]` or of a list of objects with an id, ascending and distinct."""
    found = read_object(b'{"nodes":' + text + b"}").get("nodes")
    if type(found) is not list:
        raise _UnreadableError("not a list")
    ids: list[Any] = [node.get("id") if type(node) is dict else node for node in found]
    if any(type(node) is not int or not 0 <= node <= MAX_INT32 for node in ids):
        raise _UnreadableError("an entry without a node id")
    return sorted(set(ids))


def _int32(text: str, least: int = 0) -> int:
    if not _INT32.fullmatch(text) or not least <= int(text) <= MAX_INT32:
        raise _UnreadableError(f"{text[:20]!r} is out of range")
    return int(text)


def _offset(text: str) -> int:
    if not _INT64.fullmatch(text) or int(text) > MAX_INT64:
        raise _UnreadableError(f"{text[:20]!r} is not an offset")
    return int(text)


def read_listing(data: bytes, most_bytes: int) -> tuple[list[Row], list[Damage]]:
    """The listing of a log directory: `size_bytes` of each replica's segments, at the position of its folder's line in
    the unpacked text. Indexes do not count: `collect --replica-logs` leaves them out.

    A text that is cut off, or has a line of another form, is no listing: one Damage and no row. most_bytes: of a text
    that was packed with gzip.
    """
    try:
        text, wrong = decompress("gzip", data, most_bytes) if data.startswith(_GZIP) else data, None
    except DecodeError as error:
        setting = " (limits.text_file_bytes)" if error.reason == "decompression_bomb" else ""
        text, wrong = b"", f"{error}{setting}"
    found: dict[tuple[str, int], Row] = {}
    here = None
    for position, bare, ended in text_lines(text):
        if not ended:
            wrong = "its last line is cut off"
        elif folder := _FOLDER.fullmatch(bare):
            path = PurePosixPath(folder["path"].decode("utf-8", "replace"))
            place = kinds.partition_of(path / "0") if position else None  # the first is the log directory, of any name
            row: Row = {"size_bytes": 0, "position": position}
            here = place and found.setdefault(place, {"topic": place[0], "partition": place[1], **row})
        elif entry := _ENTRY.fullmatch(bare):
            if here is not None and _SEGMENT.search(bare):
                here["size_bytes"] += int(entry["size"])
        elif bare and not _NO_FILE.fullmatch(bare):
            wrong = f"byte {position} of the text is no line of `ls -lnRA`"
            break
    if wrong is not None:
        return [], [Damage(0, len(data), None, "bad_listing", f"{wrong}: sizes of replicas are not read")]
    return list(found.values()), []
