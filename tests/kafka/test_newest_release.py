"""A new Kafka release is noticed here. Needs the network: Maven is asked what its repository has now."""

import re
import subprocess
from pathlib import Path

from evidence.wire.schemas import RELEASE
from tests.kafka.conftest import RELEASES
from tests.support.paths import ROOT

POM = ROOT / "tests" / "kafka" / "newest-pom.xml"


def newest_release(known: str, folder: Path) -> str:
    """The highest version of kafka-metadata from `known` on whose jar Maven can fetch."""
    listed = folder / "resolved.txt"
    command = ["mvn", "--quiet", "--batch-mode", "--update-snapshots", "-f", str(POM), f"-Dknown.version={known}"]
    command += ["dependency:list", f"-DoutputFile={listed}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"Maven could not say which release of Kafka is the newest:\n{done.stdout}"
    found = re.search(r"org\.apache\.kafka:kafka-metadata:jar:([^:\s]+):", listed.read_text())
    assert found, f"no kafka-metadata in what Maven resolved:\n{listed.read_text()}"
    return found[1]


def test_the_newest_release_of_kafka_is_known_and_one_that_is_not_would_be_noticed(tmp_path: Path) -> None:
    """In one test: two of Maven at once would write to one repository."""
    newest = newest_release(RELEASES[-1], tmp_path)
    assert newest == RELEASES[-1] == RELEASE, (
        f"Kafka {newest} is out, and the newest release that is known here is {RELEASES[-1]} "
        f"(schemas of records: {RELEASE}). CONTRIBUTING.md, 'A new Kafka release', says what to do."
    )
    assert newest_release(RELEASES[-2], tmp_path) not in RELEASES[:-1]
