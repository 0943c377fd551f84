"""A night by Airflow's SparkSubmitOperator and the real spark-submit."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag


def test_a_night_with_findings(
    kraft_forensics: str, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spark-submit ends with exit code 3, and the task well. A template in a capture's name stays text."""
    programs = Path(kraft_forensics).parent
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_LAUNCHER", "spark-submit")
    own = {"conf": {"spark.pyspark.python": str(programs / "python")}}
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_OPERATOR", json.dumps(own))
    captures = tmp_path / "captures" / "alpha"
    captures.mkdir(parents=True)
    (captures / "2026-03-01 {{ 7 * 7 }}.tar.xz").write_bytes(capture.read_bytes())
    conf = {"captures": str(captures.parent), "lakes": str(tmp_path / "lakes"), "late_days": 10_000}
    run = DagBag().dags["kraft_forensics_nightly"].test(run_conf=conf)
    assert run.state == "success"
    (instance,) = [task for task in run.get_task_instances() if task.task_id == "cluster.run"]
    found = instance.xcom_pull(task_ids="cluster.run", map_indexes=0)
    assert found == {"command": "run", "exit_code": 3, "findings": True}
    answer = instance.xcom_pull(task_ids="cluster.answer", map_indexes=0)
    assert (answer["cluster"], answer["valid"], answer["findings"]) == ("alpha", False, True)
    assert Path(answer["report"]).is_file()
