"""Kafka's jars of one release, from Maven."""

import re
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL, SIGTERM
from tempfile import TemporaryDirectory

from drill.errors import DrillError, call
from drill.nodes import SHARED_CLASSES, combined_nodes, wait_for

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
    with suppress(DrillError):
        _share_classes(folder)
    ready.write_text(source, encoding="utf-8")
    return folder


def _share_classes(jars: Path) -> None:
    """Let a node run once and leave its classes as they are when they are loaded: others start with half the work."""
    shared = jars / SHARED_CLASSES
    shared.unlink(missing_ok=True)
    with TemporaryDirectory(prefix="drill-") as folder:
        (node,), _ = combined_nodes(Path(folder), jars, [1], {})
        node.begin(jars, options=[f"-XX:ArchiveClassesAtExit={shared}"])
        try:
            wait_for("a node starts", node.has_started)
            node.end(SIGTERM)
        finally:
            node.end(SIGKILL)
