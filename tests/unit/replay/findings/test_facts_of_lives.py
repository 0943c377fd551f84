"""Simulated lives: no verdict says more than is true, and what a finding calls a fact is so, held against rows by other
code than made them."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from replay.bucket import Detected
from replay.cluster.brokers import BrokerState
from replay.findings.exposures import exposure_findings
from replay.findings.faults import led_on_findings
from replay.findings.kinds import LOG_TRUNCATION
from replay.findings.statements import SENTENCES
from tests.simulator.detection import detected
from tests.simulator.faults import FAULTS, SHARED, life
from tests.simulator.judge import Tally, groups, judged_group, place_of, report
from tests.simulator.life import Life, Place, together

Row = dict[str, Any]
SLACK_MS = 20_000
LIVES = 16

# Facts about other tables than a life has, and those that are about what is missing.
OF_RULES = {"contradicted_by_rules", "rule_change", "rule_trigger", "rule_no_trigger", "rule_known_bug"}
OF_RULES |= {"rule_unexplained", "invariant_broken", "invariant_detail", "invariant_brokers", "invariant_rows"}
# No life has these: tests/unit/replay/findings/test_replica_losses.py.
RARE = {"mark_before", "mark_after"}


@dataclass(frozen=True)
class Rows:
    """What a group of lives left, by partition and by broker."""

    states: dict[Place, list[Row]]
    offsets: dict[Place, list[Row]]
    sessions: dict[int, list[BrokerState]]
    elr: list[tuple[int, bool]]
    gaps: dict[Place, bool]
    end_ms: int

    @classmethod
    def of(cls, lives: Sequence[Life]) -> "Rows":
        history, offsets, cluster = together(lives)
        states, read = defaultdict(list), defaultdict(list)
        for row in history.to_pylist():
            states[place_of(row)].append(row)
        for row in offsets.to_pylist():
            read[place_of(row)].append(row)
        elr = sorted(level for each in lives for level in each.elr_levels())
        gaps = {place: each.gap is not None for each in lives for place in each.places}
        return cls(states, read, dict(cluster.brokers.states), elr, gaps, cluster.log_end_ms or 0)


class Said:
    """A statement, with the finding that it is of."""

    def __init__(self, finding: Row, statement: Row, rows: Rows) -> None:
        self.finding, self.rows, self.code = finding, rows, statement["code"]
        self.offset, self.value, self.text = statement["offset"], statement["value"], statement["text"]
        self.brokers, self.leader_epoch = statement["brokers"] or [], statement["leader_epoch"]
        self.states = rows.states[place_of(finding)]
        self.offsets = rows.offsets[place_of(finding)]

    @property
    def broker(self) -> int:
        (broker,) = self.brokers
        return broker

    def other(self, code: str) -> "Said":
        """The finding's statement of that code."""
        (found,) = (s for s in self.finding["reason"] if s["code"] == code)
        return Said(self.finding, found, self.rows)

    def at(self, offset: int | None = None) -> Row:
        """The state that the record at an offset made."""
        offset = self.offset if offset is None else offset
        (found,) = (s for s in self.states if s["offset"] == offset)
        return found

    def before(self, offset: int | None = None) -> Row:
        offset = self.offset if offset is None else offset
        return [s for s in self.states if s["offset"] < offset][-1]

    @property
    def during(self) -> list[Row]:
        """The states of a stretch."""
        end = self.finding["end_offset"]
        inside = [s for s in self.states if s["offset"] >= self.finding["start_offset"]]
        inside = [s for s in inside if end is None or s["offset"] < end]
        # A snapshot after a gap of the log begins anew.
        later = [n for n, s in enumerate(inside) if n and s["origin"] == "checkpoint"]
        return inside[: later[0]] if end is None and later else inside

    @property
    def election(self) -> Row:
        return self.at(self.finding["election_offset"])

    @property
    def elected_from(self) -> Row:
        return self.before(self.finding["election_offset"])

    def registered(self, broker: int, after: int, up_to: int) -> list[BrokerState]:
        """The first state of each process that registered in between."""
        states = self.rows.sessions[broker]
        new = [
            s
            for b, s in zip([None, *states], states, strict=False)
            if b is None or b.incarnation_id != s.incarnation_id
        ]
        return [s for s in new if s.incarnation_id is not None and after < s.offset <= up_to]

    def since_joined(self) -> tuple[int, int, int]:
        """(leader, metadata offset at which it joined, that of the election)."""
        return self.election["leader"], self.other("premise_member").offset, self.finding["election_offset"]


