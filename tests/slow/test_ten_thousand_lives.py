"""Over ten thousand simulated lives, by class of fault: no proof and no exclusion is ever wrong, and there are many of
both."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import pytest

from replay.detect import detect
from tests.support.detection import Found, claims, spread, windows
from tests.unit.replay.simulated import Row, Truth
from tests.unit.replay.simulated_faults import FAULTS, Life, groups, life, one_cluster

LIVES = 2_000
AT_ONCE = 200
# How often some evidence is taken away from a life.
PARTS = 3

# The least share of losses that is proven, and of windows without a loss that is excluded, in percent: a little less
# than was measured when this was written.
FLOORS = {
    "clean stops": (38, 42),
    "unclean restarts": (30, 27),
    "lost checkpoint files": (31, 26),
    "isolated leaders": (28, 35),
    "skewed clocks": (28, 23),
    "missing rows": (19, 22),
    "missing log": (23, 24),
    "everything": (12, 29),
}


@dataclass
class Tally:
    """counts: of windows by (verdict, whether records were lost). silent: losses without a window. exact: proofs of
    the whole loss; bounded: windows with a bound of what acks=0 and 1 lost. wrong: claims that are not true."""

    lives: int = 0
    counts: Counter[tuple[str, bool]] = field(default_factory=Counter)
    silent: int = 0
    exact: int = 0
    bounded: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.counts.update(other.counts)
        self.wrong += other.wrong
        for name in ("lives", "silent", "exact", "bounded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def recall(self) -> tuple[float, float]:
        """Of proven among losses, of excluded among windows without one; in percent."""
        lost = sum(n for (_, is_lost), n in self.counts.items() if is_lost) + self.silent
        kept = sum(n for (_, is_lost), n in self.counts.items() if not is_lost)
        return 100 * self.counts["proven", True] / lost, 100 * self.counts["excluded", False] / kept

    def precision(self, verdict: str, lost: bool) -> float:
        right, wrong = self.counts[verdict, lost], self.counts[verdict, not lost]
        return 100 * right / (right + wrong)


def judged(chunk: tuple[str, int]) -> Tally:
    """(fault, first seed): so many lives from there on, in as few clusters as can be."""
    fault, first = chunk
    tally = Tally(lives=AT_ONCE)
    for group in groups(life(first + number, fault, number) for number in range(AT_ONCE)):
        found = detect(*one_cluster(group))
        judged_windows = by_topic(windows(found.findings))
        answers = by_topic(found.counterfactuals.to_pylist())
        for each in group:
            topic_id = each.partition.setup.topic_id
            name = f"{fault}, seed {first + int(topic_id[-6:])}"
            hold(tally, each, name, judged_windows[topic_id], answers[topic_id])
    return tally


def by_topic(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["topic_id"]].append(row)
    return found


def hold(tally: Tally, each: Life, name: str, findings: list[Row], answers: list[Row]) -> None:
    """Count what was found of a life, and hold it against the truth."""
    truth = each.partition.truth
    seen = {f["election_offset"]: f for f in findings}
    tally.silent += sum(t.lost > 0 for offset, t in truth.items() if offset not in seen)
    for offset, finding in seen.items():
        tally.counts[finding["verdict"], truth[offset].lost > 0] += 1
        tally.exact += finding["verdict"] == "proven" and finding["loss_min"] == truth[offset].lost
        tally.bounded += finding["unacked_max"] is not None
        tally.wrong += [f"{name}, offset {offset}: {text}" for text in lies(finding, truth[offset])]
    for row in answers:
        if row["leader"] in each.partition.setup.brokers:
            lost = truth[row["offset"]].would_lose[row["leader"]]
            if not within(lost, row["loss_min"], row["loss_max"]):
                bounds = f"{row['loss_min']} to {row['loss_max']}"
                tally.wrong.append(f"{name}, offset {row['offset']}: {row['policy']} loses {lost}, not {bounds}")


def lies(finding: Row, truth: Truth) -> list[str]:
    verdict, found = finding["verdict"], []
    if (verdict == "proven" and not truth.lost) or (verdict == "excluded" and truth.lost):
        found.append(f"{verdict}, and {truth.lost} were lost")
    for name, value in (("loss", truth.lost), ("unacked", truth.unacked)):
        bounds = finding[f"{name}_min"], finding[f"{name}_max"]
        if not within(value, *bounds):
            found.append(f"{name} of {value} is not within {bounds}")
    if finding["first_lost_offset"] not in (None, truth.first):
        found.append(f"first lost is {truth.first}, not {finding['first_lost_offset']}")
    return found


def within(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def test_no_proof_and_no_exclusion_is_wrong_over_ten_thousand_lives() -> None:
    assert LIVES * len(FAULTS) >= 10_000
    chunks = [(fault, first) for fault in FAULTS for first in range(0, LIVES, AT_ONCE)]
    tallies = {fault: Tally() for fault in FAULTS}
    for (fault, _), tally in zip(chunks, spread(judged, chunks), strict=True):
        tallies[fault].add(tally)
    print(report(tallies))
    wrong = [text for tally in tallies.values() for text in tally.wrong]
    assert not wrong, "\n".join(wrong[:50])
    for fault, tally in tallies.items():
        for share, floor in zip(tally.recall, FLOORS[fault], strict=True):
            assert share >= floor, (fault, tally.recall)


def report(tallies: dict[str, Tally]) -> str:
    """A line for each class of fault; shares in percent."""
    lines = [
        "",
        f"{'':24}lives windows  proven: recall precision exact  excluded: recall precision  silent unacked_max",
    ]
    for fault, tally in tallies.items():
        proven, excluded = tally.recall
        exact = 100 * tally.exact / tally.counts["proven", True]
        numbers = f"{proven:6.1f} {tally.precision('proven', True):9.1f} {exact:5.1f}"
        numbers += f"{excluded:18.1f} {tally.precision('excluded', False):9.1f} {tally.silent:7} {tally.bounded:11}"
        lines.append(f"{fault:24}{tally.lives:5} {tally.counts.total():7}          {numbers}")
    return "\n".join(lines)


def surer_with_less(chunk: tuple[str, int]) -> list[str]:
    """(fault, first seed): what is claimed of those lives with parts of their evidence, and not with all of it."""
    fault, first = chunk
    found = []
    for group in groups(life(first + number, fault, number) for number in range(AT_ONCE)):
        full = Found.of(detect(*one_cluster(group)))
        for part in range(PARTS):
            less = [replace(each, rows=some(each, part)) for each in group]
            found += [f"{fault}, from {first}: {text}" for text in claims(Found.of(detect(*one_cluster(less))), full)]
    return found


def some(each: Life, part: int) -> list[Row]:
    """A share of its rows; of one broker maybe fewer."""
    rng = random.Random(f"{each.partition.setup.topic_id} {part}")
    share, broker = rng.random(), rng.choice(each.partition.setup.brokers)
    shares = {broker: rng.choice([share, 0.1])}
    return [r for r in each.rows if rng.random() < shares.get(r["broker_id"], share)]


def test_no_claim_is_surer_with_less_evidence() -> None:
    chunks = [(fault, first) for fault in FAULTS for first in (0, AT_ONCE)]
    wrong = [text for found in spread(surer_with_less, chunks) for text in found]
    assert not wrong, "\n".join(wrong[:50])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seed_gives_the_same_life_again(fault: str) -> None:
    first, second, elsewhere = life(7, fault), life(7, fault), life(7, fault, 3)
    assert (first.rows, first.gap, first.partition.truth) == (second.rows, second.gap, second.partition.truth)
    assert [t.lost for t in elsewhere.partition.truth.values()] == [t.lost for t in first.partition.truth.values()]
