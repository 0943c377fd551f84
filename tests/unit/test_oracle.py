"""Against the answers of Kafka's own classes, without Spark."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evidence.metadata_log.inspect import inspect_file
from tests.support.oracle import assert_equals_replay, captured_replay
from tests.support.paths import ORACLE, capture, controllers
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
