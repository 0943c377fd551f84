"""Real captures of clusters that were broken on purpose, without Spark: histories against the answers of Kafka's own
classes; detection: what was lost is proven, what was not is not, and the bytes say so. Of some captures, the nodes'
own logs and boot ids were copied, too.
"""

import gzip
import hashlib
import json
from base64 import urlsafe_b64decode
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evidence.metadata_log.inspect import inspect_file
from replay.bucket import Detected, detect
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import ClusterFacts
from replay.partitions.elections import RISKY, build_elections
from tests.support.detection import cluster_of, events_of, windows, windows_of, with_topic_ids
from tests.support.oracle import assert_equals_replay, captured_replay
from tests.support.paths import ORACLE, capture, captured_file, controllers
from tests.support.pure import Decoded, decode, history_of, replayed

CAPTURES = ["unclean", "elr", "churn", "diverge"]
NEWEST = "unclean-4.4.0"


def oracle_lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(ORACLE / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@cache
def decoded(name: str) -> Decoded:
    return decode(capture(name))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Capture -> the folder that holds its controllers' folders."""
    folder = tmp_path_factory.mktemp("captures")
    return {name: controllers(name, folder) / "controllers" for name in (*CAPTURES, NEWEST)}


@pytest.mark.parametrize(("name", "versions"), [("every-record", 37), ("every-record-4.4.0", 38)])
def test_inspect_equals_kafkas_json_of_every_record_type_and_version(name: str, versions: int) -> None:
    """Kafka 4.3.1, and 4.4.0, which has UnregisterControllerRecord."""
    expected = oracle_lines(f"{name}.jsonl.gz")
    names = ("offset", "timestamp", "type", "version", "data")
    actual = [{n: row[n] for n in names} for row in inspect_file(ORACLE / f"{name}.log", show_secrets=True)]
    assert actual == expected
    assert len({(row["type"], row["version"]) for row in actual}) == versions


def test_the_payloads_that_kafka_dump_log_prints_give_the_same_records(tmp_path: Path) -> None:
    names = ("type", "version", "data")
    expected = [{n: row[n] for n in names} for row in oracle_lines("every-record-4.4.0.jsonl.gz")]
    text = tmp_path / "payloads.txt"
    text.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in expected), encoding="utf-8")
    found = [{n: row[n] for n in names} for row in inspect_file(text, show_secrets=True)]
    assert found == expected
    unregistered = [row["data"] for row in found if row["type"] == "UNREGISTER_CONTROLLER_RECORD"]
    assert {name for data in unregistered for name in data} == {"controllerId"}


WHOLE_LOGS = [*((name, node) for name in CAPTURES for node in (3000, 3002)), (NEWEST, 3000)]


@pytest.mark.parametrize(("name", "node"), WHOLE_LOGS)
def test_history_of_all_controllers_equals_kafkas_replay_of_the_majoritys_log(name: str, node: int) -> None:
    history, _ = replayed(name)
    assert_equals_replay(history.table, captured_replay(name, node))


@pytest.mark.parametrize("node", [3000, 3001, 3002])
@pytest.mark.parametrize("name", CAPTURES)
def test_history_of_one_controllers_files_equals_kafkas_replay_of_them(
    folders: dict[str, Path], name: str, node: int
) -> None:
    history, _ = history_of(decode(folders[name] / str(node)))
    assert_equals_replay(history.table, captured_replay(name, node))


def test_a_log_that_lost_is_no_part_of_the_clusters_history(folders: dict[str, Path]) -> None:
    """Controller 3001 was cut off and wrote offsets 46 to 51 of epoch 1; the others replaced them in epoch 3."""
    history, state = replayed("diverge")
    alone, its_state = history_of(decode(folders["diverge"] / "3001"))
    phantom = {i for i, name in its_state.configs.topic_names.items() if name == "phantom"}
    assert [(r["offset"], r["controller_epoch"]) for r in alone.table.to_pylist() if r["topic_id"] in phantom] == [
        (47, 1),
        (48, 1),
        (49, 1),
    ]
    lost = [b for b in decoded("diverge").batches if b["epoch"] == 1 and b["base_offset"] >= 46]
    assert (min(b["base_offset"] for b in lost), max(b["last_offset"] for b in lost)) == (46, 51)
    assert {tuple(b["nodes"]) for b in lost} == {(3001,)}
    assert set(state.shape.truncated) == {(b["epoch"], b["base_offset"]) for b in lost}
    rows = history.table.to_pylist()
    assert [r for r in rows if r["offset"] >= 46 and r["controller_epoch"] == 1] == []
    assert phantom.isdisjoint(r["topic_id"] for r in rows)
    assert phantom.isdisjoint(state.configs.topic_names)
    assert [r for r in state.records if r["offset"] >= 46 and r["epoch"] == 1] == []
    assert {r["topic"] for r in rows if r["offset"] in (48, 49, 50)} == {"phantom"}


@pytest.mark.parametrize("node", [3000, 3001, 3002])
def test_each_controller_of_kafka_4_4_has_one_history(folders: dict[str, Path], node: int) -> None:
    history, state = history_of(decode(folders[NEWEST] / str(node)))
    assert state.problems == []
    assert_equals_replay(history.table, captured_replay(NEWEST, 3000))


