"""format("kraft") as a stream: what its reader does with deleted segments. tests/spark has the stream itself."""

from pathlib import Path
from typing import Any

import pytest

from evidence.errors import KraftForensicsError
from jobs.datasource import KraftDataSource
from tests.support.paths import controllers
from tests.support.small_captures import SEGMENT

Offsets = dict[str, Any]


class Log:
    """A folder with the log of the bundled capture, of which some was read: offsets 0 to 119."""

    def __init__(self, base: Path) -> None:
        self.data = (controllers("unclean", base) / "controllers" / "3000" / SEGMENT).read_bytes()
        self.first = base / "log" / SEGMENT
        self.first.parent.mkdir(parents=True)
        self.first.write_bytes(self.data[:10_000])
        self.read = self.latest({})

    def reader(self, **options: str) -> Any:
        source = KraftDataSource({"path": str(self.first.parent), **options})
        return source.streamReader(source.schema())

    def latest(self, start: Offsets, **options: str) -> Offsets:
        return self.reader(**options).latestOffset(start, None)

    def rows(self, start: Offsets, end: Offsets) -> int:
        reader = self.reader()
        return sum(batch.num_rows for split in reader.partitions(start, end) for batch in reader.read(split))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_a_segment_that_was_deleted_before_all_of_it_was_read_is_an_error(log: Log) -> None:
    log.first.with_name(f"{322:020}.log").write_bytes(log.data[:1_000])
    log.first.unlink()
    with pytest.raises(KraftForensicsError, match=f"{SEGMENT}: .* records from metadata offset 120 on are missing"):
        log.latest(log.read)
    assert log.latest(log.read, failOnDataLoss="false").keys() > log.read.keys()


def test_segments_that_were_read_may_be_deleted(log: Log) -> None:
    following = log.first.with_name(f"{120:020}.log")
    following.write_bytes(log.data[:1_000])
    log.first.unlink()
    both = log.latest(log.read)
    assert log.rows(log.read, both) > 0
    log.first.with_name(f"{both[str(following)]['next']:020}.log").write_bytes(b"")
    following.unlink()
    assert log.latest(both) == both


def test_a_segment_that_was_deleted_before_its_batch_was_done_is_an_error(log: Log) -> None:
    """A restart repeats the batch that was begun."""
    log.first.unlink()
    with pytest.raises(KraftForensicsError, match="deleted before all of it was read: records of it are missing"):
        log.rows({}, log.read)
