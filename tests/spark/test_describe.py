"""Compare `describe`, line by line, with every captured output of kafka-topics."""

import json
import re
import tarfile
from pathlib import Path

import pytest

from jobs.config.settings import load_settings
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.queries.describe import as_kafka_topics, partitions_at
from jobs.replay.stage import replay
from tests.spark.conftest import CAPTURES, Job
from tests.support.paths import ROOT, capture

# The captured outputs, with the number of partition lines in each, in order of time.
PRINTED = {"unclean": [8, 8, 8, 12, 12, 12, 12, 12], "elr": [7, 7, 7, 7, 12], "churn": [52, 52], "diverge": [12, 16]}


def printed(name: str) -> dict[int, str]:
    """The outputs of kafka-topics by the time, in ms, that the tool was started."""
    with tarfile.open(capture(name)) as tar:
        files = [m for m in tar if re.search(r"/cli/\d+-kafka-topics", m.name)]
        return {int(Path(m.name).name.split("-")[0]): tar.extractfile(m).read().decode() for m in files}


def topics(text: str) -> dict[str, list[str]]:
    """Topic name -> its line and the lines of its partitions. Kafka prints topics in hash map order."""
    result: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = re.match(r"\t?Topic: (\S+)\t", line)
        assert match, line
        result.setdefault(match[1], []).append(line)
    return result


def kafkas(text: str) -> dict[str, list[str]]:
    """Kafka's lines without configs, which include the broker's static ones and defaults: `describe` omits them."""
    return topics(re.sub(r"(?m)^(Topic: .*)\tConfigs: \S*$", r"\1", text))


def ours(lake: Lake, cluster: str, at_ms: int) -> dict[str, list[str]]:
    """The lines of `describe` without the fields that only `describe` prints."""
    text = as_kafka_topics(partitions_at(lake, cluster, None, None, at_ms))
    plain, lines = re.subn(r"(?m)^(\t.*)\tSince: \S+\tSinceOffset: \d+$", r"\1", text)
    assert lines == sum(line.startswith("\t") for line in text.splitlines())
    return topics(plain)


@pytest.fixture(scope="module")
def lakes(job: Job, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Lake, str]]:
    """Capture -> its lake and cluster."""
    settings = load_settings()
    other = Lake(tmp_path_factory.mktemp("diverge"))
    cluster = ingest(other, capture("diverge"), settings, lambda _: None).cluster_id
    replay(other, cluster, settings, lambda _: None)
    return {**{name: (job.lake, job.clusters[name]) for name in CAPTURES}, "diverge": (other, cluster)}


@pytest.mark.parametrize("name", PRINTED)
def test_describe_prints_every_line_that_kafka_topics_printed(lakes: dict[str, tuple[Lake, str]], name: str) -> None:
    """The tool takes seconds and the broker that it asks may lag, so any state from then would do
    (jobs/detect/printed_differences.sql); but in all that was captured the state at the tool's start is what it
    printed, in every line."""
    texts = printed(name)
    assert [text.count("\n\t") for _, text in sorted(texts.items())] == PRINTED[name]
    for started_ms, text in texts.items():
        assert ours(*lakes[name], started_ms) == kafkas(text), started_ms


def test_a_name_cannot_control_the_terminal() -> None:
    case = ROOT / "tests" / "cases" / "describe_name_that_drives_the_terminal"
    rows = json.loads((case / "rows.json").read_text(encoding="utf-8"))
    assert as_kafka_topics(rows) + "\n" == (case / "expected.txt").read_text(encoding="utf-8")
