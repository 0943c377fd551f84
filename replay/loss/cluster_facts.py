"""What judging has to know of the whole cluster, from its resolved log and its nodes' static files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from replay.cluster.features import ELR_VERSION
from replay.cluster.state import ClusterState, LogShape
from replay.loss.facts import DEFAULT_CHECKPOINT_INTERVAL_MS, Cluster
from replay.loss.liveness import DEFAULT_SESSION_TIMEOUT_MS
from replay.offsets.evidence import Clock

SESSION_TIMEOUT = "broker.session.timeout.ms"
CHECKPOINT_INTERVAL = "replica.high.watermark.checkpoint.interval.ms"
# What every node's own properties file has, and a few configs named by hand lack.
_ROLES = "process.roles"


def judged_cluster(
    cluster_id: str,
    state: ClusterState,
    clock: Clock,
    log_end_ms: int | None,
    static: Mapping[int, Mapping[str, str]],
) -> Cluster:
    """static: node id -> its server.properties, of the nodes whose file was captured; a config that none of them names
    has Kafka's default, and the source says 'assumed_default' where no controller's file was captured."""
    controllers = [f for f in static.values() if "controller" in f.get(_ROLES, "controller")]
    timeout = _longest(controllers, SESSION_TIMEOUT, DEFAULT_SESSION_TIMEOUT_MS)
    known = any(_ROLES in f or SESSION_TIMEOUT in f for f in controllers)
    switches, _ = state.features.levels.get(ELR_VERSION, ([], []))
    tasks = state.for_tasks()
    return Cluster(
        cluster_id,
        state.brokers,
        tasks.elr_enabled,
        clock,
        log_end_ms,
        elr_switches=tuple(switches),
        session_timeout_ms=timeout,
        session_timeout_source="static" if known else "assumed_default",
        fail_overs=fail_overs(state.shape),
        checkpoint_interval_ms=_longest(static.values(), CHECKPOINT_INTERVAL, DEFAULT_CHECKPOINT_INTERVAL_MS),
        context=tasks.context,
    )


def _longest(files: Iterable[Mapping[str, str]], name: str, default: int) -> int:
    """The largest value among the files; the default stands for a whole file that lacks it, or where there is none."""
    values = [int(f[name]) if f.get(name, "").strip().isdigit() else default for f in files if name in f or _ROLES in f]
    return max(values, default=default)


def fail_overs(shape: LogShape) -> Sequence[tuple[int, int]]:
    """(time of the last batch of a controller's epoch, of the first of the next) in the log that went on, in ms."""
    cut = set(shape.truncated)
    live = [b for b in shape.batches if (b["epoch"], b["base_offset"]) not in cut]
    times: dict[int, tuple[int, int]] = {}
    for batch in sorted(live, key=_offset):
        first, _ = times.get(batch["epoch"], (batch["base_timestamp_ms"], 0))
        times[batch["epoch"]] = first, batch["base_timestamp_ms"]
    epochs = sorted(times)
    return tuple((times[before][1], times[after][0]) for before, after in pairwise(epochs))


def _offset(batch: Mapping[str, Any]) -> int:
    return int(batch["base_offset"])
