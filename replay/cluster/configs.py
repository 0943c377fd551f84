"""Effective topic configs over metadata offsets, and the layer that each value comes from.

Resolution order (Kafka's KafkaConfigSchema, ConfigurationControlManager): topic > broker config of the active
controller > cluster default (broker resource "") > the active controller's static file > built-in default.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import Array
from replay.arrow.runs import Events

MIN_ISR = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"
DEFAULTS = {MIN_ISR: "1", UNCLEAN_LEADER_ELECTION: "false"}
# Where a value comes from.
LAYERS = ("topic", "broker", "cluster", "static", "default", "assumed_default")

# Every complete properties file has this key, so a config missing from it has its default. A manifest that lists a few
# configs does not have it.
_WHOLE_FILE = "process.roles"
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,10}\s*")

# Stands for a whole file that lacks a config, between the values of others.
UNSET = "-"

TOPIC, BROKER = 2, 4


def of_all_captures(files: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """A node's file as captures of different times show it: of each config its distinct values, with a space between.
    It may have been edited between two of them, and a process goes by what it said when it started."""
    names = {name for file in files for name in file}
    found = {n: {f.get(n, UNSET) for f in files if n in f or _WHOLE_FILE in f} for n in names}
    return {name: " ".join(sorted(values)) for name, values in found.items()}


def is_usable(key: str, value: str | None) -> bool:
    """Whether Kafka can use a value of one of the two keys (ConfigDef trims an INT); true for None."""
    if value is None or key != MIN_ISR:
        return True
    return _INTEGER.fullmatch(value) is not None and -(1 << 31) <= int(value) < 1 << 31


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A ConfigRecord. value None deletes; resource: a topic name, a node id as text, or "" for the cluster default."""

    offset: int
    resource_type: int
    resource: str
    name: str
    value: str | None


def config_changes(records: Iterable[Mapping[str, Any]]) -> list[ConfigChange]:
    """The settings that records make."""
    return [
        ConfigChange(r["offset"], d["resourceType"], d["resourceName"], d["name"], d["value"])
        for r in records
        if r["type"] == "CONFIG_RECORD" and (d := r["data"])
    ]


@dataclass(frozen=True, slots=True)
class ConfigSteps:
    """A step function over offsets: values[i], a (value, source), is effective from offsets[i] until the next one."""

    offsets: list[int]
    values: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ConfigTimeline:
    """One config's values: per topic name where the topic layer sets it, and for the layers below it."""

    topics: dict[str, tuple[list[int], list[str | None]]]
    cluster: ConfigSteps

    def resolve(self, topics: Sequence[str], topic: Array, offset: Array) -> "Resolved":
        """The effective value after the record at each offset. topic: indexes into `topics`, one per offset."""
        pairs = list(self.cluster.values)
        cluster = np.searchsorted(np.asarray(self.cluster.offsets, dtype=np.int64), offset, side="right") - 1
        index = np.maximum(cluster, 0)
        group: list[int] = []
        at: list[int] = []
        value: list[int] = []
        for number, entry in ((n, self.topics[name]) for n, name in enumerate(topics) if name in self.topics):
            group += [number] * len(entry[0])
            at += entry[0]
            for text in entry[1]:
                value.append(-1 if text is None else len(pairs))
                if text is not None:
                    pairs.append((text, "topic"))
        if group:
            last = Events(np.array(group, dtype=np.int64), np.array(at, dtype=np.int64)).last(topic, offset)
            own = np.where(last >= 0, np.array(value)[last], -1)
            index = np.where(own >= 0, own, index)
        return Resolved(pairs, index)

    def changes(self, topics: Sequence[str]) -> tuple[Array, Array]:
        """(index into `topics`, offset) of each change of the topic's own setting or of a layer below it."""
        steps = zip(self.cluster.offsets[1:], pairwise(self.cluster.values), strict=True)
        below = [offset for offset, (old, new) in steps if new != old]
        places = [(n, o) for n, name in enumerate(topics) for o in self.topics.get(name, ([], []))[0]]
        group, offset = np.array(places, dtype=np.int64).reshape(-1, 2).T
        everyone = np.repeat(np.arange(len(topics)), len(below))
        return np.append(group, everyone), np.append(offset, np.tile(np.array(below, dtype=np.int64), len(topics)))


