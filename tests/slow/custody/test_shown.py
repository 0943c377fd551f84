"""Commands that show finished tables, and stages that read them, notice what another hand has changed. No rows
are compared (jobs/lake/integrity.py)."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import write_deltalake

from jobs.config.settings import load_settings
from jobs.detect.stage import run_detect
from jobs.lake.integrity import require_as_written
from jobs.lake.lake import Lake
from jobs.lake.marks import ChangedTableError
from jobs.lake.storage import LakeError
from jobs.lake.tables import DETECTED
from jobs.queries.listing import acknowledge
from jobs.verdict.status import remember, rows_of
from tests.slow.custody.test_tables import ingest_again, newest_commit
from tests.support.digests import digests
from tests.unit.jobs.conftest import remake


@pytest.fixture(scope="module")
def twice(made: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A lake that has the capture under two names, and another with the same captures that was made on its own."""
    folder = tmp_path_factory.mktemp("twice")
    second = folder / "second"
    shutil.copytree(made[1], second)
    for name, others in (("lake", [second]), ("other", [made[1], second, shutil.copytree(second, folder / "third")])):
        lake = Lake(folder / name)
        if name == "lake":
            shutil.copytree(made[0], folder / name)
        for capture in others:
            ingest_again(lake, capture)
        remake(lake, lake.clusters()[0])
    return folder / "lake", folder / "other"


@pytest.fixture
def changed(twice: tuple[Path, Path], tmp_path: Path) -> Lake:
    shutil.copytree(twice[0], tmp_path / "changed")
    return Lake(tmp_path / "changed")


def folder_of(lake: Lake, table: str) -> Path:
    return Path(lake.storage.url(table))


def appended(lake: Lake, table: str, _: Path, __: Path) -> None:
    rows = lake.delta(table).to_pyarrow_table()
    write_deltalake(lake.storage.url(table), rows.slice(0, 1), mode="append")


def flipped(lake: Lake, table: str, _: Path, __: Path) -> None:
    """Another byte in a file of the same size."""
    file = folder_of(lake, table) / lake.files(table, lake.clusters()[0])[0].path
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)


def swapped(lake: Lake, table: str, _: Path, __: Path) -> None:
    first, second, *_rest = [folder_of(lake, table) / f.path for f in lake.files(table, lake.clusters()[0])]
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)


def removed(lake: Lake, table: str, _: Path, __: Path) -> None:
    shutil.rmtree(folder_of(lake, table))


def put_back(lake: Lake, table: str, older: Path, _: Path) -> None:
    shutil.rmtree(folder_of(lake, table))
    shutil.copytree(older / table, folder_of(lake, table))


def of_another_lake(lake: Lake, table: str, _: Path, other: Path) -> None:
    put_back(lake, table, other, other)


def uncommitted(lake: Lake, table: str, _: Path, __: Path) -> None:
    """A commit in the middle of the table's log is missing."""
    sorted((folder_of(lake, table) / "_delta_log").glob("*.json"))[1].unlink()


Change = Callable[[Lake, str, Path, Path], None]


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("findings", appended, "findings of .*WRITE by delta-rs"),
        ("findings", flipped, "findings of .*has other bytes"),
        ("findings", removed, "findings of .*the table is missing"),
        ("elections", put_back, "elections of .*its newest commits were removed"),
        ("elections", removed, "elections of .*the table is missing"),
        ("partition_history", flipped, "partition_history of .*has other bytes"),
        ("findings", of_another_lake, "elections of .*its newest commits were removed"),
        ("counterfactuals", of_another_lake, "counterfactuals of .*its newest commits were removed"),
        ("log_end_offsets", flipped, "log_end_offsets of .*has other bytes"),
        ("evidence_files", swapped, "evidence_files of .*has other bytes"),
        ("evidence_files", put_back, "evidence_files of .*its newest commits were removed"),
        ("evidence_files", of_another_lake, "its newest commits were removed"),
        ("captures", of_another_lake, "captures of .*its newest commits were removed"),
        ("metadata_records", removed, "metadata_records of .*the table is missing"),
        ("findings", uncommitted, "the log of the table findings cannot be read"),
    ],
)
def test_what_is_shown_is_as_it_was_written(
    changed: Lake, twice: tuple[Path, Path], made: tuple[Path, Path], table: str, change: Change, message: str
) -> None:
    cluster = changed.clusters()[0]
    assert list(require_as_written(changed, cluster)) == []
    change(changed, table, made[0], twice[1])
    with pytest.raises(LakeError, match=message):
        list(require_as_written(changed, cluster))