def members(state: Row) -> set[int]:
    return {*state["isr"], *state["elr"]}


def is_member(said: Said) -> bool:
    leader, joined, elected = said.since_joined()
    inside = [s for s in said.states if joined <= s["offset"] < elected]
    return said.at(joined) in inside and all(leader in members(s) for s in inside)


def feature_is_on(said: Said) -> bool:
    _, joined, elected = said.since_joined()
    before = [on for offset, on in said.rows.elr if offset <= joined][-1:]
    return all([*before, *(on for offset, on in said.rows.elr if joined < offset <= elected)]) and bool(before)


def directories(said: Said) -> set[str]:
    """Those of the leader's log from when it joined up to the election."""
    leader, joined, elected = said.since_joined()
    inside = [s for s in said.states if joined <= s["offset"] <= elected and leader in s["replicas"]]
    return {s["directories"][s["replicas"].index(leader)] for s in inside if s["directories"]}


def newly_marked(said: Said) -> bool:
    """Whether the controller marked the partition with the election."""
    states = (said.elected_from, said.election)
    return [s["leader_recovery_state"] for s in states] == ["RECOVERED", "RECOVERING"]


def new_batches(said: Said) -> set[int]:
    """The batches with which processes of the statement's broker registered."""
    return {s.batch_base_offset for s in said.registered(said.broker, -1, 1 << 62)}


def is_exact(said: Said) -> bool:
    """Whether the finding gives the winner's exact log end."""
    return any(s["code"] == "log_end" for s in said.finding["reason"])


def restarts_between(said: Said) -> list[BrokerState]:
    new = said.registered(said.other("log_end_before").broker, -1, 1 << 62)
    return [s for s in new if said.finding["start_timestamp_ms"] < s.timestamp_ms < said.finding["end_timestamp_ms"]]


def first_reading_ms(said: Said) -> int:
    """When the earlier log end was read: after the state in which the finding begins."""
    return next(r["captured_at_ms"] for r in said.finding["evidence"] if r["role"] == "before")


def led_around(said: Said, at_ms: int) -> set[int]:
    """Who led at about that time: a row's own time of reading is uncertain."""
    return {
        s["leader"]
        for s in said.states
        if s["timestamp_ms"] <= at_ms + SLACK_MS
        and (s["end_timestamp_ms"] is None or s["end_timestamp_ms"] >= at_ms - SLACK_MS)
    }


def was_read_after_the_log(said: Said) -> bool:
    """Whether evidence of the finding is of a time of which no state is known."""
    return max(r["captured_at_ms"] or 0 for r in said.finding["evidence"]) > said.rows.end_ms


def ended(said: Said, became: Callable[[Row], bool]) -> bool:
    after = said.at()
    return (after["leader"], after["leader_epoch"]) == (said.broker, said.leader_epoch) and became(said.before())


def alive(said: Said) -> set[int]:
    state = said.at()
    found = set()
    for broker in state["replicas"]:
        own = [s for s in said.rows.sessions.get(broker, []) if s.batch_base_offset <= state["batch_base_offset"]]
        found |= {broker} if own and own[-1].active else set()
    return found


def was_read(said: Said, broker: int) -> bool:
    """Whether the broker's log end was read then."""
    at_ms = round(datetime.fromisoformat(said.text.replace(" UTC", "+00:00")).timestamp() * 1000)
    return any(
        (r["broker_id"], r["log_end_offset"], r["captured_at_ms"]) == (broker, said.value, at_ms) for r in said.offsets
    )


def led_on(said: Said) -> bool:
    """Whether a broker registered there that led a partition."""
    begun = {b for b in said.rows.sessions if said.registered(b, said.offset - 1, said.offset)}
    earlier = ([s for s in own if s["offset"] < said.offset] for own in said.rows.states.values())
    return any(own[-1]["leader"] in begun for own in earlier if own)


