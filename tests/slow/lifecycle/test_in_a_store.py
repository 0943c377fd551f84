"""Maintenance, status and `forget` of a lake in an object store."""

from pathlib import Path

import pytest

from evidence.capture.remote import location
from jobs.config.settings import load_settings
from jobs.custody.forget import check_given, forget, plan_of
from jobs.custody.tables import check_tables
from jobs.lake.lake import Lake
from jobs.queries.status import status_of
from tests.slow.lifecycle.test_maintain import maintained
from tests.slow.test_crashes import run
from tests.support import s3
from tests.support.digests import digests


def test_the_life_of_a_lake(
    captures: tuple[Path, Path], lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3.moto(tmp_path / "log") as store:
        s3.use(monkeypatch, store.endpoint, tmp_path)
        store.bucket("lakes", {})
        remote = Lake(location("s3://lakes/one"))
        for capture in reversed(captures):
            cluster = run(remote, capture)
        store.put("lakes", "one/findings/unfinished.parquet", b"rows")
        store.put("lakes", "one/_scratch/run/file", b"rows")
        found = maintained(remote, days=0)
        assert found["evidence_files"]["after"] == 1
        assert found["_scratch"]["deleted"] == 1
        assert not store.client.list_objects_v2(Bucket="lakes", Prefix="one/findings/unfinished")["KeyCount"]
        assert digests(remote) == digests(lake)
        state = status_of(remote, 0)
        assert (state["lake"], state["other_bytes"]) == ("s3://lakes/one", None)
        assert state["clusters"][0]["captures"] == 2
        plan = plan_of(remote, cluster, captures[0].name)
        again = check_given(plan, [captures[1]], settings := load_settings())
        forget(remote, plan, again, settings, lambda _: None)
        assert set(remote.captures(cluster)) == {captures[1].name}
        assert list(check_tables(remote, cluster)) == []
