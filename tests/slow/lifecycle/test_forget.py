"""`forget`: the lake is as if the capture had never been, the chain is whole, and the removal is recorded."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evidence.wire.batches import scan_batches
from jobs.config.settings import load_settings
from jobs.custody.forget import check_given, forget, plan_of
from jobs.custody.manifest import manifest
from jobs.custody.tables import check_tables
from jobs.lake.integrity import receipts
from jobs.lake.lake import Lake
from jobs.lake.storage import LakeError
from tests.slow.lifecycle.conftest import command
from tests.slow.test_crashes import DiedError, DyingLake
from tests.support.digests import digests
from tests.support.nodes import NAME
from tests.support.paths import controllers

Captures = tuple[Path, Path]


@pytest.fixture(scope="module")
def brokers(captures: Captures, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture without a metadata log. One of its files is in `other`, too."""
    place = tmp_path_factory.mktemp("brokers") / "brokers" / "1795221545008" / "broker-1"
    place.mkdir(parents=True)
    cluster = Lake(tmp_path_factory.mktemp("c") / "lake")
    assert command(cluster.root, "ingest", str(captures[1])).exit_code == 0
    (place / "meta.properties").write_text(f"version=1\ncluster.id={cluster.clusters()[0]}\nnode.id=1\n")
    (place / "replication-offset-checkpoint").write_text("0\n1\nledger 0 7\n")
    return place.parent.parent


def run_all(lake: Path, *given: Path) -> Path:
    assert command(lake, "run", *map(str, given)).exit_code == 0
    return lake


