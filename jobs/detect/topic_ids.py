"""Which topic a captured value belongs to: files and scrapes name topics, and a name may be used again."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.tables import with_column
from jobs.views.in_duckdb import ask_table
from replay.arrow.schemas import schema
from replay.offsets.broker_lines import DAMAGED

LIFETIMES = schema("lifetimes")
# What `lifetimes_of` reads of a history.
LIFETIME_COLUMNS = ("topic_id", "topic", "timestamp_ms")
_READ = ("topic_id", "topic", "captured_at_ms", "uncertainty_ms")
_ORDER = ("capture", "path", "node_id", "topic", "partition", "position")
_LOGGED = (*_ORDER, "topic_id", "kind", "logged_at_ms", "logged_at_utc_ms")


def lifetimes_of(history: pa.Table) -> pa.Table:
    """LIFETIMES of the topics in schemas.PARTITION_HISTORY rows (columns topic_id, topic, timestamp_ms)."""
    found = history.group_by("topic_id").aggregate([("topic", "max"), ("timestamp_ms", "min")])
    return found.rename_columns(LIFETIMES.names).cast(LIFETIMES)


def with_topic_ids(offsets: pa.Table, lifetimes: pa.Table) -> pa.Table:
    """Log end offsets with their topic id (offset_topics.sql). Rows whose name several topics could mean, or none, or
    not the one of their own id (the partition.metadata of another folder), are left out: they prove nothing.

    offsets: evidence.tables.LOG_END_OFFSETS rows; lifetimes: LIFETIMES of every topic of the cluster. A removed topic
    counts, too: the checkpoint file of a broker that is down may still name it.
    """
    given = offsets.select(_READ).append_column("row", pa.array(np.arange(len(offsets))))
    return _named(offsets, ask_table("detect/offset_topics", given=given, lifetimes=lifetimes))


def events_with_topic_ids(events: pa.Table, lifetimes: pa.Table, known_until_ms: int | None) -> pa.Table:
    """Events of brokers' own logs that are about a topic, with its id (line_topics.sql). Rows whose topic is not
    certain are left out.

    events: evidence.tables.BROKER_LOG_EVENTS rows; lifetimes: LIFETIMES of every topic of the cluster;
    known_until_ms: the log is known from its first record on up to this time by every clock, so that no other topic can
    have had the name; None: it is not. Even then a cluster that is set up anew goes on with the files of another.
    """
    events = events.filter(pc.and_(pc.is_valid(events["topic"]), pc.is_valid(events["partition"])))
    events = events.sort_by([(name, "ascending") for name in _ORDER])
    given = events.select(_LOGGED).append_column("row", pa.array(np.arange(len(events))))
    values = {"known_until_ms": known_until_ms, "damaged": list(DAMAGED)}
    return _named(events, ask_table("detect/line_topics", values, given=given, lifetimes=lifetimes))


def _named(rows: pa.Table, topics: pa.Table) -> pa.Table:
    return with_column(rows, "topic_id", topics["topic_id"]).filter(topics["topic_id"].is_valid())
