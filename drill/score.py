"""Verdicts compared with what the drill knows. A claim is wrong only if nothing that the drill saw allows it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any

from drill.ledger import Ledger, Place, SentRecord
from drill.nodes import CLUSTER_ID
from drill.scenario import name_of
from jobs.lake.lake import Lake, Row
from replay.arrow.runs import groups
from replay.findings.kinds import HWM_REGRESSION, INVARIANT_VIOLATION, RULE_MISMATCH
from replay.loss.verdicts import VERDICTS

_place = itemgetter("topic_id", "partition")
PROVEN, EXCLUDED, BOUNDS, FIRST = "wrong proven", "wrong excluded", "wrong bounds", "wrong first"
MISMATCH, STATE = "contradiction", "wrong state"
# The kinds of wrong claims that a new score finds again; others are known only while a drill is played.
JUDGED = (PROVEN, EXCLUDED, BOUNDS, FIRST, MISMATCH, STATE)
DECIDED = ("proven", "excluded")
_STATE = ("topic", "partition", "leader", "replicas", "isr", "elr", "last_known_elr", "end_offset", "removed")
# Of a window, in result.json.
_SHOWN = ("verdict", "loss_min", "loss_max", "first_lost_offset", "election_offset", "recorded_leader", "rule")
# The invariants that a user's command breaks: a change of min.insync.replicas clears the ELR (KIP-966), and the ELR
# keeps a broker that a reassignment took from the replicas (PartitionChangeBuilder.maybePopulateTargetElr, 4.3.1; seen
# in the drill plan_random, seed 2). A partition that is reassigned to fewer replicas than min.insync.replicas has
# another effective one than partition 0 (ReplicationControlManager.getTopicEffectiveMinIsr, 4.3.1).
BROKEN_BY_USERS = ("elr_cleared_while_leaderless", "elr_within_replicas", "min_isr_layers_disagree")
# A leader that was frozen or cut off acknowledges records for so long after its successor was elected; in ms.
GRACE_MS = 20_000
# So long may a broker answer with an older state than the controller's, in ms.
LAG_MS = 5_000
# Of the names of lakes and results: with nodes' logs, without; the same with what a monitor was told.
SUFFIXES = ("", "_without_logs", "_monitored", "_monitored_without_logs")
# How the codes of statements begin that say why a window is open.
LACKING = ("missing_", "not_held_", "contradicted", "outsider")
# Findings that say that evidence contradicts itself, or that a controller did not follow the rules.
CONTRADICTIONS = {RULE_MISMATCH, INVARIANT_VIOLATION, "log_conflict", "broker_epoch_mismatch"}
CONTRADICTIONS |= {f"{what}_mismatch" for what in ("snapshot", "describe", "log_line")}
CONTRADICTIONS |= {f"unknown_{what}" for what in ("broker", "controller", "topic", "partition")}


def states_of(lake: Lake) -> dict[str, Row]:
    """The state that each partition has now, by its name."""
    rows = lake.rows("partition_history", CLUSTER_ID, _STATE)
    return {name_of(row): row for row in rows if row["end_offset"] is None and not row["removed"]}


def lake_of(root: Path, captures: Iterable[Path], is_judged: bool = True) -> Lake:
    """A lake of captures. Kafka needs the machine: no Spark beside it. is_judged: with findings."""
    from jobs.pipeline import Pipeline

    pipeline = Pipeline(root, [*captures], engine_name="local")
    pipeline.ingest()
    pipeline.replay()
    if is_judged:
        pipeline.detect()
    return pipeline.lake


def wrong(kind: str, partition: str, text: str, logs: bool = True) -> Row:
    """A claim that is not true, as result.json has it. logs: whether brokers' logs were read."""
    return {"kind": kind, "partition": partition, "text": text, "logs": logs}


