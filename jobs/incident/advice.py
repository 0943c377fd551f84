"""Load what advice follows from (replay/incident/advice.py), for the report and for commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.incident.order import KEYS, ordered
from jobs.lake.lake import Lake
from replay.findings.kinds import HWM_REGRESSION, LAST_REPLICA, LEADERLESS, RULE_MISMATCH, Section
from replay.incident.advice import MOST_READ, AdviceInput, advise
from replay.incident.advice_consumers import OFFSETS, TRANSACTIONS
from replay.incident.prevention import MOST_LONGEST
from replay.loss.verdicts import EXCLUDED

Row = dict[str, Any]

_FINDING = (
    *("finding_id", "topic_id", "topic", "partition", "verdict", "start_offset", "election_offset"),
    *("first_lost_offset", "reason"),
)
_STATE = ("topic_id", "partition", "leader", "replicas", "adding_replicas", "removing_replicas")
_CONFIG = ("resource_type", "resource_name", "name", "effective_value", "source")
_BROKER = ("offset", "broker_id", "broker_epoch", "incarnation_id", "fenced", "in_controlled_shutdown")
_AT_END = "exposed_at_log_end"


def load_advice(lake: Lake, cluster: str) -> list[Row]:
    """The advice for a cluster, as docs/verdict.md describes it."""
    open_end = pc.field("end_offset").is_null()
    left_out: dict[str, int] = {}
    leaderless, last_replica = (
        [row for row in _findings(lake, cluster, kind, open_end, left_out) if _has(row, _AT_END)]
        for kind in (LEADERLESS, LAST_REPLICA)
    )
    bugs = _findings(lake, cluster, RULE_MISMATCH, pc.scalar(True), left_out)
    lost = _lost(lake, cluster, left_out)
    features = lake.rows("feature_history", cluster, ("name", "level"), open_end)
    return advise(
        AdviceInput(
            leaderless=leaderless,
            last_replica=last_replica,
            longest=_longest(lake, cluster),
            known_bugs=[row for row in bugs if _has(row, "rule_known_bug")],
            lost=lost,
            placements=_placements(lake, cluster, last_replica),
            partition_counts=_partition_counts(lake, cluster, lost),
            left_out=left_out,
            configs=lake.rows("config_history", cluster, _CONFIG, open_end),
            features={row["name"]: row["level"] for row in features},
            brokers={row["broker_id"]: row for row in lake.rows("broker_history", cluster, _BROKER, open_end)},
            last_seen=_last_seen(lake, cluster, leaderless),
        )
    )


def _placements(lake: Lake, cluster: str, rows: Sequence[Row]) -> dict[tuple[str, int], Row]:
    """The states at the log's end of the topics of these partitions, by partition."""
    topics = pa.array(sorted({row["topic_id"] for row in rows}), pa.string())
    if not len(topics):
        return {}
    at_end = pc.field("topic_id").isin(topics) & pc.field("end_offset").is_null() & ~pc.field("removed")
    states = lake.rows("partition_history", cluster, _STATE, at_end)
    return {(state["topic_id"], state["partition"]): state for state in states}


def _partition_counts(lake: Lake, cluster: str, lost: Sequence[Row]) -> dict[str, int]:
    """The number of partitions at the log's end of the internal topics in `lost`, by topic id."""
    topics = {row["topic_id"] for row in lost if row["topic"] in (OFFSETS, TRANSACTIONS)}
    return dict(Counter(topic_id for topic_id, _ in _placements(lake, cluster, [{"topic_id": t} for t in topics])))


def _findings(lake: Lake, cluster: str, kind: str, where: pc.Expression, left_out: dict[str, int]) -> list[Row]:
    """The first MOST_READ findings of a kind; left_out: gets the number of the others."""
    found = lake.read("findings", cluster, _FINDING, (pc.field("kind") == kind) & where)
    order = [(name, "ascending") for name in ("topic", "partition", "start_offset", "finding_id")]
    left_out[kind] = max(len(found) - MOST_READ, 0)
    rows: list[Row] = found.sort_by(order).slice(0, MOST_READ).to_pylist()
    return rows


def _has(row: Row, code: str) -> bool:
    return any(statement["code"] == code for statement in row["reason"] or ())


def _longest(lake: Lake, cluster: str) -> list[Row]:
    keys = lake.read("findings", cluster, KEYS.names, pc.field("kind") == LAST_REPLICA)
    rows: list[Row] = ordered(keys, Section.EXPOSURES).slice(0, MOST_LONGEST).to_pylist()
    return rows


def _lost(lake: Lake, cluster: str, left_out: dict[str, int]) -> list[Row]:
    """Windows that are not excluded, with the leader before their election."""
    undecided = pc.field("verdict").is_null() | (pc.field("verdict") != EXCLUDED)
    rows = _findings(lake, cluster, HWM_REGRESSION, undecided, left_out)
    offsets = pa.array(sorted({r["election_offset"] for r in rows if r["election_offset"] is not None}), pa.int64())
    names = ("topic_id", "partition", "offset")
    elections = lake.rows("elections", cluster, (*names, "previous_leader"), pc.field("offset").isin(offsets))
    leaders = {tuple(e[name] for name in names): e["previous_leader"] for e in elections}
    at = ("topic_id", "partition", "election_offset")
    return [row | {"previous_leader": leaders.get(tuple(row[name] for name in at))} for row in rows]


def _last_seen(lake: Lake, cluster: str, rows: Sequence[Row]) -> dict[tuple[str, int], dict[int, Row]]:
    """The last log end and high watermark read of each replica of these partitions."""
    places = {(row["topic"], row["partition"]): row["topic_id"] for row in rows}
    names = ("topic_id", "topic", "partition", "broker_id", "captured_at_ms", "log_end_offset", "high_watermark")
    topics = pa.array(sorted({topic for topic, _ in places if topic is not None}), pa.string())
    wanted = pc.field("topic").isin(topics) & pc.field("captured_at_ms").is_valid() & pc.field("broker_id").is_valid()
    found: dict[tuple[str, int], dict[int, Row]] = {}
    if not len(topics):
        return found
    for row in lake.read("log_end_offsets", cluster, names, wanted).sort_by("captured_at_ms").to_pylist():
        topic_id = places.get((row["topic"], row["partition"]))
        if topic_id is not None and row["topic_id"] in (None, topic_id):
            blank = dict.fromkeys(("log_end_offset", "high_watermark"))
            seen = found.setdefault((topic_id, row["partition"]), {}).setdefault(row["broker_id"], blank)
            seen |= {name: row[name] for name in blank if row[name] is not None}
    return found
