"""Detection without Spark on what `tests.support.pure` decoded, put together as jobs/detect/stage.py does; and what is
found with less evidence, held against what is found with all."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from evidence.broker_logs.anchors import boots_in_utc, least_error_ms, with_utc
from jobs.detect import topic_ids
from jobs.detect.inputs import clocks_of
from replay.arrow import schemas
from replay.bucket import Detected, detect
from replay.cluster.boots import boots_of, processes_of
from replay.cluster.broker_sessions import SESSION_EVIDENCE, broker_history
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import Clock, ClusterFacts, cluster_facts
from replay.cluster.state import ClusterState
from replay.controller.transitions import Bucket
from replay.findings.replica_losses import truncations
from replay.findings.windows import window_findings, window_id
from replay.loss.judged_windows import judged_windows
from replay.loss.partition_floors import Contradictions
from replay.whatif.counterfactuals import counterfactuals
from tests.support.pure import Decoded, history_of
from tests.support.scenario import elr_levels, evidence, ms, offsets_table, states

Row = dict[str, Any]
Key = tuple[Any, ...]
Place = tuple[str, int]
Item, Result = TypeVar("Item"), TypeVar("Result")

KIND = "hwm_regression"
COPIES = 150
PROCESSES = 2


@dataclass(frozen=True)
class Found:
    """Judged windows by (topic id, partition, election), the policies' answers by that and policy."""

    windows: dict[Key, Row]
    answers: dict[Key, Row]

    @classmethod
    def of(cls, detected: Detected) -> Found:
        judged = windows(detected.findings)
        ids = {f["finding_id"] for f in judged}
        answers = [c for c in detected.counterfactuals.to_pylist() if c["finding_id"] in ids]
        return cls(
            {(f["topic_id"], f["partition"], f["election_offset"]): f for f in judged},
            {(c["topic_id"], c["partition"], c["offset"], c["policy"]): c for c in answers},
        )

    def of_topic(self, alias: str, topic_id: str) -> Found:
        """What was found of the one topic, under another id."""
        return Found(
            {(topic_id, *k[1:]): f for k, f in self.windows.items() if k[0] == alias},
            {(topic_id, *k[1:]): c for k, c in self.answers.items() if k[0] == alias},
        )


@dataclass(frozen=True)
class Whole:
    """A capture with all that it has. events: lines of its nodes' own logs about topics."""

    decoded: Decoded
    history: pa.Table
    offsets: pa.Table
    events: pa.Table
    cluster: ClusterFacts

    @classmethod
    def of(cls, decoded: Decoded) -> Whole:
        history, state = history_of(decoded)
        events, offsets = events_of(decoded, state, history.table), with_topic_ids(decoded.offsets, history.table)
        return cls(decoded, history.table, offsets, events, cluster_of(decoded, state))


@dataclass(frozen=True)
class Parts:
    """A partition's history and rows of offsets, and sets of files to take away, each with a label."""

    history: pa.Table
    rows: pa.Table
    cluster: ClusterFacts
    gone: Sequence[tuple[str, Sequence[str]]]


def without_files(parts: Parts) -> list[tuple[str, Found]]:
    """What is found without each set of files; a partition's verdict depends on its own rows alone, so that one call
    judges many copies of it."""
    result = []
    topic_id = parts.history["topic_id"][0].as_py()
    for first in range(0, len(parts.gone), COPIES):
        chosen = parts.gone[first : first + COPIES]
        states = [renamed(parts.history, str(n)) for n in range(len(chosen))]
        kept = [parts.rows.filter(~pc.field("path").isin(pa.array(gone, type=pa.string()))) for _, gone in chosen]
        rows = [renamed(table, str(n)) for n, table in enumerate(kept)]
        found = Found.of(detect(pa.concat_tables(states), pa.concat_tables(rows), parts.cluster))
        result += [(label, found.of_topic(str(n), topic_id)) for n, (label, _) in enumerate(chosen)]
    return result