CHECKS: dict[str, Callable[[Said], bool]] = {
    "elected": lambda s: (
        (s.at()["leader"], s.at()["leader_epoch"]) == (s.broker, s.leader_epoch)
        and s.text == f"{s.at()['topic']}-{s.at()['partition']}"
        and s.before()["leader_epoch"] < s.leader_epoch
    ),
    "isr_before": lambda s: set(s.brokers) == set(s.elected_from["isr"]),
    "elr_before": lambda s: set(s.brokers) == set(s.elected_from["elr"]),
    "outsider": lambda s: s.election["leader"] not in members(s.elected_from),
    "taken_in": lambda s: s.election["leader"] in {*s.election["isr"]} - members(s.elected_from),
    "premise_member": is_member,
    "premise_feature_on": feature_is_on,
    "premise_not_marked": lambda s: not newly_marked(s),
    "premise_no_registration": lambda s: not s.registered(*s.since_joined()),
    "premise_clean_registration": lambda s: s.registered(*s.since_joined())[-1].offset == s.offset,
    "premise_same_directory": lambda s: len(directories(s)) == 1,
    "restarted": lambda s: s.election["leader"] in s.elected_from["isr"],
    "not_held_joined_without_leader": lambda s: s.before()["leader"] < 0 and s.at()["isr"] == [s.broker],
    "not_held_marked": lambda s: newly_marked(s) and s.offset == s.finding["election_offset"],
    "not_held_registered_with_it": lambda s: s.election["batch_base_offset"] in new_batches(s),
    "missing_log_end": lambda s: not is_exact(s),
    "missing_high_watermark": lambda s: s.finding["loss_min"] == 0,
    "missing_high_watermark_ceiling": lambda s: s.finding["loss_max"] is None,
    "missing_word_of_process": lambda s: s.broker in [x["leader"] for x in s.states],
    "recorded_leader": lambda s: s.at()["leader"] == s.broker,
    "exposed_since_snapshot": lambda s: s.at()["origin"] == "checkpoint" and s.during[0] == s.at(),
    "exposed_for": lambda s: s.value == s.finding["end_timestamp_ms"] - s.finding["start_timestamp_ms"],
    "exposed_at_log_end": lambda s: s.during[-1] == s.states[-1],
    "exposed_into_hole": lambda s: s.rows.gaps[place_of(s.finding)],
    "exposed_until_removal": lambda s: s.at()["removed"],
    "leader_lost": lambda s: (
        (s.at()["leader"], s.at()["leader_epoch"]) == (-1, s.leader_epoch)
        and [x["leader"] for x in s.states if x["offset"] < s.offset and x["leader"] >= 0][-1] == s.broker
    ),
    "no_leader": lambda s: (
        (s.at()["leader"], s.at()["leader_epoch"]) == (-1, s.leader_epoch)
        and (s.at() == s.states[0] or s.at()["origin"] == "checkpoint")
    ),
    "leaderless_isr": lambda s: set(s.during[-1]["isr"]) == set(s.brokers),
    "leaderless_elr": lambda s: not s.during[-1]["isr"] and set(s.during[-1]["elr"]) == set(s.brokers),
    "leaderless_last_known": lambda s: not members(s.during[-1]) and s.during[-1]["last_known_elr"] == s.brokers,
    "leaderless_nobody": lambda s: not members(s.during[-1]) and s.during[-1]["last_known_elr"] == s.brokers,
    "replicas_alive": lambda s: set(s.brokers) == alive(s),
    "unclean_on": lambda s: (
        s.at()["unclean_leader_election_enable"] is True and s.at()["unclean_leader_election_enable_source"] == s.text
    ),
    "unclean_off": lambda s: (
        s.at()["unclean_leader_election_enable"] is False and s.at()["unclean_leader_election_enable_source"] == s.text
    ),
    "ended_from_isr": lambda s: ended(s, lambda before: s.broker in before["isr"]),
    "ended_from_elr": lambda s: ended(s, lambda before: s.broker in before["elr"]),
    "ended_by_outsider": lambda s: ended(s, lambda before: s.broker not in members(before)),
    "last_replica": lambda s: members(s.at()) == {s.broker},
    "last_replica_at_end": lambda s: members(s.during[-1]) == {s.broker},
    "min_isr_in_force": lambda s: (s.at()["min_isr"], s.at()["min_isr_source"]) == (s.value, s.text),
    "last_replica_led": lambda s: all(x["leader"] >= 0 for x in s.during),
    "last_replica_led_partly": lambda s: len({x["leader"] >= 0 for x in s.during}) == 2,
    "last_replica_not_led": lambda s: all(x["leader"] < 0 for x in s.during),
    "more_replicas": lambda s: members(s.at()) == set(s.brokers) and len(s.brokers) > 1,
    "no_replica_left": lambda s: not members(s.at()),
    "single_replica": lambda s: len(s.at()["replicas"]) == 1,
    "log_end_before": lambda s: was_read(s, s.broker),
    "log_end_after": lambda s: was_read(s, s.other("log_end_before").broker),
    "epoch_began_below": lambda s: (
        any(
            (r["broker_id"], r["leader_epoch"], r["epoch_start_offset"])
            == (s.other("log_end_before").broker, s.leader_epoch, s.value)
            for r in s.offsets
        )
        and s.at()["leader_epoch"] == s.leader_epoch
        and s.value < s.other("log_end_before").value
    ),
    "elections_between": lambda s: (s.at()["leader"], s.at()["leader_epoch"]) == (s.broker, s.leader_epoch),
    "election_before": lambda s: (s.at()["leader"], s.at()["leader_epoch"]) == (s.broker, s.leader_epoch),
    "leader_restarted": lambda s: (
        bool(s.registered(s.broker, s.offset - 1, s.offset))
        and (s.before()["leader"], s.before()["leader_epoch"]) == (s.broker, s.leader_epoch)
    ),
    "restarted_between": lambda s: bool(s.registered(s.other("log_end_before").broker, s.offset - 1, s.offset)),
    "not_restarted": lambda s: not [r for r in restarts_between(s) if r.timestamp_ms > first_reading_ms(s)],
    "led_before": lambda s: s.other("log_end_before").broker in led_around(s, s.finding["start_timestamp_ms"]),
    "leads_after": lambda s: s.other("log_end_before").broker in led_around(s, s.finding["end_timestamp_ms"]),
    "fault": led_on,
    "states_not_known": lambda s: s.rows.gaps[place_of(s.finding)] or was_read_after_the_log(s),
}