@dataclass(frozen=True, slots=True)
class Resolved:
    """Values of one config for many (topic, offset). pairs: (value, source); index: into `pairs`, one per row."""

    pairs: list[tuple[str, str]]
    index: Array

    def ints(self) -> Array:
        return np.array([int(v) for v, _ in self.pairs], dtype=np.int64)[self.index]

    def bools(self) -> Array:
        return np.array([v.strip().lower() == "true" for v, _ in self.pairs], dtype=bool)[self.index]

    def layers(self) -> Array:
        """Indexes into LAYERS."""
        return np.array([LAYERS.index(s) for _, s in self.pairs], dtype=np.int64)[self.index]

    def known(self) -> Array:
        """False where the value is only assumed."""
        return np.array([s != "assumed_default" for _, s in self.pairs], dtype=bool)[self.index]

    def sources(self) -> pa.Array:
        sources = pa.array([s for _, s in self.pairs], type=pa.string())
        if len(self.pairs) == 1:
            return pa.repeat(sources[0], len(self.index))
        return sources.take(pa.array(self.index))


def config_timeline(
    key: str,
    changes: Sequence[ConfigChange],
    controllers: Sequence[tuple[int, int | None]],
    static: Mapping[int, Mapping[str, str]],
    removed_topics: Sequence[tuple[int, str]] = (),
) -> ConfigTimeline:
    """The timeline of one config.

    changes, in offset order. controllers: (offset, active controller's node id or None if unknown), in offset order.
    static: node id -> its server.properties, for the nodes whose file was captured. removed_topics: (offset, name); a
    removal deletes the topic's configs (Kafka's ReplicationControlManager.replay of RemoveTopicRecord).
    """
    topics: dict[str, tuple[list[int], list[str | None]]] = {}
    relevant = [c for c in changes if c.name == key and is_usable(key, c.value)]
    settings = [(c.offset, c.resource, c.value) for c in relevant if c.resource_type == TOPIC]
    named = {name for _, name, _ in settings}
    # Removals first: at the same offset, a snapshot may set configs of a topic that was created again.
    events = [*((offset, name, None) for offset, name in removed_topics if name in named), *settings]
    for offset, name, value in sorted(events, key=lambda e: e[0]):
        entry = topics.setdefault(name, ([], []))
        entry[0].append(offset)
        entry[1].append(value)
    return ConfigTimeline(
        topics, _cluster_steps(key, [c for c in relevant if c.resource_type == BROKER], controllers, static)
    )


def _cluster_steps(
    key: str,
    changes: Sequence[ConfigChange],
    controllers: Sequence[tuple[int, int | None]],
    static: Mapping[int, Mapping[str, str]],
) -> ConfigSteps:
    active: int | None = None
    broker: dict[str, str] = {}
    offsets, values = [-1], [_below_topic(key, active, broker, static)]
    events: list[tuple[int, ConfigChange | int | None]] = sorted(
        [*((c.offset, c) for c in changes), *controllers], key=lambda e: e[0]
    )
    for offset, event in events:
        if event is None or isinstance(event, int):
            active = event
        elif event.value is None:
            broker.pop(event.resource, None)
        else:
            broker[event.resource] = event.value
        offsets.append(offset)
        values.append(_below_topic(key, active, broker, static))
    return ConfigSteps(offsets, values)


def _below_topic(
    key: str, active: int | None, broker: Mapping[str, str], static: Mapping[int, Mapping[str, str]]
) -> tuple[str, str]:
    if active is not None and str(active) in broker:
        return broker[str(active)], "broker"
    if "" in broker:
        return broker[""], "cluster"
    if active is not None and active in static:
        file = static[active]
        if key in file and is_usable(key, file[key]) and len(file[key].split()) < 2:
            return file[key], "static"
        if key not in file and _WHOLE_FILE in file:
            return DEFAULTS[key], "default"
    return DEFAULTS[key], "assumed_default"


@dataclass(frozen=True, slots=True)
class ElectionConfigs:
    """Topic names by id, and the two configs that elections depend on, over offsets."""

    topic_names: dict[str, str]
    min_isr: ConfigTimeline
    unclean: ConfigTimeline
