"""The DAGs end to end, by Airflow's own scheduler: a backfill with a killed task and a late capture, two runs at once,
a postmortem, maintenance."""

import json
import os
import shutil
import signal
import subprocess
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import timezone
from running import REPOSITORY, WAIT_S, Live

NIGHTLY, POSTMORTEM, MAINTENANCE = [f"kraft_forensics_{name}" for name in ("nightly", "postmortem", "maintenance")]
CLUSTERS = ("alpha", "beta", "gamma")
# Cluster, date, a bundled capture, and of which files of it: only the controllers', only the others, or all.
ARRIVALS = [
    ("alpha", "2026-03-01", "examples/unclean", True),
    ("alpha", "2026-03-02", "examples/unclean", False),
    ("beta", "2026-03-01T04", "tests/captures/jbod-4.1.1", None),
    ("gamma", "2026-03-02", "tests/captures/diverge", True),
    ("gamma", "2026-03-01", "tests/captures/diverge", False),  # late
]


def arrives(live: Live, complete: Path, cluster: str, date: str) -> None:
    """A capture is in the folder at once, or not at all."""
    (live.captures / cluster).mkdir(exist_ok=True)
    shutil.copytree(complete / cluster / date, live.folder / "arriving")
    (live.folder / "arriving").rename(live.captures / cluster / date)


def unpause(live: Live, dag: str) -> None:
    live.api(f"dags/{dag}", {"is_paused": False}, method="PATCH")


def processes_with(*words: str) -> list[int]:
    """Pids of processes with all these words as arguments."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = place.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has ended
        if set(words) <= set(arguments):
            found.append(int(place.parent.name))
    return found


def digests(kraft_forensics: str, *lakes: Path) -> list[dict[str, Any]]:
    """table -> (rows, digest), of each lake."""
    python = Path(kraft_forensics).parent / "python"
    program = Path(__file__).with_name("digests.py")
    done = subprocess.run([python, program, *lakes], capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def complete(live: Live) -> Path:
    """A folder with every capture of the three clusters."""
    folder = live.folder / "complete"
    for cluster, date, source, of_controllers in ARRIVALS:
        with tarfile.open(REPOSITORY / f"{source}.tar.xz") as tar:
            wanted = [m for m in tar if m.isreg() and of_controllers in (None, "/controllers/" in m.name)]
            tar.extractall(folder / cluster / date, members=wanted, filter="data")
    return folder


@pytest.fixture(scope="session")
def single(live: Live, complete: Path, kraft_forensics: str) -> Path:
    """A folder with the lakes of three runs of the command, each over all captures of a cluster."""
    lakes = live.folder / "single"
    for cluster in CLUSTERS:
        captures = sorted(map(str, (complete / cluster).iterdir()))
        command = [kraft_forensics, "run", "--lake", str(lakes / cluster), "--", *captures]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
        assert done.returncode == 0, done.stderr
    return lakes


def test_a_backfill_of_three_days(live: Live, complete: Path, single: Path, kraft_forensics: str) -> None:
    """The first day's run of one cluster is killed, and a capture of the first day arrives on the second."""
    *on_time, late = [(cluster, date) for cluster, date, *_ in ARRIVALS]
    for cluster, date in on_time:
        arrives(live, complete, cluster, date)
    unpause(live, NIGHTLY)
    days = {"from_date": "2026-03-01T00:00:00Z", "to_date": "2026-03-03T00:00:00Z", "max_active_runs": 1}
    live.api("backfills", {"dag_id": NIGHTLY, **days, "run_backwards": False, "dag_run_conf": {}})

    lake = live.lakes / "alpha"
    commits = lake / "evidence_files" / "_delta_log"
    victims = live.wait("a run in the middle", lambda: _running_after(commits, lake))
    for victim in victims:
        os.kill(victim, signal.SIGKILL)

    runs = f"dags/{NIGHTLY}/dagRuns?run_type=backfill&order_by=logical_date"
    first, second, third = [run["dag_run_id"] for run in live.api(runs)["dag_runs"]]
    live.wait("the second day's list", lambda: _state(live, second, "discover") == "success")
    arrives(live, complete, *late)

    tasks = live.ended(NIGHTLY, first)
    assert tasks["cluster.run[0]"]["try_number"] == 2  # the killed one
    assert tasks["cluster.run[1]"]["try_number"] == 1
    assert _captures(live, first) == {"alpha": ["2026-03-01"], "beta": ["2026-03-01T04"]}
    live.ended(NIGHTLY, second)
    days_of = {"alpha": ["2026-03-01", "2026-03-02"], "beta": ["2026-03-01T04"]}
    assert _captures(live, second) == days_of | {"gamma": ["2026-03-02"]}
    tasks = live.ended(NIGHTLY, third)
    assert _captures(live, third) == days_of | {"gamma": ["2026-03-01", "2026-03-02"]}

    # What people see: the label of the task, its result, the summary.
    label = tasks["cluster.answer[0]"]["rendered_map_index"]
    assert label.startswith("alpha: LOST: at least 170 acknowledged records")
    answer = live.returned(NIGHTLY, third, "cluster.answer", 0)
    assert (answer["cluster"], answer["valid"], answer["loss"]["acks_all_min"]) == ("alpha", False, 170)
    assert Path(answer["report"]).is_file()
    rows = live.returned(NIGHTLY, third, "summary")
    assert [row["cluster"] for row in rows] == ["alpha", "beta", "gamma"]

    # Each loss is reported once: on the day whose captures prove it.
    events = [json.loads(line) for line in live.events.read_text().splitlines()]
    alarms = [(event["event"], event["cluster"], event["run_id"]) for event in events]
    assert ("findings", "alpha", second) in alarms
    assert ("findings", "alpha", third) not in alarms
    assert len(set(alarms)) == len(alarms)

    # Other DAGs can follow: one event for each cluster and run, and one for each night.
    seen = live.api("assets/events?limit=500")["asset_events"]
    findings = [event["extra"]["cluster"] for event in seen if event["name"] == "kraft_forensics/findings"]
    assert sorted(findings) == ["alpha"] * 3 + ["beta"] * 3 + ["gamma"] * 2
    nights = [event["extra"]["clusters"] for event in seen if event["name"] == "kraft_forensics/nightly"]
    assert sorted(nights) == [["alpha", "beta"], ["alpha", "beta", "gamma"], ["alpha", "beta", "gamma"]]

    places = [folder / name for folder in (live.lakes, single) for name in CLUSTERS]
    found = digests(kraft_forensics, *places)
    for tables in found:
        del tables["finding_first_seen"]  # it keeps what earlier days had found
    assert found[:3] == found[3:]


