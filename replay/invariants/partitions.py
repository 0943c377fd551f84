"""Check the invariants of partitions on every state of a history. Vectorised over a bucket of whole topics.

A check reports a violation only if everything it needs is known. Most check the states at the partition's own records;
two also follow changes elsewhere: broker registrations, and the configs of the controller and of the leader.

Sources: replay/invariants/catalogue.toml names them for each invariant.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import INT64_MAX, PAD, Array, sort_order, to_lengths
from replay.arrow.runs import Events, highest_so_far, last_true, run_starts
from replay.arrow.sets import is_in
from replay.cluster.broker_events import REGISTRATION, UNREGISTER
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.configs import LAYERS
from replay.cluster.facts import ClusterFacts
from replay.cluster.features import ELR_VERSION, METADATA_VERSION, switches
from replay.controller.transitions import Bucket
from replay.invariants.catalogue import INVARIANT_VIOLATIONS
from replay.invariants.violations import Broken, CheckedStates, violation_rows

_ASSUMED = "assumed_default"
_KEY = ["topic_id", "partition", "offset"]


def partition_violations(bucket: Bucket, elections: pa.Table) -> pa.Table:
    """INVARIANT_VIOLATIONS of a bucket of whole topics, by invariant. elections: its schemas.ELECTIONS."""
    history, facts = bucket.history, bucket.facts
    if not len(history):
        return INVARIANT_VIOLATIONS.empty_table()
    rows = _Rows(bucket)
    found = [*_of_states(rows), *_of_changes(rows, facts), *_unmarked(rows, elections)]
    found += [_unregistered(rows, facts.brokers), _disagreeing(rows, bucket)]
    return pa.concat_tables([violation_rows(history, rows.states.begins, b, facts.records) for b in found])


class _Rows:
    """A history as arrays, one element per row.

    held: number of replicas in ISR or ELR. starts: first row of its partition. follows: continues a known state, and
    neither row is a removal. cleared: made by a ClearElrRecord. marks: metadata.version supports RECOVERING.
    """

    def __init__(self, bucket: Bucket) -> None:
        states, offset, facts = bucket.states, bucket.offset, bucket.facts
        self.history, self.states = bucket.history, states
        self.places = CheckedStates(np.arange(len(offset)), offset)
        self.isr, self.elr, self.known_elr = (states.lists[name] for name in ("isr", "elr", "last_known_elr"))
        self.held = states.isr_size + (_only(self.elr, self.isr, inside=False) != PAD).sum(axis=1)
        self.starts = run_starts(states.key)
        self.alive = ~states.removed
        self.follows = ~states.begins & self.alive
        self.follows[1:] &= self.alive[:-1]
        self.elr_on = facts.features.at_each(ELR_VERSION, offset) >= 1
        self.cleared = np.isin(offset, facts.cleared)
        self.marks = switches(facts.features.at_each(METADATA_VERSION, offset), "marks_recovery")
        self.leader = np.where(states.leader >= 0, states.leader, PAD)[:, None]
        self.nobody = np.full((len(offset), 1), PAD)

    def broken(self, name: str, where: Array, brokers: Array, changed: bool = False) -> Broken:
        """A violation at the rows where `where` is true. brokers: a matrix with one list per row of the history."""
        at = np.flatnonzero(where)
        earlier = self.places.offset[np.maximum(at - 1, 0)] if changed else np.full(len(at), PAD)
        earlier = np.where(self.starts[at], PAD, earlier)
        return Broken(name, self.places, at, brokers[at], earlier, changed)


def _only(lists: Array, others: Array, inside: bool) -> Array:
    """The members of each list that are (or are not) in the other list of its row; the rest become PAD."""
    return np.where(is_in(lists, others) == inside, lists, PAD)


def _any(lists: Array) -> Array:
    return (lists != PAD).any(axis=1)


def _of_states(rows: _Rows) -> Iterator[Broken]:
    """Violations that a single state shows."""
    states, alive = rows.states, rows.alive
    shared = _only(rows.elr, rows.isr, inside=True)
    yield rows.broken("isr_and_elr_disjoint", _any(shared), shared)
    enough = states.min_isr_known & (states.isr_size >= states.min_isr)
    yield rows.broken("elr_empty_at_min_isr", alive & _any(rows.elr) & enough, rows.elr)
    strangers = _only(rows.isr, states.replicas, inside=False)
    yield rows.broken("isr_within_replicas", _any(strangers), strangers)
    strangers = _only(rows.elr, states.replicas, inside=False)
    yield rows.broken("elr_within_replicas", _any(strangers), strangers)
    strangers = _only(np.where(rows.known_elr >= 0, rows.known_elr, PAD), states.replicas, inside=False)
    yield rows.broken("last_known_elr_within_replicas", _any(strangers), strangers)
    outside = _only(rows.leader, rows.isr, inside=False)
    yield rows.broken("leader_in_isr", _any(outside), outside)
    several = (rows.known_elr != PAD).sum(axis=1) > 1
    yield rows.broken("last_known_elr_at_most_one", several, rows.known_elr)
    yield rows.broken("last_known_elr_never_minus_one", (rows.known_elr == -1).any(axis=1), rows.nobody)
    yield rows.broken("recovering_isr_is_leader", states.recovering & (states.isr_size > 1), rows.isr)
    ordered = np.sort(states.replicas, axis=1)
    twice = np.where(ordered[:, 1:] == ordered[:, :-1], ordered[:, 1:], PAD)
    yield rows.broken("replicas_distinct", _any(twice), twice)
    other = to_lengths(rows.history["directories"]) != to_lengths(rows.history["replicas"])
    yield rows.broken("directories_match_replicas", alive & other, rows.nobody)


def _of_changes(rows: _Rows, facts: ClusterFacts) -> Iterator[Broken]:
    """Violations that a state shows in comparison with earlier ones."""
    states = rows.states
    epoch = pc.fill_null(rows.history["partition_epoch"], -1).to_numpy().astype(np.int64)
    step = np.append(0, epoch[1:] - epoch[:-1])
    across = states.begins & ~rows.starts & rows.alive & np.append(False, rows.alive[:-1])
    wrong = (rows.follows & (step != 1)) | (across & (step < 0))
    yield rows.broken("partition_epoch_by_one", wrong, rows.nobody, True)
    highest = highest_so_far(states.key, states.leader_epoch)
    yield rows.broken("leader_epoch_never_falls", rows.alive & (states.leader_epoch < highest), rows.leader, True)
    fell, lost = _fell(rows, facts)
    low = rows.alive & states.min_isr_known & (rows.held < states.min_isr)
    yield rows.broken("isr_plus_elr_not_below_min_isr", _since(fell, low & ~states.begins), lost, True)
    gave_up, lost = _given_up(rows, facts)
    helpless = rows.alive & (states.leader < 0) & (rows.held == 0) & ~_any(rows.known_elr) & ~states.begins
    yield rows.broken("elr_cleared_while_leaderless", _since(gave_up, helpless), lost, True)


def _since(start: Array, lasts: Array) -> Array:
    """True from each start on, for as long as `lasts` is true."""
    return last_true(start) > last_true(~(lasts | start))


def _fell(rows: _Rows, facts: ClusterFacts) -> tuple[Array, Array]:
    """(where ISR and ELR together fell below min ISR without a reason, a matrix of the brokers that left them)."""
    states = rows.states
    fell = rows.follows & rows.elr_on & states.min_isr_known & ~rows.cleared & (rows.held < states.min_isr)
    fell[1:] &= rows.held[:-1] >= states.min_isr[1:]
    elected = np.append(False, states.leader_epoch[1:] != states.leader_epoch[:-1]) & (states.leader >= 0)
    fell &= ~(elected & states.recovering)
    return _with_lost(rows, facts, fell, np.hstack([rows.isr, rows.elr]))


def _given_up(rows: _Rows, facts: ClusterFacts) -> tuple[Array, Array]:
    """(where a leaderless partition lost its ELR and its last known leader, a matrix of these brokers)."""
    empty = (rows.held == 0) & ~_any(rows.known_elr) & (rows.states.leader < 0)
    gave_up = rows.follows & empty
    gave_up[1:] &= rows.states.leader[:-1] < 0
    # -1 is not a broker. A last known leader counts as lost even if it is no longer a replica.
    return _with_lost(rows, facts, gave_up, np.hstack([rows.elr, rows.known_elr]), replicas=False)


def _with_lost(
    rows: _Rows, facts: ClusterFacts, where: Array, lists: Array, replicas: bool = True
) -> tuple[Array, Array]:
    """(the rows of `where` that lost a broker without a reason, a matrix of the lost brokers).

    Lost: in the previous row's list and not in this row's. Reasons: the same event registered the broker again or
    unregistered it, or (with `replicas`) it is no longer a replica.
    """
    at = np.flatnonzero(where)
    lost = _only(lists[at - 1], lists[at], inside=False)
    lost = np.where(lost >= 0, lost, PAD)
    if replicas:
        lost = _only(lost, rows.states.replicas[at], inside=True)
    events = facts.broker_events
    left = np.isin(events.kind.astype(str), (REGISTRATION, UNREGISTER))
    batches, number = np.unique(events.split.begin_of(events.batch[left]), return_inverse=True)
    reasons = number << 32 | events.broker[left]
    batch = events.split.begin_of(rows.history["batch_base_offset"].to_numpy()[at])
    index = np.searchsorted(batches, batch)
    excused = np.isin(index[:, None] << 32 | np.maximum(lost, 0), reasons)
    excused &= np.isin(batch, batches)[:, None]
    lost = np.where(excused, PAD, lost)
    result, who = np.zeros(len(where), dtype=bool), np.full((len(where), lost.shape[1]), PAD)
    result[at], who[at] = _any(lost), lost
    return result, who


def _unmarked(rows: _Rows, elections: pa.Table) -> Iterator[Broken]:
    """Violations from a hidden unclean election until the next leader epoch or until the mark RECOVERING."""
    hidden = elections.filter(elections["hidden_unclean"]).select(_KEY)
    near = np.flatnonzero(pc.is_in(rows.history["offset"], value_set=hidden["offset"].combine_chunks()))
    keys = rows.history.select(_KEY).take(pa.array(near)).append_column("row", pa.array(near))
    start = np.zeros(len(rows.alive), dtype=bool)
    start[keys.join(hidden, _KEY, join_type="inner")["row"].to_numpy()] = True
    states = rows.states
    same = rows.follows & ~states.recovering
    same[1:] &= states.leader_epoch[1:] == states.leader_epoch[:-1]
    yield rows.broken("unclean_without_mark", _since(start & rows.follows & rows.marks, same), rows.leader, True)


def _merged(places: CheckedStates, row: Array, offset: Array) -> CheckedStates:
    """The places merged with further ones, each once, in order."""
    if not len(row):
        return places
    more = np.zeros(int(places.row[-1]) + 1, dtype=bool)
    more[row] = True
    row, offset = np.append(places.row, row), np.append(places.offset, offset)
    order = np.argsort(row, kind="stable")
    row, offset = row[order], offset[order]
    # In order of offsets, too, in the rows that got further ones.
    some = np.flatnonzero(more[row])
    offset[some] = offset[some][np.lexsort((offset[some], row[some]))]
    new = run_starts(row, offset)
    return CheckedStates(row[new], offset[new])


def _ends(history: pa.Table) -> Array:
    return pc.fill_null(history["end_offset"], INT64_MAX).to_numpy()


def _unregistered(rows: _Rows, brokers: BrokerTimeline) -> Broken:
    events, offset = brokers.by_offset, np.array([state.offset for state in brokers.all_states], dtype=np.int64)
    # For each ELR member, where its registration changed while its state was valid.
    row, column = np.nonzero(rows.elr >= 0)
    which, inside = events.between(rows.elr[row, column], rows.places.offset[row], _ends(rows.history)[row])
    places = _merged(rows.places, row[which], offset[inside])
    some = np.flatnonzero(_any(np.where(rows.elr >= 0, rows.elr, PAD))[places.row])
    lists = rows.elr[places.row[some]]
    last = events.last(lists, places.offset[some, None])
    gone = (lists >= 0) & (last >= 0) & ~brokers.are("incarnation_id", last)
    found = gone.any(axis=1)
    at = some[found]
    own = rows.places.offset[places.row[at]]
    return Broken("unregistered_broker_in_elr", places, at, np.where(gone, lists, PAD)[found], own)


def _disagreeing(rows: _Rows, bucket: Bucket) -> Broken:
    history, leader, facts, keys = rows.history, rows.states.leader, bucket.facts, bucket.config_keys
    start, end = rows.places.offset, _ends(history)
    points, configs, topics = bucket.config_points, keys.configs, keys.topics
    steps = [(broker, at) for broker, known in facts.broker_min_isr.items() for at in known.cluster.offsets]
    changes = np.array(steps, dtype=np.int64).reshape(-1, 2).T
    which, inside = Events(*changes).between(leader, start, end)
    places = _merged(CheckedStates(points.row, points.offset), which, changes[1][inside])
    topic, count, leader = keys.topic[places.row], keys.replica_count[places.row], leader[places.row]
    cap = keys.zero.replicas(topic, places.offset, count)
    of_all = configs.min_isr.resolve(topics, topic, places.offset)
    of_controller = np.minimum(of_all.ints(), cap)
    of_leader, layer = of_controller.copy(), np.zeros(len(topic), dtype=np.int64)
    by_leader = sort_order(leader)
    begins, ends = (np.searchsorted(leader[by_leader], list(facts.broker_min_isr), side) for side in ("left", "right"))
    for timeline, begin, end in zip(facts.broker_min_isr.values(), begins, ends, strict=True):
        led = by_leader[begin:end]
        own = timeline.resolve(topics, topic[led], places.offset[led])
        of_leader[led], layer[led] = np.minimum(own.ints(), count[led]), own.layers()
    at = np.flatnonzero(of_leader != of_controller)
    layers, sources = (np.array(LAYERS, dtype=object)[numbers[at]] for numbers in (of_all.layers(), layer))
    known = (layers != _ASSUMED) & (sources != _ASSUMED)
    shown = {"controller_min_isr": of_controller[at], "controller_layer": layers, "leader": leader[at]}
    shown |= {"leader_min_isr": of_leader[at], "leader_layer": sources}
    shown = {name: values[known] for name, values in shown.items()}
    at, brokers = at[known], shown["leader"][:, None]
    began = rows.places.offset[places.row[at]]
    return Broken("min_isr_layers_disagree", places, at, brokers, began, more=shown)
