"""What else in the lake speaks against an election: findings of one partition are judged together, not kind by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replay.offsets.log_drops import Span


@dataclass(frozen=True, slots=True)
class Contradictions:
    """truncated: by key of the partition (as `elections.States` has it), when a replica's log went down without an
    election that explains it. changes: metadata offsets of partition changes that are not as the rules have them, by a
    known bug or for no known reason."""

    truncated: Mapping[int, Sequence[Span]] = field(default_factory=dict)
    changes: frozenset[int] = frozenset()


NO_CONTRADICTIONS = Contradictions()
