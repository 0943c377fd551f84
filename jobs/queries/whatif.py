"""`whatif`: simulate a cluster's recorded triggers under other rules (replay/whatif/simulation.py), and print what
differs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.errors import KraftForensicsError, UsageError
from evidence.tables import LOG_END_OFFSETS, NODE_CLOCKS
from jobs.config.settings import Settings
from jobs.console.log import show_message
from jobs.console.output import Format, print_rows, print_table, utc
from jobs.console.text import range_text
from jobs.detect.inputs import judging_events, judging_inputs, newest_ms
from jobs.detect.topic_ids import LIFETIME_COLUMNS, lifetimes_of, with_topic_ids
from jobs.lake.lake import Lake
from replay.arrow import schemas
from replay.arrow.ragged import INT64_MAX
from replay.cluster.facts import ClusterFacts
from replay.controller.predictions import predict_all
from replay.controller.profiles import PROFILES
from replay.controller.transitions import Bucket
from replay.loss.judged_windows import judged_windows
from replay.whatif.comparison import WHATIF, compare
from replay.whatif.policies import BEFORE_ELR, BEFORE_ELR_UNCLEAN, POLICIES, designated, policy_of_strategy, recovery
from replay.whatif.scenario import Scenario
from replay.whatif.simulation import simulate
from replay.whatif.steps import steps_of, subjects_of


@dataclass(frozen=True, slots=True)
class WhatifQuestion:
    """The rules to change (None: as recorded), the topic, and the range of metadata offsets (both ends inclusive).

    policy: a name in replay.whatif.policies, or None. deprioritized: (broker, first offset, last offset), KIP-491; a
    None offset is that of the range.
    """

    policy: str | None = None
    profile: str | None = None
    min_isr: int | None = None
    unclean: bool | None = None
    elr: bool | None = None
    deprioritized: tuple[tuple[int, int | None, int | None], ...] = ()
    designate: int | None = None
    topic: str | None = None
    from_offset: int = 0
    to_offset: int | None = None

    def scenario(self) -> Scenario:
        """The scenario of this question. Errors: UsageError."""
        if self.profile is not None and self.profile not in PROFILES:
            raise UsageError(f"{self.profile!r} is not a profile; choose one of {', '.join(PROFILES)}")
        if self.policy is not None and self.policy not in POLICIES:
            raise UsageError(f"{self.policy!r} is not a policy; choose one of {', '.join(POLICIES)}")
        if self.policy is not None and self.designate is not None:
            raise UsageError("--designate and a policy or strategy both choose leaders: give only one of them")
        for first, last in [(self.from_offset, self.to_offset), *(each[1:] for each in self.deprioritized)]:
            if first is not None and last is not None and last < first:
                raise UsageError(f"the range ends at {last}, before it starts at {first}")
        base = Scenario() if self.designate is None else designated(self.designate)
        old = {BEFORE_ELR: (False, self.unclean), BEFORE_ELR_UNCLEAN: (False, True)}
        elr, unclean = old.get(self.policy or "", (self.elr, self.unclean))
        return replace(
            base,
            profile=PROFILES[self.profile] if self.profile else None,
            min_isr=self.min_isr,
            unclean=unclean,
            elr=elr,
            deprioritized=self.ranges(),
        )

    def ranges(self) -> tuple[tuple[int, int, int], ...]:
        """`deprioritized` as (broker, first offset, offset after the last)."""
        end = INT64_MAX - 1 if self.to_offset is None else self.to_offset
        return tuple(
            (broker, self.from_offset if first is None else first, (end if last is None else last) + 1)
            for broker, first, last in self.deprioritized
        )


def question_of(strategy: str | None, policy: str | None) -> str | None:
    """The policy for a strategy, or the given policy. Errors: UsageError."""
    if strategy is None:
        return policy
    if policy is not None:
        raise UsageError("give --policy or --strategy, not both")
    try:
        return policy_of_strategy(strategy)
    except ValueError as error:
        raise UsageError(str(error)) from error


def whatif(lake: Lake, cluster: str, question: WhatifQuestion, settings: Settings) -> pa.Table:
    """replay.whatif.comparison.WHATIF rows of every partition with a known state in the range.

    Topics are read and simulated one bucket at a time to bound memory. Errors: UsageError for an invalid question;
    KraftForensicsError if there is no history to simulate.
    """
    question.scenario()  # rejects an invalid question
    only = None if question.topic is None else pc.field("topic") == question.topic
    topics = lake.read("partition_history", cluster, LIFETIME_COLUMNS)
    chosen = topics if only is None else topics.filter(only)
    if not len(chosen):
        about = f"topic {question.topic!r}" if question.topic else f"cluster {cluster}"
        raise KraftForensicsError(f"no history of {about}. Run `kraft-forensics replay` first, or check the name.")
    clocks = lake.read("node_clocks", cluster, NODE_CLOCKS.names)
    _, facts = judging_inputs(lake, cluster, settings, clocks)
    designated_too = () if question.designate is None else (question.designate,)
    named = {*designated_too, *(broker for broker, _, _ in question.deprioritized)}
    for broker in sorted(named - facts.brokers.states.keys()):
        show_message(f"broker {broker} registers nowhere in the known log: is it the id that was meant?")
    offsets = lake.read("log_end_offsets", cluster, LOG_END_OFFSETS.names, only)
    lifetimes = lifetimes_of(topics)
    offsets = with_topic_ids(offsets, lifetimes)
    events = judging_events(lake, cluster, facts.all_topics_until_ms, clocks, lifetimes)
    last = question.to_offset
    ended_ms = None if last is None else newest_ms(lake, cluster, pc.field("base_offset") <= last)
    end_ms = (facts.log_end_ms if ended_ms is None else ended_ms) or 0
    answers = [WHATIF.empty_table()]
    for topic_ids in _buckets(chosen, settings.replay.rows_per_bucket):
        of_bucket = pc.field("topic_id").isin(topic_ids)
        history = lake.read("partition_history", cluster, schemas.PARTITION_HISTORY.names, of_bucket)
        ends, lines = offsets.filter(of_bucket), events.filter(of_bucket)
        answers.append(_answer(history, ends, lines, facts, question, end_ms))
    order = [(name, "ascending") for name in ("topic", "partition", "from_offset")]
    return pa.concat_tables(answers).sort_by(order)


def _buckets(rows: pa.Table, most_rows: int) -> Iterator[pa.Array]:
    """Topic ids in groups of about `most_rows` states. rows: a row of history per state, with topic_id."""
    counts = rows.group_by("topic_id").aggregate([([], "count_all")]).sort_by("topic_id")
    number = np.cumsum(counts["count_all"].to_numpy()) // most_rows
    for each in np.unique(number):
        yield counts["topic_id"].combine_chunks().filter(pa.array(number == each))


def _answer(
    history: pa.Table, offsets: pa.Table, events: pa.Table, facts: ClusterFacts, question: WhatifQuestion, end_ms: int
) -> pa.Table:
    """WHATIF of one bucket of topics. offsets: its log end offsets. events: lines of brokers' own logs."""
    to_offset = INT64_MAX - 1 if question.to_offset is None else question.to_offset
    scenario, bucket = question.scenario(), Bucket(history, facts)
    rows, states = bucket.history, bucket.states
    subjects = subjects_of(rows, states, question.from_offset, to_offset)
    if subjects is None:
        return WHATIF.empty_table()
    # A preferred leader election applies a list of deprioritized brokers at its start and at its end (KIP-491).
    rebalanced = sorted({offset for _, first, end in question.ranges() for offset in (first, end)})
    steps = steps_of(bucket, predict_all(bucket, bucket.changed_rows), subjects, rebalanced)
    chooser = recovery(question.policy, rows, states, offsets, facts.clock) if question.policy else None
    scenario = replace(scenario, recover=chooser) if chooser else scenario
    course = simulate(bucket, subjects.start, steps, [scenario])
    unknown = chooser.undetermined if chooser else {}
    undetermined = {s: unknown[row] for s, row in enumerate(subjects.start.tolist()) if row in unknown}
    windows = judged_windows(bucket, offsets, events=events)
    judged = [window for window in windows if window.after["batch_base_offset"] <= to_offset]
    return compare(rows, states, subjects, course, judged, end_ms, undetermined, question.min_isr)


