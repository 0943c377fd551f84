"""Secrets: nothing secret leaves the decoder, nothing that is not secret is hidden."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from evidence.metadata_log.inspect import inspect_file
from evidence.metadata_log.rows import read_range, record_row
from evidence.redaction import REDACTED, is_secret_config, redact
from evidence.wire.batches import read_head
from evidence.wire.records import Record
from tests.support import writer

SECRET = "hunter2-planted"

# Every config that Kafka defines with Type.PASSWORD (SslConfigs, SaslConfigs, BrokerSecurityConfigs, ZkConfigs,
# DelegationTokenManagerConfigs, PasswordEncoderConfigs).
PASSWORDS = [
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "delegation.token.secret.key",
    "delegation.token.master.key",
    "password.encoder.secret",
    "password.encoder.old.secret",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.truststore.password",
]
OPEN = [
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "compression.type",
    "cleanup.policy",
    "retention.ms",
    "log.cleaner.backoff.ms",
    "log.cleaner.threads",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keymanager.algorithm",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.client.auth",
    "sasl.enabled.mechanisms",
    "sasl.login.class",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.scope",
    "sasl.oauthbearer.assertion.private.key.file",
    "delegation.token.max.lifetime.ms",
    "delegation.token.expiry.time.ms",
    "delegation.token.expiry.check.interval.ms",
    "password.encoder.cipher.algorithm",
    "password.encoder.iterations",
    "password.encoder.key.length",
    "password.encoder.keyfactory.algorithm",
    "follower.replication.throttled.replicas",
    "",
]


@pytest.mark.parametrize("prefix", ["", "listener.name.external.", "listener.name.sasl_ssl.scram-sha-256."])
@pytest.mark.parametrize("name", PASSWORDS)
def test_kafkas_password_configs_are_secret(name: str, prefix: str) -> None:
    assert is_secret_config(prefix + name)


@pytest.mark.parametrize("prefix", ["", "listener.name.external."])
@pytest.mark.parametrize("name", OPEN)
def test_other_kafka_configs_are_shown(name: str, prefix: str) -> None:
    assert not is_secret_config(prefix + name)


@pytest.mark.parametrize(
    "name",
    ["reporter.api.key", "s3.access.key", "vendor.authToken", "vendor.Password", "authorizer.credentials", "x.passwd"],
)
def test_a_plugins_config_that_sounds_secret_is_secret(name: str) -> None:
    assert is_secret_config(name)


def test_a_deleted_secret_stays_null() -> None:
    data = {"resourceType": 4, "resourceName": "1", "name": "ssl.key.password", "value": None}
    assert redact("CONFIG_RECORD", data) == data


def test_only_the_value_of_a_secret_config_is_replaced() -> None:
    data = {"resourceType": 4, "resourceName": "1", "name": "ssl.key.password", "value": SECRET}
    assert redact("CONFIG_RECORD", data) == {**data, "value": REDACTED}
    assert data["value"] == SECRET


def test_records_without_secrets_are_not_touched() -> None:
    data = {"name": "token", "salt": "x", "raw": "y"}
    assert redact("TOPIC_RECORD", data) is data


def binary(text: str) -> bytes:
    return writer.uvarint(len(text) + 1) + text.encode()


def scram(secret: str, version: int = 0, tags: dict[int, bytes] | None = None) -> bytes:
    body = writer.string("alice") + b"\x01" + binary(secret) * 3 + struct.pack(">i", 4096) + writer.tagged(tags)
    return writer.frame(11, version, body)


def token(secret: str) -> bytes:
    body = writer.string("User:a") + writer.string("User:a") + b"\x01" + struct.pack(">qqq", 1, 2, 3)
    return writer.frame(10, 0, body + writer.string(secret) + writer.tagged())


PLANTED = {
    "SCRAM": scram(SECRET),
    "SCRAM of an unknown version": scram(SECRET, version=9),
    "SCRAM with an unknown field": scram("", tags={7: SECRET.encode()}),
    "token": token(SECRET),
    "removed token": writer.frame(26, 0, writer.string(SECRET) + writer.tagged()),
    "token of an unknown version": writer.frame(10, 5, SECRET.encode()),
    "password": writer.config("listener.name.x.ssl.key.password", SECRET),
    "JAAS": writer.config("listener.name.x.plain.sasl.jaas.config", f'PlainLoginModule required password="{SECRET}";'),
    "config of an unknown version": writer.frame(4, 8, SECRET.encode()),
}


@pytest.mark.parametrize("value", PLANTED.values(), ids=PLANTED.keys())
def test_no_planted_secret_reaches_a_row_or_a_line(value: bytes, tmp_path: Path) -> None:
    data = writer.batch([value])
    ((batch, item),) = read_range(data, 0, len(data))
    assert isinstance(item, Record)
    shown = record_row("capture", "0.log", "", batch, item)["payload"]
    (tmp_path / "0.log").write_bytes(data)
    printed = str(list(inspect_file(tmp_path / "0.log")))
    for text in (shown, printed, repr(item)):
        assert REDACTED in text
        assert all(form not in text for form in spellings(SECRET))


@pytest.mark.parametrize("value", PLANTED.values(), ids=PLANTED.keys())
def test_secrets_are_shown_to_who_asks_for_them(value: bytes, tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(writer.batch([value]))
    printed = str(list(inspect_file(tmp_path / "0.log", show_secrets=True)))
    assert any(form in printed for form in spellings(SECRET))
    assert REDACTED not in printed


def spellings(secret: str) -> list[str]:
    """The secret as text, as hex, and as the part of its base64 that does not depend on what stands around it."""
    return [secret, secret.encode().hex(), "aHVudGVyMi1wbGFudGVk"]


def test_what_is_not_secret_about_a_secret_record_is_kept() -> None:
    data = writer.batch([scram(SECRET), token(SECRET)])
    items = [item for _, item in read_range(data, 0, read_head(data, 0).size_bytes) if isinstance(item, Record)]
    assert (items[0].data["name"], items[0].data["iterations"]) == ("alice", 4096)
    assert (items[1].data["owner"], items[1].data["expirationTimestamp"]) == ("User:a", 3)
