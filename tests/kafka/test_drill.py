"""Short drills on real clusters: what they lose is found, and nothing that is claimed is wrong.

What others left is in tests/cases/drill_*; `make drill SCENARIO=...` plays them, `make new-release` all of them.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from drill.errors import DrillError
from drill.network import CLIENT, Places, network
from drill.nodes import CLUSTER_ID, RUNS_S, wait_for
from drill.scenario import SCENARIOS
from jobs.cli.commands import app
from jobs.lake.lake import Lake
from jobs.pipeline import Pipeline
from replay.findings.kinds import HWM_REGRESSION
from tests.kafka.conftest import DRILL, LISTED

_TRIES = 3
JARS = str(DRILL)
CameAbout = Callable[[dict[str, Any]], bool]


def played(name: str, out: Path, came_about: CameAbout = bool, jars: str = JARS) -> tuple[Path, dict[str, Any]]:
    """A drill's folder and result. Its steps race against Kafka's time limits: if a busy machine is too slow, so that a
    step or the loss does not come about, a record's fate is not known, or a checkpoint is written after the capture
    that needs it (came_about), it is played again; never because a verdict was wrong."""
    for number in range(_TRIES):
        folder = out / f"try-{number}"
        words = ["drill", name, "--release", LISTED[-1], "--jars", jars, "--out", str(folder)]
        done = CliRunner().invoke(app, words)
        if not (folder / "results.jsonl").exists():
            continue
        result = json.loads((folder / "results.jsonl").read_text())
        if (result["as_expected"] and came_about(result)) or result["wrong"]:
            break
    assert done.exit_code == 0, (done.output, done.exception)
    (page,) = folder.glob("*/drill.md")
    return page.parent, result


def is_proven(result: dict[str, Any]) -> bool:
    return result["lost"].get("ledger-0", 0) >= 30 and result["found"]["ledger-0"].startswith("proven, at least ")


def test_an_unclean_election_is_proven_on_the_newest_release(tmp_path: Path) -> None:
    # A relative path, as `make drill` gives: nodes run in folders of their own.
    folder, result = played("unclean_by_config", tmp_path, is_proven, os.path.relpath(JARS))
    assert result["lost"] == {"ledger-0": 30}
    assert is_proven(result)
    assert (result["wrong"], result["as_expected"], result["states"] > 5) == ([], True, True)
    assert "30 records acknowledged with acks=all are gone" in (folder / "drill.md").read_text()
    # The folder can be scored again, and gives the same.
    again = CliRunner().invoke(app, ["drill", str(folder), "--out", str(tmp_path / "again")])
    assert again.exit_code == 0, (again.output, again.exception)
    (line,) = (tmp_path / "again" / "results.jsonl").read_text().splitlines()
    changed = {name for name, value in json.loads(line).items() if value != result[name]}
    assert changed <= {"commit", "scored_s"}
    # One capture, of when the killed leader was still down, is enough: its high watermarks were written before the
    # election.
    window = judged([folder / "capture-2"], tmp_path / "late")
    assert (window["verdict"], 0 < window["loss_min"] <= 30) == ("proven", True)


def judged(captures: Sequence[Path], lake: Path) -> dict[str, Any]:
    """The only window of some captures."""
    pipeline = Pipeline(str(lake), [str(capture) for capture in captures], engine_name="local")
    pipeline.ingest()
    pipeline.replay()
    pipeline.detect()
    windows = Lake(lake).rows("findings", CLUSTER_ID, ("kind", "verdict", "loss_min"))
    (window,) = (row for row in windows if row["kind"] == HWM_REGRESSION)
    return window


def test_links_are_cut_and_nothing_of_the_network_is_left(tmp_path: Path) -> None:
    if not can_cut():
        done = CliRunner().invoke(app, ["drill", "network_cut", "--jars", JARS, "--out", str(tmp_path)])
        assert (done.exit_code, any(why in done.output for why in ("needs root", "needs ip", "ip netns"))) == (1, True)
        return
    _, result = played("network_cut", tmp_path, is_proven)
    assert is_proven(result)
    assert (result["wrong"], result["as_expected"]) == ([], True)
    assert f"drill-{os.getpid()}-" not in namespaces()


def test_a_plan_that_is_followed_loses_nothing(tmp_path: Path) -> None:
    folder, result = played("plan_power_loss", tmp_path, lambda played: played["plan"]["held"] == 120)
    plan = result["plan"]
    assert (result["wrong"], result["lost"], plan["lost"], plan["leaderless"]) == ([], {}, {}, [])
    assert (plan["steps"][:3], plan["held"]) == (["turn_off_unclean", "copy", "start"], 120)
    # Where the brokers' starts race, the careless order loses what broker 1 lost; it may be lucky.
    assert set(plan["careless"]["lost"]) <= {"ledger-0"}
    # What a capture says of the machine that lost power.
    manifest = max(folder.glob("capture-*/capture.json"))
    uptimes = {told["id"]: told["uptime_s"] for told in json.loads(manifest.read_text())["nodes"]}
    assert [node for node, up in uptimes.items() if up <= RUNS_S] == [1]


def test_what_a_lone_leader_lost_is_got_back(tmp_path: Path) -> None:
    folder, result = played("salvage_lone_leader", tmp_path, lambda played: played["salvage"]["below"] == 40)
    assert (result["wrong"], result["lost"]) == ([], {"ledger-0": 40})
    assert result["salvage"] == {"lost": 40, "found": 40, "salvaged": 40, "live": 40, "again": 40, "below": 40}
    # Heads of the copy's batches count once a line shows that the leader knew that it was alone.
    late, kept, lake = folder / "without-logs" / "capture-3", folder / "kept-1", tmp_path / "late"
    for capture, verdict in ((late, "possible"), (kept, "possible"), (folder / "capture-3", "proven")):
        window = judged([capture], lake)
        assert window["verdict"] == verdict
    assert 0 < window["loss_min"] <= 40


def test_a_watch_of_nodes_that_is_killed_tells_everything_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenario with fewer faults, and killed sooner."""
    shorter = (SCENARIOS / "watch_nodes.toml").read_text().replace("random = 10", "random = 2")
    (tmp_path / "watch_nodes.toml").write_text(shorter)
    monkeypatch.setattr("drill.watched._LEAST_S", 25.0)
    monkeypatch.setattr("drill.watched._MOST_S", 40.0)
    scenario = str(tmp_path / "watch_nodes.toml")
    _, result = played(scenario, tmp_path, lambda played: played["watch"]["kills"] > 0)
    assert result["wrong"] == []
    assert result["watch"]["kills"] > 0
    assert result["watch"]["states"] > 10


