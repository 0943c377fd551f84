"""What else in the lake contradicts an election: findings of one partition are judged together, not kind by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replay.offsets.log_drops import Span


@dataclass(frozen=True, slots=True)
class Contradictions:
    """Findings that contradict elections.

    truncated: by partition key (`elections.States.key`), the times in which a replica's log went down without an
    election that explains it. changes: metadata offsets of partition changes that do not match the rules, because of a
    known bug or for no known reason.
    """

    truncated: Mapping[int, Sequence[Span]] = field(default_factory=dict)
    changes: frozenset[int] = frozenset()


NO_CONTRADICTIONS = Contradictions()
