"""Detect: partition_history + log_end_offsets -> elections, rule_differences, findings, counterfactuals."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from jobs.config.settings import Settings
from jobs.detect.inputs import judging_events, judging_inputs, measured_clocks, registration_mismatches, topic_lifetimes
from jobs.detect.task import MAX_ORPHANS, WRITTEN, DetectTask, JudgedBucket, counts_of, write_evidence
from jobs.ingest.records import RECORDS, SNAPSHOTS
from jobs.lake.data_files import write_file
from jobs.lake.integrity import completion, input_fingerprint, is_up_to_date, require_bytes, require_unchanged
from jobs.lake.lake import Lake, Row
from jobs.lake.marks import undisturbed
from jobs.lake.tables import DETECTED
from jobs.replay.buckets import HISTORY, BucketFiles, BucketItem, buckets
from jobs.replay.cluster_state import control_records
from jobs.spark.tasks import engine, run_tasks
from replay.arrow import schemas
from replay.cluster.log import Problem
from replay.cluster.state import ClusterState
from replay.findings.broken_rules import invariant_findings
from replay.findings.faults import described, divergence, fault, file_faults, rival_snapshots
from replay.findings.kinds import FILE_FAULTS
from replay.invariants.quorum import quorum_violations
from replay.whatif.counterfactuals import Question

_INPUTS = (
    *("partition_history", "log_end_offsets", "snapshot_records", "metadata_records", "log_batches", "quarantine"),
    *("described_partitions", "captures", "static_configs", "broker_history", "evidence_files", "broker_log_events"),
    *("node_boots", "boot_ids"),
)
MAX_PRINTED = 10_000
_CLOCKS = "node_clocks"


@dataclass(frozen=True, slots=True)
class DetectSummary:
    """The result of detection. compared, mismatches: partition states compared with captured snapshots, and those that
    differ; described, contradicted: the same for the output of Kafka's tools. predicted: partition changes compared
    with the rules; differences: number of those that differ, by class. violations: number of violations by invariant.
    """

    cluster_id: str
    up_to_date: bool
    compared: int = 0
    mismatches: int = 0
    described: int = 0
    contradicted: int = 0
    predicted: int = 0
    differences: dict[str, int] = field(default_factory=dict)
    violations: dict[str, int] = field(default_factory=dict)


@undisturbed
def run_detect(lake: Lake, cluster: str, settings: Settings, progress: Callable[[str], None]) -> DetectSummary:
    """Rebuild the elections, findings and counterfactuals of one cluster, unless their inputs are unchanged."""
    lake.create()  # those that were deleted are made again
    since = {name: lake.cluster_version(name, cluster) for name in DETECTED}
    question = Question(settings.counterfactuals.deprioritized, settings.counterfactuals.min_isr)
    parameters = (settings.evidence.clock_error_ms, question)
    inputs = input_fingerprint(lake, cluster, _INPUTS, parameters)
    if is_up_to_date(lake, cluster, DETECTED, inputs):
        return DetectSummary(cluster, True)
    require_bytes(lake, cluster, _INPUTS)
    clocks = measured_clocks(lake, cluster)
    state, facts = judging_inputs(lake, cluster, settings, clocks)
    progress(f"{cluster}: judging elections and windows")
    files = BucketFiles(lake, cluster, (HISTORY, RECORDS, SNAPSHOTS))
    rows = files.rows(HISTORY)
    wanted = buckets(lake, cluster, settings, state, rows)
    ends = [end for end, _ in state.shape.snapshots if any(run.start <= end <= run.end for run in state.shape.runs)]
    # Without the feature, writers omit the ELR from snapshots.
    has_elr = {end: state.elr_enabled(end - 1) for end in ends}
    task = DetectTask(lake.storage, state.for_tasks(), facts, question, has_elr, settings.limits.topic_windows)
    lifetimes = topic_lifetimes(lake, cluster)
    lines = judging_events(lake, cluster, facts.all_topics_until_ms, clocks, lifetimes)
    with write_evidence(lake, cluster, len(wanted), lines, lifetimes) as evidence_of:
        items = [BucketItem(bucket, files.parts(bucket) | evidence_of(bucket)) for bucket in wanted]
        results = run_tasks(task, items, rows, settings, f"detect: {len(items)} buckets of {cluster}", BucketItem.size)
    mismatches = [row for r in results for row in r.mismatches]
    compared, contradicted = _printed(cluster, results)
    problems = [*state.problems, *_orphans(results), *rival_snapshots(state.shape.snapshots)]
    found = [fault(cluster, problem) for problem in problems]
    found += [divergence(cluster, branch, state.shape.batches) for branch in state.shape.branches]
    found += [_mismatch(cluster, state, row) for row in mismatches]
    found += file_faults(cluster, lake.rows("quarantine", cluster, where=pc.field("reason").isin(FILE_FAULTS)))
    found += contradicted
    found += registration_mismatches(lake, cluster)
    of_log = quorum_violations(state.shape, control_records(lake, cluster))
    findings = pa.Table.from_pylist(found, schema=schemas.FINDINGS)
    more = {
        "invariant_violations": of_log,
        "findings": pa.concat_tables([findings, invariant_findings(of_log, cluster)]),
    }
    count = sum(map(len, (findings, of_log))) + sum(r.files["findings"].rows for r in results if "findings" in r.files)
    if count > settings.limits.findings:
        raise KraftForensicsError(
            f"{cluster}: {count} findings, limits.findings = {settings.limits.findings} allows fewer. If you trust the "
            "captures, raise the setting."
        )
    require_unchanged(inputs, lake, cluster, _INPUTS, parameters)
    lake.put(_CLOCKS, cluster, clocks, since=since[_CLOCKS])
    # findings is written last: its input fingerprint shows that the other tables are complete, too.
    for name in WRITTEN.values():
        written = [r.files[name] for r in results if name in r.files]
        if name in more and len(more[name]):
            written.append(write_file(lake.storage, name, more[name]))
        about = completion(lake, cluster, _INPUTS, DETECTED, inputs) if name == DETECTED[-1] else None
        if about is not None:
            about["engine"] = engine(settings)
        lake.replace(name, cluster, written, about, since[name])
    violations = Counter(counts_of(of_log["invariant"]))
    return DetectSummary(
        cluster_id=cluster,
        up_to_date=False,
        compared=sum(r.compared for r in results),
        mismatches=len(mismatches),
        described=compared,
        contradicted=len(contradicted),
        predicted=sum(r.predicted for r in results),
        differences=_total(results, "rule_differences"),
        violations=violations + _total(results, "invariant_violations"),
    )


def _total(results: list[JudgedBucket], name: str) -> Counter[str]:
    return sum((Counter(result.counts[name]) for result in results), Counter())


def _mismatch(cluster: str, state: ClusterState, row: Row) -> Row:
    """The finding for a partition state that differs from the captured snapshot."""
    end = int(row["snapshot_end_offset"])
    message = f"The state replayed up to offset {end} differs from the captured snapshot in: {row['what']}."
    found = fault(cluster, Problem("snapshot_mismatch", end, message), f"{row['topic_id']}-{row['partition']}")
    topic = state.configs.topic_names.get(row["topic_id"])
    return {**found, "topic_id": row["topic_id"], "topic": topic, "partition": row["partition"]}


def _printed(cluster: str, results: list[JudgedBucket]) -> tuple[int, list[Row]]:
    """The number of printed partition states with a replayed state at their time, and a finding for each that differs.
    States printed after the end of the log are not compared. A printed name may stand for several topics, in several
    buckets."""
    merged: dict[tuple[str, str, int], Row] = {}
    for row in (row for r in results for row in r.printed):
        key = row["printed"]["sha256"], row["printed"]["path"], row["printed"]["position"]
        if before := merged.get(key):
            row |= {name: before[name] or row[name] for name in ("same", "within")}
            row["states"] = before["states"] + row["states"]
        merged[key] = row
    answered = [merged[key] for key in sorted(merged) if merged[key]["same"] or merged[key]["within"]]
    wrong = []
    for row in [row for row in answered if not row["same"]][:MAX_PRINTED]:
        states = sorted(row["states"], key=lambda state: int(state["offset"]))
        topic = {"topic": states[0]["topic"], "topic_id": states[0]["topic_id"]}
        wrong.append(described(cluster, row["printed"], states, topic))
    return len(answered), wrong


def _orphans(results: list[JudgedBucket]) -> list[Problem]:
    rows = sorted((row for r in results for row in r.orphans), key=lambda row: int(row["offset"]))
    return [
        Problem("unknown_partition", r["offset"], f"a change of {r['topic_id']}-{r['partition']}, which does not exist")
        for r in rows[:MAX_ORPHANS]
    ]
