"""Up to where an elected leader's log was the partition's."""

from __future__ import annotations

from replay.offsets.evidence import index_rows
from replay.offsets.shared_log import Leaders, SharedLog, shared_log
from tests.support.scenario import evidence

LED = Leaders([0, 2, 4], [1, 2, 3])


def exact(*lines: str, leaders: Leaders = LED, leader: int = 3, epoch: int = 4) -> int | None:
    return shared_log(index_rows(evidence(*lines)), leaders, leader, epoch).end.value


def test_a_leaders_own_line_is_its_log_end_where_it_had_records_of_the_leader_before() -> None:
    assert exact("9 b3 e0@0 e2@50 e4@80") == 80


def test_own_lines_count_from_any_later_copy_even_one_without_a_time() -> None:
    assert exact("? b3 e0@0 e2@50 e4@80 e7@120") == 80


def test_another_replicas_line_is_not_exact() -> None:
    assert exact("9 b2 e0@0 e2@50 e4@80") is None


def test_the_first_line_is_not_exact_since_deleting_old_records_moves_it() -> None:
    assert exact("9 b3 e4@80") is None
    assert exact("9 b3 e4@0") == 0


def test_where_logs_part_only_what_both_have_counts() -> None:
    """Broker 3 has 80 records, the last 30 of them of epoch 0; the leader of epoch 2 went on from offset 50."""
    assert exact("9 b3 e0@0 e4@80", "9 b2 e0@0 e2@50") == 50
    assert exact("9 b3 e0@0 e4@40", "9 b2 e0@0 e2@50") == 40


def test_where_logs_parted_further_back() -> None:
    """Broker 3 led epoch 1, cut off, and wrote from offset 20 on; nobody else has that."""
    leaders = Leaders([0, 1, 2, 4], [1, 3, 2, 3])
    assert exact("9 b3 e0@0 e1@20 e4@30", "9 b2 e0@0 e2@50", leaders=leaders) == 20


def test_without_the_leaders_file_it_is_not_known_where_logs_part() -> None:
    assert exact("9 b3 e0@0 e4@80") is None
    assert exact("9 b3 e0@0 e4@80", "9 b1 e0@0 e2@50") is None
    assert exact("9 b3 e1@10 e4@80", "9 b2 e2@50") is None
    assert exact("9 b3 e1@0 e4@80", "9 b2 e0@0 e2@50") is None


def test_before_the_first_known_leader_nothing_is_known() -> None:
    assert exact("9 b3 e0@0 e4@80", leaders=Leaders([4], [3])) is None


def test_a_file_with_a_missing_line_is_not_exact() -> None:
    rows = evidence("9 b3 e0@0 e1@20 e4@80", "9 b2 e0@0 e2@50")
    lacking = [r for r in rows if r["leader_epoch"] != 1]
    leaders = Leaders([0, 1, 2, 4], [1, 3, 2, 3])
    assert shared_log(index_rows(rows), leaders, 3, 4).end.value == 20
    assert shared_log(index_rows(lacking), leaders, 3, 4).end.value is None


def test_of_contradicting_copies_the_smaller_counts() -> None:
    assert exact("9 b3 e0@0 e2@50 e4@80", "12 b3 e0@0 e2@50 e4@70") == 70


def test_a_line_that_a_later_process_may_have_written_again_does_not_count() -> None:
    rows = index_rows(evidence("9 b3 e0@0 e4@40", "9 b2 e0@0 e2@50"))
    ends = [
        shared_log(rows, LED, 3, 4, is_first=lambda e, doubted=doubted: e.broker_id != doubted).end.value
        for doubted in (None, 2, 3)
    ]
    assert ends == [40, None, None]


# Equal lines, other records: one of the epochs may have been written twice.

LINES = ("9 b3 e0@0 e1@10 e2@50 e4@80", "9 b2 e0@0 e1@10 e2@50")


def doubted(*lines: str, known_from: int = 0, twice: frozenset[int] = frozenset(), leader: int = 2) -> int | None:
    leaders = Leaders([0, 1, 2, 4], [1, 1, leader, 3], known_from, twice)
    found = shared_log(index_rows(evidence(*lines)), leaders, 3, 4)
    assert (found.end.value is None) == (found.doubted is not None)
    return found.doubted


def test_an_epoch_that_was_written_twice_leaves_it_open_what_follows() -> None:
    assert doubted(*LINES, twice=frozenset({1})) == 1
    assert doubted(*LINES) is None


def test_the_last_leaders_epoch_is_checked_elsewhere() -> None:
    assert doubted(*LINES, twice=frozenset({2})) is None


def test_epochs_before_the_known_history_may_have_been_written_twice() -> None:
    assert doubted(*LINES, known_from=1) == 0
    assert doubted(*LINES, known_from=3) == 2


def test_an_epoch_that_the_log_does_not_have_is_of_no_account() -> None:
    assert doubted("9 b3 e0@0 e2@50 e4@80", twice=frozenset({1})) is None


def test_nor_is_one_after_the_offset_where_the_logs_part() -> None:
    lines = "9 b3 e0@0 e1@50 e4@80", "9 b2 e0@0 e2@50"
    assert doubted(*lines, twice=frozenset({1})) is None


def test_a_leader_that_led_last_is_compared_with_itself() -> None:
    assert doubted(*LINES, known_from=3, twice=frozenset({0, 1, 2}), leader=3) is None


def test_without_lines_nothing_is_doubted() -> None:
    assert shared_log(index_rows([]), LED, 3, 4) == SharedLog(shared_log(index_rows([]), LED, 3, 4).end)