_MAKES_A_NETWORK = """
import sys
from drill.network import network
with network([1]):
    print("made", flush=True)
    sys.stdin.read()
"""


def test_links_are_cut_and_namespaces_of_a_killed_drill_are_removed() -> None:
    if not can_cut():  # such a machine has no namespaces
        with pytest.raises(DrillError), network([1]):
            pass
        return
    words = [sys.executable, "-c", _MAKES_A_NETWORK]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as drill:
        assert drill.stdout is not None
        assert drill.stdout.readline() == "made\n"
        assert f"drill-{drill.pid}-1" in namespaces()
        drill.kill()
    wait_for("its namespaces are removed", lambda: f"drill-{drill.pid}-" not in namespaces())
    with network([1]) as made:
        assert (_reaches(made), made.outdated_since_ms(60_000)) == (True, None)
        made.disconnect([1], [CLIENT])
        assert made.disconnected == [CLIENT, 1]
        assert not _reaches(made)
        made.reconnect([1], [CLIENT])
        assert (made.disconnected, _reaches(made)) == ([], True)
        assert made.outdated_since_ms(60_000) is not None
        assert made.outdated_since_ms(0) is None
    assert f"drill-{os.getpid()}-" not in namespaces()


def can_cut() -> bool:
    """Whether namespaces can be made here: as root, with iproute2, and not in a container that forbids it."""
    return bool(shutil.which("ip")) and subprocess.run(["unshare", "--net", "true"], check=False).returncode == 0


def namespaces() -> str:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout


def _reaches(made: Places) -> bool:
    """Whether the client gets an answer from node 1: that nobody listens there."""
    program = "import socket,sys\nhost, port = sys.argv[1].split(':')\nsocket.create_connection((host, int(port)), 2)"
    words = [*made.inside(CLIENT), sys.executable, "-c", program, made.address(1)]
    return "ConnectionRefusedError" in subprocess.run(words, capture_output=True, text=True, check=False).stderr
