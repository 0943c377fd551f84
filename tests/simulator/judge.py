"""Verdicts compared with the truth of lives."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import pyarrow.compute as pc

from replay.arrow.runs import groups as groups_of
from replay.bucket import Detected
from replay.findings import log_lines
from replay.findings.kinds import LOG_TRUNCATION
from tests.simulator.detection import detected, registration_mismatches
from tests.simulator.life import Life, alike
from tests.simulator.logs import common
from tests.simulator.truth import Truth
from tests.support.detection import windows

Row = dict[str, Any]
place_of = itemgetter("topic_id", "partition")
EXCLUDED, PROVEN, BOUNDS, FIRST = (f"wrong {what}" for what in ("excluded", "proven", "bounds", "first"))
POLICY, UNACKED, MISMATCH, REPLICA = (f"wrong {what}" for what in ("policy", "unacked", "mismatch", "replica loss"))
SILENT = "silent loss"
KINDS = (PROVEN, EXCLUDED, BOUNDS, FIRST, POLICY, UNACKED, MISMATCH, REPLICA)


@dataclass(frozen=True)
class Wrong:
    """A claim that is not true. kind: one of KINDS."""

    fault: str
    seed: int
    offset: int
    kind: str
    text: str


@dataclass
class Tally:
    """counts: of windows by (verdict, whether records were lost). silent: losses without a window."""

    lives: int = 0
    counts: Counter[tuple[str, bool]] = field(default_factory=Counter)
    silent: int = 0
    exact: int = 0
    wrong: list[Wrong] = field(default_factory=list)
    silent_ones: list[Wrong] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.counts.update(other.counts)
        self.wrong += other.wrong
        self.silent_ones += other.silent_ones
        for name in ("lives", "silent", "exact"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def losses(self) -> int:
        return sum(n for (_, lost), n in self.counts.items() if lost) + self.silent

    @property
    def recall(self) -> tuple[float, float]:
        """Of proven among losses, of excluded among windows without one; in percent."""
        kept = sum(n for (_, lost), n in self.counts.items() if not lost)
        shares = (self.counts["proven", True], self.losses), (self.counts["excluded", False], kept)
        return tuple(100 * n / of if of else 0.0 for n, of in shares)  # type: ignore[return-value]

    def of_kind(self, kind: str) -> int:
        return sum(w.kind == kind for w in self.wrong)


def judged(lives: Iterable[Life]) -> Tally:
    """The lives, judged in as few calls as can be."""
    tally = Tally()
    for group in groups(lives):
        tally.add(judged_group(group, detected(group)))
    return tally


def judged_group(group: Sequence[Life], of_group: Detected) -> Tally:
    """Lives that share a cluster, by what detection found of them."""
    tally = Tally()
    rows = found(group, of_group), registration_mismatches(group, of_group.bucket.history)
    for (each, findings, answers, mismatches, replicas), others in zip(*rows, strict=True):
        tally.lives += 1
        hold(tally, each, findings, answers)
        tally.wrong += [Wrong(each.fault, each.seed, *lie) for lie in replica_lies(each, replicas)]
        # Every line is true, and so is the metadata log.
        for row in (*mismatches, *others):
            tally.wrong.append(Wrong(each.fault, each.seed, row["start_offset"], MISMATCH, row["explanation"]))
    return tally


def groups(lives: Iterable[Life]) -> list[list[Life]]:
    """Lives that one cluster can have: one has a topic once."""
    result: dict[Any, list[Life]] = defaultdict(list)
    seen: Counter[Any] = Counter()
    for each in lives:
        place = alike(each), each.setup.topic, each.setup.partition
        result[place[0], seen[place]].append(each)
        seen[place] += 1
    return list(result.values())


def found(
    group: Sequence[Life], of_group: Detected
) -> Iterator[tuple[Life, list[Row], list[Row], list[Row], list[Row]]]:
    """(life, its judged windows, the policies' answers, findings that a line contradicts the metadata log, losses of
    replicas)."""
    of_kinds = (of_group.findings.filter(pc.field("kind") == kind) for kind in (log_lines.KIND, LOG_TRUNCATION))
    tables = (of_group.counterfactuals, *of_kinds)
    parts = [groups_of(rows, place_of) for rows in (windows(of_group.findings), *(t.to_pylist() for t in tables))]
    for each in group:
        yield each, *([row for place in each.places for row in rows.get(place, ())] for rows in parts)


def hold(tally: Tally, each: Life, findings: list[Row], answers: list[Row]) -> None:
    """Count what was found of a life, and compare it with the truth."""
    truth = {offset: t for offset, t in each.truth.items() if not each.misses(offset)}
    seen = {f["election_offset"]: f for f in findings if f["election_offset"] in truth}
    for offset, told in truth.items():
        if told.lost and offset not in seen and _continues(each, offset):
            tally.silent += 1
            text = f"{told.lost} were lost, and there is no window"
            tally.silent_ones.append(Wrong(each.fault, each.seed, offset, SILENT, text))
    for offset, finding in seen.items():
        tally.counts[finding["verdict"], truth[offset].lost > 0] += 1
        tally.exact += finding["verdict"] == "proven" and finding["loss_min"] == truth[offset].lost
        tally.wrong += [Wrong(each.fault, each.seed, offset, *lie) for lie in lies(finding, truth[offset])]
    for row in answers:
        if row["offset"] in truth and row["leader"] in truth[row["offset"]].would_lose:
            lost = truth[row["offset"]].would_lose[row["leader"]]
            if not within(lost, row["loss_min"], row["loss_max"]):
                text = f"{row['policy']} elects {row['leader']}, loses {lost}, not {_span(row, 'loss')}"
                tally.wrong.append(Wrong(each.fault, each.seed, row["offset"], POLICY, text))


def _continues(each: Life, offset: int) -> bool:
    """Whether the history has the state before the election, too: else nobody can know that there was one."""
    gap = each.gap
    before = [s.offset for s in each.world.controller.states if s.offset < offset]
    return gap is None or not any(gap[0] <= last < gap[1] for last in before[-1:])


def lies(finding: Row, truth: Truth) -> Iterator[tuple[str, str]]:
    verdict = finding["verdict"]
    if verdict == "proven" and not truth.lost:
        yield PROVEN, f"proven ({_span(finding, 'loss')}), and nothing was lost"
    elif verdict == "excluded" and truth.lost:
        yield EXCLUDED, f"excluded, and {truth.lost} were lost"
    elif not within(truth.lost, finding["loss_min"], finding["loss_max"]):
        yield BOUNDS, f"{truth.lost} were lost, not {_span(finding, 'loss')}"
    low, high = finding["unacked_min"], finding["unacked_max"]
    if not within(truth.unacked, None, high) or not within(truth.unacked_most, low, None):
        yield UNACKED, f"{truth.unacked} to {truth.unacked_most} of the last leader's, not {_span(finding, 'unacked')}"
    starts = [s["value"] for s in finding["reason"] if s["code"] == "deleted_before"]
    if starts and starts[0] > truth.log_start:
        yield FIRST, f"the last leader's log begins at {truth.log_start}, not at {starts[0]}"
    if truth.lost and finding["first_lost_offset"] not in (None, truth.first):
        yield FIRST, f"the first lost is {truth.first}, not {finding['first_lost_offset']}"


def replica_lies(each: Life, findings: Iterable[Row]) -> Iterator[tuple[int, str, str]]:
    """(offset, kind, text) of losses of a replica that are said to be proven and are none. The log had the records when
    the first file was read, and not when a later one was. If no election explains it, the broker's own disk was set
    back in between, or that of a leader that is said to have restarted."""
    world = each.world
    for finding in findings:
        cited = {e["role"]: e for e in finding["evidence"]}
        shown = [cited[role] for role in ("before", "after", "epoch_began") if role in cited]
        if finding["verdict"] != "proven" or not all(e["path"] in world.logs_read for e in shown):
            continue
        reason = {statement["code"]: statement for statement in finding["reason"]}
        broker, (begin_ms, before, _) = shown[0]["broker_id"], world.logs_read[shown[0]["path"]]
        later = [(e, *world.logs_read[e["path"]]) for e in shown[1:]]
        end_ms = max(at_ms for _, at_ms, *_ in later)
        own = any(b == broker and begin_ms <= at_ms <= end_ms for at_ms, b in world.setbacks)
        # An exporter's text is read for some time: its log end may be a little older than the log. What the cleaner had
        # removed from its leader's log does not come back to one that lost it.
        logs = (
            log[: e["value"]] if e["role"] == "after" else without(log, gone, e["value"]) if own else log
            for e, _, log, gone in later
        )
        lost = shown[0]["value"] - min(common(before, log) for log in logs)
        if not lost >= reason["tail_lost"]["value"] > 0:
            yield finding["end_offset"], REPLICA, f"{lost} of the log's end, not {reason['tail_lost']['value']}"
        restarted = reason.get("leader_restarted", {}).get("brokers", [])
        by_leader = any(b in restarted and at_ms <= end_ms for at_ms, b in world.setbacks)
        if "no_election_explains" in reason and not (own or by_leader):
            yield finding["end_offset"], REPLICA, f"nothing set {[broker, *restarted]} back until {end_ms}"


def without(log: list[int], gone: Collection[int], start: int) -> list[int]:
    """The log without the records from an offset on that are gone: no record has the number in their place."""
    return [-1 if offset >= start and offset in gone else record for offset, record in enumerate(log)]


def within(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def _span(row: Row, name: str) -> str:
    return f"{row[f'{name}_min']} to {row[f'{name}_max']}"


def report(tallies: dict[str, Tally]) -> str:
    """A line for each class of fault; recall in percent."""
    names = ("lives", "windows", "losses", "proven%", "excl%", "w.proven", "w.excl", "bounds", "first", "policy")
    lines = [f"{'':28}" + "".join(f"{n:>9}" for n in (*names, "unacked", "mismatch", "replica", "silent"))]
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    for fault, tally in {**tallies, "all": total}.items():
        proven, excluded = tally.recall
        numbers = f"{tally.lives:9}{tally.counts.total():9}{tally.losses:9}{proven:9.1f}{excluded:9.1f}"
        lines.append(f"{fault:28}{numbers}" + "".join(f"{tally.of_kind(k):9}" for k in KINDS) + f"{tally.silent:9}")
    return "\n".join(lines)
