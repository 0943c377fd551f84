"""Tables that compare recorded partition changes with the rules: the differences, and each election's predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow import schemas
from replay.arrow.ragged import PAD, Array, as_lists, ragged
from replay.arrow.rule_schemas import PREDICTED_STATE, RULE_DIFFERENCES
from replay.controller.predictions import FIELDS, KNOWN_BUG, UNEXPLAINED, Predictions, State, predict_all
from replay.controller.profiles import PROFILES
from replay.controller.transitions import Bucket
from replay.partitions.elections import leader_changes

_FROM_HISTORY = ("offset", "timestamp_ms", "controller_epoch", "topic_id", "topic", "partition")
_NAMES = list(PROFILES)


@dataclass(frozen=True, slots=True)
class Checked:
    """predicted: the number of partition changes compared. differences: rule_schemas.RULE_DIFFERENCES. elections:
    schemas.ELECTIONS with the predictions filled in."""

    predicted: int
    differences: pa.Table
    elections: pa.Table

    @property
    def offsets_against(self) -> frozenset[int]:
        """Metadata offsets of changes that no rule explains, or only a bug that has been fixed since."""
        wrong = pc.is_in(self.differences["difference"], value_set=pa.array([KNOWN_BUG, UNEXPLAINED]))
        return frozenset(self.differences["offset"].filter(wrong).to_pylist())


def check_rules(bucket: Bucket, elections: pa.Table) -> Checked:
    """Compare every partition change of a bucket with the rules. elections: its schemas.ELECTIONS."""
    rows = bucket.changed_rows
    pieces = list(predict_all(bucket, rows))
    differences = [_differences(bucket.history, piece) for piece in pieces]
    return Checked(
        predicted=len(rows),
        differences=pa.concat_tables([RULE_DIFFERENCES.empty_table(), *differences]),
        elections=_with_predictions(elections, leader_changes(bucket.states), pieces),
    )


def _differences(history: pa.Table, piece: Predictions) -> pa.Table:
    found, index = piece.differences, piece.differences.index
    recorded = history.select([*_FROM_HISTORY, *schemas.PROVENANCE_NAMES]).take(pa.array(piece.rows[index]))
    names = list(piece.may_be)
    columns = {
        **{name: recorded[name] for name in recorded.column_names},
        "trigger": _strings(piece.trigger[index]),
        "trigger_offset": pa.array(piece.shown_at[index], mask=piece.shown_at[index] < 0),
        "profiles": _subsets(names, [piece.may_be[name][index] for name in names]),
        "difference": _strings(piece.difference[index]),
        "reason": _strings(piece.reason[index]),
        "differs_in": _subsets(list(FIELDS), [(found.differs >> bit & 1).astype(bool) for bit in range(len(FIELDS))]),
        "profile": _strings(found.profile),
        "rule_fingerprint": _strings(_fingerprints(found.profile)),
        "predicted": _states(found.state),
    }
    return pa.table({f.name: columns[f.name] for f in RULE_DIFFERENCES}, schema=RULE_DIFFERENCES)


def _with_predictions(elections: pa.Table, rows: Array, pieces: Sequence[Predictions]) -> pa.Table:
    """Fill the prediction columns of elections. rows: their row numbers in the history.

    An election without a known state before it was not predicted.
    """
    place = np.concatenate([np.empty(0, dtype=np.int64), *(piece.rows for piece in pieces)])
    at = np.searchsorted(place, rows)
    known = at < len(place)
    known[known] = place[at[known]] == rows[known]
    chosen = at[known]
    difference = np.full(len(rows), None, dtype=object)
    names = [name for name in _NAMES if any(name in piece.answers for piece in pieces)]
    shape = (len(rows), len(names))
    possible, leaders, right = np.zeros(shape, bool), np.full(shape, PAD), np.zeros(shape, bool)
    if len(chosen):
        difference[known] = np.concatenate([piece.difference for piece in pieces])[chosen]
        for column, name in enumerate(names):
            possible[known, column] = np.concatenate([piece.may_be[name] for piece in pieces])[chosen]
            leaders[known, column] = np.concatenate([piece.answers[name].leader for piece in pieces])[chosen]
            right[known, column] = np.concatenate([piece.answers[name].as_recorded for piece in pieces])[chosen]
    profile = np.broadcast_to(np.array(names, dtype=object), shape)[possible]
    flat = pa.StructArray.from_arrays(
        [_strings(profile), _strings(_fingerprints(profile)), _ids(leaders[possible]), pa.array(right[possible])],
        fields=list(schemas.ELECTION_PREDICTION),
    )
    filled = {
        "predictions": ragged(possible, flat),
        "difference": _strings(difference),
    }
    for name, values in filled.items():
        elections = elections.set_column(elections.schema.get_field_index(name), elections.schema.field(name), values)
    return elections


def _fingerprints(profiles: Array) -> Array:
    by_name = {name: profile.fingerprint for name, profile in PROFILES.items()}
    return np.array([by_name.get(name) for name in profiles.tolist()], dtype=object)


def _strings(values: Array) -> pa.Array:
    return pa.array(values.tolist(), type=pa.string())


def _ids(values: Array) -> pa.Array:
    return pa.array(np.where(values == PAD, 0, values), type=pa.int32(), mask=values == PAD)


def _subsets(names: Sequence[str], members: Sequence[Array]) -> pa.Array:
    """For each row a list of the names whose mask (bool) is true there."""
    masks = np.stack(members, axis=1)
    codes = np.broadcast_to(np.arange(len(names)), masks.shape)[masks]
    return ragged(masks, pa.array(names, type=pa.string()).take(pa.array(codes)))


def _states(state: State) -> pa.Array:
    """PREDICTED_STATE structs; null where nothing was predicted."""
    nothing = pa.array(state.leader == PAD)
    recovery = pa.array(["RECOVERED", "RECOVERING"]).take(pa.array(np.maximum(state.recovery, 0)))
    lists = [as_lists(members) for members in (state.isr, state.elr, state.last_known_elr)]
    return pa.StructArray.from_arrays(
        [_ids(state.leader), *lists, recovery], fields=list(PREDICTED_STATE), mask=nothing
    )
