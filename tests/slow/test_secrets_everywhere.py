"""Secrets of every kind in a capture, by the command line as a site runs it: nothing that it leaves or prints has one.

One ingest runs its tasks in Spark, whose event log is on. The site has a key: digests, never values.
"""

import base64
import gzip
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support import writer
from tests.support.paths import ROOT

SECRETS = range(100)
SECONDS = 500
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


def controllers_capture(folder: Path) -> Path:
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


def forms(secret: bytes) -> Iterator[bytes]:
    """A secret as plain bytes, as hex, and as base64 at each of its three alignments."""
    yield secret
    yield secret.hex().encode()
    for shift in range(3):
        yield base64.b64encode(b"x" * shift + secret)[4 if shift else 0 : -4]


def _text(number: int) -> str:
    return planted(number).decode()


def _dumped(first: int) -> str:
    """What a broker logs of its configs when it starts, of a plugin that does not hide them; and messages that are kept
    and hold a secret."""
    values = {"broker.id": "1", "ssl.keystore.password": _text(first), "sasl.jaas.config": _text(first + 1)}
    lines = [f"\t{name} = {value}" for name, value in values.items()]
    head = "[2026-11-22 10:00:00,00{}] {} [KafkaServer id=1] {}"
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required password="{_text(first + 2)}";'
    return "\n".join(
        [
            head.format(0, "INFO", "KafkaConfig values: "),
            *lines,
            head.format(1, "INFO", "started (kafka.server.KafkaServer)"),
            head.format(2, "ERROR", f"Error while loading log dir /d ssl.key.password={_text(first + 3)}"),
            head.format(3, "ERROR", f"Error while loading log dir /d sasl.jaas.config={jaas}"),
            head.format(4, "ERROR", f"Error while loading log dir https://user:{_text(first + 4)}@host/ x"),
            "",
        ]
    )


def secrets_capture(folder: Path) -> Path:
    """A capture with secrets of every kind, those of controllers included."""
    controllers_capture(folder)
    broker = folder / "logs" / "broker-1"
    broker.mkdir(parents=True)
    (broker / "server.log").write_text(_dumped(70))
    (broker / "server.log.1.gz").write_bytes(gzip.compress(_dumped(76).encode()))
    own = f"node.id=1\nssl.keystore.password={_text(82)}\nmy.url=jdbc:x://u:{_text(83)}@h/\n"
    (broker / "server.properties").write_text(f"{own}other.password={_text(82)}\n")
    cli = folder / "snapshots" / "1795000000000" / "cli"
    cli.mkdir(parents=True)
    described = f"  ssl.keystore.password={_text(84)} sensitive=true synonyms={{}}\n"
    (cli / "kafka-configs.txt").write_text(f"Dynamic configs for broker 1 are:\n{described}")
    (cli / "topics-describe.txt").write_text(f"Topic: a\tPassword: {_text(85)}\n\tsasl.jaas.config={_text(86)}\n")
    (cli / "node.prom").write_text(
        f'kafka_x{{password="{_text(87)}"}} 1\nkafka_log_Log_LogEndOffset{{secret="{_text(88)}"\n'
    )
    return folder


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """All that the commands left and printed, by name; Parquet as values."""
    root = tmp_path_factory.mktemp("secrets")
    given, lake = secrets_capture(root / "capture"), root / "lake"
    (root / "events").mkdir()
    (root / "tmp").mkdir()
    (root / "key").write_text("the key of this site is longer than that")
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{root}/events"}
    conf["spark.eventLog.compress"] = "false"
    settings = {
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(root / "tmp"),
        "KRAFT_FORENSICS_SPARK__CONF": json.dumps(conf),
        "KRAFT_FORENSICS_SPARK__DRIVER_JAVA_OPTIONS": f"-Djava.io.tmpdir={root}/tmp",
        "KRAFT_FORENSICS_SECRETS__KEY_FILE": str(root / "key"),
    }
    commands = {
        "run": ["run", str(given), "--verbose"],
        "ingest": ["ingest", str(given), "--lake", str(root / "by-spark"), "--verbose"],
        "findings": ["findings", "--format", "json"],
        "verify": ["verify", "--capture", str(given), "--format", "json"],
        "manifest": ["manifest"],
        "verdict": ["verdict", "--format", "json"],
    }
    found: dict[str, bytes] = {}

    def ask(name: str, arguments: list[str]) -> None:
        command = [sys.executable, "-m", "jobs.cli", *arguments]
        command += [] if "--lake" in arguments else ["--lake", str(lake)]
        in_spark = {"KRAFT_FORENSICS_SPARK__FROM_ROWS": "0"} if name == "ingest" else {}
        environment = {**os.environ, **settings, **in_spark}
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, timeout=SECONDS)
        found.update({f"stdout of {name}": done.stdout, f"stderr of {name}": done.stderr})
        found[f"exit code of {name}"] = str(done.returncode).encode()

    for name, arguments in commands.items():
        ask(name, arguments)
    for number, row in enumerate(json.loads(found["stdout of findings"])[:3]):
        ask(f"explain {number}", ["explain", row["finding_id"], "--capture", str(given)])
    return found | dict(searchable(root, given))


def searchable(root: Path, given: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each file below `root`, but not below `given`; of Parquet the values, too."""
    for file in root.rglob("*"):
        if not file.is_file() or given in file.parents:
            continue
        data = file.read_bytes()
        if file.suffix == ".parquet":
            columns = pq.ParquetFile(file).read().to_pydict()
            data += b"\n".join(_spelled(value) for values in columns.values() for value in values)
        yield str(file.relative_to(root)), data


def _spelled(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def test_the_commands_worked(outputs: dict[str, bytes]) -> None:
    codes = {name: code for name, code in outputs.items() if name.startswith("exit code")}
    # Damaged records do not meet all expectations of quality.
    assert codes["exit code of run"] == b"4", outputs["stderr of run"].decode()[-3000:]
    assert codes["exit code of ingest"] == b"0", outputs["stderr of ingest"].decode()[-3000:]
    assert codes["exit code of verify"] == b"0", outputs["stdout of verify"].decode()[-3000:]
    assert codes["exit code of manifest"] == codes["exit code of verdict"] == b"0"
    assert any(name.startswith("events/") and b"SparkListenerTaskEnd" in data for name, data in outputs.items())
    assert outputs.keys() >= {"lake/verdict.json", "lake/report.html"}
    tables = {
        name: b"\n".join(
            data for file, data in outputs.items() if file.startswith(f"lake/{name}/") and "parquet" in file
        )
        for name in ("metadata_records", "static_configs", "quarantine")
    }
    for kind in (b"USER_SCRAM_CREDENTIAL_RECORD", b"DELEGATION_TOKEN_RECORD", b"CONFIG_RECORD", b"[redacted "):
        assert kind in tables["metadata_records"]
    assert b"crc_mismatch" in tables["quarantine"]
    assert b"[redacted " in tables["static_configs"]


def test_nothing_has_a_secret(outputs: dict[str, bytes]) -> None:
    searched = [form for number in SECRETS for form in forms(planted(number))]
    leaks = [(name, form) for name, data in outputs.items() for form in searched if form in data]
    assert leaks == []


def test_equal_secrets_are_shown_to_be_equal(outputs: dict[str, bytes]) -> None:
    configs = b"\n".join(data for name, data in outputs.items() if "static_configs/" in name and "parquet" in name)
    digests = [word for word in configs.split(b"\n") if word.startswith(b"[redacted ")]
    assert len(digests) > len(set(digests)) >= 2