def with_exposures(found: Detected) -> Detected:
    others = exposure_findings(found.bucket), led_on_findings(found.bucket, "simulated")
    return replace(found, findings=pa.concat_tables([found.findings, *others]))


@pytest.fixture(scope="module")
def judged() -> list[tuple[list[Life], Detected]]:
    """Lives that share a cluster, and what is found of them. Only one that is a later one has `leader_restarted`."""
    lives = dict.fromkeys(FAULTS, LIVES) | {"moved replicas": SHARED}
    found = [groups(life(fault, seed) for seed in range(count)) for fault, count in lives.items()]
    return [(group, with_exposures(detected(group))) for of_fault in found for group in of_fault]


def test_no_verdict_says_more_than_is_true(judged: list[tuple[list[Life], Detected]]) -> None:
    tallies: dict[str, Tally] = defaultdict(Tally)
    for group, found in judged:
        tallies[group[0].fault].add(judged_group(group, found))
    wrong = [str(w) for tally in tallies.values() for w in tally.wrong]
    assert not wrong, "\n".join([report(tallies), *wrong[:30]])


def test_losses_of_replicas_are_proven_at_every_severity(judged: list[tuple[list[Life], Detected]]) -> None:
    rows = [row for _, found in judged for row in found.findings.to_pylist() if row["kind"] == LOG_TRUNCATION]
    proven = Counter(row["severity"] for row in rows if row["verdict"] == "proven")
    assert min(proven[severity] for severity in ("high", "medium", "low")) > 3, proven


def facts(judged: list[tuple[list[Life], Detected]]) -> Iterator[Said]:
    for group, found in judged:
        rows = Rows.of(group)
        for finding in found.findings.to_pylist():
            for statement in finding["reason"]:
                if SENTENCES[statement["code"]][0] == "fact":
                    yield Said(finding, statement, rows)


def test_every_fact_is_so(judged: list[tuple[list[Life], Detected]]) -> None:
    seen, wrong = Counter[str](), []
    for said in facts(judged):
        seen[said.code] += 1
        if not CHECKS[said.code](said):
            wrong.append(f"{said.code}: {said.finding['topic_id']} {said.finding['start_offset']} {said.offset}")
    assert not wrong, "\n".join(wrong[:50])
    of_lives = {code for code, (nature, _) in SENTENCES.items() if nature == "fact"} - OF_RULES - RARE
    assert set(seen) == of_lives == set(CHECKS)


def test_a_fact_claims_no_cause_no_promise_and_nothing_for_ever() -> None:
    """What rows do not hold: what a process did or why, what holds from then on, what a log surely has."""
    texts = [text for nature, text in SENTENCES.values() if nature == "fact"]
    claims = r"\b(certainly|surely|probably|must have|crashed|timed out|from then on|for ever)\b"
    claims += r"|\bhad stopped (un)?cleanly|without a controlled shutdown"
    assert [text for text in texts if re.search(claims, text)] == []
