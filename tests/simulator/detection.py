"""What the product finds about lives that share a cluster."""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from evidence.tables import BROKER_LOG_EVENTS
from jobs.detect.topic_ids import events_with_topic_ids, lifetimes_of
from replay.arrow.runs import groups
from replay.arrow.schemas import PROVENANCE_NAMES
from replay.bucket import Detected, detect
from replay.cluster.broker_sessions import broker_history, registrations, session_evidence
from replay.cluster.features import ELR_VERSION
from replay.findings.registration_lines import REGISTRATION_KINDS, SESSIONS, registration_findings
from replay.offsets.broker_lines import KINDS
from tests.simulator.life import Life, table_of, together


def detected(lives: Sequence[Life]) -> Detected:
    history, offsets, cluster = together(lives)
    return detect(history, offsets, cluster, events=_events(lives, lifetimes_of(history)))


def _events(lives: Sequence[Life], lifetimes: pa.Table) -> pa.Table:
    """The lines of all lives that verdicts use, with the topic ids that follow from the captured part of each log."""
    parts, end_ms = [], max(each.log_end_ms for each in lives) - lives[0].setup.clock_error_ms
    for is_complete in (True, False):
        chosen = [each for each in lives if (each.gap is None) == is_complete]
        lines = [row for each in chosen for row in each.lines if row["kind"] in KINDS or row["topic_id"] is not None]
        if lines:
            known = table_of(lines, BROKER_LOG_EVENTS), lifetimes, end_ms if is_complete else None
            parts.append(events_with_topic_ids(*known))
    return pa.concat_tables(parts) if parts else BROKER_LOG_EVENTS.empty_table()


def registration_mismatches(lives: Sequence[Life], history: pa.Table) -> Iterator[list[dict[str, Any]]]:
    """What the product finds about each life's lines of registrations. history: theirs."""
    lines = [[row for row in each.lines if row["kind"] in REGISTRATION_KINDS] for each in lives]
    with_lines = [each for each, own in zip(lives, lines, strict=True) if own]
    sessions = groups(sessions_of(with_lines, history), itemgetter("broker_id"))
    for each, own in zip(lives, lines, strict=True):
        of_life = [session for broker in each.setup.brokers for session in sessions.get(broker, ())]
        yield registration_findings(own, of_life, "simulated")


def sessions_of(lives: Sequence[Life], history: pa.Table) -> list[dict[str, Any]]:
    """The sessions of all their brokers, as the product finds them in the log."""
    place = {"epoch": 1, **dict.fromkeys(PROVENANCE_NAMES)}
    feature = {"type": "FEATURE_LEVEL_RECORD", "timestamp_ms": 0}
    records = [{**place, **record} for each in lives for record in each.session_records]
    for offset, on in (level for each in lives for level in each.elr_levels()):
        data = {"name": ELR_VERSION, "featureLevel": int(on)}
        records.append({**place, **feature, "offset": offset, "batch_base_offset": offset, "data": data})
    records.sort(key=lambda record: record["offset"])
    evidence = session_evidence(history, registrations(records))
    found: list[dict[str, Any]] = broker_history(records, evidence, []).select(SESSIONS).to_pylist()
    return found
