"""Kafka's jars of one release, from Maven."""

from __future__ import annotations

import re
from pathlib import Path

from drill.errors import DrillError, call

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
        call(*words, "dependency:copy-dependencies", f"-DoutputDirectory={folder}")
    call("javac", "-nowarn", "-cp", f"{folder}/*", "-d", str(folder), str(CLIENT))
    ready.write_text(source, encoding="utf-8")
    return folder