def _running_after(commits: Path, lake: Path) -> list[int]:
    """Processes of the command on this lake, if a table has a commit already."""
    return processes_with("run", str(lake)) if list(commits.glob("*0.json")) else []


def _state(live: Live, run_id: str, task: str) -> str:
    return str(live.tasks(NIGHTLY, run_id)[task]["state"])


def _captures(live: Live, run_id: str) -> dict[str, list[str]]:
    """cluster -> the names of the captures that a run chose."""
    found = live.returned(NIGHTLY, run_id, "discover")
    return {one["name"]: [Path(place).name for place in one["arguments"][6:]] for one in found}


def test_two_runs_at_once_into_one_lake(live: Live, complete: Path, single: Path, kraft_forensics: str) -> None:
    unpause(live, NIGHTLY)
    conf = {"clusters": {"alpha": str(complete / "alpha")}, "lakes": str(live.folder / "shared")}
    for run_id in ("one", "two"):
        live.trigger(NIGHTLY, run_id, conf)
    first, second = (_span(live.ended(NIGHTLY, run_id)["cluster.run[0]"]) for run_id in ("one", "two"))
    assert max(first[0], second[0]) < min(first[1], second[1])  # they overlapped
    shared, alone = digests(kraft_forensics, live.folder / "shared" / "alpha", single / "alpha")
    assert shared == alone


def _span(task: dict[str, Any]) -> tuple[datetime, datetime]:
    return timezone.parse(task["start_date"]), timezone.parse(task["end_date"])


def test_a_postmortem(live: Live) -> None:
    """The report path is the result."""
    unpause(live, POSTMORTEM)
    capture = str(REPOSITORY / "examples" / "unclean.tar.xz")
    span = {"incident_from": "2026-11-21T00:39:00Z", "incident_to": "2026-11-21T01:42:00+01:00"}
    live.trigger(POSTMORTEM, "incident-4711", {"captures": [capture], **span})
    live.ended(POSTMORTEM, "incident-4711")
    report = Path(live.returned(POSTMORTEM, "incident-4711", "result"))
    assert report == live.folder / "postmortems" / "incident-4711" / "report.html"
    assert "LOST" in report.read_text()


def test_maintenance_changes_no_row(live: Live, complete: Path, single: Path, kraft_forensics: str) -> None:
    lakes = [single / name for name in CLUSTERS]
    captured = sorted(complete.rglob("*"))
    before = digests(kraft_forensics, *lakes)
    unpause(live, MAINTENANCE)
    live.trigger(MAINTENANCE, "weekly", {"lakes": str(single)})
    tasks = live.ended(MAINTENANCE, "weekly")
    wanted = {f"lake.{command}[{index}]" for command in ("forget", "maintain", "verify") for index in range(3)}
    assert set(tasks) == {"discover"} | wanted
    assert {tasks[name]["rendered_map_index"] for name in wanted} == set(CLUSTERS)
    assert digests(kraft_forensics, *lakes) == before
    assert sorted(complete.rglob("*")) == captured
