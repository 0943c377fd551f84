"""Exposure windows: from the record that put a partition's high watermark at risk to the one that made it safe again.

A window opens when the partition becomes leaderless, or gets a leader that need not hold the high watermark (it was not
in the ISR or the ELR). It closes at the first state with a leader and |ISR| >= min ISR. Vectorised.
"""

from dataclasses import dataclass

import numpy as np

from replay.arrow.ragged import PAD, Array
from replay.arrow.runs import last_true, last_true_before, next_true
from replay.partitions.elections import States, leader_changes


@dataclass(frozen=True, slots=True)
class Windows:
    """Elections to judge, as row numbers of the history. start opens the window, end closes it (-1: never closed).

    exposed (bool): the partition was exposed; else the election is judged only because evidence may contradict it.
    """

    election: Array
    start: Array
    end: Array
    exposed: Array


def build_windows(states: States, suspicious: Array) -> Windows:
    """The window of each election that is inside one, and of each suspicious election.

    suspicious: bool, one per row: evidence contradicts the election although the protocol considers it safe. Outside
    any exposure its window is the election itself.
    """
    count = len(states.key)
    index = np.arange(count)
    segment = last_true(states.begins)
    segment_end = next_true(np.append(states.begins, True)[1:])
    exposed = states.exposing
    # The controller caps min ISR by the replicas of partition 0; no ISR can outgrow the partition's own.
    wanted = np.minimum(states.min_isr, (states.replicas != PAD).sum(axis=1))
    safe = (states.leader >= 0) & (states.isr_size >= wanted) & ~states.removed
    elected = np.zeros(count, dtype=bool)
    rows = leader_changes(states)
    elected[rows] = states.leader[rows] >= 0
    # The last safe row strictly before each row, and the first exposing row after that one.
    last_safe = np.maximum(last_true_before(safe & ~exposed), segment - 1)
    opened = np.append(next_true(exposed), count)[last_safe + 1]
    judged = np.flatnonzero(elected & ((opened <= index) | suspicious))
    end = next_true(safe)[judged]
    end = np.where(end <= segment_end[judged], end, -1)
    return Windows(judged, np.minimum(opened[judged], judged), end, opened[judged] <= judged)
