"""Detect the kind of a text file from its first bytes. For the output of tools, which may have any name."""

import re

from evidence import kinds
from evidence.text_files import COLOUR, UTF_16

HEAD_BYTES = 64 << 10

_OFFSET_LINE = rb"[a-zA-Z0-9._-]{1,249}:\d{1,10}:-?\d*\r?"
_LINES: dict[str, str] = kinds.SIGNS["first_lines"]
_LINE_KINDS = [(kind, re.compile(f"^(?:{pattern})".encode(), re.MULTILINE)) for kind, pattern in _LINES.items()]
# A line of Kafka's own pattern, or of one like it, by a logger that only brokers and controllers have; or JSON of one.
_LOG_TIME = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3}"
_LOGGER = (
    rb"(state\.change\.logger|org\.apache\.kafka\.controller\.[\w.$]+|kafka\.(?:server|cluster|log|controller)\.[\w.$]+|"
    rb"org\.apache\.kafka\.(?:server|storage|raft|image|metadata|coordinator)\.[\w.$]+)"
)
_LOG_LINES = (
    re.compile(_LOG_TIME + rb"[^\n]{1,16384}\(" + _LOGGER + rb"\)"),
    re.compile(rb'"(?:loggerName|logger_name|log\.logger|logger)"\s*:\s*"' + _LOGGER + rb'"'),
)
# Other patterns print short loggers, or none: a time, and what Kafka's own messages begin with. All logs of a container
# are one stream.
_SPOKEN = re.compile(
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\n]{1,300}[ \"]\[(?:BrokerLifecycleManager|BrokerServer|ControllerServer|"
    rb"SharedServer|KafkaRaftServer|RaftManager|QuorumController|ReplicaManager|ReplicaFetcher|Partition \S{1,300}) "
    rb"(?:id|nodeId|broker|replicaId)=\d"
)
_STATUS = (rb"^LeaderId:\s", rb"^LeaderEpoch:\s", rb"^HighWatermark:\s")
_FIRST_LINES = 50
_GO = (b"# HELP go_", b"# TYPE go_")  # about itself an exporter of consumer lag says more lines than that
_JSON_KINDS = [(kind, [name.encode() for name in names]) for kind, names in kinds.SIGNS["json"].items()]
_PREFIX = re.compile(rb"(?m)^(?:\[pod/[^\]\n]{1,300}\] )?(?:\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) )?")
_JSON_START = re.compile(rb"^\s*\{", re.MULTILINE)


def sniff(head: bytes) -> str | None:
    """The kind of a file, from its first HEAD_BYTES bytes, or None. Also of a text in UTF-16, with colours, or with
    what kubectl and docker put before a line: its reader says what is wrong with it."""
    if head.startswith(UTF_16):
        head = head.decode("utf-16", "replace").encode()
    head = COLOUR.sub(b"", head.removeprefix(b"\xef\xbb\xbf"))
    return _kind_of(head) or _kind_of(_PREFIX.sub(b"", head))


def _kind_of(head: bytes) -> str | None:
    start = head if head.startswith(_GO) else b"\n".join(head.split(b"\n", _FIRST_LINES)[:_FIRST_LINES])
    for kind, pattern in _LINE_KINDS:
        if pattern.search(start):
            return kind
    if all(re.search(pattern, start, re.MULTILINE) for pattern in _STATUS):
        return kinds.QUORUM_STATUS
    if _JSON_START.search(head):
        known = next((kind for kind, names in _JSON_KINDS if all(name in head for name in names)), None)
        return known or _log_kind(head)
    lines = [line for line in start.split(b"\n") if line.strip()]
    # One damaged line must not hide the others; the last may be cut.
    fitting = [re.fullmatch(_OFFSET_LINE, line) is not None for line in lines[:-1] or lines]
    is_offsets = any(fitting) and 2 * sum(fitting) >= len(fitting)
    return kinds.GET_OFFSETS if is_offsets else _log_kind(head)


def _log_kind(head: bytes) -> str | None:
    """Which of a node's logs: the one that its first known logger writes to."""
    found = next((match for pattern in _LOG_LINES if (match := pattern.search(head))), None)
    if found is None:
        return kinds.SERVER_LOG if _SPOKEN.search(head) else None
    if found[1] == b"state.change.logger":
        return kinds.STATE_CHANGE_LOG
    return kinds.CONTROLLER_LOG if found[1].startswith(b"org.apache.kafka.controller.") else kinds.SERVER_LOG
