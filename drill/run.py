"""Play a scenario, run the pipeline on what was captured, and score it."""

import contextlib
import json
import os
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import Environment

from drill.client import client
from drill.disks import small_disks
from drill.errors import DrillError, call
from drill.follow import follow, follow_carelessly
from drill.ledger import Ledger
from drill.network import CLIENT, Places, network
from drill.nodes import BROKERS, CLUSTER_ID, CONTROLLERS, NODES, check_memory, cluster, fetch, wait_for
from drill.salvage import salvage_all
from drill.scenario import DrillScenario
from drill.score import DECIDED, JUDGED, SUFFIXES, lake_of, score
from drill.steps import Drill
from drill.watched import compare, watching
from evidence.text_files import read_properties

Row = dict[str, Any]
Say = Callable[[str], None]
RESULT, TRUTH = "result.json", "truth.json"
LAKE, WITHOUT_LOGS = "lake", "without-logs"
# What a monitor of consumer lag was told, so often.
MONITOR, MONITOR_MS = "monitor", 5_000
_CONFIGS = Path(__file__).with_name("server.properties")
_TEMPLATE = Path(__file__).with_name("drill.md.j2")


def play_and_score(scenario: DrillScenario, release: str, seed: int, jars: Path, out: Path, say: Say) -> Row:
    """Play a scenario and score the verdicts. out: a new folder for captures, lakes, truth.json and result.json.

    Returns what result.json holds. Errors: DrillError; every process has ended then, too.
    """
    if not scenario.runs_on(release):
        raise DrillError(f"scenario {scenario.name} needs Kafka {scenario.releases} or newer, not {release}")
    if os.geteuid() and (scenario.cuts_network or scenario.disks_mib):
        raise DrillError(f"scenario {scenario.name} cuts links or fills a disk, which needs root")
    check_memory()
    fetched = fetch(release, jars)
    out.mkdir(parents=True)
    begun = time.monotonic()
    with TemporaryDirectory(prefix="drill-") as folder:
        drill = _play(scenario, fetched, seed, Path(folder), out, say)
        played_s = time.monotonic() - begun
        say("run the pipeline on the captures")
        scored = score_captures(drill.captures, out, drill.ledger, drill.described)
        if scenario.watch:
            compare(drill)
    result = {
        "scenario": scenario.name,
        "release": release,
        "seed": seed,
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}",
        "commit": _commit(),
        "as_expected": scenario.expected.any or set(scored["lost"]) == set(scenario.expected.lost),
        "captures": len(drill.captures),
        "records": drill.ledger.acknowledged(),
        **scored,
        "wrong": scored["wrong"] + drill.wrong,
        "journal": drill.journal,
        **drill.told,
        "played_s": round(played_s),
        "scored_s": round(time.monotonic() - begun - played_s),
    }
    (out / RESULT).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def _play(scenario: DrillScenario, jars: Path, seed: int, folder: Path, out: Path, say: Say) -> Drill:
    """A drill that was played, with its captures; all processes have ended. folder: a new one for the nodes."""
    configs = {**read_properties(_CONFIGS.read_bytes()), "broker.session.timeout.ms": str(scenario.session_ms)}
    configs |= scenario.configs
    ledger = Ledger()
    disks = {folder / f"node-{broker}" / "data": mib for broker, mib in scenario.disks_mib.items()}
    where = network(NODES) if scenario.cuts_network else contextlib.nullcontext(Places(NODES))
    with where as places, small_disks(disks), cluster(folder, jars, configs, scenario, places) as nodes:
        say(f"start {len(CONTROLLERS)} controllers and {len(BROKERS)} brokers of Kafka {jars.name}")
        nodes.start([*CONTROLLERS, *BROKERS])
        with client(jars, nodes.servers, places.inside(CLIENT), ledger, folder / "client.log") as asked:
            drill = Drill(scenario, nodes, asked, ledger, random.Random(seed), out, say)
            wait_for("all brokers are unfenced", lambda: set(asked.ask("brokers")) == set(BROKERS))
            for topic in scenario.topics:
                drill.create(topic)
            topics = set(scenario.topics)
            wait_for(
                "all topics have leaders", lambda: topics <= {r["topic"] for r in drill.partitions() if r["leader"] > 0}
            )
            (out / MONITOR).mkdir()
            (out / MONITOR / "capture.toml").write_text(f'cluster_id = "{CLUSTER_ID}"\n', encoding="utf-8")
            asked.ask("monitor", str(out / MONITOR), MONITOR_MS)
            with watching(drill) if scenario.watch else contextlib.nullcontext():
                drill.play(scenario.steps)
            followed = follow(drill) if scenario.plan else None
            drill.heal()
            drill.describe()
            drill.read_topics(scenario.topics)
            time.sleep(6)  # brokers write their checkpoints every five seconds
            drill.capture()
            if drill.kept:
                salvage_all(drill)
            if followed:
                follow_carelessly(drill, followed)
    truth = {"journal": drill.journal, "partitions": ledger.as_json(), "described": drill.described}
    (out / TRUTH).write_text(json.dumps(truth) + "\n", encoding="utf-8")
    return drill