@pytest.fixture(scope="module")
def both(captures: Captures, brokers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = run_all(tmp_path_factory.mktemp("both") / "lake", captures[1])
    return run_all(root, brokers, captures[0])


@pytest.fixture(scope="module")
def without(captures: Captures, brokers: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The digests of lakes in which a capture never was, by its name."""
    folder = tmp_path_factory.mktemp("without")
    lakes = {"whole": (captures[1], brokers), "alone": (brokers, captures[0]), "brokers": captures[::-1]}
    return {name: digests(Lake(run_all(folder / name, *given))) for name, given in lakes.items()}


@pytest.fixture
def lake(both: Path, tmp_path: Path) -> Lake:
    shutil.copytree(both, tmp_path / "lake")
    return Lake(tmp_path / "lake")


def test_by_default_nothing_changes(lake: Lake) -> None:
    before = digests(lake)
    result = command(lake.root, "forget", "whole")
    assert result.exit_code == 0, result.output
    assert "evidence_files" in result.stdout
    assert "also ingested again, from their bytes: alone" in result.stderr
    assert "nothing was changed: add --yes" in result.stderr
    assert digests(lake) == before


@pytest.mark.parametrize(("name", "other"), [("whole", 1), ("alone", 0), ("brokers", None)])
def test_it_is_as_if_the_capture_had_never_been(
    lake: Lake, captures: Captures, without: dict[str, Any], name: str, other: int | None
) -> None:
    again = [] if other is None else ["--capture", str(captures[other])]
    result = command(lake.root, "forget", name, "--yes", *again)
    assert result.exit_code == 0, result.output
    assert digests(lake) == without[name]
    cluster = lake.clusters()[0]
    assert list(check_tables(lake, cluster)) == []
    assert name not in {row["capture"] for row in receipts(lake, cluster)}
    assert {c["capture"] for c in manifest(lake, cluster)["captures"]} == {"whole", "alone", "brokers"} - {name}
    assert lake.delta("evidence_files").metadata().configuration["delta.appendOnly"] == "true"
    newest = max(lake.read("runs", cluster).to_pylist(), key=lambda row: row["started_ms"])
    assert (newest["command"], newest["captures"][0], newest["outcome"]) == ("forget", name, "done")
    assert json.loads(newest["counts"])["evidence_files"] > 0


def test_captures_that_share_its_records_must_be_given(lake: Lake, captures: Captures, tmp_path: Path) -> None:
    before = digests(lake)
    result = command(lake.root, "forget", "whole", "--yes")
    assert result.exit_code == 1
    assert str(result.exception) == (
        "whole shares records or files with alone, which must be ingested again: name the path of each with --capture."
    )
    changed = tmp_path / "alone"
    shutil.copytree(captures[1], changed)
    next(changed.rglob("*.log")).write_bytes(b"")
    result = command(lake.root, "forget", "whole", "--yes", "--capture", str(changed))
    assert "its files are not those that were ingested as alone" in str(result.exception)
    assert digests(lake) == before


def test_a_capture_beyond_the_limits_is_refused_before_anything_changes(
    lake: Lake, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digests(lake)
    monkeypatch.setenv("KRAFT_FORENSICS_LIMITS__CAPTURE_FILES", "1")
    result = command(lake.root, "forget", "whole", "--yes", "--capture", str(captures[1]))
    assert result.exit_code == 1
    assert "limits.capture_files = 1" in str(result.exception)
    assert digests(lake) == before


def test_a_forgotten_capture_can_be_ingested_again(lake: Lake, captures: Captures) -> None:
    before = digests(lake)
    assert command(lake.root, "forget", "whole", "--yes", "--capture", str(captures[1])).exit_code == 0
    run_all(lake.root, captures[0])
    assert digests(lake) == before


def test_the_only_capture_of_the_only_cluster(brokers: Path, captures: Captures, tmp_path: Path) -> None:
    lake = Lake(run_all(tmp_path / "lake", captures[1]))
    done = command(lake.root, "forget", "alone", "--yes")
    assert done.exit_code == 0
    assert "it is the cluster's only capture: nothing of the cluster stays" in done.stderr
    assert "findings, with their verdict and severity: 2 gone, 0 new, 0 as before" in done.stderr
    assert lake.clusters() == []
    assert command(lake.root, "status").stdout.startswith(f"lake {lake.root}: no captures\n")
    with pytest.raises(LakeError, match="the lake has no captures"):
        lake.one_cluster(None)
    assert {rows for rows, _ in digests(lake).values()} == {0}
    assert not [file.name for file in lake.root.glob("*.json")]


def test_an_unknown_capture_is_an_error(lake: Lake) -> None:
    result = command(lake.root, "forget", "none")
    assert result.exit_code == 1
    assert "no capture none" in str(result.exception)


@pytest.mark.parametrize("at", [0, 4, 8])
def test_a_forget_that_died_goes_on(lake: Lake, captures: Captures, without: dict[str, Any], at: int) -> None:
    settings, given = load_settings(), [captures[1]]
    cluster = lake.clusters()[0]
    dying = DyingLake(lake.root, at, written=False)
    plan = plan_of(lake, cluster, "whole")
    again = check_given(plan, given, settings)
    with pytest.raises(DiedError):
        forget(dying, plan, again, settings, lambda _: None)
    result = command(lake.root, "forget", "whole", "--yes", "--capture", str(captures[1]))
    assert result.exit_code == 0, result.output
    assert digests(lake) == without["whole"]


def test_a_history_that_would_be_extended_does_not_keep_its_name(tmp_path: Path) -> None:
    """`verify` said that the evidence does not give its rows."""
    later, earlier = controllers(NAME, tmp_path), tmp_path / "earlier"
    shutil.copytree(later, earlier)
    for segment in earlier.rglob(f"__cluster_metadata-0/{0:020d}.log"):
        whole = segment.read_bytes()
        segment.write_bytes(whole[: next(b for b in scan_batches(whole).batches if b.base_offset >= 100).position])
    root = run_all(run_all(tmp_path / "lake", earlier), later)
    assert command(root, "forget", "earlier", "--yes", "--capture", str(later)).exit_code == 0
    assert digests(Lake(root)) == digests(Lake(run_all(tmp_path / "without", later)))
