"""Plant secrets of every kind in a capture, intact and damaged, and search for them in all output."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.console.output import show_message
from jobs.lake.tables import TABLES
from jobs.pipeline import Pipeline
from tests.support import writer
from tests.support.spark_lake import SparkLake

CONFIGS = ("ssl.keystore.password", "sasl.jaas.config", "listener.name.x.ssl.key.password", "my.plugin.api.key")


def planted(number: int) -> bytes:
    return f"hunter{number:02d}-planted-secret".encode()


def blob(number: int) -> bytes:
    secret = planted(number)
    return writer.uvarint(len(secret) + 1) + secret


def scram(number: int, version: int = 0) -> bytes:
    """A UserScramCredentialRecord with three secrets from `number` on."""
    fields = writer.string("alice") + b"\x01" + blob(number) + blob(number + 1) + blob(number + 2)
    return writer.frame(11, version, fields + struct.pack(">i", 4096) + writer.tagged())


def token(number: int, api_key: int) -> bytes:
    """A DelegationTokenRecord (10) or RemoveDelegationTokenRecord (26)."""
    body = writer.string(planted(number).decode()) + writer.tagged()
    if api_key == 10:
        times = struct.pack(">qqq", 1, 2, 3)
        body = writer.string("User:a") + writer.string("User:b") + writer.uvarint(1) + times + body
    return writer.frame(api_key, 0, body)


def password(number: int, name: str, resource_type: int = 4) -> bytes:
    return writer.config(name, planted(number).decode(), "", resource_type)


def json_scram(number: int) -> dict[str, object]:
    keys = {n: base64.b64encode(planted(number + i)).decode() for i, n in enumerate(("salt", "storedKey", "serverKey"))}
    data = {"name": "alice", "mechanism": 1, **keys, "iterations": 4096}
    return {"type": "USER_SCRAM_CREDENTIAL_RECORD", "version": 0, "data": data}


def capture(folder: Path) -> Path:
    """A capture with every kind of secret, in readable records, records of an unknown version and damaged records; in a
    segment, a snapshot, the bootstrap file, the text of kafka-dump-log, and properties files."""
    records = [scram(0), token(3, 10), token(4, 26), scram(5, version=7)]
    records += [password(10 + i, name) for i, name in enumerate(CONFIGS)]
    good = writer.log(1)[0] + writer.batch(records, 1)
    end = 1 + len(records)
    cut_short = scram(20)[:-9]
    bad_record = writer.batch([cut_short], end)
    bad_crc = writer.flip(writer.batch([scram(23), password(26, CONFIGS[0]), token(27, 10)], end + 1), 25)
    squeezed = writer.flip(writer.batch([scram(30)], end + 4, codec="gzip"), 70)
    log = folder / "controllers" / "3000" / "__cluster_metadata-0"
    log.mkdir(parents=True)
    (log / f"{0:020d}.log").write_bytes(
        good + bad_record + bad_crc + squeezed + writer.batch([writer.no_op()], end + 5)
    )
    (log / "00000000000000000009-0000000001.checkpoint").write_bytes(writer.snapshot([scram(33), token(36, 10)]))
    (log.parent / "bootstrap.checkpoint").write_bytes(writer.snapshot([scram(40)]))
    properties = f"node.id=3000\nprocess.roles=controller\nsasl.jaas.config={planted(43).decode()}\n"
    (log.parent / "server.properties").write_text(properties)
    (log.parent / "meta.properties").write_text("node.id=3000\ncluster.id=secrets\n")
    line = json.dumps(json_scram(50), separators=(",", ":"))
    garbled = json.dumps(json_scram(53), separators=(",", ":"))[:-30]
    config = {"resourceType": 4, "resourceName": "", "name": CONFIGS[1], "value": planted(56).decode()}
    third = json.dumps({"type": "CONFIG_RECORD", "version": 0, "data": config}, separators=(",", ":"))
    (folder / "payloads.txt").write_text(f"{line}\n{garbled}\n{third}\n")
    manifest = f'[configs]\n"ssl.key.password" = "{planted(60).decode()}"\n[[nodes]]\nid = 3001\npath = "x"\n'
    (folder / "capture.toml").write_text(manifest)
    return folder


@pytest.fixture(scope="module")
def outputs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """All files, table rows and messages of a run over that capture, by name."""
    root = tmp_path_factory.mktemp("secrets")
    pipeline = Pipeline(root / "lake", [capture(root / "capture")])
    pipeline.lake = SparkLake(spark, root / "lake")
    messages: list[str] = []
    patch = pytest.MonkeyPatch()
    patch.setattr(
        "jobs.pipeline.show_message", lambda text, *level: messages.append(text) or show_message(text, *level)
    )
    pipeline.run(root / "report.html")
    patch.undo()
    found = {"log": "\n".join(messages).encode(), "report": (root / "report.html").read_bytes()}
    found |= {str(f.relative_to(root)): f.read_bytes() for f in (root / "lake").rglob("*") if f.is_file()}
    for name in TABLES:
        rows = pipeline.lake.table(name).toArrow().to_pylist()
        found[f"table {name}"] = b"\n".join(_spelled(value) for row in rows for value in row.values())
    return found


def _spelled(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def forms(secret: bytes) -> Iterator[bytes]:
    """A secret as plain bytes, as hex, and as base64 at each of its three alignments."""
    yield secret
    yield secret.hex().encode()
    for shift in range(3):
        yield base64.b64encode(b"x" * shift + secret)[4 if shift else 0 : -4]


def test_the_records_are_in_the_lake(outputs: dict[str, bytes]) -> None:
    records = outputs["table metadata_records"]
    for kind in (b"USER_SCRAM_CREDENTIAL_RECORD", b"DELEGATION_TOKEN_RECORD", b"CONFIG_RECORD", b"[redacted]"):
        assert kind in records
    assert b"crc_mismatch" in outputs["table quarantine"]
    assert b"[redacted]" in outputs["table static_configs"]


def test_no_output_has_a_secret(outputs: dict[str, bytes]) -> None:
    leaks = [
        (name, number)
        for name, data in outputs.items()
        for number in range(64)
        for form in forms(planted(number))
        if form in data
    ]
    assert leaks == []
