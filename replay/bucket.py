"""The judgement of one bucket of partitions: its history and log end offsets -> rows of the result tables.

A task of jobs/detect/stage.py runs this for its bucket, and `make bench` times it.
"""

from dataclasses import dataclass

import pyarrow as pa

from replay.arrow import schemas
from replay.arrow.schemas import RULE_DIFFERENCES
from replay.cluster.facts import ClusterFacts
from replay.controller.differences import Checked, check_rules
from replay.controller.predictions import predict_all
from replay.controller.transitions import Bucket
from replay.findings.broken_rules import invariant_findings, rule_mismatch_findings
from replay.findings.exposures import exposure_findings
from replay.findings.faults import led_on_findings
from replay.findings.kinds import HWM_REGRESSION, kind_of
from replay.findings.log_lines import line_findings
from replay.findings.replica_losses import truncations
from replay.findings.windows import window_findings, window_id
from replay.invariants.catalogue import INVARIANT_VIOLATIONS
from replay.invariants.partitions import partition_violations
from replay.loss.judged_windows import check_count, judged_windows
from replay.loss.partition_floors import Contradictions
from replay.partitions.elections import build_elections
from replay.whatif.counterfactuals import Question, counterfactuals

# Schemas of the result tables of a bucket. predicted: one row, how many changes were compared with the rules.
JUDGED = {
    "election": schemas.ELECTIONS,
    "difference": RULE_DIFFERENCES,
    "violation": INVARIANT_VIOLATIONS,
    "finding": schemas.FINDINGS,
    "counterfactual": schemas.COUNTERFACTUALS,
    "predicted": pa.schema([("changes", pa.int64())]),
}


@dataclass(frozen=True, slots=True)
class Detected:
    """What is found about losses in a bucket: schemas.FINDINGS and COUNTERFACTUALS. checked: the comparison of its
    changes with Kafka's rules; None without a question."""

    bucket: Bucket
    checked: Checked | None
    findings: pa.Table
    counterfactuals: pa.Table


def judge(
    history: pa.Table,
    offsets: pa.Table,
    facts: ClusterFacts,
    question: Question,
    events: pa.Table | None = None,
    most_windows: int | None = None,
) -> dict[str, pa.Table]:
    """The tables JUDGED of a bucket.

    history: its schemas.PARTITION_HISTORY rows; offsets: evidence.tables.LOG_END_OFFSETS rows of the same topics;
    events, most_windows: see `detect`.
    """
    if not len(history):
        return {name: schema.empty_table() for name, schema in JUDGED.items()}
    detected = detect(history, offsets, facts, question, events, most_windows)
    checked = detected.checked
    assert checked is not None  # because there is a question
    violations = partition_violations(detected.bucket, checked.elections)
    others = [
        exposure_findings(detected.bucket),
        led_on_findings(detected.bucket, facts.cluster_id),
        rule_mismatch_findings(checked.differences, facts.cluster_id),
        invariant_findings(violations, facts.cluster_id),
    ]
    findings = pa.concat_tables([detected.findings, *others])
    for kind in findings["kind"].unique().to_pylist():
        kind_of(kind)
    return {
        "election": checked.elections,
        "difference": checked.differences,
        "violation": violations,
        "finding": findings,
        "counterfactual": detected.counterfactuals,
        "predicted": pa.table({"changes": pa.array([checked.predicted], type=pa.int64())}),
    }


def detect(
    history: pa.Table,
    offsets: pa.Table,
    facts: ClusterFacts,
    question: Question | None = None,
    events: pa.Table | None = None,
    most_windows: int | None = None,
) -> Detected:
    """Judge every window of a bucket.

    history: schemas.PARTITION_HISTORY rows of whole partitions; offsets: LOG_END_OFFSETS rows with their topic_id
    filled in. question None: changes are not compared with the rules, and only policies that just choose a leader
    answer. events: evidence.tables.BROKER_LOG_EVENTS rows of the same topics with their topic_id filled in
    (jobs/detect/topic_ids.py), in any order; rows about no topic are not used. None: no node's log was captured.
    Errors: TooManyWindowsError if a topic has more than most_windows.
    """
    bucket = Bucket(history, facts)
    if most_windows is not None:
        check_count(bucket, most_windows)
    checked, compared = None, None
    if question is not None:
        compared = predict_all(bucket, bucket.changed_rows)
        checked = check_rules(bucket, compared, build_elections(bucket.history, bucket.states, facts))
    truncated = truncations(bucket, offsets)
    against = Contradictions(truncated.unexplained, checked.offsets_against if checked else frozenset())
    judged = list(judged_windows(bucket, offsets, against, events, most_windows, truncated.evidence))
    ids = [window_id(window, facts.cluster_id, HWM_REGRESSION) for window in judged]
    answers = counterfactuals(judged, ids, bucket, question, compared)
    windows = [
        row
        for window, recorded_id, own in zip(judged, ids, answers, strict=True)
        for row in window_findings(window, recorded_id, own, facts.cluster_id)
    ]
    findings = [pa.Table.from_pylist(windows, schema=schemas.FINDINGS), truncated.findings]
    findings += [line_findings(bucket, events, facts.cluster_id)]
    rows = [row for own in answers for row in own]
    return Detected(
        bucket=bucket,
        checked=checked,
        findings=pa.concat_tables(findings),
        counterfactuals=pa.Table.from_pylist(rows, schema=schemas.COUNTERFACTUALS),
    )
