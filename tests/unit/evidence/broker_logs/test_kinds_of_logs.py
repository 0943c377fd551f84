"""Which captured files are brokers' and controllers' logs, by name and by content."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from evidence import kinds
from evidence.capture.sniff import HEAD_BYTES, sniff
from tests.unit.evidence.broker_logs.support import RELEASES, SAMPLES


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("logs/broker-1/server.log", kinds.SERVER_LOG),
        ("server.log.2026-11-21-00", kinds.SERVER_LOG),
        ("server.log.2026-11-21", kinds.SERVER_LOG),
        ("server.log.1", kinds.SERVER_LOG),
        ("server.log.12.gz", kinds.SERVER_LOG),
        ("server.log.2026-11-21-00.gz", kinds.SERVER_LOG),
        ("server-2026-11-21-00.log.gz", kinds.SERVER_LOG),
        ("server.log-20261121.gz", kinds.SERVER_LOG),
        ("server.log.zst", kinds.SERVER_LOG),
        ("state-change.log", kinds.STATE_CHANGE_LOG),
        ("state-change.log.2026-11-21-00", kinds.STATE_CHANGE_LOG),
        ("controller.log", kinds.CONTROLLER_LOG),
        ("controller.log.3.gz", kinds.CONTROLLER_LOG),
        ("log-cleaner.log", kinds.OTHER),
        ("webserver.log", kinds.OTHER),
        ("server.log.bak", kinds.OTHER),
        ("server.logs", kinds.OTHER),
        ("server.log.1.part", kinds.OTHER),
    ],
)
def test_by_name(path: str, kind: str) -> None:
    assert kinds.classify(PurePosixPath(path)) == kind


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("server", kinds.SERVER_LOG),
        ("state-change", kinds.STATE_CHANGE_LOG),
        ("controller", kinds.CONTROLLER_LOG),
    ],
)
def test_by_content(release: str, name: str, kind: str) -> None:
    assert sniff((SAMPLES / release / f"{name}.log").read_bytes()[:HEAD_BYTES]) == kind


@pytest.mark.parametrize("name", ["ecs", "logstash"])
def test_json_by_content(name: str) -> None:
    assert sniff((SAMPLES / "4.0.2" / f"{name}.json").read_bytes()[:HEAD_BYTES]) == kinds.SERVER_LOG


@pytest.mark.parametrize(
    "text",
    [
        b"[2026-11-21 00:00:00,000] WARN [AdminClient clientId=a] Connection could not be established. "
        b"(org.apache.kafka.clients.NetworkClient)\n",
        b"2026-11-21 00:00:00,000 INFO my application (com.example.kafka.server.Thing)\n",
        b"Kafka's logger (kafka.server.KafkaConfig) prints\n",
    ],
)
def test_other_logs_are_none(text: bytes) -> None:
    assert sniff(text) is None


def test_logs_are_registered_and_not_parsed_by_the_jobs() -> None:
    assert {kinds.SERVER_LOG, kinds.STATE_CHANGE_LOG, kinds.CONTROLLER_LOG} <= set(kinds.BROKER_LOGS)
