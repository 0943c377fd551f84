"""Which captures a run reads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kraft_forensics_dags.captures import captures_of, folders_of, moment_of


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=UTC)


def chosen(folder: Path | str, start: datetime | None, end: datetime | None, late_days: int = 0) -> list[str]:
    return [Path(place).name for place in captures_of(str(folder), start, end, timedelta(days=late_days))]


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("2026-03-01", day(1)),
        ("2026-03-01.tar.xz", day(1)),
        ("2026-03-01-controllers", day(1)),
        ("2026-03-01T04", day(1).replace(hour=4)),
        ("2026-03-01T04Z.zip", day(1).replace(hour=4)),
        ("2026-03-01T0440Z-brokers.tar.gz", day(1).replace(hour=4, minute=40)),
        ("2026-03-01T04:40", day(1).replace(hour=4, minute=40)),
        ("2026-03-01T044012Z", day(1).replace(hour=4, minute=40, second=12)),
        ("2026-03-01T04-40-12", day(1).replace(hour=4, minute=40, second=12)),
        ("2026-03-01T04401", None),
        ("2026-03-01Tuesday", None),
        ("2026-03-011", None),
        ("2026-13-01", None),
        ("2026-03-01T25", None),
        ("tuesday.tar.xz", None),
        ("x2026-03-01", None),
    ],
)
def test_the_date_is_at_the_start_of_a_name(name: str, moment: datetime | None) -> None:
    assert moment_of(name) == moment


def test_the_interval_chooses_captures(tmp_path: Path) -> None:
    beside = ("2026-03-02.tar.xz.sha256", "2026-03-02.tar.xz.md5sum", "2026-03-02.tar.xz.sig", "2026-03-02.tar.xz.part")
    for name in ("2026-03-02.tar.xz", "2026-03-01", "2026-03-02T2359", "2026-03-03T0000Z.zip", "notes.txt", *beside):
        (tmp_path / name).touch()
    assert chosen(tmp_path, day(2), day(3)) == ["2026-03-02.tar.xz", "2026-03-02T2359"]
    assert chosen(tmp_path, day(2), day(3), late_days=1) == ["2026-03-01", "2026-03-02.tar.xz", "2026-03-02T2359"]
    assert chosen(tmp_path, day(4), day(5)) == []
    everything = ["2026-03-01", "2026-03-02.tar.xz", "2026-03-02T2359", "2026-03-03T0000Z.zip"]
    assert chosen(tmp_path, None, None) == everything
    assert chosen(tmp_path.as_uri(), None, None) == everything  # as in an object store


def test_clusters_are_folders_with_plain_names(tmp_path: Path) -> None:
    for name in ("beta", "alpha-1.eu", "-option", ".hidden", "with space", "{{ x }}"):
        (tmp_path / name).mkdir()
    (tmp_path / "README").touch()
    assert folders_of(str(tmp_path)) == {name: str(tmp_path / name) for name in ("alpha-1.eu", "beta")}
    found = folders_of(tmp_path.as_uri())
    assert list(found) == ["alpha-1.eu", "beta"]
    assert captures_of(found["beta"], None, None, timedelta()) == []


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        folders_of(str(tmp_path / "missing"))
