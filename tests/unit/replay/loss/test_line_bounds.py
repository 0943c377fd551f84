"""Each rule of lines of brokers' own logs by itself (docs/findings.md, L1 to L13, E7, H10): what they prove, and when
not."""

import pyarrow as pa
import pytest

from replay.cluster.boots import BootReading, processes_of
from tests.support.broker_log_lines import logged
from tests.support.detection import judged_window
from tests.support.scenario import ms, newer, sessions, up
from tests.support.window_table import Entry, beside, entries


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_window(entry: Entry) -> None:
    entry.check()


UP = up(1, 2, 3)
WON = "b2 leads e2 p3 at=80 hw=80 from=-1/1"
UNCLEAN = ("10 isr=1,2,3", "20 isr=1", "50 isr= leader=-1", "60 isr=2 leader=2 recovering")


def test_a_high_watermark_set_back_later_than_the_truncation_shows_nothing() -> None:
    """A new leader's high watermark may lag: 150 to 80 some seconds later is no loss."""
    rows = logged(WON, "b1 follows 2 e2 p4 at=150 hw=150 t=40 old", "b1 cuts-old 2 r0 to=80 hw=150 t=40.1").to_pylist()
    late = [{**r, "logged_at_ms": ms(44)} if r["kind"] == "high_watermark_set_back" else r for r in rows]
    lines, brokers = pa.Table.from_pylist(late, schema=logged().schema), newer(sessions(*UP, "50 fence 1"))
    assert judged_window((*UNCLEAN, "80 isr=2,3 recovered"), brokers=brokers, logs=lines)["loss_min"] == 0


@pytest.mark.parametrize(
    ("registered", "version", "verdict"),
    [
        ((), "4.1.1", "excluded"),
        (("64 register 1 by_hand",), "4.1.1", "possible"),
        # A site that lets org.apache.kafka print warnings alone has no line of a signal, after which nothing is logged.
        ((), None, "possible"),
    ],
)
def test_a_process_that_logged_elsewhere_or_nothing_may_have_truncated(
    registered: tuple[str, ...], version: str | None, verdict: str
) -> None:
    """It followed broker 2, and what the next process of the file loaded is what it left."""
    brokers = sessions(*UP, "50 fence 1", *registered, "90 register 1 j1")
    one = {"capture": "c", "path": "server.log", "node_id": 1, "first_position": 0, "begins_in_file": True}
    one |= {"load_ms": 1, "incarnation_id": None, "broker_epoch": 1, "first_event_ms": 0, "last_event_ms": ms(49)}
    one |= {"kafka_version": version, "stopped": None}
    later = {"first_position": 9, "broker_epoch": 90, "first_event_ms": ms(75), "last_event_ms": ms(95)}
    processes = processes_of([one, one | later], brokers.incarnations, brokers.new_incarnations)
    known = {"boots": {1: [BootReading("a", ms(at), ms(at)) for at in (8, 95)]}, "processes": processes}
    lines = logged(WON, "b1 loads t=76 utc=76 at=80")
    assert judged_window(UNCLEAN, brokers=brokers, logs=lines, **known)["verdict"] == verdict
