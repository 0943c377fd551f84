"""The schemas of metadata records against the generated classes of each release."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evidence.metadata_log.inspect import inspect_file
from evidence.wire import schemas
from tests.kafka.conftest import RELEASES, output_of, run_java
from tests.support.paths import ROOT

Field = dict[str, Any]
OURS = ROOT / "evidence" / "wire" / "schemas" / "metadata_records.json"
NAMES = ("offset", "timestamp", "type", "version", "data")
SEED, ROUNDS = 21, 80


@cache
def classes_of(release: str) -> list[dict[str, Any]]:
    return json.loads(output_of(release, "EveryRecord", "schemas"))


def wire_type(field: Field) -> str:
    """Up to 4.0 the classes call a nullable array an array."""
    kind = field["type"]
    if field.get("nullable") and "NULLABLE" not in kind:
        return kind.replace("COMPACT_", "COMPACT_NULLABLE_", 1)
    return kind


def is_contained(older: list[Field], newer: list[Field]) -> bool:
    """Whether a reader of `newer` reads what a writer of `older` wrote: the same fields in order, and no tag less."""
    return len(older) == len(newer) and all(map(is_same, older, newer))


def is_same(older: Field, newer: Field) -> bool:
    if (older["name"], wire_type(older)) != (newer["name"], wire_type(newer)):
        return False
    tags = newer.get("tags", {})
    return is_contained(older.get("fields", []), newer.get("fields", [])) and all(
        tag in tags and is_same(field, tags[tag]) for tag, field in older.get("tags", {}).items()
    )


def test_the_schemas_are_those_of_the_newest_release() -> None:
    assert RELEASES[-1] == schemas.RELEASE
    assert json.loads(OURS.read_text()) == classes_of(RELEASES[-1])


@pytest.mark.parametrize("release", RELEASES)
def test_the_schemas_contain_those_of_each_release(release: str) -> None:
    newest = {s["api_key"]: s for s in json.loads(OURS.read_text())}
    older = classes_of(release)
    assert len(older) >= 25
    for schema in older:
        known = newest[schema["api_key"]]
        assert known["name"] == schema["name"]
        for version, fields in schema["versions"].items():
            assert is_contained(fields, known["versions"][version]), f"{schema['name']} version {version}"


@pytest.mark.parametrize("release", RELEASES)
def test_inspect_equals_the_json_of_each_releases_classes(release: str, tmp_path: Path) -> None:
    """Every record type in every version that the release has."""
    log = tmp_path / f"{0:020d}.log"
    run_java(release, "EveryRecord", "log", log, SEED, ROUNDS)
    seen, count = set(), 0
    with log.with_name(f"{log.name}.jsonl").open(encoding="utf-8") as lines:
        for row, line in zip(inspect_file(log, show_secrets=True), lines, strict=True):
            assert {n: row.get(n) for n in NAMES} == json.loads(line)
            seen.add((row["type"], row["version"]))
            count += 1
    versions = {(s["name"], v) for s in classes_of(release) for v in s["versions"]}
    assert count == ROUNDS * len(seen)
    assert len(seen) == len(versions)
