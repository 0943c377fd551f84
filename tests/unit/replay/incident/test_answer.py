"""The answer of a cluster: proven losses are summed, everything else stays unknown and says what is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow.schemas import FINDINGS
from replay.findings.statements import WINDOW_SENTENCES, statement
from replay.incident.answer import COLUMNS, MOST_WINDOWS, AnswerScope, answer, proven_text, undecided_text
from replay.incident.missing import CapturedLogs
from replay.incident.words import MISSING
from tests.support.report_rows import START_MS, TOPIC_ID, finding

SCOPE = AnswerScope(gaps=[], gap_count=0, conflicts=[], states=9, until_ms=None)
ACKS = "Counted are offsets below the high watermark (acks=all); acks=0 and 1 may have lost more."
MORE = statement("missing_high_watermark_ceiling", [3])
CEILING = "how far the high watermark had come"


def asked(*windows: dict[str, Any], scope: AnswerScope = SCOPE) -> dict[str, Any]:
    return answer(pa.Table.from_pylist(list(windows), schema=FINDINGS).select(COLUMNS), scope)


def excluded(finding_id: str = "x", **values: Any) -> dict[str, Any]:
    return finding(finding_id, **({"verdict": "excluded", "loss_min": 0, "loss_max": 0} | values))


def open_window(finding_id: str = "u", **values: Any) -> dict[str, Any]:
    return finding(finding_id, **({"verdict": "possible", "loss_min": 0, "loss_max": None, "reason": [MORE]} | values))


def test_the_first_sentence_has_amount_place_and_time() -> None:
    audit = {"topic": "audit", "topic_id": "other", "partition": 1, "end_timestamp_ms": START_MS + 90_000}
    found = asked(finding("a", loss_max=None), finding("b", partition=2), finding("c", loss_min=30, **audit))
    assert found["text"][0] == (
        "LOST: at least 170 acknowledged records of ledger-0, ledger-2 and audit-1, "
        "between 2023-11-14 22:13:30 and 22:14:50 UTC."
    )
    assert (found["status"], found["complete"], found["lost"]["records_max"]) == ("lost", True, None)


def test_an_amount_is_exact_only_if_nothing_is_open() -> None:
    assert "LOST: exactly 70 acknowledged records of ledger-0, " in asked(finding(), excluded())["text"][0]
    for more in (finding("b", loss_max=71), open_window(), open_window(loss_max=1)):
        assert asked(finding(), more)["text"][0].startswith("LOST: at least ")
    gap = replace(SCOPE, gaps=[{"rule": "offset_gap", "explanation": "Offsets 4 to 9 are missing."}], gap_count=1)
    assert asked(finding(), scope=gap)["text"][0].startswith("LOST: at least 70 ")


def test_only_proven_windows_count_in_the_sum() -> None:
    found = asked(finding(), open_window("u", loss_max=20), excluded())
    assert (found["lost"]["records_min"], found["lost"]["records_max"]) == (70, 90)
    assert found["text"][1] == "All windows together lost at most 90 acknowledged records."


def test_where_a_later_election_may_have_brought_records_back_the_answer_says_so() -> None:
    lost, told = finding(election_offset=10), "a later one of ledger-0 may have brought records back"
    for later in (excluded(election_offset=20), open_window(election_offset=20), finding("b", election_offset=20)):
        assert sum(told in text for text in asked(later, lost)["text"]) == 1
    for other in (excluded(election_offset=5), excluded(election_offset=20, partition=7)):
        assert not any("brought" in text for text in asked(lost, other)["text"])


def test_offsets_that_had_been_deleted_are_counted_and_named() -> None:
    """Streams deletes what it has read of a repartition topic: all lost offsets may have been without records."""
    expired = finding(reason=[statement("deleted_before", [3], value=150)])
    other = finding("b", partition=1, reason=[statement("deleted_before", [3], value=90)])
    for windows, below in (([expired], "ledger-0, the records below offset 150"), ([expired, other], "ledger-0 and")):
        texts = [text for text in asked(*windows, finding("c", partition=2))["text"] if "had been deleted" in text]
        assert len(texts) == 1
        assert texts[0].startswith(f"Of what is counted for {below}")


def test_a_loss_whose_window_never_closed_has_no_end() -> None:
    text = asked(finding(), finding("b", end_timestamp_ms=None))["text"][0]
    assert text.endswith("since 2023-11-14 22:13:30 UTC, in a window that had not closed when the log ended.")


@pytest.mark.parametrize(
    ("windows", "text"),
    [
        ([], "No acknowledged record was lost: the log has no window in which one could have been."),
        (
            [excluded()],
            "No acknowledged record was lost: the evidence rules it out for the only window in which one could have "
            "been.",
        ),
        (
            [excluded(str(n)) for n in range(12)],
            "No acknowledged record was lost: the evidence rules it out for all 12 windows in which one could have "
            "been.",
        ),
    ],
)
def test_nothing_was_lost_only_if_every_window_is_excluded(windows: list[dict[str, Any]], text: str) -> None:
    found = asked(*windows)
    assert (found["status"], found["text"]) == ("not_lost", [text, ACKS])


@pytest.mark.parametrize("verdict", ["possible", "undetermined", None])
def test_an_undecided_window_is_not_known_and_says_what_to_capture(verdict: str | None) -> None:
    found = asked(open_window(verdict=verdict), excluded())
    assert found["status"] == "not_known"
    assert found["text"][:2] == [
        "MAY HAVE LOST records of ledger-0, between 2023-11-14 22:13:30 and 22:13:50 UTC: no upper limit is known.",
        f"Not known: {CEILING} (1 window). To know it, capture server.log and state-change.log of broker 3, from the "
        "election to the next start.",
    ]
    assert "No acknowledged record was lost" not in " ".join(found["text"])


def test_undecided_windows_are_ranked_by_what_they_can_have_cost() -> None:
    rows = [open_window(str(high), loss_max=high, partition=n) for n, high in enumerate((5, None, 90, 7))]
    found = asked(*rows)
    assert [row["loss_max"] for row in found["undecided"]] == [None, 90, 7, 5]
    bounded = asked(*rows[2:])
    assert bounded["undecided_max"] == 97
    assert bounded["text"][0] == (
        "MAY HAVE LOST records of ledger-2 and ledger-3, between 2023-11-14 22:13:30 and 22:13:50 UTC: at most 97 "
        "acknowledged records."
    )
    assert undecided_text(bounded["undecided"][0]) == (
        f"ledger-2: at most 90, between 2023-11-14 22:13:30 and 22:13:50 UTC; not known: {CEILING} (finding 90)"
    )


def test_missing_evidence_is_counted_by_window_with_its_brokers() -> None:
    log_end = statement("missing_log_end", [1], leader_epoch=2)
    other = statement("missing_high_watermark_ceiling", [5])
    found = asked(
        open_window("a", reason=[log_end, MORE]), open_window("b", reason=[other]), open_window("c", reason=[])
    )
    missing = {each["code"]: (each["windows"], each["brokers"]) for each in found["missing"]}
    assert missing == {
        "missing_high_watermark_ceiling": (2, [3, 5]),
        "missing_log_end": (1, [1]),
        "bounds_open": (1, []),
    }
    assert "Not known: whether records were lost: the evidence allows both (1 window)." in found["text"]


def with_logs(*brokers: int, booted: tuple[int, ...] = ()) -> AnswerScope:
    """Of windows from START_MS on for 20 s or less, and of a while before and after."""
    return replace(SCOPE, logs=CapturedLogs(dict.fromkeys(brokers, (START_MS - 1, START_MS + 60_000)), booted))


def captures(found: dict[str, Any]) -> list[str]:
    return [text for text in found["text"] if "To know it" in text or "captured logs" in text]


def test_logs_that_were_captured_are_not_asked_for() -> None:
    nothing_left = "Not known: The captured logs of broker 3 cover that time and do not decide it."
    assert captures(asked(open_window(), scope=with_logs(3))) == [nothing_left]
    (missing,) = asked(open_window(), scope=with_logs(3))["missing"]
    assert (missing["capture"], missing["capture_windows"], missing["logged"]) == (None, 0, [3])
    # Of the other broker; and of a window that goes on after the lines.
    other = open_window("o", reason=[statement("missing_high_watermark_ceiling", [5])])
    to_capture, rest = captures(asked(open_window(), other, scope=with_logs(3)))
    assert "capture (for 1 of them) server.log and state-change.log of broker 5," in to_capture
    assert rest == nothing_left
    for window in (open_window(end_timestamp_ms=None), open_window(end_timestamp_ms=START_MS + 60_001)):
        assert "server.log and state-change.log of broker 3," in captures(asked(window, scope=with_logs(3)))[0]


def test_what_is_left_to_capture_beside_logs() -> None:
    corruption = statement("contradicted_by_corruption", [3])
    process, log_end = statement("missing_word_of_process", [3]), statement("missing_log_end", [4], leader_epoch=2)
    floor = [statement("isr_before", [3]), statement("elr_before", [4]), statement("missing_high_watermark")]
    cases = [
        (
            [corruption, MORE],
            with_logs(3),
            "kafka-dump-log of the segments of broker 3, from before the start that cut",
        ),
        ([process], with_logs(3), "the boot ids of the machines of broker 3."),
        ([log_end], with_logs(3, 4), "leader-epoch-checkpoint of broker 4, from after the election."),
        (floor, with_logs(3), "server.log and state-change.log of all replicas, from before the election on."),
    ]
    for reason, scope, text in cases:
        assert f"To know it, capture {text}" in captures(asked(open_window(reason=reason), scope=scope))[0]
    for reason, scope in (([process], with_logs(3, booted=(3,))), (floor, with_logs(3, 4))):
        assert asked(open_window(reason=reason), scope=scope)["missing"][0]["capture"] is None


def test_every_statement_about_missing_evidence_is_known() -> None:
    assert {code for code in WINDOW_SENTENCES if code.startswith("missing_")} == set(MISSING) - {"bounds_open"}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"states": 0}, "A LOSS CANNOT BE RULED OUT: No state of any partition that this is about could"),
        (
            {"conflicts": ["log_conflict"]},
            "A LOSS CANNOT BE RULED OUT: The captures contradict each other (log conflict).",
        ),
        ({"gap_count": 2}, "A LOSS CANNOT BE RULED OUT: Evidence is missing or unreadable in 2 places, so windows"),
    ],
)
def test_what_hides_windows_is_not_known(change: dict[str, Any], text: str) -> None:
    gaps = [{"rule": "offset_gap", "explanation": "Offsets 4 to 9 are in no captured file."}]
    scope = replace(SCOPE, gaps=gaps if "gap_count" in change else [], **change)
    found = asked(excluded(), scope=scope)
    assert found["status"] == "not_known"
    assert found["text"][0].startswith(text)
    assert ("Offsets 4 to 9 are in no captured file." in found["text"]) == ("gap_count" in change)
    assert found["topics"][0]["records_max"] is None


def test_topics_are_told_apart_by_id_and_the_worst_is_first() -> None:
    again = {"topic_id": "again", "partition": 3}
    found = asked(excluded("x", topic="calm", topic_id="c"), open_window("u", **again), finding("a"), finding("b"))
    rows = [(t["topic"], t["topic_id"], t["records_min"], t["records_max"], t["proven"]) for t in found["topics"]]
    assert rows == [("ledger", TOPIC_ID, 140, 140, 2), ("ledger", "again", 0, None, 0), ("calm", "c", 0, 0, 0)]
    assert found["topics"][0]["partitions_lost"] == 1


def test_a_name_that_kafka_refuses_is_escaped() -> None:
    found = asked(finding(topic="a\x1b[31m"))
    assert "of a\\x1b[31m-0, between" in found["text"][0]
    assert proven_text(found["proven"][0]).startswith("a\\x1b[31m-0: 70 lost, from offset 500 on, between ")


def test_many_partitions_are_counted_and_the_worst_named() -> None:
    found = asked(*(finding(str(n), partition=n) for n in range(7)))
    assert found["text"][0].startswith(
        "LOST: exactly 490 acknowledged records in 7 partitions, ledger-0, ledger-1, ledger-2, ledger-3, ledger-4 and "
        "2 more, between"
    )


def test_a_guess_is_called_one() -> None:
    leaning = {"likely": "lost", "likely_rule": "a rule", "likely_right": 3, "likely_of": 4}
    (guess,) = [text for text in asked(open_window(**leaning))["text"] if "guess" in text]
    assert guess == "Not known: A guess, not a verdict: 1 window likely lost records (ledger-0)."


def test_figures_of_damaged_files_do_not_overflow() -> None:
    most = 2**63 - 1
    found = asked(finding(loss_min=most, loss_max=most, start_timestamp_ms=most), finding("b", loss_min=most))
    assert found["lost"]["records_min"] == 2 * most
    assert "between 2023-11-14" in found["text"][0] or "an unknown time" in found["text"][0]


def test_lists_are_bounded_and_say_how_many_there_are() -> None:
    found = asked(*(open_window(f"u{n:03}", partition=n) for n in range(MOST_WINDOWS + 5)))
    assert (len(found["undecided"]), found["undecided_windows"]) == (MOST_WINDOWS, MOST_WINDOWS + 5)
