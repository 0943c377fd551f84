"""The events that Airflow's OpenLineage provider writes to a file for a run of a DAG, over a real capture."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

POSTMORTEM = "kraft_forensics_postmortem"
_RUN = """
import json, sys
from airflow.dag_processing.dagbag import DagBag

bag = DagBag()
assert bag.import_errors == {}, bag.import_errors
assert bag.dags[sys.argv[1]].test(run_conf=json.loads(sys.argv[2])).state == "success"
"""
_COUNT = (
    "import sys, json, kraft_forensics as k; print(json.dumps(k.duckdb(sys.argv[1]).sql(sys.argv[2]).fetchall()[0]))"
)


@pytest.fixture(scope="module")
def run(kraft_forensics: str, capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(the event with which the task `run` ended, every event, the folder of the lake)."""
    folder = tmp_path_factory.mktemp("lineage")
    transport = {"type": "file", "log_file_path": str(folder / "events.jsonl"), "append": True}
    environment = os.environ | {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "test",
    }
    times = {"incident_from": "2026-11-21T00:39:00Z", "incident_to": "2026-11-21T00:42:00Z"}
    conf = {"captures": [str(capture)], "folder": str(folder / "out"), **times}
    # A process of its own: the provider reads its settings when Airflow loads its plugins.
    environment["PYTHONPATH"] = environment["AIRFLOW__CORE__DAGS_FOLDER"]
    command = [sys.executable, "-c", _RUN, POSTMORTEM, json.dumps(conf)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    (lake,) = (folder / "out").glob("*/lake")
    (ended,) = [e for e in events if e["job"]["name"] == f"{POSTMORTEM}.run" and e["eventType"] == "COMPLETE"]
    return ended, events, lake


def test_the_captures_are_inputs(run: Any, capture: Path) -> None:
    assert [(i["namespace"], i["name"]) for i in run[0]["inputs"]] == [("file", str(capture))]


def test_the_tables_of_the_lake_are_outputs_with_their_rows(run: Any, kraft_forensics: str) -> None:
    ended, _, lake = run
    rows = {o["name"]: o["outputFacets"]["outputStatistics"]["rowCount"] for o in ended["outputs"]}
    assert {o["namespace"] for o in ended["outputs"]} == {"file"}
    query = "select (select count(*) from findings) f, (select count(*) from metadata_records) r"
    done = subprocess.run(
        [Path(kraft_forensics).with_name("python"), "-c", _COUNT, lake, query],
        capture_output=True,
        text=True,
        check=True,
    )
    found, records = json.loads(done.stdout)
    assert (rows[f"{lake}/findings"], rows[f"{lake}/metadata_records"]) == (found, records)
    assert all((Path(name) / "_delta_log").is_dir() for name in rows)


def test_the_runs_facet_has_the_findings(run: Any) -> None:
    (cluster,) = run[0]["run"]["facets"]["kraft_forensics"]["clusters"]
    assert (cluster["lost_records"], cluster["answer"]) == (170, "lost")
    assert cluster["proven"] > 0


def test_other_tasks_have_no_datasets(run: Any) -> None:
    for event in run[1]:
        if event["job"]["name"] != f"{POSTMORTEM}.run":
            assert not event["inputs"] + event["outputs"], event["job"]["name"]
