"""Kafka's jars of one release, from Maven."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from drill.errors import DrillError

_POM = Path(__file__).with_name("pom.xml")
CLIENT = Path(__file__).with_name("DrillClient.java")


def fetch(release: str, jars: Path) -> Path:
    """The folder with the jars of a release and the compiled client, absolute, since nodes run in folders of their own;
    Maven fetches them the first time.

    Errors: DrillError if Maven or javac fails.
    """
    if re.fullmatch(r"[0-9]+(\.[0-9]+){1,3}", release) is None:
        raise DrillError(f"{release!r} is no release of Kafka, e.g. 4.3.1")
    folder = jars.absolute() / release
    ready = folder / ".ready"
    source = CLIENT.read_text(encoding="utf-8")
    if ready.exists() and ready.read_text(encoding="utf-8") == source:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob("kafka-clients-*.jar")):
        words = ["mvn", "--quiet", "--batch-mode", "-f", str(_POM), f"-Dkafka.version={release}"]
        _call([*words, "dependency:copy-dependencies", f"-DoutputDirectory={folder}"])
    _call(["javac", "-nowarn", "-cp", f"{folder}/*", "-d", str(folder), str(CLIENT)])
    ready.write_text(source, encoding="utf-8")
    return folder


def _call(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        raise DrillError(f"a drill needs {command[0]}, which is not installed")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise DrillError(f"{' '.join(command[:4])} failed: {' '.join(done.stdout.split())[-400:]}")
