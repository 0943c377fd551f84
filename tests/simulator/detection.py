"""What the product finds about lives that share a cluster."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from evidence.tables import BROKER_LOG_EVENTS
from replay.bucket import Detected, detect
from replay.offsets.broker_lines import KINDS
from replay.offsets.topic_ids import events_with_topic_ids, lifetimes_of
from tests.simulator.life import Life, together


def detected(lives: Sequence[Life]) -> Detected:
    history, offsets, cluster = together(lives)
    return detect(history, offsets, cluster, events=_events(lives, lifetimes_of(history)))


def _events(lives: Sequence[Life], lifetimes: pa.Table) -> pa.Table:
    """The lines of all lives that verdicts use, with the topic ids that follow from the captured part of each log."""
    parts = []
    for is_complete in (True, False):
        chosen = [each for each in lives if (each.gap is None) == is_complete]
        lines = [row for each in chosen for row in each.lines if row["kind"] in KINDS or row["topic_id"] is not None]
        table = pa.Table.from_pylist(lines, schema=BROKER_LOG_EVENTS)
        parts.append(events_with_topic_ids(table, lifetimes, is_complete))
    return pa.concat_tables(parts)
