"""Lives with other evidence than they left: parts of it, or the same in another order."""

import random
from collections.abc import Iterator
from copy import copy

from tests.simulator.detection import detected
from tests.simulator.faults import life
from tests.simulator.judge import groups
from tests.simulator.life import Life, Row
from tests.support.detection import Found, claims


def with_evidence(each: Life, rows: list[Row]) -> Life:
    """The same life, of which these rows are left."""
    other = copy(each)
    other.kept = rows
    for name in ("evidence", "lines"):
        vars(other).pop(name, None)
    return other


def some(each: Life, part: int) -> list[Row]:
    """A share of its rows; of one broker maybe fewer. part: another number, another choice."""
    rng = random.Random(f"{each.fault} {each.seed} {part}")
    share, broker = rng.random(), rng.choice(each.setup.brokers)
    shares = {broker: rng.choice([share, 0.1])}
    return [r for r in each.evidence if rng.random() < shares.get(r["broker_id"], share)]


def fewer_rows(each: Life, part: int) -> Life:
    """The life with shares of its rows, of what its brokers logged, and of the readings of boot ids."""
    other, rng = with_evidence(each, some(each, part)), random.Random(f"lines {each.fault} {each.seed} {part}")
    share = rng.choice([0, rng.random(), 1])
    other.kept_lines = [row for row in each.lines if rng.random() < share]
    other.kept_readings = [r for r in each.readings if rng.random() < share]
    return other


def shuffled(each: Life) -> list[Row]:
    rows = list(each.evidence)
    random.Random(f"{each.fault} {each.seed}").shuffle(rows)
    return rows


def surer_with_less(chunk: tuple[str, int, int, int]) -> list[str]:
    """(fault, first seed, number of lives, parts): what is claimed of those lives with that many parts of their
    evidence, and not with all of it."""
    fault, first, count, parts = chunk
    lives = [life(fault, seed) for seed in range(first, first + count)]
    return [text for group in groups(lives) for text in _surer(group, parts)]


def _surer(group: list[Life], parts: int) -> Iterator[str]:
    full = Found.of(detected(group))
    seeds = {topic_id: each.seed for each in group for topic_id in each.world.topic_ids}
    for part in range(parts):
        less = Found.of(detected([fewer_rows(each, part) for each in group]))
        for topic_id in {key[0] for key in (*less.windows, *less.answers)}:
            for text in claims(less.of_topic(topic_id, topic_id), full):
                yield f"{group[0].fault}, seed {seeds[topic_id]}, part {part}: {text}"
