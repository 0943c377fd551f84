"""Tables that compare recorded partition changes with the rules: the differences, and each election's predictions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow import schemas
from replay.arrow.ragged import PAD, Array, as_lists, ragged
from replay.arrow.schemas import PREDICTED_STATE, RULE_DIFFERENCES
from replay.controller.predictions import AS_PREDICTED, FIELDS, UNEXPLAINED, Compared, State
from replay.controller.profiles import PROFILES
from replay.controller.transitions import Bucket
from replay.partitions.elections import leader_changes

_FROM_HISTORY = ("offset", "timestamp_ms", "controller_epoch", "topic_id", "topic", "partition")


@dataclass(frozen=True, slots=True)
class Checked:
    """predicted: the number of partition changes compared. differences: schemas.RULE_DIFFERENCES. elections:
    schemas.ELECTIONS with the predictions filled in."""

    predicted: int
    differences: pa.Table
    elections: pa.Table

    @property
    def offsets_against(self) -> frozenset[int]:
        """Metadata offsets of changes that no rule explains. What the controller of that release always did, because of
        a bug that has been fixed since, is no contradiction: premises say what it means for a log."""
        wrong = pc.equal(self.differences["difference"], UNEXPLAINED)
        return frozenset(self.differences["offset"].filter(wrong).to_pylist())


def check_rules(bucket: Bucket, compared: Compared, elections: pa.Table) -> Checked:
    """The tables of a bucket's comparison with the rules. elections: its schemas.ELECTIONS."""
    return Checked(
        predicted=len(compared.rows),
        differences=_differences(bucket.history, compared),
        elections=_with_predictions(elections, leader_changes(bucket.states), compared),
    )


def _differences(history: pa.Table, compared: Compared) -> pa.Table:
    found, kinds = compared.predictions, compared.alike
    index = np.flatnonzero((found.difference != AS_PREDICTED)[kinds.kind])
    kind, shown_at = kinds.kind[index], compared.shown_at[index]
    recorded = history.select([*_FROM_HISTORY, *schemas.PROVENANCE_NAMES]).take(pa.array(compared.rows[index]))
    names = list(found.may_be)
    of_kinds = {
        "trigger": _strings(found.trigger),
        "profiles": _subsets(names, [found.may_be[name] for name in names]),
        "difference": _strings(found.difference),
        "reason": _strings(found.reason),
        "differs_in": _subsets(list(FIELDS), [(found.differs >> bit & 1).astype(bool) for bit in range(len(FIELDS))]),
        "profile": _strings(found.profile),
        "rule_fingerprint": _strings(_fingerprints(found.profile)),
    }
    state = {name: values[kind] for name, values in found.state.items()}
    state |= {name: kinds.renamed(state[name], index) for name in state if name != "recovery"}
    columns = {
        **{name: recorded[name] for name in recorded.column_names},
        **{name: values.take(pa.array(kind)) for name, values in of_kinds.items()},
        "trigger_offset": pa.array(shown_at, mask=shown_at < 0),
        "predicted": _states(state),
    }
    return pa.table({f.name: columns[f.name] for f in RULE_DIFFERENCES}, schema=RULE_DIFFERENCES)


def _with_predictions(elections: pa.Table, rows: Array, compared: Compared) -> pa.Table:
    """Fill the prediction columns of elections. rows: their row numbers in the history.

    An election without a known state before it was not predicted.
    """
    found, kinds = compared.predictions, compared.alike
    at = np.searchsorted(compared.rows, rows)
    known = np.append(compared.rows, -1)[at] == rows
    index = at[known]
    kind = np.full(len(rows), -1)
    kind[known] = kinds.kind[index]
    names = list(found.answers)
    shape = (len(rows), len(names))
    possible, leaders, right = np.zeros(shape, bool), np.full(shape, PAD), np.zeros(shape, bool)
    for column, (name, answer) in enumerate(found.answers.items()):
        possible[known, column] = found.may_be[name][kind[known]]
        leaders[known, column] = kinds.renamed(answer.leader[kind[known]], index)
        right[known, column] = answer.as_recorded[kind[known]]
    profile = pa.array(np.broadcast_to(np.arange(len(names)), shape)[possible])
    by_profile = [_strings(column) for column in (np.array(names), _fingerprints(np.array(names)))]
    flat = pa.StructArray.from_arrays(
        [*(column.take(profile) for column in by_profile), _ids(leaders[possible]), pa.array(right[possible])],
        fields=list(schemas.ELECTION_PREDICTION),
    )
    filled = {
        "predictions": ragged(possible, flat),
        "difference": _strings(found.difference).take(pa.array(kind, mask=~known)),
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
    nothing, leader = pa.array(state["leader"] == PAD), _ids(state["leader"])
    recovery = pa.array(["RECOVERED", "RECOVERING"]).take(pa.array(np.maximum(state["recovery"], 0)))
    lists = [as_lists(state[name]) for name in ("isr", "elr", "last_known_elr")]
    return pa.StructArray.from_arrays([leader, *lists, recovery], fields=list(PREDICTED_STATE), mask=nothing)
