"""The command line on the finished lake."""

import csv
import io
import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from jobs.lake.lake import Lake
from tests.spark.conftest import Job
from tests.support import writer
from tests.support.invoked import cli

QUERY = "select topic, partition, verdict, loss_min, loss_max from findings where kind = 'hwm_regression'"


def test_sql_json_is_one_array_on_one_line(job: Job) -> None:
    result = cli("sql", f"{QUERY} and verdict = 'proven'", "--lake", job.pipeline.root, "--format", "json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    losses = {(r["topic"], r["partition"]): r["loss_min"] for r in json.loads(result.stdout)}
    assert losses == {("ledger", 0): 70, ("ledger", 2): 70, ("audit", 1): 30, ("t2", 6): 6}


def test_sql_csv_quotes_formulas(job: Job) -> None:
    result = cli("sql", "select '=1+1' as a, -1 as b, null as c", "--lake", job.pipeline.root, "--format", "csv")
    assert list(csv.reader(io.StringIO(result.stdout))) == [["a", "b", "c"], ["'=1+1", "-1", ""]]


def test_detect_fails_on_proven_findings_with_fail_on(job: Job) -> None:
    assert cli("detect", "--lake", job.pipeline.root, "--fail-on", "proven").exit_code == 3
    assert cli("detect", "--lake", job.pipeline.root).exit_code == 0


def test_detect_fails_on_a_severity_and_names_the_verdict_files(job: Job) -> None:
    root = job.pipeline.root.resolve()
    result = cli("detect", "--lake", root, "--fail-on", "critical")
    assert result.exit_code == 3
    for name in ("unclean", "churn"):
        written = root / f"verdict-{job.clusters[name]}.json"
        assert f"verdict:   {written}" in result.stderr.splitlines()
    index = json.loads((root / "verdict.json").read_text())
    assert (index["valid"], sorted(row["cluster_id"] for row in index["clusters"])) == (
        False,
        sorted(job.clusters.values()),
    )


def test_the_verdict_of_a_run(job: Job) -> None:
    cluster = job.clusters["unclean"]
    file = job.pipeline.root.resolve() / f"verdict-{cluster}.json"
    assert f"verdict:   {file}" in job.pipeline.summary
    found = json.loads(file.read_text())
    assert (found["valid"], found["cluster_id"]) == (False, cluster)
    assert found["windows"]["proven"] == 3
    assert found["windows"]["judged"] == sum(found["counts"]["hwm_regression"].values())
    assert (found["loss"]["acks_all_min"], found["loss"]["acks_all_max"]) == (170, None)
    by_topic = {row["topic"]: row["acks_all_min"] for row in found["loss"]["by_topic"]}
    assert by_topic == {"ledger": 140, "audit": 30}
    assert (found["log"]["first_offset"], found["log"]["last_offset"]) == (0, 321)
    assert Path(found["report"]).name == f"report-{cluster}.html"
    statuses = [found["status"][name] for name in ("new", "known", "acknowledged")]
    assert sum(statuses) == sum(found["severities"].values())
    assert sum(found["severities"].values()) == sum(sum(c.values()) for c in found["counts"].values())
    windows = found["witnesses"]["hwm_regression"]
    assert [(w["topic"], w["partition"], w["verdict"]) for w in windows] == [
        ("ledger", 0, "proven"),
        ("ledger", 2, "proven"),
        ("audit", 1, "proven"),
    ]
    assert found["evidence"]["captures"] == ["unclean"]
    assert found["evidence"]["files"] > 4000
    cli("detect", "--lake", job.pipeline.root)
    again = json.loads(file.read_text())
    assert again["status"] == {
        "new": 0,
        "known": sum(statuses),
        "acknowledged": 0,
        "new_finding_ids": [],
        "acknowledged_finding_ids": [],
    }
    for each in (found, again):
        del each["status"]
        for witnesses in each["witnesses"].values():
            for witness in witnesses:
                del witness["status"]
    assert again == found


def test_contradictory_logs_have_a_verdict(tmp_path: Path) -> None:
    """The command fails, but replaces the verdict of an earlier run."""
    home = tmp_path / "tuesday" / "controllers"
    for node, value in ((1, writer.topic("a")), (2, writer.topic("b"))):
        log = home / str(node) / "__cluster_metadata-0" / f"{0:020d}.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(writer.batch([value]))
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "verdict.json").write_text('{"valid": true}')
    result = cli("run", tmp_path / "tuesday", "--lake", lake)
    assert result.exit_code == 1
    index = json.loads((lake / "verdict.json").read_text())
    found = json.loads((lake / index["clusters"][0]["verdict"]).read_text())
    assert index["valid"] is found["valid"] is False
    assert found["counts"] == {"log_conflict": {"proven": 1}}


def test_describe_requires_a_cluster_if_there_are_several(job: Job) -> None:
    result = cli("describe", "--lake", job.pipeline.root)
    assert result.exit_code == 1
    assert all(cluster in str(result.exception) for cluster in job.clusters.values())


def test_quality_exits_with_4_when_an_invariant_is_broken(job: Job, tmp_path: Path) -> None:
    cluster = job.clusters["elr"]
    shutil.copytree(job.pipeline.root, tmp_path / "lake")
    lake = Lake(tmp_path / "lake")
    history = lake.read("partition_history", cluster)
    rows = history.to_pylist()
    broken = next(r for r in rows if not r["removed"])
    broken["isr"] = [*broken["isr"], 99]
    lake.put("partition_history", cluster, pa.Table.from_pylist(rows, history.schema))
    result = cli("quality", "--lake", tmp_path / "lake")
    assert result.exit_code == 4
    assert "partition_history.isr_within_replicas: 1 of " in result.stderr
    failed = lake.rows("quality_results", cluster, ("expectation",), ~pc.field("success"))
    assert {r["expectation"] for r in failed} == {"isr_within_replicas", "electable_reproduced"}


def test_status_says_what_was_found_the_worst_first(job: Job) -> None:
    (lake,) = json.loads(cli("status", job.pipeline.root, "--format", "json").stdout)["lakes"]
    ids = {cluster: name for name, cluster in job.clusters.items()}
    answers = [(ids[row["cluster_id"]], row["found"]["answer"]) for row in lake["clusters"]]
    assert answers == [("unclean", "lost"), ("churn", "lost"), ("elr", "nothing_lost")]
    for row in lake["clusters"]:
        of_windows = pc.field("kind") == "hwm_regression"
        windows = job.lake.rows("findings", row["cluster_id"], ("verdict", "loss_min"), of_windows)
        verdicts = Counter(window["verdict"] for window in windows)
        found = row["found"]
        assert (found["proven"], found["excluded"]) == (verdicts["proven"], verdicts["excluded"])
        assert found["open"] == verdicts["possible"] + verdicts["undetermined"]
        assert found["lost_records"] == sum(w["loss_min"] for w in windows if w["verdict"] == "proven")
