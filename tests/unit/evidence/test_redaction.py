"""Secrets: nothing secret leaves the decoder, nothing that is not secret is hidden."""

import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence.errors import Damage, UsageError
from evidence.metadata_log.inspect import inspect_file
from evidence.metadata_log.rows import ByteRange, decode_range, heads
from evidence.offsets.jmx_exporter import read_metrics
from evidence.offsets.jmx_tool import read_jmx_tool
from evidence.offsets.tool_output import read_topics
from evidence.redaction import (
    REDACTED,
    digests_by,
    is_redacted,
    is_secret_config,
    redact,
    redact_text,
    redacted,
)
from evidence.wire.records import Record, read_records
from tests.support.golden import cases, filled
from tests.support.log_text import log_of
from tests.support.metric_names import NAMES

SECRET = "hunter2-planted"


# Every config that Kafka defines with Type.PASSWORD (SslConfigs, SaslConfigs, BrokerSecurityConfigs, ZkConfigs,
# DelegationTokenManagerConfigs, PasswordEncoderConfigs), others of Kafka's, and some of plugins.
@pytest.mark.parametrize("config", cases("config_names"), ids=lambda config: config["name"])
def test_which_configs_are_secret(config: dict[str, Any]) -> None:
    prefixes = ("", "listener.name.external.", "listener.name.sasl_ssl.scram-sha-256.")
    for prefix in prefixes if config["is_kafkas"] else prefixes[:1]:
        assert is_secret_config(prefix + config["name"]) == config["is_secret"]


@filled("redacted")
def test_what_is_shown_of_a_record(case: dict[str, Any]) -> dict[str, Any]:
    data = dict(case["data"])
    shown = redact(case["record"], data)
    assert data == case["data"]
    assert SECRET not in str(shown)
    return {**case, "shown": shown}


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (lambda data: read_metrics(data, NAMES), 'kafka_log_Log_LogEndOffset{{password="{}"\n'),
        (read_jmx_tool, 'time:1\n"kafka.log:type=Log,name=LogEndOffset,password={}:Value"=x\n'),
        (read_topics, "Topic: a\tPartition: 0\tLeader: {}\tpassword\n"),
    ],
)
def test_the_reason_for_damage_quotes_no_secret(read: Callable[[bytes], tuple[Any, list[Damage]]], line: str) -> None:
    _, damage = read(line.format(SECRET).encode())
    assert damage
    assert SECRET not in "".join(item.message for item in damage)
    _, damage = read(line.format("plain").replace("password", "p").encode())
    assert REDACTED not in "".join(item.message for item in damage)


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    (tmp_path / "key").write_text("0123456789abcdef\n")
    return str(tmp_path / "key")


def test_equal_secrets_have_equal_digests_by_the_sites_key(key_file: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("another key of a site")

    def shown(name: str, value: str) -> str:
        return str(redact("CONFIG_RECORD", {"name": name, "value": value})["value"])

    with digests_by(key_file):
        one = shown("ssl.key.password", SECRET)
        # RFC 2104, by hand.
        expected = hmac.new(b"0123456789abcdef", SECRET.encode(), "sha256").hexdigest()[:16]
        assert one == f"[redacted {expected}]" == shown("ssl.keystore.password", SECRET) != shown("x.token", "other")
        assert redact_text(f"ssl.key.password = {SECRET}") == f"ssl.key.password = {one}"
        assert redact_text(f"{{my.token='{SECRET}', a=1}}") == f"{{my.token={one}, a=1}}"
        assert redact("USER_SCRAM_CREDENTIAL_RECORD", {"salt": SECRET, "name": "a"}) == {"salt": one, "name": "a"}
        # What a node has redacted itself has no digest: it would be the same for all.
        assert shown("ssl.key.password", REDACTED) == REDACTED
        assert redacted(f"[redacted-{SECRET}") != f"[redacted-{SECRET}"
        with digests_by(str(tmp_path / "other")):
            assert shown("ssl.key.password", SECRET) not in (one, REDACTED)
        assert shown("ssl.key.password", SECRET) == one
    assert shown("ssl.key.password", SECRET) == REDACTED
    assert is_redacted(one)
    assert not is_redacted("[redacted by hand]")


def test_a_key_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("0123456789abcde\n")
    for name, why in (("short", "a key has at least 16 bytes"), ("missing", "cannot be read: No such file")):
        with (
            pytest.raises(UsageError, match=rf"setting secrets\.key_file: .*{name}: {why}"),
            digests_by(str(tmp_path / name)),
        ):
            pass


# Records of all kinds that hold SECRET; of an unknown version, too, and in fields that this release does not know.
PLANTED = {case["what"]: log_of(case["log"]) for case in cases("planted_secrets")}


@pytest.mark.parametrize("data", PLANTED.values(), ids=PLANTED.keys())
def test_no_planted_secret_reaches_a_row_or_a_line(data: bytes, tmp_path: Path) -> None:
    (item,) = records_in(data)
    (row,) = decode_range(data, ByteRange(tmp_path / "0.log", "0.log", "", "", 0, len(data)), "capture")
    assert isinstance(row, dict)
    (tmp_path / "0.log").write_bytes(data)
    printed = str(list(inspect_file(tmp_path / "0.log")))
    for text in (row["payload"], printed, repr(item)):
        assert REDACTED in text
        assert all(form not in text for form in spellings(SECRET))


@pytest.mark.parametrize("data", PLANTED.values(), ids=PLANTED.keys())
def test_secrets_are_shown_to_who_asks_for_them(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(data)
    printed = str(list(inspect_file(tmp_path / "0.log", show_secrets=True)))
    assert any(form in printed for form in spellings(SECRET))
    assert REDACTED not in printed


def records_in(data: bytes) -> list[Record | Damage]:
    return [item for batch in heads(data, 0, len(data), "") for item in read_records(data, batch)]


def spellings(secret: str) -> list[str]:
    """The secret as text, as hex, and as the part of its base64 that does not depend on what stands around it."""
    return [secret, secret.encode().hex(), "aHVudGVyMi1wbGFudGVk"]


def test_what_is_not_secret_about_a_secret_record_is_kept() -> None:
    items = [item for what in ("SCRAM", "token") for item in records_in(PLANTED[what]) if isinstance(item, Record)]
    assert (items[0].data["name"], items[0].data["iterations"]) == ("alice", 4096)
    assert (items[1].data["owner"], items[1].data["expirationTimestamp"]) == ("User:a", 3)
