"""A log message -> the event it is, with typed fields. The messages are data: messages.toml, as patterns.

Texts: Kafka's source of 3.9, the class files of 3.9.1, 4.0.2, 4.1.1, 4.3.1 and 4.4.0, and what 3.9.1, 4.0.2, 4.1.1,
4.2.0, 4.3.1 and 4.4.0 wrote. A pattern's groups are columns of tables.BROKER_LOG_EVENTS. Patterns match from the
message's first character, so that what a client puts into a name or an error cannot pass for a broker's word.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pyarrow as pa

from evidence.limits import MAX_INT32, MAX_INT64, MAX_TIME_MS
from evidence.tables import BROKER_LOG_EVENTS, INT32_LIST, OUT_OF_SYNC

Fields = dict[str, Any]

_GIVEN = tomllib.loads(files("evidence.broker_logs").joinpath("messages.toml").read_text("utf-8"))
# Column -> its value as nodes print it; the others by their type.
_TEXT_OF_TYPE = {pa.int64(): r"\d{1,19}", pa.int32(): r"\d{1,10}"}
_TEXTS = {field.name: _TEXT_OF_TYPE[field.type] for field in BROKER_LOG_EVENTS if field.type in _TEXT_OF_TYPE}
_TEXTS |= _GIVEN.pop("values")
_PARTS = _GIVEN.pop("parts")
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
    for table, kinds in _GIVEN.items():
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
        return _expanded(_PARTS[name]) if name in _PARTS else f"(?P<{name}>{_TEXTS[name]})"

    return _NAME.sub(part, template)


MESSAGES = tuple(_messages())
KINDS = tuple(dict.fromkeys(message.kind for message in MESSAGES))

_CONTEXT = re.compile(r"\[(?P<speaker>[A-Za-z]{1,60})(?: (?P<fields>[^\]]{0,2000}))?\]:? ?")
_SPEAKER_ID = re.compile(r"(?:^|[ ,])(?:id|nodeId|broker|replicaId)=(\d{1,10})(?=$|[ ,])")
_LEADER_ID = re.compile(r"(?:^|[ ,])leaderId=(\d{1,10})(?=$|[ ,])")
_CONTEXT_DIR = re.compile(r", dir=(.{1,1000})$")
_CONTEXT_TP = re.compile(r"(?:^|partition=)([a-zA-Z0-9._-]{1,249})-(\d{1,10})(?=$|[ ,])")
_OUT_OF_SYNC = re.compile(r"\(brokerId: (\d{1,10}), endOffset: (-?\d{1,19})(?:, lastCaughtUpTimeMs: (-?\d{1,19}))?\)")
_BY_WORDS: dict[str, list[tuple[Message, re.Pattern[str]]]] = defaultdict(list)
for _known in MESSAGES:
    _BY_WORDS[_known.words].append((_known, re.compile(_known.pattern)))
_WORDS = re.compile("|".join(re.escape(words) for words in sorted(_BY_WORDS, key=len, reverse=True)))
# In RE2's syntax, for a scan of whole chunks: lines without any of these words hold no event. JSON may escape '`'.
WANTED = "|".join(re.sub(r"([\[\]().])", r"\\\1", w) for w in sorted(_BY_WORDS))


def read_event(message: str, is_head: bool = True, is_cut: bool = False) -> Fields | None:
    """The event that a message is: `kind` and the fields that its text names, typed as in tables.BROKER_LOG_EVENTS, and
    `speaker_id`, the node that the message says it is from. None for any other message, and for one with a number that
    Kafka cannot have written. is_head: False for a further line of a message (a stack trace). is_cut: the message may
    lack its end: a value there is left out, of which digits may be missing."""
    context = _CONTEXT.match(message) if is_head else None
    tried: set[str] = set()
    for words in _WORDS.finditer(message):
        if words[0] in tried:
            continue
        tried.add(words[0])
        for known, pattern in _BY_WORDS[words[0]]:
            found = _match(known, pattern, message, context, is_head)
            if found is None:
                continue
            fields = _typed(known, found, message, is_cut)
            if fields is not None:
                return {**_of_context(context), **fields} if context and known.speakers else fields
    return None


def _match(
    known: Message, pattern: re.Pattern[str], message: str, context: re.Match[str] | None, is_head: bool
) -> re.Match[str] | None:
    if known.anywhere:
        found = pattern.search(message)
        # A config dump's further lines are `name = value`: what a value holds has not happened.
        return None if found and not is_head and " = " in message[: found.start()] else found
    if not is_head:
        return None
    if not known.speakers:
        return pattern.match(message)
    return pattern.match(message, context.end()) if context and context["speaker"] in known.speakers else None


def _of_context(context: re.Match[str]) -> Fields:
    """What `[Partition orders-3 broker=4]` or `[ReplicaFetcher replicaId=4, leaderId=2, fetcherId=0]` says."""
    text = context["fields"] or ""
    directory = _CONTEXT_DIR.search(text)
    plain = text[: directory.start()] if directory else text
    fields: Fields = {"directory": directory[1]} if directory else {}
    if (speaker := _SPEAKER_ID.search(plain)) and int(speaker[1]) <= MAX_INT32:
        fields["speaker_id"] = int(speaker[1])
    if (leader := _LEADER_ID.search(plain)) and int(leader[1]) <= MAX_INT32:
        fields["leader"] = int(leader[1])
    if (place := _CONTEXT_TP.search(plain)) and int(place[2]) <= MAX_INT32:
        fields |= {"topic": place[1], "partition": int(place[2])}
    return fields


def _typed(known: Message, found: re.Match[str], message: str, is_cut: bool) -> Fields | None:
    fields: Fields = {"kind": known.kind}
    try:
        for name, text in found.groupdict().items():
            if is_cut and name in _VALUES and found.end(name) == len(message):
                continue
            if name == "under_min_isr":
                fields[name] = text is not None
            elif text is not None:
                fields[name] = _VALUES.get(name, str)(text)
    except ValueError:
        return None
    if "last_offset" in fields:
        fields["log_end_offset"] = fields.pop("last_offset") + 1
    if fields["kind"] == "fetch_failed":
        fields["count"] = message.count("=PartitionData(")
    return fields


def _integer(text: str, largest: int) -> int:
    value = int(text)
    if not -1 <= value <= largest:
        raise ValueError(text)
    return value


def _int32(text: str) -> int:
    return _integer(text, MAX_INT32)


def _int64(text: str) -> int:
    return _integer(text, MAX_INT64)


def _nodes(text: str) -> list[int]:
    return [_int32(word) for word in text.replace(",", " ").split()]


def _out_of_sync(text: str) -> list[Fields]:
    return [
        {
            "broker_id": _int32(broker),
            "log_end_offset": _int64(end),
            "last_caught_up_ms": _integer(time, MAX_TIME_MS) if time else None,
        }
        for broker, end, time in _OUT_OF_SYNC.findall(text)
    ]


# How the value of a group is read, by the type of its column; texts stay as they are.
_OF_TYPE: dict[pa.DataType, Callable[[str], Any]] = {
    pa.int32(): _int32,
    pa.int64(): _int64,
    INT32_LIST: _nodes,
    OUT_OF_SYNC: _out_of_sync,
}
_VALUES = {field.name: _OF_TYPE[field.type] for field in BROKER_LOG_EVENTS if field.type in _OF_TYPE} | {
    "printed_at_ms": lambda text: _integer(text, MAX_TIME_MS),
    "last_offset": lambda text: _integer(text, MAX_INT64 - 1),  # the log ends after it
}
