"""Captures ingested in pieces, twice or under another name give the same tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.config.settings import load_settings
from jobs.ingest.stage import ingest
from jobs.lake.tables import TABLES
from tests.spark.test_damage import unpack_controllers
from tests.support.spark_lake import SparkLake

# A row has the capture and file that were ingested first; the facts must not depend on that.
_ORIGIN = {"capture", "path", "sha256", "position"}
_EVIDENCE = ("log_batches", "metadata_records", "snapshot_records", "log_end_offsets", "static_configs")


def facts(lake: SparkLake, name: str) -> list[str]:
    """A table's rows without their origin, as sorted text."""
    table = lake.table(name).toArrow()
    kept = [c for c in table.column_names if c not in _ORIGIN]
    return sorted(map(str, table.select(kept).to_pylist()))


@pytest.fixture(scope="module")
def pieces(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SparkLake, SparkLake, list[dict[str, int]]]:
    """(ingested at once, ingested one controller after the other and then whole under another name, rows added)."""
    root = tmp_path_factory.mktemp("pieces")
    folder = unpack_controllers(root)
    whole, parts = SparkLake(spark, root / "whole"), SparkLake(spark, root / "parts")
    settings = load_settings()
    ingest(whole, folder, settings, lambda _: None)
    added = []
    for node in ("3001", "3000"):
        ingest(parts, folder / "controllers" / node, settings, lambda _: None)
    shutil.copytree(folder, root / "renamed")
    added.append(ingest(parts, root / "renamed", settings, lambda _: None).added)
    added.append(ingest(parts, root / "renamed", settings, lambda _: None).added)
    return whole, parts, added


@pytest.mark.parametrize("name", _EVIDENCE)
def test_pieces_equal_the_whole(pieces: tuple[SparkLake, SparkLake, list[dict[str, int]]], name: str) -> None:
    whole, parts, _ = pieces
    assert facts(parts, name) == facts(whole, name)


def test_records_become_committed_once_a_majority_is_known_to_hold_them(
    pieces: tuple[SparkLake, SparkLake, list[dict[str, int]]],
) -> None:
    _, parts, _ = pieces
    cluster = parts.clusters()[0]
    states = {r["commit_state"] for r in parts.rows("metadata_records", cluster, ("commit_state",))}
    assert states == {"committed"}


def test_a_capture_under_another_name_adds_files_but_no_facts(
    pieces: tuple[SparkLake, SparkLake, list[dict[str, int]]],
) -> None:
    _, _, (renamed, again) = pieces
    assert renamed["metadata_records"] == 0
    # Controller 3002 was in no piece; its leader-epoch-checkpoint is the only new fact.
    assert renamed["log_end_offsets"] == 1
    assert again == {}


def test_ingesting_again_repairs_a_crash_before_the_last_write(
    spark: SparkSession, tmp_path: Path, pieces: tuple[SparkLake, SparkLake, list[dict[str, int]]]
) -> None:
    """evidence_files is written last: without its rows the capture is not considered ingested."""
    whole, _, _ = pieces
    shutil.copytree(whole.root, tmp_path / "lake")
    lake = SparkLake(spark, tmp_path / "lake")
    files = tmp_path / "lake" / "evidence_files"
    shutil.rmtree(files)
    lake.create()
    ingest(lake, unpack_controllers(tmp_path), load_settings(), lambda _: None)
    for name in _EVIDENCE:
        assert facts(lake, name) == facts(whole, name)
    assert lake.table("evidence_files").count() == whole.table("evidence_files").count()


def test_every_table_has_its_documented_columns(pieces: tuple[SparkLake, SparkLake, list[dict[str, int]]]) -> None:
    whole, _, _ = pieces
    for name, table in TABLES.items():
        assert whole.table(name).columns == [f.name for f in table.schema]
