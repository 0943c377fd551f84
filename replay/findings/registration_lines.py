"""Lines of nodes' own logs about a broker's registration that contradict the metadata log: another number of changes
that follow from it, or an unclean restart where the log shows a clean one.

A controller logs a registration before it is committed, and another controller may then write another one. So a line
counts only for the registration with its incarnation id and broker epoch, and only if it was logged when that record
was written, by the same clock. The record's broker epoch is the offset at which the controller began to write, so the
records between the two are those that it logged.

A broker that could not read a broker epoch in one of its log directories, or read two, registers with none, and the
controller treats its restart as unclean. The other direction shows nothing: with clean shutdown files everywhere the
epochs may differ, or be of a process that never registered.

Sources: Kafka's ClusterControlManager.registerBroker, ReplicationControlManager.handleBrokerUncleanShutdown,
LogManager.readBrokerEpochFromCleanShutdownFiles.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from replay.arrow.ragged import Row
from replay.arrow.runs import groups
from replay.arrow.schemas import PROVENANCE_NAMES
from replay.cluster.broker_sessions import CLEAN_SHUTDOWN
from replay.cluster.log import Problem
from replay.findings.faults import fault
from replay.findings.log_lines import KIND, MAX_FINDINGS, both_sides

REGISTERED, HANDLED, STARTING = "incarnation_registered", "unclean_shutdown_handled", "broker_starting"
_NO_EPOCH = ("broker_epoch_unread", "broker_epochs_differ")
# What is read of broker_log_events and broker_history.
REGISTRATION_KINDS = (REGISTERED, HANDLED, STARTING, *_NO_EPOCH)
LINES = (
    *("node_id", "logged_at_ms", "logged_at_utc_ms", "kind", "broker_id", "broker_epoch", "incarnation_id", "count"),
    *("directory", *PROVENANCE_NAMES),
)
SESSIONS = (
    *("offset", "timestamp_ms", "broker_id", "broker_epoch", "incarnation_id", "restart_class", "restart_evidence"),
    *("origin", *PROVENANCE_NAMES),
)
# A record is written within this time of its line, and a process logs its incarnation id within this time of reading
# its clean shutdown files. The election of another controller takes longer, and so does a process's start.
_AT_ONCE_MS = 250
_ZONE_STEP_MS = 900_000


def registration_findings(lines: Iterable[Row], sessions: Iterable[Row], cluster_id: str) -> list[Row]:
    """schemas.FINDINGS rows, at most MAX_FINDINGS. lines: LINES of REGISTRATION_KINDS; sessions: SESSIONS, all rows of
    the cluster's broker_history; both in any order."""
    registered: dict[tuple[int, str], Row] = {}
    for session in sorted(sessions, key=lambda row: row["offset"]):
        if session["incarnation_id"] is not None:
            registered.setdefault((session["broker_id"], session["incarnation_id"]), session)
    registered = {place: session for place, session in registered.items() if session["origin"] == "log"}
    files = groups((r for r in lines if r["node_id"] is not None), itemgetter("capture", "path", "sha256"))
    found: dict[str, Row] = {}
    for _, file in sorted(files.items()):
        for row in _of_file(sorted(file, key=lambda line: line["position"]), registered, cluster_id):
            found.setdefault(row["finding_id"], row)
    return list(found.values())[:MAX_FINDINGS]


def _of_file(file: Sequence[Row], registered: Mapping[tuple[int, str], Row], cluster_id: str) -> Iterator[Row]:
    pending: list[Row] = []
    for line in file:
        if line["kind"] in (HANDLED, *_NO_EPOCH):
            pending.append(line)
            continue
        broker = line["broker_id"]
        session = registered.get((broker, line["incarnation_id"]))
        if session is not None and line["kind"] == REGISTERED and _is_of(line, session):
            handled = [each for each in pending if each["kind"] == HANDLED and _is_before(each, line)]
            # Lines may be missing: one before may be of another registration.
            others = [other["timestamp_ms"] for other in registered.values() if other is not session]
            alone = not any(_is_soon(at, session["timestamp_ms"], 2 * _AT_ONCE_MS) for at in others)
            yield from _of_controller(line, handled if alone else (), session, cluster_id)
        elif session is not None and line["kind"] == STARTING and line["node_id"] == broker and _is_clean(session):
            unread = [each for each in pending if each["kind"] in _NO_EPOCH and _is_before(each, line)]
            if unread:
                text = (
                    f"Broker {broker} logged that it read no broker epoch from its clean shutdown files when "
                    f"incarnation {line['incarnation_id']} started; {_clean(session)}"
                )
                yield _finding([unread[-1], line], session, text, cluster_id)
        pending = []


def _of_controller(line: Row, handled: Sequence[Row], session: Row, cluster_id: str) -> Iterator[Row]:
    broker, node, written = session["broker_id"], line["node_id"], session["offset"] - session["broker_epoch"]
    if line["count"] != written:
        text = (
            f"Controller {node} logged that it wrote {line['count']} records before the registration of broker "
            f"{broker} with broker epoch {session['broker_epoch']}; the metadata log has {written}."
        )
        yield _finding([*handled, line], session, text, cluster_id)
    if handled and sum(each["count"] for each in handled) == line["count"] and _is_clean(session):
        text = (
            f"Controller {node} logged an unclean shutdown of broker {broker} as it registered with broker epoch "
            f"{session['broker_epoch']}; {_clean(session)}"
        )
        yield _finding([*handled, line], session, text, cluster_id)


def _is_of(line: Row, session: Row) -> bool:
    """Whether the line was logged as the record was written. The zone of the line may be unknown."""
    if None in (line["count"], line["broker_epoch"], line["logged_at_ms"], session["timestamp_ms"]):
        return False
    apart = (line["logged_at_ms"] - session["timestamp_ms"] + _AT_ONCE_MS) % _ZONE_STEP_MS
    return bool(line["broker_epoch"] == session["broker_epoch"] and apart <= 2 * _AT_ONCE_MS)


def _is_soon(first_ms: int | None, then_ms: int | None, most_ms: int) -> bool:
    return first_ms is not None and then_ms is not None and 0 <= then_ms - first_ms <= most_ms


def _is_before(line: Row, later: Row) -> bool:
    """At once: lines in between may be missing."""
    soon = _is_soon(line["logged_at_ms"], later["logged_at_ms"], _AT_ONCE_MS)
    return soon and line["node_id"] == later["node_id"]


def _is_clean(session: Row) -> bool:
    """Whether the metadata log itself shows it. A captured file may be of a process that never registered."""
    return session["restart_class"] == CLEAN_SHUTDOWN and bool(session["restart_evidence"])


def _clean(session: Row) -> str:
    return f"in the metadata log it stays in an ELR (offset {session['restart_evidence'][0]}), as after a clean one."


def _finding(lines: Sequence[Row], session: Row, text: str, cluster_id: str) -> Row:
    evidence = both_sides(lines, "broker_history", session)
    # The same line in two files is one finding.
    return fault(cluster_id, Problem(KIND, session["offset"], text), text, evidence)
