"""Lines of nodes' own logs and boot ids taken away, file by file and at random: no verdict becomes surer or wrong."""

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from replay.bucket import detect
from replay.cluster.boots import boots_of
from replay.cluster.facts import ClusterFacts
from replay.offsets.broker_lines import DAMAGED
from tests.support.detection import Found, Key, Whole, claims
from tests.support.paths import capture
from tests.support.pure import decode

NAMES = ("logs-4.0.2", "logs-4.1.1", "logs-unclean", "logs-churn", "logs-session")
SEEDS = 5


@pytest.fixture(scope="module", params=NAMES)
def whole(request: pytest.FixtureRequest) -> Whole:
    return Whole.of(decode(capture(request.param)))


def found(whole: Whole, events: pa.Table, cluster: ClusterFacts | None = None) -> Found:
    return Found.of(detect(whole.history, whole.offsets, cluster or whole.cluster, None, events))


def test_one_log_file_less(whole: Whole) -> None:
    full = found(whole, whole.events)
    for path in whole.events["path"].unique().to_pylist():
        less = found(whole, whole.events.filter(pc.not_equal(whole.events["path"], path)))
        assert claims(less, full) == [], path


def test_lines_and_boot_ids_dropped_at_random(whole: Whole) -> None:
    full = found(whole, whole.events)
    readings = whole.decoded.boot_ids.to_pylist()
    for seed in range(SEEDS):
        rng = random.Random(seed)
        share = rng.choice([0.02, 0.1, 0.3, 0.6, 0.9])
        kept = pa.array([rng.random() > share for _ in range(len(whole.events))], pa.bool_())
        cluster = replace(whole.cluster, boots=boots_of(r for r in readings if seed % 2 or rng.random() > share))
        less = found(whole, whole.events.filter(kept), cluster)
        assert claims(less, full) == [], f"seed {seed}, {share} dropped"


def test_no_clock_is_used_to_join_lines(whole: Whole) -> None:
    """Every node's clock shifted by hours, and its zone unknown: no verdict becomes surer, and what is proven stays so.
    Without a time in UTC a line may be of a process that read the metadata log again, so less is excluded. Damage that
    was cut off at an unknown time voids what any start left, so its lines keep their times."""
    full, events = found(whole, whole.events), whole.events
    keeps = pc.is_in(events["kind"], pa.array(DAMAGED))
    shifted = {name: pc.add(events[name], 7 * 3_600_000) for name in ("logged_at_ms",)}
    shifted["logged_at_utc_ms"] = pa.scalar(None, pa.int64())
    for name, values in shifted.items():
        index = events.schema.get_field_index(name)
        events = events.set_column(index, events.schema.field(index), pc.if_else(keeps, events[name], values))
    again = found(whole, events)
    assert claims(again, full) == []
    assert proven(again) == proven(full)


def proven(of: Found) -> set[Key]:
    return {key for key, window in of.windows.items() if window["verdict"] == "proven"}
