"""The record of each rule of likely.py, by kind of windows: (right, of). `make likely` writes this file."""

RECORD: dict[str, dict[str, tuple[int, int]]] = {
    "member_ran_on": {"lives": (711, 714)},
    "leader_stopped_in_order": {"lives": (2454, 2517)},
    "member_had_more": {"lives": (63, 80)},
    "lone_leader_had_more": {"drills": (1, 1), "lives": (15, 22)},
    "lone_leader_reported_more": {"drills": (1, 1), "lives": (298, 308)},
    "logs_ended_alike": {"drills": (2, 2), "lives": (82, 89)},
    "old_log_ended_there": {"drills": (2, 2), "lives": (106, 112)},
}
