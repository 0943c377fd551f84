"""What kind of election a leader change was, one at a time and from sets: the measure of
replay.partitions.elections."""

from __future__ import annotations

from typing import Any


def told(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, bool]:
    """(cause, hidden_unclean) of one leader change, without a directory's failure: the slow way."""
    winner, led = after["leader"], before["leader"]
    old, new, adding, removing = (
        set(x) for x in (before["replicas"], after["replicas"], before["adding_replicas"], before["removing_replicas"])
    )
    ended = (adding or removing) and not after["adding_replicas"] and not after["removing_replicas"]
    marked = (before["leader_recovery_state"], after["leader_recovery_state"]) == ("RECOVERED", "RECOVERING")
    in_isr, in_elr = winner in before["isr"], winner in before["elr"]
    known = winner in before["last_known_elr"]
    joined = ended and adding <= new and not removing & new and winner in after["isr"] and not marked
    reassigned = old != new and (in_isr or joined)
    hidden = not (in_isr or in_elr or known or reassigned) and after["leader_recovery_state"] == "RECOVERED"
    if winner < 0:
        return "leaderless", False
    if ended and removing <= new and not adding & new and not marked:
        return "cancelled_reassignment", hidden
    if reassigned:
        return "reassignment", hidden
    if in_isr:
        first = after["replicas"][0] == winner != led and led in after["isr"]
        return ("preferred" if first else "isr"), hidden
    if in_elr and not marked:
        return "elr", hidden
    if known:
        return "last_known_leader", hidden
    if after["unclean_leader_election_enable"]:
        return "unclean_by_config", hidden
    if after["unclean_leader_election_enable_source"] == "topic" and led < 0:
        return "unclean_by_administrator", hidden
    return "unclean", hidden
