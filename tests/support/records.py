"""Decoded metadata records and batches by hand, for tests of what a cluster's log means. An offset is its own batch."""

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def record(offset: int, kind: str, /, *, batch: int | None = None, controller_epoch: int = 1, **data: Any) -> Row:
    place = {"capture": "c", "path": "log", "sha256": "00", "position": offset}
    at = {"offset": offset, "batch_base_offset": offset if batch is None else batch, "timestamp_ms": offset * 10}
    return {**at, **place, "epoch": controller_epoch, "type": kind, "data": data}


def batch(
    base: int, last: int, epoch: int = 1, crc: int | None = None, path: str = "a", nodes: Sequence[int] = ()
) -> Row:
    place = {"base_offset": base, "last_offset": last, "crc": base if crc is None else crc}
    return {"epoch": epoch, **place, "capture": "c", "path": path, "nodes": list(nodes)}


def topic(offset: int, name: str, topic_id: str) -> Row:
    return record(offset, "TOPIC_RECORD", name=name, topicId=topic_id)


def config(
    offset: int, value: str | None, resource: str = "t", kind: int = 2, name: str = "min.insync.replicas"
) -> Row:
    return record(offset, "CONFIG_RECORD", resourceType=kind, resourceName=resource, name=name, value=value)


def elr(offset: int, level: int = 1) -> Row:
    return record(offset, "FEATURE_LEVEL_RECORD", name="eligible.leader.replicas.version", featureLevel=level)


def register(offset: int, incarnation: str, broker: int = 1, batch: int | None = None, **data: Any) -> Row:
    about = {"brokerId": broker, "brokerEpoch": offset, "incarnationId": incarnation, "fenced": True}
    return record(offset, "REGISTER_BROKER_RECORD", batch=batch, **{**about, "inControlledShutdown": False, **data})


def change(offset: int, epoch: int, broker: int = 1, batch: int | None = None, **data: Any) -> Row:
    """epoch: the broker's."""
    about = {"brokerId": broker, "brokerEpoch": epoch, "fenced": 0, "inControlledShutdown": 0, **data}
    return record(offset, "BROKER_REGISTRATION_CHANGE_RECORD", batch=batch, **about)


def leader(offset: int, node: int, epoch: int = 1, voters: Sequence[int] = ()) -> Row:
    of_quorum = [{"voterId": voter} for voter in voters]
    return record(offset, "LEADER_CHANGE", controller_epoch=epoch, leaderId=node, voters=of_quorum)


def registered(offset: int, node: int, epoch: int = 1, newest: int = 33) -> Row:
    """newest: the newest metadata.version that the controller supports."""
    features = [{"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": newest}]
    kind = "REGISTER_CONTROLLER_RECORD"
    return record(offset, kind, controller_epoch=epoch, controllerId=node, features=features)


def unregistered(offset: int, node: int, epoch: int = 1) -> Row:
    return record(offset, "UNREGISTER_CONTROLLER_RECORD", controller_epoch=epoch, controllerId=node)