def spread(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The function's results in order, worked out by two processes, which later calls use again."""
    return _pool().map(function, items)


@cache
def _pool() -> ProcessPoolExecutor:
    # A process of pytest-xdist has the "file" -c, which a new process would run first.
    vars(sys.modules["__main__"]).pop("__file__", None)
    return ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn"))


def slices(table: pa.Table) -> dict[Place, pa.Table]:
    """The rows of each (topic id, partition)."""
    order = [("topic_id", "ascending"), ("partition", "ascending")]
    table = table.sort_by(order).combine_chunks()
    # Arrow's groups are not always in the order of their first rows.
    counts = table.group_by(["topic_id", "partition"]).aggregate([([], "count_all")]).sort_by(order)
    found, first = {}, 0
    for row in counts.to_pylist():
        found[row["topic_id"], row["partition"]] = table.slice(first, row["count_all"])
        first += row["count_all"]
    return found


def cluster_of(
    decoded: Decoded, state: ClusterState, clock_error_ms: int = 0, history: pa.Table | None = None
) -> ClusterFacts:
    """What detection has to know of the whole cluster; the log ends where its last surviving batch does. history: with
    it, what nodes' logs show of their processes is known, too."""
    gone = set(state.shape.truncated)
    times = [b["max_timestamp_ms"] for b in decoded.batches if (b["epoch"], b["base_offset"]) not in gone]
    boots = boots_of(decoded.boot_ids.to_pylist())
    processes = {}
    if history is not None:
        clocks = _clocks(decoded, state, history)
        logged = boots_in_utc(decoded.node_boots, clocks).to_pylist()
        clock_error_ms = max(clock_error_ms, least_error_ms(clocks))
        begun = state.brokers.new_incarnations
        processes = processes_of(logged, state.brokers.incarnations, begun, clock_error_ms)
    end_ms = max(times, default=None)
    facts = cluster_facts("test", state, Clock(clock_error_ms), end_ms)
    return replace(facts, boots=boots, processes=processes)


def _clocks(decoded: Decoded, state: ClusterState, history: pa.Table) -> pa.Table:
    sessions = broker_history(state.records, SESSION_EVIDENCE.empty_table(), [])
    return clocks_of(decoded.events, history, sessions, decoded.node_boots)


def events_of(decoded: Decoded, state: ClusterState, history: pa.Table) -> pa.Table:
    """The lines of the nodes' own logs that are about a topic, with its id."""
    known_until_ms = cluster_of(decoded, state).all_topics_until_ms
    events = with_utc(decoded.events, _clocks(decoded, state, history))
    return topic_ids.events_with_topic_ids(events, topic_ids.lifetimes_of(history), known_until_ms)


def with_topic_ids(offsets: pa.Table, history: pa.Table) -> pa.Table:
    return topic_ids.with_topic_ids(offsets, topic_ids.lifetimes_of(history))


def renamed(table: pa.Table, topic_id: str) -> pa.Table:
    """The rows as another topic's, so that one call can judge a partition many times."""
    at, ids = table.schema.get_field_index("topic_id"), pa.repeat(pa.scalar(topic_id), len(table))
    return table.set_column(at, table.schema.field(at), ids)


def judged_window(
    history: Sequence[str],
    *lines: str,
    brokers: BrokerTimeline,
    at: int = 60,
    elr: bool = False,
    topic: str = "t",
    logs: pa.Table | None = None,
    **known: Any,
) -> Row:
    """The window of the election at an offset. history, lines: as in tests/support/scenario.py. logs: lines of brokers'
    own logs. known: of ClusterFacts. The session margin is 4 s."""
    times = {"log_end_ms": ms(1_000), "session_timeout_ms": 2_000, "checkpoint_interval_ms": 1_000}
    cluster = ClusterFacts("c", brokers, elr_levels(elr), **times, **known)
    found = windows_of(states(*history, topic=topic), offsets_table(evidence(*lines)), cluster, logs)
    (window,) = (window for window in found if window["election_offset"] == at)
    return window


def windows_of(
    history: pa.Table, offsets: pa.Table, cluster: ClusterFacts, events: pa.Table | None = None
) -> list[Row]:
    """The judged windows that `replay.bucket.detect` finds, without its other findings, which take as long again."""
    bucket = Bucket(history, cluster)
    against = Contradictions(truncations(bucket, offsets).unexplained)
    judged = list(judged_windows(bucket, offsets, against, events))
    ids = [window_id(window, cluster.cluster_id, KIND) for window in judged]
    answers = zip(judged, ids, counterfactuals(judged, ids, bucket, None, None), strict=True)
    found = [row for window, own, policies in answers for row in window_findings(window, own, policies, "c")]
    return windows(pa.Table.from_pylist(found, schema=schemas.FINDINGS))


def statements(finding: Row) -> dict[str, Row]:
    """Those of a finding's reason, by code."""
    return {statement["code"]: statement for statement in finding["reason"]}


def windows(findings: pa.Table) -> list[Row]:
    """The judged windows among findings."""
    return [f for f in findings.to_pylist() if f["kind"] == KIND]


def surer(less: Row, full: Row | None) -> Iterable[str]:
    """In what a window judged with less evidence claims more than with all of it (None: no such window).

    docs/findings.md: evidence that is missing only ever makes a verdict less certain, but what contradicts an
    exclusion may be missing.
    """
    whole = full or {"verdict": "excluded", "loss_min": 0, "loss_max": 0}
    freed = uncontradicted(less, full)
    if less["verdict"] in ("proven", "excluded") and less["verdict"] != whole["verdict"] and not freed:
        yield f"{whole['verdict']} became {less['verdict']}"
    if less["loss_min"] > whole["loss_min"]:
        yield f"loss_min rose from {whole['loss_min']} to {less['loss_min']}"
    if full is None:
        return
    # The line that shows damage may be missing, too.
    if any(said["code"] == "contradicted_by_corruption" for said in full["reason"]):
        return
    # An excluded window's loss_max is its verdict again.
    if not freed and (less["verdict"] != "excluded" or whole["verdict"] != "excluded"):
        yield from _tighter("loss", {**less, "loss_min": None}, {**whole, "loss_min": None})
    yield from _tighter("unacked", less, whole)
    if less["first_lost_offset"] not in (None, full["first_lost_offset"]):
        yield f"first_lost_offset is {less['first_lost_offset']}, was {full['first_lost_offset']}"


def uncontradicted(less: Row, full: Row | None) -> bool:
    """Whether a window is excluded only because what contradicts that was taken away."""
    said = full["reason"] if full else []
    return less["verdict"] == "excluded" and any(s["code"].startswith("contradicted") for s in said)


def surer_counterfactual(less: Row, full: Row) -> Iterable[str]:
    """The same of a policy's answer. Which leader it picks follows from what was seen, and may change."""
    if full["outcome"] == "undetermined" != less["outcome"]:
        yield f"{less['policy']}: undetermined became {less['outcome']}"
    if less["leader"] is not None and less["leader"] == full["leader"]:
        yield from (f"{less['policy']}: {text}" for text in _tighter("loss", less, full))


def _tighter(name: str, less: Row, full: Row) -> Iterable[str]:
    """Bounds name_min and name_max; null is open."""
    low, high = f"{name}_min", f"{name}_max"
    if less[low] is not None and (full[low] is None or less[low] > full[low]):
        yield f"{low} rose from {full[low]} to {less[low]}"
    if less[high] is not None and (full[high] is None or less[high] < full[high]):
        yield f"{high} fell from {full[high]} to {less[high]}"


def claims(less: Found, full: Found) -> list[str]:
    """What is claimed with less evidence and not with all."""
    found = []
    for key, window in less.windows.items():
        found += [f"{key}: {text}" for text in surer(window, full.windows.get(key))]
    for key, answer in less.answers.items():
        window = less.windows[key[:3]]
        # Of the leader that was elected it says what its window says.
        same = answer["leader"] == window["recorded_leader"] and answer["outcome"] == "elected"
        if same and uncontradicted(window, full.windows.get(key[:3])):
            answer = {**answer, "loss_max": None}
        if key in full.answers:
            found += [f"{key}: {text}" for text in surer_counterfactual(answer, full.answers[key])]
    return found
