"""Collecting on a real Airflow: the real command visits folders that stand for a cluster's nodes."""

import json
import subprocess
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.utils.session import create_session
from kraft_forensics_dags.captures import capture_name, captures_of, moment_of, nodes_of
from sqlalchemy import select
from test_dags import COLLECT, LIGHT, load, tasks_of

NODES = {3000: "controllers/3000", 3001: "controllers/3001", 3002: "controllers/3002", 1: "disks/broker-1"}
FAR = timedelta(days=1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, capture: Path) -> Path:
    """The folders of a real cluster's nodes, each with a log of its own."""
    folder = tmp_path_factory.mktemp("cluster")
    with tarfile.open(capture) as tar:
        tar.extractall(folder, filter="data")
    for place in NODES.values():
        (folder / "unclean" / place / "server.log").write_text("[2026-11-21 00:40:00,000] INFO x (kafka.server)\n")
    return folder / "unclean"


def write_nodes(file: Path, cluster: Path, **more: str) -> None:
    """A file of nodes. more: further nodes, id to path."""
    places = {str(node): str(cluster / place) for node, place in NODES.items()} | more
    entries = (f'[[node]]\nid = {node}\nat = "local:"\npath = "{path}"\n' for node, path in places.items())
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(entries))


def conf(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {"nodes": str(tmp_path / "nodes"), "captures": str(tmp_path / "captures"), **more}


def chosen_tonight(folder: Path) -> list[Path]:
    """What the nightly DAG would read of a cluster's folder."""
    now = datetime.now(UTC)
    return [Path(place) for place in captures_of(str(folder), now - FAR, now + FAR, timedelta())]


def names_in(capture: Path) -> set[str]:
    """Names in a capture, without the folder that they are in."""
    with tarfile.open(capture) as tar:
        return {name.partition("/")[2] for name in tar.getnames()}


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hook that writes each event as a line."""
    (tmp_path / "plugins").mkdir()
    file = tmp_path / "events"
    lines = [
        "import json",
        "from pathlib import Path",
        "def keep(event):",
        f"    with Path({str(file)!r}).open('a') as out:",
    ]
    code = "\n".join([*lines, "        print(json.dumps(event), file=out)", ""])
    (tmp_path / "plugins" / f"hook_{tmp_path.name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path / "plugins")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_HOOK", f"hook_{tmp_path.name}:keep")
    return file


def test_names_are_never_the_same_and_the_nightly_dag_finds_them() -> None:
    moment = datetime(2026, 11, 21, 23, 0, 4, tzinfo=UTC)
    names = [
        capture_name(cluster, moment + timedelta(seconds=seconds), light)
        for cluster in ("payments", "orders")
        for seconds in (0, 1)
        for light in (False, True)
    ]
    assert len(set(names)) == 8
    assert names[:2] == ["2026-11-21T230004Z-payments.tar.gz", "2026-11-21T230004Z-payments-light.tar.gz"]
    assert {moment_of(name) for name in names} == {moment, moment + timedelta(seconds=1)}


def test_clusters_are_files_of_nodes_with_plain_names(tmp_path: Path) -> None:
    for name in ("beta.toml", "alpha-1.eu.toml", "-option.toml", ".toml", "with space.toml", "alpha.toml.bak"):
        (tmp_path / name).touch()
    (tmp_path / "folder.toml").mkdir()
    assert nodes_of(str(tmp_path)) == {name: str(tmp_path / f"{name}.toml") for name in ("alpha-1.eu", "beta")}


def test_both_dags_collect_what_the_nightly_dag_reads(kraft_forensics: str, tmp_path: Path, cluster: Path) -> None:
    for name in ("alpha", "beta"):
        write_nodes(tmp_path / "nodes" / f"{name}.toml", cluster)
    for dag, folder in ((COLLECT, "captures"), (LIGHT, "rounds"), (LIGHT, "rounds")):
        run = load(dag).test(run_conf=conf(tmp_path, captures=str(tmp_path / folder)))
        assert tasks_of(run) == dict.fromkeys(("discover", "collect[0]", "collect[1]"), ("success", 1))
    for name in ("alpha", "beta"):
        [whole], light = (chosen_tonight(tmp_path / folder / name) for folder in ("captures", "rounds"))
        assert len(light) == 2
        assert {
            "node-3000/logdir0/__cluster_metadata-0/00000000000000000000.log",
            "node-1/logs/server.log",
        } <= names_in(whole)
        for inside in map(names_in, light):
            assert {"node-1/boot_id", "node-1/logdir0/replication-offset-checkpoint"} <= inside
            assert not [file for file in inside if "__cluster_metadata-0" in file or "/logs/" in file]
    lake = tmp_path / "lake"
    subprocess.run([kraft_forensics, "ingest", "--lake", lake, whole, *light], check=True, capture_output=True)
    done = subprocess.run([kraft_forensics, "status", lake, "--captures", "--format", "json"], capture_output=True)
    [state] = json.loads(done.stdout)["lakes"]
    assert len(state["clusters"]) == 1
    names = {path.name.removesuffix(".tar.gz") for path in (whole, *light)}
    assert {row["capture"] for row in state["captures"]} == names
    with create_session() as session:
        told = session.scalars(select(AssetEvent)).all()
        extras = [event.extra for event in told if event.asset.name == "kraft_forensics/captures"]
    captures = {extra["cluster"]: extra["capture"] for extra in extras}
    assert captures == {n: str(chosen_tonight(tmp_path / "captures" / n)[0]) for n in ("alpha", "beta")}


def test_a_url_gets_the_capture(kraft_forensics: str, tmp_path: Path, cluster: Path) -> None:
    write_nodes(tmp_path / "nodes" / "alpha.toml", cluster)
    (tmp_path / "bucket" / "alpha").mkdir(parents=True)
    run = load(LIGHT).test(run_conf=conf(tmp_path, captures=(tmp_path / "bucket").as_uri()))
    assert run.state == "success"
    [path] = chosen_tonight(tmp_path / "bucket" / "alpha")
    assert "node-1/boot_id" in names_in(path)


def test_a_node_that_is_missing_is_an_alarm_and_the_others_are_kept(
    kraft_forensics: str, tmp_path: Path, cluster: Path, events: Path
) -> None:
    write_nodes(tmp_path / "nodes" / "alpha.toml", cluster, **{"2": str(tmp_path / "nowhere")})
    write_nodes(tmp_path / "nodes" / "beta.toml", cluster)
    run = load(COLLECT).test(run_conf=conf(tmp_path))
    assert tasks_of(run) == {"discover": ("success", 1), "collect[0]": ("failed", 1), "collect[1]": ("success", 1)}
    [path] = chosen_tonight(tmp_path / "captures" / "alpha")
    assert "node-3000/logdir0/meta.properties" in names_in(path)
    [event] = map(json.loads, events.read_text().splitlines())
    assert (event["event"], event["dag_id"], event["task_id"], event["map_index"]) == ("failure", COLLECT, "collect", 0)
    assert event["rendered_map_index"] == "alpha"
    assert f"{path} is incomplete" in event["text"]
    assert "node 2: " in event["text"]


def test_no_capture_at_all_is_tried_again(kraft_forensics: str, tmp_path: Path, events: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "alpha.toml").write_text('[[node]]\nid = 1\nat = "local"\n[[node]]\n')
    run = load(COLLECT).test(run_conf=conf(tmp_path))
    assert tasks_of(run)["collect[0]"] == ("failed", 2)
    assert "alpha.toml" in json.loads(events.read_text())["text"]
    assert not list((tmp_path / "captures" / "alpha").iterdir())


def test_no_file_of_nodes_fails_for_good(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    assert tasks_of(load(COLLECT).test(run_conf=conf(tmp_path)))["discover"] == ("failed", 1)


def test_the_nightly_dag_can_watch_that_captures_are_collected(
    kraft_forensics: str, tmp_path: Path, capture: Path, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundled capture is old: its cluster is one whose captures have stopped coming."""
    (tmp_path / "captures" / "alpha").mkdir(parents=True)
    (tmp_path / "captures" / "alpha" / "2026-11-21.tar.xz").symlink_to(capture)
    folders = {"captures": str(tmp_path / "captures"), "lakes": str(tmp_path / "lakes"), "late_days": 10_000}
    folders["fail_on"] = "none"
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_MAX_AGE_HOURS", "1000000")
    nightly = load()
    assert nightly.get_task("watch").upstream_task_ids == {"cluster.answer"}
    states = tasks_of(nightly.test(run_conf=folders))
    assert {state for state, _ in states.values()} == {"success"}
    assert not events.exists()
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_MAX_AGE_HOURS", "26")
    again = {"run_conf": folders, "mark_success_pattern": r"cluster\..*|summary"}  # the lake has its answer
    run = load().test(**again)
    states = tasks_of(run)
    assert states.pop("watch") == ("failed", 1)
    assert {state for state, _ in states.values()} == {"success"}
    assert run.state == "failed"
    (tmp_path / "captures" / "never").mkdir()
    assert tasks_of(load().test(**again))["watch"] == ("failed", 2)
    old, never = map(json.loads, events.read_text().splitlines())
    assert (old["task_id"], never["task_id"]) == ("watch", "watch")
    assert "the newest record of the metadata log is" in old["text"]
    assert str(tmp_path / "lakes" / "never") in never["text"]
