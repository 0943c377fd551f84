"""The chain of causes of a proven loss: facts of the log in order, and what no record shows is not named."""

from __future__ import annotations

from typing import Any

from replay.findings.statements import statement
from replay.incident.causes import LABELS, chain, labelled
from tests.support.report_rows import START_MS, finding, state

REASON = [
    statement("elected", [1], offset=120, leader_epoch=2, text="ledger-0"),
    statement("high_watermark_at_least", [3], value=150),
    statement("log_end", value=80),
    statement("lost_at_least", value=70),
    statement("first_lost", value=80),
    statement("clocks", value=250),
]
WINDOW = finding(reason=REASON)
ELECTED = {"offset": 120, "timestamp_ms": START_MS + 20_000, "leader": 1, "leader_epoch": 2, "previous_leader": 3}
ELECTION = ELECTED | {"cause": "unclean_by_config", "actor": "unfence"}


def states() -> list[dict[str, Any]]:
    return [
        state(100, 3, [3, 2], batch_base_offset=100),
        state(105, 3, [3], batch_base_offset=104, leader_epoch=0),
        state(110, -1, [], [3], batch_base_offset=110),
        state(120, 1, [1], batch_base_offset=120),
    ]


def session(broker: int, offset: int, base: int, epoch: int = 20, **values: Any) -> dict[str, Any]:
    given = {"fenced": False, "in_controlled_shutdown": False, "restart_class": "first", "incarnation_id": "i"}
    at = {"timestamp_ms": START_MS + (offset - 100) * 1000, "batch_base_offset": base}
    return {"broker_id": broker, "offset": offset, "broker_epoch": epoch, **at, **given, **values}


def sessions() -> list[dict[str, Any]]:
    return [
        session(2, 22, 22),
        session(3, 28, 28),
        session(2, 104, 104, in_controlled_shutdown=True),
        session(3, 111, 110, fenced=True),
        session(3, 124, 124, 124, fenced=True, restart_class="unclean"),
    ]


def lines(**given: Any) -> dict[str, str]:
    facts: dict[str, Any] = {"finding": WINDOW, "states": states(), "sessions": sessions(), "election": ELECTION}
    return dict(labelled(chain(**(facts | given))))


def test_the_five_lines_of_an_unclean_election() -> None:
    assert lines() == {
        "In sync": "From 2023-11-14 22:13:20 UTC (metadata offset 100) on: leader 3, ISR [3, 2] of replicas [3, 1, 2], "
        "min ISR 2.",
        "Went away": "Broker 2 asked for a controlled shutdown at 2023-11-14 22:13:24 UTC (metadata offset 104). "
        "Broker 3 was fenced at 2023-11-14 22:13:31 UTC (metadata offset 111); its next start, at metadata offset 124, "
        "was treated as unclean. No record shows whether its session timed out, or it stopped while it led nothing.",
        "Shrank the ISR": "[3, 2] to [3] at 2023-11-14 22:13:25 UTC (metadata offset 105), broker 2 asked for a "
        "controlled shutdown; [3] to [] at 2023-11-14 22:13:30 UTC (metadata offset 110), broker 3 was fenced.",
        "Elected": "Broker 1 after leader 3 at 2023-11-14 22:13:40 UTC (metadata offset 120), uncleanly: "
        "unclean.leader.election.enable allows it, when a broker was unfenced.",
        "Cut off": "The high watermark had reached at least 150 (reported by broker 3). The new leader's log ended at "
        "80. Proven: at least 70 acknowledged offsets are gone. "
        "Retention or compaction may have removed some of their records before. The first lost offset is 80.",
    }


def test_a_broker_without_a_record_may_only_have_lagged() -> None:
    found = lines(sessions=[session(3, 28, 28)])
    assert "Broker 2: no record shows that it stopped; it may only have lagged." in found["Went away"]
    assert (
        "[3, 2] to [3] at 2023-11-14 22:13:25 UTC (metadata offset 105), as leader 3 asked" in found["Shrank the ISR"]
    )
    assert (
        "[3] to [] at 2023-11-14 22:13:30 UTC (metadata offset 110), no record in its batch" in found["Shrank the ISR"]
    )


def test_the_begin_of_a_session_is_no_departure() -> None:
    """Every session begins fenced: broker 3 comes back at 109 after it was fenced at 106."""
    rows = [session(3, 28, 28), session(3, 106, 106, fenced=True), session(3, 109, 109, 109, fenced=True)]
    assert "Broker 3 was fenced at 2023-11-14 22:13:26 UTC" in lines(sessions=rows)["Went away"]


def test_a_process_that_came_back_within_its_session_went_away_unnoticed() -> None:
    rows = [session(3, 28, 28), session(3, 109, 109, 109, fenced=True, restart_class="unclean")]
    assert lines(sessions=rows)["Went away"].startswith(
        "Broker 3 registered again, as a new process, while its session lasted, at 2023-11-14 22:13:29 UTC (metadata "
        "offset 109); this start was treated as unclean."
    )


def test_a_leader_that_leaves_with_the_election_itself_is_named() -> None:
    of_isr = [state(100, 3, [3, 2], batch_base_offset=100), state(120, 2, [2], batch_base_offset=120)]
    found = lines(
        finding=WINDOW | {"recorded_leader": 2},
        states=of_isr,
        sessions=[session(3, 28, 28), session(3, 121, 120, fenced=True)],
        election=ELECTION | {"leader": 2, "cause": "isr", "actor": "fence"},
    )
    assert found["Went away"].startswith("Broker 3 was fenced")
    assert (
        "[3, 2] to [2] at 2023-11-14 22:13:40 UTC (metadata offset 120), broker 3 was fenced" in found["Shrank the ISR"]
    )
    assert found["Elected"].endswith("as a member of the ISR, when a broker was fenced.")


def test_a_new_leader_that_was_in_sync_and_restarted_is_named() -> None:
    of_isr = [state(100, 3, [3, 1], batch_base_offset=100), state(120, 1, [1, 3], batch_base_offset=120)]
    rows = [session(1, 28, 28), session(1, 106, 106, 106, fenced=True, restart_class="unknown")]
    assert lines(states=of_isr, sessions=rows)["Went away"].startswith("Broker 1 registered again, as a new process")


def test_without_states_there_is_no_chain() -> None:
    assert lines(states=[]) == lines(states=[state(120, 1, [1], batch_base_offset=120)]) == {}


def test_an_unknown_beginning_is_said() -> None:
    found = lines(states=states()[1:], election=None)
    assert found["In sync"].endswith("No state with more replicas in sync is in the captured log.")
    assert found["Elected"] == "Broker 1 at metadata offset 120."
    assert list(found) == list(LABELS)