def test_findings_of_another_lake_are_made_again(changed: Lake, twice: tuple[Path, Path]) -> None:
    """They name more ingests than this lake has had: that is no reason to doubt its evidence."""
    cluster = changed.clusters()[0]
    of_another_lake(changed, "findings", twice[1], twice[1])
    assert remake(changed, cluster) == (True, False)
    assert list(require_as_written(changed, cluster)) == []


@pytest.mark.parametrize("change", [flipped, of_another_lake])
def test_a_history_that_was_changed_is_not_extended(
    changed: Lake, twice: tuple[Path, Path], made: tuple[Path, Path], change: Change
) -> None:
    cluster, before = changed.clusters()[0], digests(changed)
    change(changed, "partition_history", made[0], twice[1])
    assert remake(changed, cluster) == (False, False)
    assert list(require_as_written(changed, cluster)) == []
    assert digests(changed) == before


def test_a_stage_does_not_go_on_from_evidence_that_was_put_back(changed: Lake, made: tuple[Path, Path]) -> None:
    put_back(changed, "evidence_files", made[0], made[0])
    with pytest.raises(ChangedTableError, match=r"evidence_files of .*its newest commits were removed"):
        run_detect(changed, changed.clusters()[0], load_settings(), lambda _: None)


def test_findings_that_were_put_back_are_called_old(changed: Lake, made: tuple[Path, Path]) -> None:
    """All tables of `detect` are those of an earlier run."""
    cluster = changed.clusters()[0]
    for table in DETECTED:
        put_back(changed, table, made[0], made[0])
    (line,) = require_as_written(changed, cluster)
    assert line.startswith(f"{cluster}: findings is not of the newest ")
    assert line.endswith(": run `kraft-forensics detect`")
    assert not run_detect(changed, cluster, load_settings(), lambda _: None).up_to_date
    assert list(require_as_written(changed, cluster)) == []


def test_an_interrupted_stage_is_no_change_of_another_hand(changed: Lake) -> None:
    cluster = changed.clusters()[0]
    changed.replace("elections", cluster, [])
    (line,) = require_as_written(changed, cluster)
    assert "findings is not of the newest elections" in line


@pytest.mark.parametrize("table", ["metadata_records", "partition_history"])
def test_a_stage_does_not_read_files_with_other_bytes(changed: Lake, table: str, made: tuple[Path, Path]) -> None:
    cluster = changed.clusters()[0]
    newest_commit(changed, "findings").unlink()  # so that the stage has to work
    flipped(changed, table, made[0], made[0])
    with pytest.raises(ChangedTableError, match=f"{table} of .* has other bytes than were written"):
        run_detect(changed, cluster, load_settings(), lambda _: None)


@pytest.mark.parametrize("change", [appended, flipped])
@pytest.mark.parametrize("table", ["acknowledgements", "finding_first_seen"])
def test_what_decides_about_alarms_is_checked(
    changed: Lake, table: str, change: Change, made: tuple[Path, Path]
) -> None:
    cluster = changed.clusters()[0]
    finding = changed.rows("findings", cluster, ("finding_id",))[0]["finding_id"]
    acknowledge(changed, [finding], cluster, "known", "me", 0)
    remember(changed, cluster, 0)
    change(changed, table, made[0], made[0])
    with pytest.raises(ChangedTableError, match=f"{table} of .*Nothing makes it again"):
        rows_of(changed, table, cluster)
    again = {"acknowledgements": lambda: acknowledge(changed, [finding], cluster, "known", "me", 0)}
    with pytest.raises(ChangedTableError, match=table):  # nor is it written over
        again.get(table, lambda: remember(changed, cluster, 1))()


def test_a_table_that_another_program_put_back_as_it_was_is_used_again(changed: Lake) -> None:
    cluster, version = changed.clusters()[0], changed.version("findings")
    appended(changed, "findings", changed.root, changed.root)
    changed.delta("findings").restore(version)
    assert list(require_as_written(changed, cluster)) == []
