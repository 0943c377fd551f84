"""Lines of brokers' own logs compared with the metadata log."""

from typing import Any

import pyarrow as pa
import pytest

from replay.bucket import detect
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import ClusterFacts
from tests.support.broker_log_lines import logged
from tests.support.scenario import elr_levels, ms, offsets_table, states

HISTORY = ("10 isr=1,2,3", "20 isr=1", "50 isr= leader=-1", "60 isr=2 leader=2 recovering")


def mismatches(lines: pa.Table, log_end: float = 60.001) -> list[dict[str, Any]]:
    cluster = ClusterFacts("c", BrokerTimeline({}), elr_levels(False), log_end_ms=ms(log_end))
    found = detect(states(*HISTORY), offsets_table([]), cluster, None, lines).findings.to_pylist()
    return [f for f in found if f["kind"] == "log_line_mismatch"]


@pytest.mark.parametrize(
    "line",
    [
        "b3 leads e2 p3 at=80 hw=80 from=-1/1",
        "b2 leads e7 p3 at=80 hw=80 from=-1/1",
        "b1 stays e2 p3 hw=80",
        # With another ISR, or a follower with another leader epoch.
        "b2 leads e2 p3 at=80 hw=80 isr=2,3",
        "b3 goes-on e7 p3",
    ],
)
def test_a_state_that_the_metadata_log_does_not_have(line: str) -> None:
    (finding,) = mismatches(logged(line))
    assert (finding["verdict"], finding["severity"], finding["start_offset"]) == ("proven", "high", 60)
    assert [row["role"] for row in finding["evidence"]] == ["logged", "replayed"]
    assert finding["evidence"][0]["path"].startswith("logs/broker-")
    # A controller that is cut off may have written what follows the last committed batch alone.
    assert mismatches(logged(line), 60) == []


def test_lines_that_agree_are_of_unknown_states_or_print_no_topic_id() -> None:
    lines = logged(
        "b2 leads e2 p3 at=80 hw=80 isr=2",
        "b3 goes-on e2 p3",
        "b1 stays e0 p1 hw=9",
        "b3 leads e9 p9 at=1 hw=1 from=1/2",
    )
    assert mismatches(lines) == []
    unnamed = [{**row, "message": "no topic id"} for row in logged("b3 leads e2 p3 at=8 hw=8").to_pylist()]
    assert mismatches(pa.Table.from_pylist(unnamed, schema=lines.schema)) == []


OTHER = "unclean 3 e2 p3 isr=3"


def test_an_unclean_election_that_two_controllers_logged() -> None:
    """A standby controller logs what is committed."""
    (finding,) = mismatches(logged(f"c3000 {OTHER}", f"c3001 {OTHER}", f"c3001 {OTHER}"))
    assert [row["role"] for row in finding["evidence"]] == ["logged", "logged", "replayed"]
    assert [row["path"].split("/")[1] for row in finding["evidence"][:2]] == ["broker-3000", "broker-3001"]
    assert finding["explanation"] == (
        "Controllers 3000 and 3001 logged that t-0 has leader 3, leader epoch 2, ISR [3] in the state with partition "
        "epoch 3; the metadata log has leader 2, leader epoch 2, ISR [2] in that state."
    )


@pytest.mark.parametrize(
    "lines",
    [
        # The active controller logs what may never be committed, and so does the next one.
        (f"c3000 {OTHER}", f"c3000 {OTHER}"),
        (f"c3000 {OTHER}", "c3001 unclean 1 e2 p3 isr=1"),
        ("c3000 unclean 2 e2 p3 isr=2", "c3001 unclean 2 e2 p3 isr=2"),
        ("c3000 unclean 3 e9 p9 isr=3", "c3001 unclean 3 e9 p9 isr=3"),
    ],
)
def test_an_unclean_election_that_one_controller_logged_or_that_is_recorded(lines: tuple[str, ...]) -> None:
    assert mismatches(logged(*lines)) == []