def score_again(folder: Path) -> Row:
    """Judge a drill's captures anew, with the rules of this code. folder: what `play_and_score` filled.

    Returns what result.json holds then. Errors: DrillError if the folder is not a drill's.
    """
    try:
        result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        truth = json.loads((folder / TRUTH).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DrillError(f"{folder}: no finished drill: {error}") from error
    captures = [folder / f"capture-{number + 1}" for number in range(result["captures"])]
    for made in (WITHOUT_LOGS, *(LAKE + suffix.replace("_", "-") for suffix in SUFFIXES)):
        shutil.rmtree(folder / made, ignore_errors=True)
    scored = score_captures(captures, folder, Ledger.from_json(truth["partitions"]), truth["described"])
    scored["wrong"] += [row for row in result["wrong"] if row["kind"] not in JUDGED]
    result |= {**scored, "commit": _commit()}
    (folder / RESULT).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return dict(result)


def score_captures(captures: Sequence[Path], out: Path, ledger: Ledger, described: Sequence[Row]) -> Row:
    """Run the pipeline on folders that `collect` wrote, with and without the nodes' own logs, and, if the drill had
    a monitor, both with what that was told, too; and compare.

    out: the folder for the lakes. described: answers of `describe`.
    """
    without = shutil.ignore_patterns("logs")
    bare = [Path(shutil.copytree(each, out / WITHOUT_LOGS / each.name, ignore=without)) for each in captures]
    told = [out / MONITOR] if (out / MONITOR).exists() else []
    given = (captures, bare, [*captures, *told], [*bare, *told])
    lakes = {}
    for suffix, each in zip(SUFFIXES, given[: 4 if told else 2], strict=False):
        lakes[suffix] = out / (LAKE + suffix.replace("_", "-"))
        lake_of(lakes[suffix], each)
    return score(lakes, ledger, described)


def page(result: Mapping[str, Any], scenario: DrillScenario) -> str:
    """One drill as Markdown (drill.md.j2). result: what `play_and_score` returns."""
    environment = Environment(trim_blocks=True, keep_trailing_newline=True, finalize=lambda v: "" if v is None else v)
    environment.filters["clock"] = lambda at_ms: f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"
    environment.filters["counts"] = lambda counts: ", ".join(f"{name}: {count}" for name, count in counts.items())
    environment.filters["decided"] = _decided
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(result=result, scenario=scenario)


def _decided(verdicts: Mapping[str, int]) -> str:
    whole = sum(verdicts.values())
    return f"{100 * sum(verdicts.get(name, 0) for name in DECIDED) / whole:.0f} %" if whole else "-"


def _commit() -> str | None:
    """The commit of this code; None where it is not in a clone."""
    with contextlib.suppress(DrillError):
        return call("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD").strip()
    return None