Row = dict[str, Any]

# (topic, partition) -> (lost acknowledged offsets, first of them), as measured when the clusters were broken.
LOST: dict[str, dict[tuple[str, int], tuple[int, int]]] = {
    "unclean": {("ledger", 0): (70, 80), ("ledger", 2): (70, 80), ("audit", 1): (30, 100)},
    "elr": {},
    "churn": {("t2", 6): (6, 15)},
    "diverge": {},
    "unclean-4.4.0": {
        ("ledger", 0): (70, 80),
        ("ledger", 2): (70, 80),
        ("audit", 1): (30, 80),
        ("legacy", 1): (30, 50),
    },
}
# What is shown without the nodes' own logs, where that is less: the last high watermark was read when the leader had
# been killed, alone in the ISR. Another process may have led in its own eyes by then, with a mark that nobody ever had.
SHOWN = {"unclean-4.4.0": {("ledger", 0): 30, ("ledger", 2): 30, ("legacy", 1): 0}}


# The same of captures with logs: offsets below the high watermark.
LOST_WITH_LOGS: dict[str, dict[tuple[str, int], tuple[int, int]]] = {
    **{f"logs-{release}": {("led", 0): (30, 20)} for release in ("3.9.1", "4.0.2", "4.1.1")},
    "logs-unclean": {("ledger", 0): (70, 80), ("ledger", 2): (70, 80), ("audit", 1): (30, 80), ("legacy", 0): (30, 50)},
    "logs-churn": {("t1", 2): (12, 15), ("t5", 4): (21, 0)},
    # Three acknowledged records, from 57 on, and a few more that were acknowledged by the leader alone.
    "logs-session": {("pair", 0): (3, 57), ("pair", 3): (3, 57)},
}
# (decided windows, all windows) without and with logs and boot ids.
DECIDED = {
    **dict.fromkeys(("logs-3.9.1", "logs-4.0.2", "logs-4.1.1"), (0, 3, 3)),
    "logs-unclean": (7, 11, 11),
    "logs-churn": (17, 19, 20),
    # A lone leader was killed, lost its end and was elected again: nothing shows what it had promised.
    "logs-session": (0, 0, 2),
}


Given = tuple[pa.Table, pa.Table, ClusterFacts, pa.Table | None]


def given(name: str, clock_error_ms: int = 0, keep: str | None = None, with_logs: bool = False) -> Given:
    """History, offsets, cluster and lines of a capture. keep: only the offset rows of this source. with_logs: also boot
    ids."""
    decoded = decode(capture(name))
    history, state = replayed(name)
    rows = decoded.offsets if keep is None else decoded.offsets.filter(pc.field("source") == keep)
    cluster = cluster_of(decoded, state, clock_error_ms, history.table if with_logs else None)
    cluster = cluster if with_logs else replace(cluster, boots={})
    events = events_of(decoded, state, history.table) if with_logs else None
    return history.table, with_topic_ids(rows, history.table), cluster, events


@cache
def detected(name: str) -> Detected:
    history, offsets, cluster, events = given(name, with_logs=name in LOST_WITH_LOGS)
    return detect(history, offsets, cluster, None, events)


def elections_of(found: Detected) -> list[Row]:
    bucket = found.bucket
    elections: list[Row] = build_elections(bucket.history, bucket.states, bucket.facts).to_pylist()
    return elections


@cache
def judged(name: str) -> list[Row]:
    return windows(detected(name).findings)


def proven(found: list[Row]) -> dict[tuple[str, int], Row]:
    return {(f["topic"], f["partition"]): f for f in found if f["verdict"] == "proven"}


@pytest.mark.parametrize("name", LOST)
def test_proven_are_exactly_the_partitions_that_lost_records(name: str) -> None:
    found = proven(judged(name))
    shown = {place: lost for place, (lost, _) in LOST[name].items()} | SHOWN.get(name, {})
    assert {place: f["loss_min"] for place, f in found.items()} == {place: n for place, n in shown.items() if n}
    for place, finding in found.items():
        lost, first = LOST[name][place]
        # Where the leader before may have been two processes it is not known what the logs shared.
        assert finding["first_lost_offset"] in (None, first)
        assert finding["loss_max"] is None or finding["loss_max"] >= lost
        assert finding["high_watermark_min"] - finding["log_end_max"] == finding["loss_min"]
        assert finding["clock_error_ms"] == {s["code"]: s["value"] for s in finding["reason"]}["clocks"]


@pytest.mark.parametrize("name", LOST)
def test_every_election_in_a_window_has_a_finding_and_nothing_else(name: str) -> None:
    findings = judged(name)
    places = [(f["topic_id"], f["partition"], f["election_offset"]) for f in findings]
    assert len(set(places)) == len(places)
    elections = {(e["topic_id"], e["partition"], e["offset"]): e for e in elections_of(detected(name))}
    assert all(elections[p]["leader"] >= 0 for p in places)
    risky = {p for p, e in elections.items() if e["cause"] in RISKY}
    assert bool(risky) == (name not in ("elr", "diverge"))
    assert risky <= set(places)
    assert {elections[p]["leader_recovery_state"] for p in risky} <= {"RECOVERING"}
    for finding in findings:
        assert finding["start_offset"] <= finding["election_offset"]
        assert finding["end_offset"] is None or finding["end_offset"] >= finding["election_offset"]