def score(lakes: dict[str, Path], ledger: Ledger, described: Sequence[Row]) -> Row:
    """Compare lakes with the ledger, and the histories with what Kafka described. lakes: by their SUFFIXES.

    Returns of result.json: lost: by partition, how many records acknowledged with acks=all; found: what was found of
    each of these partitions; verdicts: number of windows by verdict; open: number of open windows by what they lack, a
    statement code (docs/findings.md); these three with each suffix. states: how many
    described states were compared; wrong: as `wrong` makes them; windows.
    """
    lost = ledger.lost()
    result: Row = {"lost": {of.name: len(of.lost) for of in lost.values()}}
    untrue: list[Row] = []
    # With logs alone last: what is below the loop is about these.
    for suffix, root in reversed(lakes.items()):
        history, findings = (Lake(root).rows(name, CLUSTER_ID) for name in ("partition_history", "findings"))
        windows = _windows(history, findings)
        of_place = groups(windows, _place)
        result[f"found{suffix}"] = {
            of.name: _best(of_place.get(place, ())) or _beside(findings, place) for place, of in lost.items()
        }
        result[f"verdicts{suffix}"] = dict(Counter(w["verdict"] for w in windows))
        result[f"open{suffix}"] = lacks(windows)
        for place, of in ledger.partitions.items():
            found = lies(of_place.get(place, ()), of.records, of.markers_ms)
            untrue += [wrong(kind, of.name, text, not suffix.endswith("_without_logs")) for kind, text in found]
    names = {_place(row): name_of(row) for row in history}
    for row in filter(contradicts, findings):
        untrue.append(wrong(MISMATCH, names.get(_place(row), "-"), f"{row['kind']}: {row['explanation']}"))
    untrue += [wrong(STATE, partition, text) for text, partition in differing_states(history, described)]
    return result | {
        "states": sum(len(answer["partitions"]) for answer in described),
        "wrong": untrue,
        "windows": [{"partition": names.get(_place(row), "-"), **{n: row[n] for n in _SHOWN}} for row in windows],
    }


def contradicts(finding: Mapping[str, Any]) -> bool:
    """Whether a finding says that what a drill's Kafka wrote cannot be. A change as a known bug of that release makes
    it is none: it is of medium severity."""
    known = (finding["kind"], finding["severity"]) == (RULE_MISMATCH, "medium")
    return finding["kind"] in CONTRADICTIONS and not known and finding["rule"] not in BROKEN_BY_USERS


def lies(windows: Sequence[Row], records: Sequence[SentRecord], markers_ms: Sequence[int]) -> Iterator[tuple[str, str]]:
    """(kind, text) of each claim of one partition's windows that is not true.

    A record that was acknowledged after an election cannot have been lost in it, and one that was sent after it
    neither; GRACE_MS later, since leaders may not know yet that they were replaced. Which of the other windows lost it
    is not known. So the windows from each one on are compared together, and those up to each one. What an election cut
    off, a later one may bring back, of a replica that was down meanwhile: the reader at the end then misses nothing.
    """
    lost = [r for r in records if r.lost and r.acks == "all"]
    perhaps = [r.sent_ms for r in records if r.lost or r.unseen or r.offset is None] + list(markers_ms)
    if not windows:  # a loss that no record of the metadata log shows is missed, and nothing was claimed
        return
    ordered = sorted(windows, key=lambda w: w["at_ms"])
    for first in range(len(ordered)):
        after = -inf if first == 0 else ordered[first - 1]["at_ms"] + GRACE_MS
        known, of = sum(r.at_ms > after for r in lost), ordered[first:]
        most = sum(inf if w["loss_max"] is None else w["loss_max"] for w in of if w["verdict"] != "excluded")
        if known > most:
            kind = EXCLUDED if all(w["verdict"] == "excluded" for w in of) else BOUNDS
            yield kind, f"{known} records were lost, not at most {most:.0f} ({_named(of)})"
            break
    sent = [*(r.sent_ms for r in records), *markers_ms]
    stays = [w for n, w in enumerate(ordered) if not _may_come_back(w, ordered[n + 1 :])]
    claims = [*((stays[: last + 1], perhaps) for last in range(len(stays))), *(([w], sent) for w in ordered)]
    for of, sent_ms in claims:
        known = sum(at_ms < of[-1]["at_ms"] + GRACE_MS for at_ms in sent_ms)
        least = sum(w["loss_min"] or 0 for w in of if w["verdict"] == "proven")
        if least > known:
            text = f"at most {known} offsets were lost, not at least {least} ({_named(of)})"
            yield BOUNDS if known else PROVEN, text
            break
    begins = [w["first_lost_offset"] for w in ordered if w["first_lost_offset"] is not None]
    offsets = [r.offset for r in lost if r.offset is not None]
    if offsets and len(ordered) == 1 and begins and begins[0] > min(offsets):
        yield FIRST, f"the first lost offset is {min(offsets)}, not {begins[0]}"


