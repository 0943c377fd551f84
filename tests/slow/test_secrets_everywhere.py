"""Secrets of every kind in a capture, by the command line as a site runs it: nothing that it leaves or prints has one.

One ingest runs its tasks in Spark, whose event log is on. The site has a key: digests, never values.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.test_secrets import capture, forms, planted
from tests.support.paths import ROOT

SECRETS = range(100)
SECONDS = 500


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
    """A capture with secrets of every kind, those of tests/spark/test_secrets.py included."""
    capture(folder)
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
        "run": ["run", str(given), "--verdict", str(root / "verdict.json"), "--verbose"],
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
    assert any(name.startswith("verdict") and name.endswith(".json") for name in outputs)
    assert "lake/report.html" in outputs


def test_nothing_has_a_secret(outputs: dict[str, bytes]) -> None:
    searched = [form for number in SECRETS for form in forms(planted(number))]
    leaks = [(name, form) for name, data in outputs.items() for form in searched if form in data]
    assert leaks == []


def test_equal_secrets_are_shown_to_be_equal(outputs: dict[str, bytes]) -> None:
    configs = b"\n".join(data for name, data in outputs.items() if "static_configs/" in name and "parquet" in name)
    digests = [word for word in configs.split(b"\n") if word.startswith(b"[redacted ")]
    assert len(digests) > len(set(digests)) >= 2
