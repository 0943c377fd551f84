"""What brokers and controllers log of themselves, of their replicas and of each other: messages.toml as patterns."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

import pyarrow as pa

from evidence.tables import BROKER_LOG_EVENTS

_OF_TYPE = {pa.int64(): r"\d{1,19}", pa.int32(): r"\d{1,10}"}
_ID = r"[a-zA-Z0-9_-]{22}"
# Column -> its value as nodes print it.
_VALUES = {field.name: _OF_TYPE[field.type] for field in BROKER_LOG_EVENTS if field.type in _OF_TYPE} | {
    **dict.fromkeys(("leader", "previous_leader", "previous_leader_epoch"), r"-?\d{1,10}"),
    **dict.fromkeys(("isr", "previous_isr"), r"[\d, ]*"),
    **dict.fromkeys(("topic_id", "incarnation_id"), _ID),
    "topic": r"[a-zA-Z0-9._-]{1,249}",
    "directory": r"\S.{0,1000}?",
    "under_min_isr": r"\(under-min-isr\)",
    "count": r"\d{1,10}",
    "duration_ms": r"\d{1,15}",
    "printed_at_ms": r"\d{13}",
}
# What stands in several messages. tp: topic and partition; id: Scala's Option, Java's Optional, or the bare id; state:
# to 4.1 `and partition state LeaderAndIsrPartitionState(...)`, from 4.2 on `, partition registration
# PartitionRegistration(...) and isNew=`; log_in, of_log: UnifiedLog.toString, the replica's own folder and the rest;
# folder: of a replica, as the stray, future or usual one.
_PARTS = {
    "tp": "<topic>-<partition>",
    "id": r"(?:Some\(|Optional\[)?(?:<topic_id>|None|Optional\.empty|null)[)\]]?",
    "previous": r"Previous leader (?:(?:Some\(|Optional(?:Int)?\[)<previous_leader>[)\]]|None|Optional(?:Int)?\.empty) "
    r"and previous leader epoch was <previous_leader_epoch>\.",
    "state": r"(?: and partition state |, partition registration )(?:LeaderAndIsrPartitionState|PartitionRegistration)"
    r"\(.{0,20000}?partitionEpoch=<partition_epoch>.{0,20000}?\)(?: and isNew=\w+)?",
    "log_in": r"Log\(dir=.{0,2000}?",
    "of_log": r", topicId=<id>, topic=<topic>, partition=<partition>, highWatermark=\d{1,19}, "
    r"lastStableOffset=\d{1,19}, logStartOffset=<log_start_offset>, logEndOffset=<log_end_offset>\)",
    "folder": r"(?P<directory>.{0,1000}?)/<tp>(?:\.[0-9a-f]{32}-[a-z]+)?",
    "loaded": r".{0,200}? in <duration_ms>ms \(\d+/\d+ completed in <directory>\)$",
}
_NAME = re.compile(r"(?<!\?P)<(\w+)>")
_SPEAKERS = re.compile(r"\[([A-Za-z|]+)\] ")
_MARKED = re.compile("«(.*)»")
_BEGINNING = re.compile(r"(?:[^\\.\[\](){}|*+?^$<]|\\[.()])*")


@dataclass(frozen=True, slots=True)
class Message:
    """kind: of the event. words: a literal that every such line holds, as it is in the file. pattern: of the message
    after what stands in brackets before it; its groups are columns. speakers: the first words in those brackets that
    are allowed; empty: there are none. anywhere: the words may stand in any line, a stack trace's too."""

    kind: str
    words: str
    pattern: str
    speakers: tuple[str, ...]
    anywhere: bool


def _messages() -> Iterator[Message]:
    for table, kinds in tomllib.loads(
        files("evidence.broker_logs").joinpath("messages.toml").read_text("utf-8")
    ).items():
        for kind, given in kinds.items():
            for template in [given] if isinstance(given, str) else given:
                yield _message(kind, template, table == "anywhere")


def _message(kind: str, template: str, anywhere: bool) -> Message:
    marked, text = _MARKED.search(template), template.replace("«", "").replace("»", "")
    brackets = _SPEAKERS.match(text)
    text = text[brackets.end() :] if brackets else text
    words = marked[1] if marked else _BEGINNING.match(text)[0].replace("\\", "")  # type: ignore[index]
    return Message(kind, words, _expanded(text), tuple(brackets[1].split("|")) if brackets else (), anywhere)


def _expanded(template: str) -> str:
    def part(found: re.Match[str]) -> str:
        name = found[1]
        return _expanded(_PARTS[name]) if name in _PARTS else f"(?P<{name}>{_VALUES[name]})"

    return _NAME.sub(part, template)


MESSAGES = tuple(_messages())
