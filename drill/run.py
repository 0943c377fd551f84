"""Play a scenario, run the pipeline on what was captured, and score it."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from drill.chance import play_chance
from drill.client import client
from drill.errors import DrillError
from drill.jars import fetch
from drill.ledger import Ledger
from drill.nodes import BROKERS, CONTROLLERS, check_memory, cluster, wait_for
from drill.scenario import Scenario
from drill.score import Score, score
from drill.steps import Drill

Row = dict[str, Any]
Say = Callable[[str], None]
RESULT, RESULTS = "result.json", "results.jsonl"
# A broker's session is much longer than what a busy machine delays; all other figures follow from small clusters.
_CONFIGS = {
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "controller.quorum.fetch.timeout.ms": "4000",
    "controller.quorum.election.timeout.ms": "2000",
    "leader.imbalance.check.interval.seconds": "30",
    "unclean.leader.election.interval.ms": "5000",
    "controlled.shutdown.enable": "true",
}


def play_and_score(scenario: Scenario, release: str, seed: int, jars: Path, out: Path, say: Say) -> Row:
    """Play a scenario and score the verdicts. out: a new folder for captures, lakes, truth.json and result.json.

    Returns what result.json holds. Errors: DrillError; every process has ended then, too.
    """
    if not scenario.runs_on(release):
        raise DrillError(f"scenario {scenario.name} needs Kafka {scenario.releases} or newer, not {release}")
    check_memory()
    fetched = fetch(release, jars)
    out.mkdir(parents=True)
    begun = time.monotonic()
    with TemporaryDirectory(prefix="drill-") as folder:
        drill = _play(scenario, fetched, seed, Path(folder), out, say)
    played_s = time.monotonic() - begun
    say("run the pipeline on the captures")
    scored = _score(drill, out)
    scored_s = time.monotonic() - begun - played_s
    result = {**_result(drill, scored, release, seed), "played_s": round(played_s), "scored_s": round(scored_s)}
    (out / RESULT).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def _play(scenario: Scenario, jars: Path, seed: int, folder: Path, out: Path, say: Say) -> Drill:
    configs = {"broker.session.timeout.ms": str(scenario.session_ms), **_CONFIGS, **scenario.configs}
    ledger = Ledger()
    with cluster(folder, jars, configs, scenario.elr) as nodes:
        say(f"start {len(CONTROLLERS)} controllers and {len(BROKERS)} brokers of Kafka {jars.name}")
        nodes.start([*CONTROLLERS, *BROKERS])
        with client(jars, nodes.servers, ledger, folder / "client.log") as asked:
            drill = Drill(scenario, nodes, asked, ledger, random.Random(seed), out, say, play_chance)
            wait_for("all brokers are unfenced", lambda: set(asked.ask("brokers")) == set(BROKERS))
            for topic in scenario.topics:
                drill.create(topic)
            topics = set(scenario.topics)
            wait_for(
                "all topics have leaders", lambda: topics <= {r["topic"] for r in drill.partitions() if r["leader"] > 0}
            )
            drill.play(scenario.steps)
            drill.heal()
            drill.described.append(asked.ask("describe"))
            drill.read_topics(scenario.topics)
            time.sleep(6)  # brokers write their checkpoints every five seconds
            drill.capture()
    truth = {
        "journal": drill.journal,
        "records": [
            {"topic_id": topic_id, "partition": ledger.name((topic_id, number)), **asdict(record)}
            for (topic_id, number), records in ledger.records.items()
            for record in records
        ],
        "described": drill.described,
    }
    (out / "truth.json").write_text(json.dumps(truth) + "\n", encoding="utf-8")
    return drill


def _score(drill: Drill, out: Path) -> Score:
    from jobs.pipeline import Pipeline

    bare = [_without_logs(capture, out / "without-logs") for capture in drill.captures]
    lakes = out / "lake", out / "lake-without-logs"
    for lake, captures in zip(lakes, (drill.captures, bare), strict=True):
        pipeline = Pipeline(str(lake), [str(capture) for capture in captures])
        pipeline.ingest()
        pipeline.replay()
        pipeline.detect()
    return score(*lakes, drill.ledger, drill.described)


def _without_logs(capture: Path, folder: Path) -> Path:
    """A copy of a capture as it would be if nobody had copied the nodes' own logs."""
    return Path(shutil.copytree(capture, folder / capture.name, ignore=shutil.ignore_patterns("logs")))


def _result(drill: Drill, scored: Score, release: str, seed: int) -> Row:
    expected = drill.scenario.expected
    as_expected = expected.any or set(scored.lost) == set(expected.lost)
    return {
        "scenario": drill.scenario.name,
        "release": release,
        "seed": seed,
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}",
        "as_expected": as_expected,
        "records": drill.ledger.acknowledged(),
        **scored.as_json(),
        "journal": drill.journal,
    }


def append(results: Path, result: Row) -> None:
    """Add a drill's figures to a file of all drills, a line each."""
    kept = {name: value for name, value in result.items() if name not in ("journal", "windows")}
    with results.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(kept) + "\n")


def read_results(results: Path) -> Sequence[Row]:
    """The lines of that file. Of a scenario, release and seed the last one counts."""
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines() if line.strip()]
    return list({(r["scenario"], r["release"], r["seed"]): r for r in rows}.values())