def _may_come_back(window: Row, later: Sequence[Row]) -> bool:
    """Whether a later election from outside ISR and ELR, of another replica, may have brought back what it lost."""
    outsiders = (w for w in later if any(s["code"] == "outsider" for s in w["reason"]))
    return any(w["recorded_leader"] != window["recorded_leader"] for w in outsiders)


def differing_states(history: Sequence[Row], described: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """(text, partition) where no state around the time of the question is what Kafka answered.

    A broker that was cut off may have answered with a state from before. The client asks for the brokers that are
    alive first, maybe another broker, and shows no leader if it was not among them (KafkaAdminClient.java, 4.3.1,
    handleDescribeTopicsByNamesWithDescribeTopicPartitionsApi): so if a leader comes or goes in between.
    """
    of_place = groups(history, _place)
    for answer in described:
        since_ms = answer.get("outdated_since_ms")
        oldest_ms = min(answer["before_ms"], since_ms or inf) - LAG_MS
        for told in answer["partitions"]:
            states = [
                _state(row)
                for row in of_place.get(_place(told), ())
                if not row["removed"]
                and row["timestamp_ms"] <= answer["after_ms"] + 1
                and (row["end_timestamp_ms"] is None or row["end_timestamp_ms"] >= oldest_ms)
            ]
            wanted = {name: told[name] for name in ("leader", "replicas", "isr", "elr", "last_known_elr")}
            wanted = {name: value or [] if name.endswith("elr") else value for name, value in wanted.items()}
            unknown = [{**state, "leader": -1} for state in states] if since_ms or len(states) > 1 else []
            if wanted not in (*states, *unknown):
                yield f"described as {wanted} at {answer['before_ms']}, replayed as {states}", name_of(told)


def _state(row: Row) -> Row:
    lists = {name: sorted(row[name] or []) for name in ("replicas", "isr", "elr", "last_known_elr")}
    return {"leader": row["leader"], **lists}


def _windows(history: Sequence[Row], findings: Sequence[Row]) -> list[Row]:
    """Judged windows, with the time of their election (at_ms; that of the window's begin if none is judged)."""
    rows = [r for r in findings if r["kind"] == HWM_REGRESSION]
    times = {r["offset"]: r["timestamp_ms"] for r in history}
    return [{**r, "at_ms": times.get(r["election_offset"], r["start_timestamp_ms"])} for r in rows]


def lacks(windows: Sequence[Row]) -> dict[str, int]:
    """Of how many open windows the reason names this: evidence that is missing, a premise of the protocol's promise
    that is not known to hold, a contradiction."""
    codes = [{s["code"] for s in w["reason"]} for w in windows if w["verdict"] not in DECIDED]
    return dict(Counter(code for of in codes for code in sorted(of) if code.startswith(LACKING)))


def _beside(findings: Sequence[Row], place: Place) -> str:
    """The findings that a partition without a window has."""
    kinds = {r["kind"] for r in findings if _place(r) == place}
    return f"no window, but {', '.join(sorted(kinds))}" if kinds else "no window"


def _best(windows: Sequence[Row]) -> str:
    """The strongest verdict among windows, and the sum of what is proven; nothing without a window."""
    verdicts = [w["verdict"] for w in windows]
    best = next((v for v in VERDICTS if v in verdicts), "")
    least = sum(w["loss_min"] or 0 for w in windows if w["verdict"] == "proven")
    return f"{best}, at least {least}" if best == "proven" else best


def _named(windows: Sequence[Row]) -> str:
    spans = (f"{w['verdict']} {w['loss_min']} to {w['loss_max']} at {w['election_offset']}" for w in windows)
    return "; ".join(spans)


RESULTS = "results.jsonl"
# What a drill's own folder has, and the table does not need.
_LONG = ("journal", "windows", "alarms")


def append(scores: Path, result: Mapping[str, Any]) -> None:
    """Add a drill's line. result: what drill.run.play_and_score returns."""
    with scores.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({name: value for name, value in result.items() if name not in _LONG}) + "\n")


def read_scores(scores: Path) -> Sequence[Row]:
    """The lines of such a file; none if it is missing. Of a scenario, release and seed the last one counts."""
    if not scores.exists():
        return []
    rows = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines() if line.strip()]
    return list({key_of(row): row for row in rows}.values())


def key_of(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["scenario"], row["release"], row["seed"]