@pytest.mark.parametrize("name", ["unclean", "churn", "unclean-4.4.0"])
def test_evidence_points_at_the_bytes_that_say_so(name: str) -> None:
    checked = set()
    for finding in proven(judged(name)).values():
        for row in finding["evidence"]:
            data = captured_file(name, row["path"])
            assert hashlib.sha256(data).hexdigest() == row["sha256"]
            data = data[row["position"] :]
            line = data.split(b"\n", 1)[0].decode("utf-8", "replace")
            if row["source"] == "partition_history":
                assert urlsafe_b64decode(f"{finding['topic_id']}==") in data[:128]
            elif row["source"] == "leader_epoch":
                assert line == f"{row['leader_epoch']} {row['value']}"
            elif row["source"] == "replication_offset":
                assert line == f"{finding['topic']} {finding['partition']} {row['value']}"
            else:
                assert f'topic="{finding["topic"]}"' in line
                assert float(line.rsplit(" ", 1)[1]) == row["value"]
            checked.add((row["source"], row["role"]))
    roles = {"high_watermark_floor", "leader_log_end", "window_start", "state_before", "election"}
    assert roles <= {role for _, role in checked}
    assert {"partition_history", "leader_epoch", "replication_offset"} <= {source for source, _ in checked}


@pytest.mark.parametrize("source", ["replication_offset", "leader_epoch", "jmx_exporter"])
def test_nothing_is_proven_from_one_kind_of_evidence_alone(source: str) -> None:
    assert proven(windows_of(*given("unclean", keep=source))) == {}


@pytest.mark.parametrize("name", ["unclean", "churn"])
def test_clocks_that_may_be_wrong_by_more_than_the_incident_prove_nothing(name: str) -> None:
    """And a larger error never proves more."""
    found = [judged(name), *(windows_of(*given(name, error_ms)) for error_ms in (2_000, 20_000, 3_600_000))]
    proofs = [set(proven(each)) for each in found]
    assert all(after <= before for before, after in pairwise(proofs))
    assert proofs[-1] == set()


def test_without_any_broker_records_nobody_is_a_candidate() -> None:
    """Whose file it was, and which process wrote a line, is not known without them."""
    history, offsets, cluster, _ = given("unclean")
    found = detect(history, offsets, replace(cluster, brokers=BrokerTimeline()))
    assert proven(windows(found.findings)) == {}
    assert {tuple(e["candidates"]) for e in elections_of(found)} == {()}


@pytest.mark.parametrize("name", LOST_WITH_LOGS)
def test_no_verdict_is_wrong(name: str) -> None:
    for window in judged(name):
        lost, first = LOST_WITH_LOGS[name].get((window["topic"], window["partition"]), (0, None))
        if window["verdict"] == "proven":
            assert 0 < window["loss_min"] <= lost
            assert window["first_lost_offset"] in (None, first)
            assert window["loss_max"] is None or window["loss_max"] >= lost
    # No line contradicts a log that is as it was written.
    assert "log_line_mismatch" not in detected(name).findings["kind"].to_pylist()
    lossless = {(w["topic"], w["partition"]) for w in judged(name)} - {
        (w["topic"], w["partition"]) for w in judged(name) if w["verdict"] != "excluded"
    }
    assert not lossless & set(LOST_WITH_LOGS[name])


@pytest.mark.parametrize("name", LOST_WITH_LOGS)
def test_the_share_of_decided_windows(name: str) -> None:
    rows_of = windows_of(*given(name)), judged(name)
    counts = [sum(w["verdict"] in ("proven", "excluded") for w in rows) for rows in rows_of]
    assert (*counts, len(judged(name))) == DECIDED[name]


def test_logs_bound_a_loss_exactly() -> None:
    exact = {
        (name, w["topic"], w["partition"]): (w["loss_min"], w["loss_max"], w["first_lost_offset"])
        for name in ("logs-unclean", "logs-churn")
        for w in judged(name)
        if w["loss_max"] and w["loss_min"] == w["loss_max"]
    }
    assert exact == {("logs-unclean", "audit", 1): (30, 30, 80), ("logs-churn", "t5", 4): (21, 21, 0)}


@pytest.mark.parametrize("name", ["logs-4.0.2", "logs-unclean", "logs-churn"])
def test_evidence_points_at_the_line(name: str) -> None:
    cited = 0
    for window in judged(name):
        for row in window["evidence"]:
            if row["path"].endswith(".log") and "/logs/" in f"/{row['path']}":
                line = captured_file(name, row["path"])[row["position"] :].split(b"\n", 1)[0].decode()
                assert str(row["value"]) in line
                cited += 1
    assert cited >= 3