_SIDES = ("recorded", "would_be")
_ARROW = " -> "
# Shown also where they are the same.
_KEPT = ("partition", "since (UTC)", "lost")
_TIMES = {"leaderless": "leaderless_ms", "below min ISR": "under_min_isr_ms", "one replica left": "one_left_ms"}
# Columns that a narrow table leaves out, the least important first.
_DROP = (*(f"{name} (s)" for name in reversed(_TIMES)), *("elections", "from", "unclean", "since (UTC)", "leader"))


def print_differences(found: pa.Table, form: Format, cluster: str | None = None) -> None:
    """Print the partitions that would differ, with a total; as JSON or CSV, all partitions and columns, after the
    cluster's id."""
    if form is not Format.TABLE:
        found = found.add_column(0, "cluster_id", pa.array([cluster] * len(found), pa.string()))
        print_rows(found.column_names, found.to_pylist(), form)
        return
    differs = pc.or_(found["first_difference_offset"].is_valid(), found["undetermined_offset"].is_valid())
    rows = [_table_row(row) for row in found.filter(differs).to_pylist()]
    title = f"{len(rows)} of {len(found)} partitions would differ (hypothetical; recorded -> would be)"
    if rows:
        # Only columns in which something differs: all of them are there in JSON and CSV.
        shown = [name for name in rows[0] if name in _KEPT or any(_ARROW in str(row[name]) for row in rows)]
        print_table(shown, rows, title, _DROP)
    else:
        print(f"none of {len(found)} partitions would differ")
    unknown = found["undetermined_offset"].is_valid().to_pylist().count(True)
    if unknown:
        show_message(
            f"{unknown} partitions: the policy needs log ends that were not captured, so the outcome is unknown"
        )


def _table_row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "partition": f"{row['topic']}-{row['partition']}",
        "since (UTC)": utc(row["first_difference_timestamp_ms"]),
        "from": row["first_difference_offset"],
        "leader": _change(row["recorded_leader"], row["would_be_leader"]),
        "elections": _both(row, "elections"),
        "unclean": _both(row, "unclean_elections"),
        **{f"{name} (s)": _both(row, column, 1000) for name, column in _TIMES.items()},
        "lost": _change(*(_lost(row[f"loss_min_{s}"], row[f"loss_max_{s}"]) for s in _SIDES)),
    }


def _lost(low: int | None, high: int | None) -> str:
    """Bounds; "?" if they say nothing."""
    return "?" if not low and high is None else range_text(low, high)


def _both(row: dict[str, Any], name: str, unit: int = 1) -> str:
    values = (row[f"{name}_{side}"] for side in _SIDES)
    return _change(*("?" if v is None else round(v / unit) for v in values))


def _change(recorded: object, would_be: object) -> str:
    return str(recorded) if recorded == would_be else f"{recorded}{_ARROW}{would_be}"
